"""Start pytest runs quickly: fork them from a process that has pytest and the plugin loaded.

`warm.Popen` and `warm.run` take what `subprocess.Popen` and `subprocess.run` take, for `python -m pytest ...`. The new
process is a child of the caller, with its own working directory, environment, streams and process group. Only the start
of the interpreter and the imports are not repeated: tests of those use `subprocess`.
"""

from warm.installed import read_once
from warm.preload import load_all, load_prices
from warm.process import Popen, environment_of_a_user, run, start_workers_warm

__all__ = ["Popen", "environment_of_a_user", "load_all", "load_prices", "read_once", "run", "start_workers_warm"]
