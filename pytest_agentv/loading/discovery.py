"""Which files are eval files (decisions 4)."""

import fnmatch
from collections.abc import Sequence
from pathlib import Path

from pytest_agentv.loading.shapes import looks_like_suite

SUFFIXES = frozenset({".yaml", ".yml", ".jsonl"})
EVALS_FOLDER = "evals"
_NEVER = (
    *("targets.yaml", "targets.yml", ".agentv.yaml", "config.yaml", "config.yml"),
    *("*.tavern.yaml", "*.tavern.yml", "test_*.yaml", "test_*.yml"),
    *("docker-compose*.yaml", "docker-compose*.yml", "compose*.yaml", "compose*.yml"),
)


def is_eval_file(path: Path, *, root: Path, is_named: bool, globs: Sequence[str]) -> bool:
    """Whether a file is an eval file: by its name, or by its place and shape.

    Args:
        path: The file, absolute.
        root: pytest's root directory; folders above it say nothing.
        is_named: Whether it was named on the command line.
        globs: Names that are always eval files; a pattern with a slash is held against the path below the root.
    """
    if path.suffix not in SUFFIXES:
        return False
    if _matches(path, root, globs):
        return not is_sidecar(path) or looks_like_suite(path)
    if is_named:
        return looks_like_suite(path)
    if is_of_another_kind(path) or _is_hidden(path, root):
        return False
    return EVALS_FOLDER in _folders(path, root) and looks_like_suite(path)


def is_of_another_kind(path: Path) -> bool:
    """Whether a name says that a file is no eval file: a targets file, a dataset's sidecar, a file of other tools."""
    return any(fnmatch.fnmatch(path.name, pattern) for pattern in _NEVER) or is_sidecar(path)


def is_sidecar(path: Path) -> bool:
    """Whether a file stands beside a JSONL dataset and has its name."""
    return path.suffix != ".jsonl" and path.with_suffix(".jsonl").is_file()


def _matches(path: Path, root: Path, globs: Sequence[str]) -> bool:
    relative = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
    return any(fnmatch.fnmatch(relative if "/" in pattern else path.name, pattern) for pattern in globs)


def _is_hidden(path: Path, root: Path) -> bool:
    return any(folder.startswith(".") for folder in _folders(path, root))


def _folders(path: Path, root: Path) -> tuple[str, ...]:
    folder = path.parent
    return folder.relative_to(root).parts if folder.is_relative_to(root) else folder.parts
