import os
import sys

# Tests start hundreds of programs, and each would compile the package anew. pytest compiles what it rewrites as well.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

pytest_plugins = ["pytester"]
