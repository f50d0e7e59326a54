"""Named folders. Jobs and bundles name files relative to these, because their paths differ by machine."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from pytest_agentv.models.base import Json, Record
from pytest_agentv.models.records import record

PROJECT: Final = "project"
"""The name of the repository's folder or, without one, of the folder where pytest was started."""


@record
class Spot(Record):
    """A file or folder, relative to a root."""

    root: str
    """The name of a root."""
    rest: str
    """The path below it, with slashes; empty: the root itself."""


@record
class Roots(Record):
    """The paths of the named folders on one machine."""

    folders: tuple[tuple[str, str], ...] = ()
    """Each name with its absolute path; none lies within another."""

    def spot(self, path: str) -> Spot | None:
        """Return a path relative to its root; None if it is below no root."""
        for name, folder in self.folders:
            if path == folder:
                return Spot(name, "")
            if path.startswith(f"{folder}/") and "/../" not in f"{path}/":
                return Spot(name, path[len(folder) + 1 :])
        return None

    def path(self, spot: Spot) -> str:
        """Return the path of a spot on this machine. Raises `KeyError` for an unknown root."""
        folder = dict(self.folders)[spot.root]
        return f"{folder}/{spot.rest}" if spot.rest else folder

    def moved_to(self, folders: Mapping[str, str]) -> "Roots":
        """Return the same roots, with other paths for some of them."""
        return Roots(tuple((name, folders.get(name, folder)) for name, folder in self.folders))


def roots_of(folders: Iterable[Path]) -> Roots:
    """Return roots for some folders.

    The project is the first one, or the one of them that contains it. Folders inside of others need no root.
    """
    texts = [str(folder) for folder in dict.fromkeys(folders)]
    first = texts[0]
    outer = [text for text in texts if not any(text.startswith(f"{other.rstrip('/')}/") for other in texts)]
    outer.sort(key=lambda text: not f"{first}/".startswith(f"{text.rstrip('/')}/"))
    names = (PROJECT, *(f"{PROJECT}-{number}" for number in range(2, len(outer) + 1)))
    return Roots(tuple(zip(names, (text.rstrip("/") for text in outer), strict=True)))


class Translation:
    """Replaces paths of one machine by those of another in all texts of plain data."""

    def __init__(self, paths: Mapping[str, str], programs: Mapping[str, str] | None = None) -> None:
        """Prepare a translation. `programs` are replaced only if they are the whole text, as words of a command are."""
        self._paths = {here: there for here, there in paths.items() if here and here != there}
        self._programs = {here: there for here, there in (programs or {}).items() if here != there}
        longest_first = sorted(map(re.escape, self._paths), key=len, reverse=True)
        # `/app` is meant in `file:///app/x`, and not in `/app-2` or in `/data/app`.
        self._pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(longest_first)})(?![\w-]|\.\w)")

    def text(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._paths[match[0]], text) if self._paths else text

    def plain(self, value: Json) -> Any:
        if not self._paths and not self._programs:
            return value
        if isinstance(value, str):
            return self._programs.get(value) or self.text(value)
        if isinstance(value, Mapping):
            return {self.text(key): self.plain(item) for key, item in value.items()}
        return [self.plain(item) for item in value] if isinstance(value, list | tuple) else value
