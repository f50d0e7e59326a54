"""From a file to a collector."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_agentv.loading.discovery import is_eval_file
from pytest_agentv.session.platforms import NEEDS_UNIX, can_run_evals

_IS_TOLD = pytest.StashKey[bool]()


class UnsupportedFile(pytest.File):
    """An eval file where evals cannot be run."""

    def collect(self) -> Iterable[pytest.Item]:
        raise self.CollectError(NEEDS_UNIX)


def collect_file(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return the collector of an eval file; None for files of others, to which nothing of ours is loaded."""
    is_named = parent.session.isinitpath(path)
    globs = parent.config.getini("agentv_files")
    if not is_eval_file(path, root=parent.config.rootpath, is_named=is_named, globs=globs):
        return None
    if not can_run_evals():
        return _first_only(path, parent)
    from pytest_agentv.session.files import EvalFile  # noqa: PLC0415 - the engine, for runs that have evals

    file: pytest.Collector = EvalFile.from_parent(parent, path=path)
    return file


def _first_only(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return the collector of the run's first eval file; one error says enough for all of them."""
    if parent.config.stash.setdefault(_IS_TOLD, False):
        return None
    parent.config.stash[_IS_TOLD] = True
    file: pytest.Collector = UnsupportedFile.from_parent(parent, path=path)
    return file
