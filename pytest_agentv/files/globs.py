"""Matches paths with glob patterns: `**`, `*`, `?`, `[…]`, `{a,b}` and `@(a|b)`."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def matches_glob(path: str, pattern: str) -> bool:
    """Whether a path with `/` matches a pattern. Case counts, and only a literal dot matches the dot of a name."""
    from wcmatch import glob  # noqa: PLC0415 - most runs have no globs

    flags = glob.GLOBSTAR | glob.BRACE | glob.EXTGLOB | glob.FORCEUNIX | glob.CASE
    with _quiet():
        return glob.globmatch(path, pattern, flags=flags, limit=0)


def find_files(pattern: str, folder: Path | None = None, *, hidden: bool = False) -> list[Path]:
    """Return the files that match a pattern, in order; none if it is no glob.

    Names are relative to `folder`, otherwise to the working directory. `hidden` finds names that start with a dot too.
    """
    from wcmatch import glob  # noqa: PLC0415 - most runs have no globs

    flags = glob.GLOBSTAR | glob.BRACE | glob.EXTGLOB | glob.NODIR | (glob.DOTGLOB if hidden else 0)
    try:
        with _quiet():
            names = glob.glob(pattern, root_dir=folder, flags=flags, limit=0)
    except (ValueError, OSError):  # an invalid glob, or a name that is too long for a file
        return []
    return sorted((folder or Path()) / name for name in names)


@contextmanager
def _quiet() -> Iterator[None]:
    """Ignore the warning about `[z-a[]`, of which wcmatch makes a regular expression with a bare bracket."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Possible nested set", FutureWarning)
        yield
