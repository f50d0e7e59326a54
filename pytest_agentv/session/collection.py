"""From a file to a collector."""

from pathlib import Path

import pytest

from pytest_agentv.loading.discovery import is_eval_file


def collect_file(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Return the collector of an eval file; None for files of others, to which nothing of ours is loaded."""
    is_named = parent.session.isinitpath(path)
    globs = parent.config.getini("agentv_files")
    if not is_eval_file(path, root=parent.config.rootpath, is_named=is_named, globs=globs):
        return None
    from pytest_agentv.session.files import EvalFile  # noqa: PLC0415 - the engine, for runs that have evals

    file: pytest.Collector = EvalFile.from_parent(parent, path=path)
    return file
