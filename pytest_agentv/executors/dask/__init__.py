"""Runs cases on the workers of a Dask cluster. Imported only for a run that asks for one.

`client` connects and checks the cluster, `cluster` hands out jobs, `link` has the jobs of one worker, `channel` moves
its messages, `remote` is what runs on a worker, and `left` fetches what workers have kept of a run that was killed.
"""
