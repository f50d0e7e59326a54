"""From a file to a collector. Every run that collects a YAML file imports this."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.cases.discovery import is_eval_file, left_out
from pytest_agentv.session.compat import obstacle
from pytest_agentv.session.options import eval_globs

_IS_TOLD = pytest.StashKey[bool]()


class UnsupportedFile(pytest.File):
    """An eval file in a process that cannot run evals."""

    def __init__(self, *, reason: str, **kwargs: Any) -> None:
        self._reason = reason
        super().__init__(**kwargs)

    def collect(self) -> Iterable[pytest.Item]:
        raise self.CollectError(self._reason)


def collect_file(path: Path, parent: pytest.Collector, *, is_claimed: bool) -> pytest.Collector | None:
    """Return the collector of an eval file; None for a file of others. For these, none of our modules are loaded.

    A file that is named on the command line gets a collector too, unless another plugin collects it (`is_claimed`).
    It says what is wrong with the file, instead of pytest's "not found".
    """
    config, is_named = parent.config, parent.session.isinitpath(path)
    globs, root = eval_globs(config), config.rootpath
    problem = None
    if not is_eval_file(path, root=root, is_named=is_named, globs=globs):
        if is_claimed or obstacle():
            return None
        if not is_named:
            problem = left_out(path, root=root, globs=globs)
            if problem is None:
                return None
        elif path.suffix == ".jsonl":  # each line would be a broken case: one error for the file is clearer
            from pytest_agentv.cases.suites import dataset_fault  # noqa: PLC0415 - rarely needed

            problem = dataset_fault(path)
    if reason := obstacle():
        if config.stash.get(_IS_TOLD, False):  # one error is enough for all eval files
            return None
        config.stash[_IS_TOLD] = True
        return UnsupportedFile.from_parent(parent, path=path, reason=reason)
    from pytest_agentv.session.eval_files import EvalFile, LeftOutFile  # noqa: PLC0415 - for runs that have evals

    if problem is not None:
        return LeftOutFile.from_parent(parent, path=path, problem=problem)
    return EvalFile.from_parent(parent, path=path)
