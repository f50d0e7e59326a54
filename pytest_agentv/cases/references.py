"""What loading a case needs: its context, and the files that it refers to (attachments, guidelines, prompts)."""

import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from pytest_agentv.cases.discovery import matches_glob
from pytest_agentv.cases.entries import SuiteSource
from pytest_agentv.cases.variables import fill
from pytest_agentv.errors import locate
from pytest_agentv.files.places import Place
from pytest_agentv.files.problems import Problem
from pytest_agentv.files.source import folder_of
from pytest_agentv.model.base import Json, JsonObject, Record
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.kind_table import KindTable
from pytest_agentv.model.messages import OTHER_MEDIA, PDF, Media
from pytest_agentv.model.options import UnknownKeys
from pytest_agentv.targets.definitions import search_folders


def matches_guideline(relative_path: str, patterns: Sequence[str]) -> bool:
    """Whether a path relative to the repository's root matches one of the patterns.

    `**`, `*`, `?`, `[…]`, `{a,b}` and `@(a|b)` work. A leading `!` matches everything else. Case counts. Only a
    literal dot matches the dot at the start of a name.
    Source: evaluation-2026-01, "Match files with glob patterns".
    """
    path = relative_path.replace("\\", "/")
    for pattern in patterns:
        is_negated = pattern.startswith("!") and not pattern.startswith("!(")
        positive = pattern.removeprefix("!") if is_negated else pattern
        if matches_glob(path, positive.removeprefix("./")) is not is_negated:
            return True
    return False


# The files that eval files refer to (agentv-formats 1.5).

LoadShared: TypeAlias = Callable[[Json, Place, Callable[[], Any]], Any]
"""Returns the evaluator of a mapping at a place: that of another case, or that which the function loads."""


class Reference(NamedTuple):
    """A reference, and the file or folder that it names."""

    value: str
    """The reference as written."""
    path: Path | None
    """The first searched path that exists; None if none does."""
    searched: tuple[Path, ...]

    def describe_missing(self) -> str:
        searched = ", ".join(locate(path, None) for path in self.searched)
        return f"{self.value!r} was not found; searched: {searched}"


@dataclass(frozen=True, slots=True)
class ReferencedFile:
    """A reference and the text of its file."""

    value: str
    display_path: str
    path: Path
    text: str
    """CRLF turned into LF, not trimmed; empty for a file that is no text."""
    media: Media | None = None
    """The media of a binary file; None: it is a text."""


@dataclass(frozen=True, slots=True)
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
        relative = value.lstrip("/\\")
        absolute = [Path(value)] if Path(value).is_absolute() else []
        folders = (*search_folders(self.eval_dir, self.repo_root, self.cwd), *more_folders)
        candidates = (*absolute, *(folder / relative for folder in folders))
        searched = tuple(dict.fromkeys(Path(os.path.normpath(path)) for path in candidates))
        return Reference(value, next(filter(os.path.exists, searched), None), searched)

    def read(self, value: str, place: Place, *, is_text: bool = False) -> ReferencedFile | None:
        """Read the file of a reference; with `is_text` no picture or PDF. Notes an error if it cannot be read."""
        reference = self.at(place).find(value)
        path = reference.path
        if path is None:
            place.error(f"file {reference.describe_missing()}")
            return None
        if not path.is_file():  # reading a pipe would block
            where = locate(path, None)
            what = f"{value!r} is a folder: {where}" if path.is_dir() else f"{where} is a pipe, a socket or a device"
            place.error(f"expected a file, but {what}")
            return None
        try:
            data = path.read_bytes()
        except OSError as error:
            place.error(f"file {locate(path, None)} cannot be read: {error.strerror or error}")
            return None
        display_path, fault = value.lstrip("/\\"), None
        try:
            data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            fault = f"file {locate(path, line)} is not UTF-8: byte 0x{data[error.start]:02x}"
        if fault and is_text:
            place.error(fault, "save it as UTF-8")
            return None
        if not is_text and (media := media_of(data)) is not None:
            return ReferencedFile(value, display_path, path, "", media)
        if fault:
            place.warn(f"{fault}; its other characters are shown as U+FFFD", "save it as UTF-8")
        text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
        return ReferencedFile(value, display_path, path, text)

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
        """Whether a file is a guideline, by its path relative to the repository root (agentv-formats 3.2)."""
        relative = os.path.relpath(path, self.repo_root).replace(os.sep, "/")
        return matches_guideline(relative, self.guideline_patterns)


@dataclass(frozen=True, slots=True)
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


# The type of a file, by its first bytes and not by its name.

_ADDRESS: Final = re.compile(r"(?i)(https?|data|gs|s3):(?=//|.*,)")

_STARTS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
)


def media_of(data: bytes) -> Media | None:
    """Return the media of a picture, a PDF, or another binary file; None for a text."""
    kind = next((kind for start, kind in _STARTS if data.startswith(start)), None)
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None and b"\0" in data:
        kind = OTHER_MEDIA
    return None if kind is None else Media(kind, sha256(data).hexdigest(), len(data))


def is_address(value: str, place: Place) -> bool:
    """Whether a value is a URL instead of a path. Notes an error if it is."""
    scheme = _ADDRESS.match(value)
    if scheme is None:
        return False
    what = "the path of a file: what lies elsewhere may change, and no result would tell"
    place.at("value").expected(what, f"{scheme[0]}…", "download it, and write its path")
    return True


# A case that is loaded, and what is known about it.


@dataclass(frozen=True, slots=True)
class LoadContext(Record):
    """The inputs for loading a case besides its file."""

    repo_root: Path
    cwd: Path
    guideline_patterns: tuple[str, ...] = ()
    strict: bool = False
    """Whether warnings are errors."""
    evaluators: KindTable = field(default_factory=KindTable, compare=False)
    """The kinds of evaluators that files may name."""
    unknown_keys: UnknownKeys = "error"
    """Level of unknown keys that say what is asked or checked."""
    shared: dict[str, Any] = field(default_factory=dict, compare=False)
    """What is kept for other cases: headers and evaluators of files, evaluators of templates, cases of a matrix."""


@dataclass(frozen=True, slots=True)
class WrittenCase:
    """A case as it is written. Its readers note each fault at its place, and continue with a harmless value."""

    suite: SuiteSource
    value: JsonObject
    place: Place
    references: References
    context: LoadContext
    variables: JsonObject | None
    """None: the case has none."""
    share: LoadShared | None = None
    """Finds the evaluators that the case shares with others; None: it shares none."""

    def fill(self, value: Json, place: Place, *, is_check: bool = False) -> Json:
        """Return a value with the case's variables filled in; the same object if it has none."""
        return value if self.variables is None else fill(value, self.variables, place, is_check=is_check)

    def header_place(self, problems: list[Problem] | None = None) -> Place:
        """Return the place of the file's own keys for this case. By default, faults there belong to the case."""
        return self.suite.header_place(self.place.problems if problems is None else problems, self.place.source.row)

    def scope(self, value: Json, place: Place) -> Scope:
        """Return the scope for loading the evaluators at a place."""
        return Scope(value, place, self.references.at(place), self.context.evaluators, tuple(self.variables or ()))


@dataclass(frozen=True, slots=True)
class LoadedCase(Record):
    """A case with its warnings."""

    case: EvalCase
    warnings: tuple[Problem, ...] = ()
    """The warnings of the case. Each case also has those about its file's evaluators."""
    value: Json = None
    """The entry of the case, with its variables filled in."""
