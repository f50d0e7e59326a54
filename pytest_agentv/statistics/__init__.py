"""Statistics of a run: pure functions from scores to intervals, comparisons and plans.

One file per question. No I/O, standard library only. Scores and rates are 0 to 1, intervals are at 95 %, and an
interval is None if the data allow none. A run without repeats and without a baseline does not import this package.
"""
