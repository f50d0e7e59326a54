"""The APIs of models, asked directly: one file per API, from settings and messages to a request, and back.

An API file builds and reads plain data. `client.py` is the only file that knows the network.
"""
