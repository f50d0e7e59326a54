"""Decides which files are not shipped with their folder."""

import os
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.options.defaults import DEFAULT_SHIP_LIMIT
from pytest_agentv.models.records import record

_SECRETS: Final = (
    *(".env*", "*.env", ".netrc", ".pypirc", ".npmrc", ".git-credentials", "id_rsa*", "id_ed25519*", "id_ecdsa*"),
    *("*.pem", "*.key", "*.p12", "*.pfx", ".ssh", ".aws", ".azure", ".gcloud", ".gnupg", ".kube", ".docker"),
)
"""Names of files and folders with secrets."""

_MADE: Final = frozenset(
    (
        *(".git", ".hg", ".svn", ".venv", "venv", "node_modules", "site-packages", "__pycache__"),
        *(".tox", ".nox", ".eggs", ".cache", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", ".DS_Store"),
        *(".ipynb_checkpoints", ".idea", "htmlcov", ".coverage"),
    )
)
"""Names of build products, and of environments, which differ by machine."""

_OURS: Final = frozenset({"results", "cache", "logs", "prompts", "traces"})
"""The names of files that runs write below `.agentv`."""

_MARKS: Final = ("pyvenv.cfg", "CACHEDIR.TAG")
"""Files that mark their folder as an environment or a cache."""


@record
class ShippingRules(Record):
    """The project's rules for files that are shipped."""

    project: str = "/"
    """The folder that globs are relative to."""
    globs: tuple[str, ...] = ()
    """`agentv_ship_ignore`: globs of names or, with a slash, of paths below the project, such as `data/*.csv`."""
    written: tuple[str, ...] = ()
    """Files and folders that the run writes, absolute."""
    limit_mb: float = DEFAULT_SHIP_LIMIT
    """`agentv_ship_limit`: the most megabytes of a folder's files."""

    def keeps_home(self, path: str) -> bool:
        """Whether a file or folder is never shipped, even if a case names it: it or its link target is secret."""
        parts = self._below(path).split("/")
        if os.path.islink(path):  # noqa: PTH114 - as below
            real, project = os.path.realpath(path), os.path.realpath(self.project)
            parts += real.removeprefix(f"{project.rstrip('/')}/").split("/")  # the whole path, if it is elsewhere
        return any(map(_is_secret, parts))

    def ignores(self, path: str) -> bool:
        """Whether a file or folder in a shipped folder is left out."""
        name = os.path.basename(path)  # noqa: PTH119 - faster, for many files
        if name in _MADE or name.endswith((".pyc", ".egg-info")) or self._is_written(path, name):
            return True
        if name in _OURS and os.path.basename(os.path.dirname(path)) == ".agentv":  # noqa: PTH119, PTH120 - as above
            return True
        return self.keeps_home(path) or self._matches(path, name) or _is_marked(path)

    def _is_written(self, path: str, name: str) -> bool:
        if path in self.written:
            return True
        beside = (os.path.basename(each) for each in self.written)  # noqa: PTH119 - as above
        return name.startswith(".") and any(name.startswith(f".{each}.") for each in beside)

    def _matches(self, path: str, name: str) -> bool:
        relative = self._below(path)
        return any(fnmatchcase(relative if "/" in glob else name, glob.strip("/")) for glob in self.globs)

    def _below(self, path: str) -> str:
        """Return a path below the project. Of a path elsewhere, return the last part."""
        below = path.removeprefix(f"{self.project.rstrip('/')}/")
        return below if below != path else os.path.basename(path)  # noqa: PTH119 - as above


@lru_cache(maxsize=10_000)
def _is_secret(name: str) -> bool:
    return any(fnmatchcase(name, glob) for glob in _SECRETS)


def _is_marked(path: str) -> bool:
    return os.path.isdir(path) and any(os.path.exists(f"{path}/{mark}") for mark in _MARKS)  # noqa: PTH110, PTH112 - as above
