"""Finds and reads the files that eval files refer to: attachments, guidelines, prompts and scripts of judges."""

import os
import re
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeAlias

from pytest_agentv.cases.discovery import matches_glob
from pytest_agentv.cases.prompts import template_variables
from pytest_agentv.errors import locate
from pytest_agentv.files.places import Place
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.files.source import folder_of
from pytest_agentv.model.base import Json, Record
from pytest_agentv.model.kind_table import KindTable
from pytest_agentv.model.messages import OTHER_MEDIA, PDF, Media, Role
from pytest_agentv.targets.definitions import search_folders


def matches_guideline(relative_path: str, patterns: Sequence[str]) -> bool:
    """Whether a path relative to the repository's root matches one of the patterns.

    `**`, `*`, `?`, `[…]`, `{a,b}` and `@(a|b)` work. A leading `!` matches everything else. Case counts. Only a
    literal dot matches the dot at the start of a name.
    Source: evaluation-2026-01, "Match files with glob patterns".
    """
    path = relative_path.replace("\\", "/")
    for pattern in patterns:
        positive = pattern.lstrip("!") if not pattern.startswith("!(") else pattern
        is_negated = (len(pattern) - len(positive)) % 2 == 1
        if matches_glob(path, positive.removeprefix("./")) is not is_negated:
            return True
    return False


# The files that eval files refer to (agentv-formats 1.5).

LoadShared: TypeAlias = Callable[[Json, Place, Callable[[], Any]], Any]
"""Returns the evaluator of a mapping at a place: that of another case, or that which the function loads."""


@dataclass(frozen=True, slots=True)
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
        display_path = value.lstrip("/\\")
        absolute = [Path(value)] if Path(value).is_absolute() else []
        folders = (*search_folders(self.eval_dir, self.repo_root, self.cwd), *more_folders)
        candidates = (*absolute, *(folder / display_path for folder in folders))
        searched = tuple(dict.fromkeys(Path(os.path.normpath(path)) for path in candidates))
        return Reference(value, display_path, next(filter(_exists, searched), None), searched)

    def read(self, value: str, place: Place, *, is_text: bool = False) -> ReferencedFile | None:
        """Read the file of a reference as UTF-8, without a byte order mark.

        Notes an error for a missing or unreadable file. With `is_text`, a file must be UTF-8. Without it the file may
        be a picture or a PDF, whose bytes are read when they are sent.
        """
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
        reference = self.at(place).find(value)
        if reference.path is None:
            place.error(f"file {reference.describe_missing()}")
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


def _exists(path: Path) -> bool:
    """Work like `Path.exists`, but return False for an invalid name (too long, or with a NUL)."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _encoding_fault(path: Path, data: bytes) -> str | None:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return f"file {locate(path, line)} is not UTF-8: byte 0x{data[error.start]:02x}"
    return None


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

_PDF_WITHIN: Final = 1024
"""A PDF begins within so many bytes. Readers allow other bytes before it."""

_ADDRESS: Final = re.compile(r"(?i)(https?|data|gs|s3):(?=//|.*,)")

_STARTS: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def media_of(data: bytes) -> Media | None:
    """Return the media of a picture, a PDF, or another binary file; None for a text."""
    kind = _media_type(data)
    return None if kind is None else Media(kind, sha256(data).hexdigest(), len(data))


def _media_type(data: bytes) -> str | None:
    for start, kind in _STARTS:
        if data.startswith(start):
            return kind
    if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
        return "image/webp"
    if data.startswith(b"%PDF-") or (b"%PDF-" in data[:_PDF_WITHIN] and b"\0" in data):
        return PDF
    return OTHER_MEDIA if b"\0" in data else None


def is_address(value: str, place: Place) -> bool:
    """Whether a value is a URL instead of a path. Notes an error if it is."""
    scheme = _ADDRESS.match(value)
    if scheme is None:
        return False
    what = "the path of a file: what lies elsewhere may change, and no result would tell"
    place.at("value").expected(what, f"{scheme[0]}…", "download it, and write its path")
    return True


def is_picture(path: Path, media: Media | None, role: Role, place: Place) -> bool:
    """Whether the file of an image item can be sent. Notes an error if not."""
    file, value = locate(path, None), place.at("value")
    if media is None or media.media_type == PDF:
        what = "a text" if media is None else "a PDF"
        value.error(f"expected a picture (PNG, JPEG, GIF or WebP), but {file} is {what}", "write type: file")
    elif media.fault is not None:
        value.error(f"{file} {media.fault}")
    elif role != "user":
        place.error(f"models take pictures in messages of the user only, and the role of this one is {role}")
    else:
        return True
    return False


# The prompts of judges, which are texts or files, and their scripts (agentv-formats 6.3, 6.5, 6.6).

TEMPLATE_VARIABLES: Final = (
    *("candidate_answer", "expected_outcome", "reference_answer", "question"),
    *("input_messages", "expected_messages", "output_messages", "retrieved_context"),
    *("file_changes", "workspace_path"),
)
_NEWER_NAMES: Final = {
    "criteria": "expected_outcome",
    "expected_output": "reference_answer",
    "input": "question",
    "answer": "candidate_answer",
    "output": "candidate_answer",
}
"""What newer AgentV calls these variables. A judge that gets the braces in place of the text judges something else."""

AGGREGATOR_VARIABLE: Final = "EVALUATOR_RESULTS_JSON"

NO_MODEL: Final = {"model": "write the name of a target: `judge: <name>`"}
"""The hint for a key that AgentV accepts but never reads."""

_PATH: Final = re.compile(
    r"[^\s{}]+\.(?:md|mdx|markdown|txt|prompt)|[^\n{}]*/[^\n{}]*\.(?:md|mdx|markdown|txt|prompt)|[^\s{}]*/[^\s{}]+"
)
"""A prompt that can only be the path of a file."""


@dataclass(frozen=True, slots=True)
class Template:
    """The text of a judge's prompt."""

    text: str
    is_file: bool


def load_template(prompt: str | None, prompt_path: str | None, place: Place, references: References) -> Template | None:
    """Return the template of a judge's `prompt` (a text or a path) or `prompt_path`; None without either."""
    if prompt is not None and prompt_path is not None:
        place.error("both prompt and prompt_path are there: keep one")
        return None
    if prompt_path is not None:
        return _read_template(prompt_path, place.at("prompt_path"), references)
    if prompt is None:
        return None
    if _PATH.fullmatch(prompt) or _names_a_file(prompt, references):
        return _read_template(prompt, place.at("prompt"), references)
    return Template(prompt, is_file=False)


def _read_template(path: str, place: Place, references: References) -> Template | None:
    file = references.read(path, place, is_text=True)
    return Template(file.text, is_file=True) if file else None


def _names_a_file(prompt: str, references: References) -> bool:
    path = None if "\n" in prompt else references.find(prompt).path
    return path is not None and path.is_file()


def check_judge_template(
    template: Template, place: Place, variables: Collection[str] = (), *, needs_answer: bool = True
) -> None:
    """Note faults of a judge's template: no answer to judge, variables with other names. `variables` are the case's.

    AgentV rejects a file (not an inline text) that uses neither the answer nor the expected messages. An inline text
    without the answer may be meant, unless an unknown variable stands where the answer should be.
    """
    names = template_variables(template.text)
    newer = {name: _NEWER_NAMES[name] for name in names if name in _NEWER_NAMES and name not in variables}
    for name, ours in newer.items():
        place.error(f"the template uses {{{{ {name} }}}}, a variable of newer AgentV", f"write {{{{ {ours} }}}}")
    used = [newer.get(name, name) for name in names]
    unknown = _warn_of_unknown_variables(used, (*TEMPLATE_VARIABLES, *variables), place)
    if not needs_answer:
        return
    if template.is_file and not {"candidate_answer", "expected_messages", "file_changes"} & set(used):
        place.error("the template uses neither {{ candidate_answer }} nor {{ expected_messages }}", unknown)
    elif not {"candidate_answer", "output_messages", "file_changes"} & set(used):
        note = place.error if unknown else place.warn
        note("the template does not use {{ candidate_answer }}: the judge does not see the answer", unknown)


def _warn_of_unknown_variables(used: Collection[str], known: Collection[str], place: Place) -> str | None:
    """Warn of unknown variables. Returns a hint about the first of them; None if there are none."""
    hints = {name: did_you_mean(name, known) for name in used if name not in known}
    for name, hint in hints.items():
        note = f"the template uses the unknown variable {{{{ {name} }}}}"
        place.warn(note, hint or f"known: {', '.join(known)}")
    return next((f"{{{{ {name} }}}} is not known{(hint and f'; {hint}') or ''}" for name, hint in hints.items()), None)


def check_aggregator_template(template: Template, place: Place) -> None:
    used = template_variables(template.text)
    unknown = _warn_of_unknown_variables(used, (AGGREGATOR_VARIABLE,), place)
    if AGGREGATOR_VARIABLE not in used:
        note = place.error if unknown else place.warn
        note(f"the template does not use {{{{{AGGREGATOR_VARIABLE}}}}}: the judge does not see the results", unknown)


# The folder and the command of a script.

_INTERPRETERS: Final = {".py": sys.executable, ".js": "node", ".mjs": "node", ".sh": "sh"}
"""The interpreter of a script that is given by its path only and has no `#!` line."""
INTERPRETER: Final = re.compile(r"(python|pypy|node|bun|tsx|ts-node|sh|bash|dash|zsh)[\d.]*(\.exe)?")
SCRIPT_SUFFIXES: Final = frozenset((*_INTERPRETERS, ".ts"))


def find_cwd(cwd: str | None, scope: Scope) -> Path:
    """Return the folder in which a script runs: `cwd`, or the eval file's folder if `cwd` is None or missing."""
    folder = scope.references.find_folder(cwd, scope.place.at("cwd")) if cwd else None
    return folder or scope.references.eval_dir


def script_command(script: str, cwd: Path, scope: Scope) -> tuple[str, ...]:
    """Return the command of a script that is written as a text: a shell command, or the path of a script file.

    Source: evaluation-2025-11, "Code evaluator execution" (paths); agentv-formats 6.5 (shell commands).
    """
    interpreter = _INTERPRETERS.get(Path(script.strip()).suffix)
    if interpreter is not None:
        reference = scope.references.find(script.strip(), cwd)
        if reference.path is not None and reference.path.is_file():
            path = str(reference.path)
            return (path,) if _names_its_interpreter(reference.path) else (interpreter, path)
        if "/" in script and len(script.split()) == 1:
            scope.place.at("script").error(f"file {reference.describe_missing()}")
    return "sh", "-lc", script


def _names_its_interpreter(script: Path) -> bool:
    """Whether a file is executable and begins with `#!`, so that a shell can run it directly."""
    if not os.access(script, os.X_OK):
        return False
    try:
        with script.open("rb") as file:
            return file.read(2) == b"#!"
    except OSError:
        return False
