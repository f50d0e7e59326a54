"""Runs whose cases go to a Dask cluster on this machine. Skipped without `pip install 'pytest-agentv[dask]'`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from acceptance.conftest import Project
from dask_cluster import DaskCluster


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project, run in a forked process: Dask starts threads that do not end with a run."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    return Project(folder, ())


Make = Callable[..., DaskCluster]


@contextmanager
def _clusters(factory: pytest.TempPathFactory) -> Iterator[Make]:
    made: list[DaskCluster] = []

    def make(*workers: str, threads: int = 1, hidden: Sequence[Path] = ()) -> DaskCluster:
        made.append(DaskCluster(factory.mktemp("cluster"), hidden))
        for name in workers:
            made[-1].add_worker(name, threads)
        return made[-1]

    try:
        yield make
    finally:
        for cluster in made:
            cluster.close()


@pytest.fixture
def make_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Return a function that starts a cluster, which ends with the test."""
    with _clusters(tmp_path_factory) as make:
        yield make


@pytest.fixture(scope="module")
def make_shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Make]:
    """Return a function that starts a cluster, which ends with the module."""
    with _clusters(tmp_path_factory) as make:
        yield make
