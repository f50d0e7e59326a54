"""Forked runs where the packages of a cluster are preloaded."""

import sys

import pytest
import warm
from busy import slowness
from dask_cluster import NEEDS_DASK

pytestmark = [pytest.mark.dask, NEEDS_DASK]


def test_a_forked_run_starts_workers_where_dask_brings_numpy_along(project):
    """The threads of OpenBLAS do not live on in a fork. The next fork waited for them forever."""
    project.write("test_one.py", "def test_one(): ...\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "-p", "no:anyio", "-n", "1"]
    done = warm.run(command, cwd=project.path, capture_output=True, text=True, timeout=20 * slowness())
    assert "1 passed" in done.stdout
