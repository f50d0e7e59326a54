"""Finds and reads the files that eval files refer to (agentv-formats 1.5)."""

import os
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from pytest_agentv.errors import locate
from pytest_agentv.loading.cases.config import matches_guideline
from pytest_agentv.loading.files.source import folder_of
from pytest_agentv.loading.places import Place
from pytest_agentv.loading.targets.environment import search_folders
from pytest_agentv.models.base import Json, Record
from pytest_agentv.models.kind_table import KindTable
from pytest_agentv.models.messages import Media
from pytest_agentv.models.records import record

LoadShared: TypeAlias = Callable[[Json, Place, Callable[[], Any]], Any]
"""Returns the evaluator of a mapping at a place: that of another case, or that which the function loads."""


@record
class Reference:
    """A reference, and the file or folder that it names."""

    value: str
    """The reference as written."""
    display_path: str
    """Without leading slashes, as prompts show it."""
    path: Path | None
    """The first searched path that exists; None if none does."""
    searched: tuple[Path, ...]

    def describe_missing(self) -> str:
        searched = ", ".join(locate(path, None) for path in self.searched)
        return f"{self.value!r} was not found; searched: {searched}"


@record
class ReferencedFile:
    """A reference and the text of its file."""

    value: str
    display_path: str
    path: Path
    text: str
    """CRLF turned into LF, not trimmed; empty for a file that is no text."""
    media: Media | None = None
    """The media of a binary file; None: it is a text."""


@record
class References:
    """Resolves the references of one eval file."""

    eval_dir: Path
    repo_root: Path
    cwd: Path
    guideline_patterns: tuple[str, ...] = ()

    def at(self, place: Place) -> "References":
        """Return the references of the file with this value, because paths are relative to that file."""
        folder = folder_of(place.path)
        return self if folder is self.eval_dir or folder == self.eval_dir else replace(self, eval_dir=folder)

    def find(self, value: str, *more_folders: Path) -> Reference:
        """Look up a reference as an absolute path, then below each search folder. It may be a folder."""
        display_path = value.lstrip("/\\")
        absolute = [Path(value)] if Path(value).is_absolute() else []
        folders = (*search_folders(self.eval_dir, self.repo_root, self.cwd), *more_folders)
        candidates = (*absolute, *(folder / display_path for folder in folders))
        searched = tuple(dict.fromkeys(_normalized(path) for path in candidates))
        return Reference(value, display_path, next(filter(_exists, searched), None), searched)

    def read(self, value: str, place: Place, *, is_text: bool = False) -> ReferencedFile | None:
        """Read the file of a reference as UTF-8, without a byte order mark.

        Notes an error for a missing or unreadable file. With `is_text`, a file must be UTF-8. Without it the file may
        be a picture or a PDF, whose bytes are read when they are sent.
        """
        from pytest_agentv.loading.cases.media import media_of  # noqa: PLC0415 - only for cases with files

        found = self._read_bytes(value, place)
        if found is None:
            return None
        path, data = found
        display_path, fault = value.lstrip("/\\"), _encoding_fault(path, data)
        if fault and is_text:
            place.error(fault, "save it as UTF-8")
            return None
        if not is_text and (media := media_of(data)) is not None:
            return ReferencedFile(value, display_path, path, "", media)
        if fault:
            place.warn(f"{fault}; its other characters are shown as U+FFFD", "save it as UTF-8")
        text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
        return ReferencedFile(value, display_path, path, text)

    def _read_bytes(self, value: str, place: Place) -> tuple[Path, bytes] | None:
        """Return the file of a reference and its content. Notes an error for a missing or unreadable file."""
        from pytest_agentv.loading.file_words import alone  # noqa: PLC0415 - only for cases with files

        reference = self.at(place).find(value)
        if reference.path is None:
            place.error(f"file {reference.describe_missing()}", alone(value))
            return None
        if reference.path.is_dir():
            place.error(f"expected a file, but {value!r} is a folder: {locate(reference.path, None)}")
            return None
        if not reference.path.is_file():  # reading a pipe would block
            place.error(f"expected a file, but {locate(reference.path, None)} is a pipe, a socket or a device")
            return None
        try:
            return reference.path, reference.path.read_bytes()
        except OSError as error:
            place.error(f"file {locate(reference.path, None)} cannot be read: {error.strerror or error}")
            return None

    def find_folder(self, value: str, place: Place) -> Path | None:
        """Resolve a reference to a folder. Notes an error for anything else."""
        reference = self.find(value)
        if reference.path is None:
            place.error(f"folder {reference.describe_missing()}")
            return None
        if not reference.path.is_dir():
            place.error(f"expected a folder, but {value!r} is a file: {locate(reference.path, None)}")
            return None
        return reference.path

    def is_guideline(self, path: Path) -> bool:
        """Whether a file is a guideline, by its path relative to the repository's root (agentv-formats 3.2).

        Source: evaluation-2026-01, "Match files with glob patterns".
        """
        relative = os.path.relpath(path, self.repo_root).replace(os.sep, "/")
        return matches_guideline(relative, self.guideline_patterns)


@record
class Scope(Record):
    """A part of an eval file, with its place and its references."""

    value: Json
    place: Place
    references: References
    evaluators: KindTable
    """The kinds of evaluators that files may name."""
    variables: Collection[str] = ()
    """The names of the case's variables, which the prompts of judges may use."""

    def at(self, value: Json, *keys: str | int) -> "Scope":
        """Return the scope of a nested value."""
        return self.replace(value=value, place=self.place.at(*keys))


def _encoding_fault(path: Path, data: bytes) -> str | None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return f"file {locate(path, line)} is not UTF-8: byte 0x{data[error.start]:02x}"
    return None


def _normalized(path: Path) -> Path:
    return Path(os.path.normpath(path))


def _exists(path: Path) -> bool:
    """Work like `Path.exists`, but return False for an invalid name (too long, or with a NUL)."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False
