"""Reads results files, including those of crashed runs. Skips and reports what cannot be read or could not be."""

import codecs
import fnmatch
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, Final, TypeAlias

from pytest_agentv.errors import TOO_LARGE, FileError, SourceError
from pytest_agentv.files.problems import Hint, Problem, describe_value
from pytest_agentv.model.base import Json, JsonObject, Record, is_number
from pytest_agentv.model.options import DEFAULT_EVAL_GLOBS
from pytest_agentv.model.results import SCHEMA_VERSION, EvalResult

INCOMPLETE: Final = "is incomplete, as after a crash"
"""The fault of the half result that a killed writer left."""
_NULS: Final = "the line holds NUL bytes, as after a crash of the machine"
_BOM: Final = b"\xef\xbb\xbf"
RESULTS: Final = re.compile(rb"(?:---\s+|\{)\"?(?:timestamp.{,60}\W)?eval_id|\xff\xfe|\xfe\xff", re.DOTALL)
"""The beginning of a results file. One in UTF-16 is refused when it is opened, with the reason."""
REPORT: Final = re.compile(
    rb"<!doctype html>.*<title id=.title|<!-- pytest-agentv: |<\?xml.{,50}<testsuites name=.agentv"
    rb"|\[\]|\[\s*\{\s*.description",
    re.DOTALL,
)

KnownLine: TypeAlias = Callable[[bytes], EvalResult | None]
"""Returns the result that a line of JSONL holds, if it is known, so that nobody has to parse the line."""


@dataclass(frozen=True, slots=True)
class Entry(Record):
    """One result of a file, as it was written."""

    line: int
    """The line of the result, or the first line of its YAML document."""
    value: JsonObject
    known: EvalResult | None = None
    """The result, if it is known already. The value is empty then."""


@dataclass(frozen=True, slots=True)
class RecordedResult(Record):
    """A checked result of a file."""

    line: int
    result: EvalResult
    is_known: bool = False
    """Whether it was known before its line was read."""


def iter_entries(path: Path, run_id: str | None = None, find: KnownLine | None = None) -> Iterator[Entry | Problem]:
    """Yield results while reading, and a problem for each skipped part. Raises `FileError` if it cannot be opened.

    `find` knows lines of the run.
    """
    with _open(path) as file:
        for entry in _read_yaml(path, file) if _is_yaml(path) else _read_jsonl(path, file, find):
            is_of_run = isinstance(entry, Problem) or entry.known or entry.value.get("run_id") == run_id
            if run_id is None or is_of_run:
                yield entry


@contextmanager
def _open(path: Path) -> Iterator[BufferedReader]:
    """Open a file whose newlines can be found byte by byte. Turns errors within the block into `FileError`."""
    try:
        with path.open("rb") as file:
            if file.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
                what = "is UTF-16, as `>` of Windows PowerShell writes it"
                raise FileError(path, f"{what}: save it as UTF-8, or let `-o` write the file")
            yield file
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from error
    except MemoryError:
        raise FileError(path, f"cannot be read: {TOO_LARGE}") from None


def _is_yaml(path: Path) -> bool:
    """Decide by the suffix; for other suffixes, by the `---` that starts each YAML document."""
    if path.suffix in {".yaml", ".yml", ".jsonl"}:
        return path.suffix != ".jsonl"
    with path.open("rb") as file:
        return file.readline().removeprefix(_BOM).startswith(b"---")


def _read_jsonl(path: Path, lines: Iterable[bytes], find: KnownLine | None) -> Iterator[Entry | Problem]:
    for number, line in enumerate(lines, start=1):
        text = line.removeprefix(_BOM)
        if find is not None and (known := find(line)) is not None:
            yield Entry(number, {}, known)
        elif b"\0" in text:  # `json` would take it for another encoding
            yield skipped(path, number, _NULS)
        elif text.strip():
            yield _parse_json(path, number, text)


def _parse_json(path: Path, line: int, text: bytes) -> Entry | Problem:
    try:
        return _checked(path, line, json.loads(text))
    except json.JSONDecodeError as error:
        fault = f"invalid JSON: {error.msg}, column {error.colno}"
    except UnicodeDecodeError as error:
        fault = f"not UTF-8: byte 0x{text[error.start]:02x}"
    except ValueError:  # the only other fault
        fault = "invalid JSON: a number of too many digits"
    except RecursionError:
        fault = "nested too deeply"
    if not text.endswith(b"\n"):
        return skipped(path, line, f"the last line {INCOMPLETE}")
    return skipped(path, line, f"the line is {fault}")


def _read_yaml(path: Path, lines: Iterable[bytes]) -> Iterator[Entry | Problem]:
    for number, text in _documents(lines):
        if not text.endswith(b"\n"):  # A cut document is often valid YAML, but only half a result.
            yield skipped(path, number, f"the last document {INCOMPLETE}")
        else:
            yield _parse_yaml(path, number, text)


def _documents(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the non-blank documents and their first lines. Splits by hand: a broken one does not hide later ones."""
    start = 1
    parts: list[bytes] = []
    for number, line in enumerate(itertools.chain(lines, [b"---"]), start=1):
        if not line.startswith(b"---") or line[3:].strip():
            parts.append(line)
            continue
        document = b"".join(parts)
        if document.strip():
            yield start, document
        start, parts = number + 1, []


def _parse_yaml(path: Path, line: int, text: bytes) -> Entry | Problem:
    from pytest_agentv.files.source import build_yaml  # noqa: PLC0415 - only YAML files need PyYAML

    if b"\0" in text:  # a cut document may be valid YAML
        return skipped(path, line + text.count(b"\n", 0, text.index(b"\0")), _NULS)
    try:
        value = build_yaml(path, text.removeprefix(_BOM).decode(), 0, line)[0]
    except SourceError as error:
        return skipped(path, error.line or line, error.reason)
    except UnicodeDecodeError as error:
        number = line + text.count(b"\n", 0, error.start)
        return skipped(path, number, f"the line is not UTF-8: byte 0x{text[error.start]:02x}")
    return _checked(path, line, value)


def _checked(path: Path, line: int, value: Json) -> Entry | Problem:
    if isinstance(value, dict):
        return Entry(line, value)
    return skipped(path, line, f"expected a result (a mapping), got {describe_value(value)}")


def skipped(path: Path, line: int, what: str) -> Problem:
    """Return the warning about a part of a file that holds no result."""
    return Problem(path, line, "", f"{what}; it was skipped", level="warning")


def iter_texts(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the file in pieces: each result as it was written, with the line number of `iter_entries`.

    Unreadable pieces are included. Raises like `iter_entries`.
    """
    with _open(path) as file:
        if _is_yaml(path):
            yield from ((line, b"---\n" + text) for line, text in _documents(file))
        else:
            yield from enumerate(file, start=1)


def iter_recorded(
    path: Path, run_id: str | None = None, find: KnownLine | None = None
) -> Iterator[RecordedResult | Problem]:
    """Yield the results of a file, or of one run in it, and a problem for each skipped line.

    `find` knows lines of the run. Raises `FileError` if the file cannot be opened.
    """
    for entry in iter_entries(path, run_id, find):
        yield entry if isinstance(entry, Problem) else check_entry(path, entry)


def check_entry(path: Path, entry: Entry) -> RecordedResult | Problem:
    """Return the result that an entry holds, or the problem if it holds none."""
    if entry.known is not None:
        return RecordedResult(entry.line, entry.known, is_known=True)
    fault = version_fault(entry.value)
    score = entry.value.get("score")
    if fault is None and not (is_number(score) and 0 <= score <= 1):  # pydantic would accept texts and booleans
        fault = f"score: expected a number from 0 to 1, got {describe_value(score)}"
    if fault is None and entry.value.get("status") is None:  # as in results of AgentV itself
        fault = "status: the key is missing"
    if fault is None:
        try:
            return RecordedResult(entry.line, EvalResult.from_plain(entry.value))
        except ValueError as error:  # a fault of pydantic, which is not imported for this
            fault = _first_fault(error)
    return Problem(path, entry.line, "", f"{fault}; the result was skipped", level="warning")


def _first_fault(error: Any) -> str:
    first = error.errors(include_url=False)[0]
    if first["type"] in ("missing", "missing_argument"):
        return f"{first['loc'][0]}: the key is missing"
    if first["type"] == "unexpected_keyword_argument":
        return f"{first['loc'][0]}: unknown key"
    expected = first["msg"].replace("Input should be", "expected")
    return f"{'.'.join(map(str, first['loc']))}: {expected}, got {describe_value(first['input'])}"


def iter_foreign(path: Path) -> Iterator[Entry | Problem]:
    """Yield the entries of a file of any version, and one hint if a newer version wrote it."""
    is_hinted = False
    for entry in iter_entries(path):
        if not is_hinted and isinstance(entry, Entry) and (fault := version_fault(entry.value)) is not None:
            is_hinted = True
            yield Hint(path, entry.line, "", f"{fault}; what it says may be misread", level="warning")
        yield entry


def version_fault(value: JsonObject) -> str | None:
    """Return the fault of a result of a newer version, whose keys may have another meaning; None if there is none."""
    version = value.get("schema_version")
    if not is_number(version) or version <= SCHEMA_VERSION:
        return None  # a version that is no number is reported with the other keys
    return f"schema_version: expected {SCHEMA_VERSION} or less, got {version}: a newer pytest-agentv wrote it"


def holds_baseline(path: Path) -> bool:
    """Whether a file is a baseline, which a run compares itself with, and holds no results."""
    if not path.is_file():
        return False  # a pipe can be read only once
    first = next(iter_entries(path), None)
    return isinstance(first, Entry) and "agentv_baseline" in first.value


def input_fault(path: Path) -> str | None:
    """Return why nothing may be written to a file: it is an eval file or a baseline, which no run can give back."""
    if any(fnmatch.fnmatch(path.name, pattern) for pattern in DEFAULT_EVAL_GLOBS):
        return "has the name of an eval file"
    with suppress(FileError, OSError):  # whoever opens the file tells why that fails
        return "is a baseline" if holds_baseline(path) else None
    return None


def foreign_fault(path: Path, begin: re.Pattern[bytes]) -> str | None:
    """Return why nothing may be written to a file: `input_fault`, or it does not begin as `RESULTS` or `REPORT`."""
    fault = input_fault(path)
    with suppress(OSError):
        if fault is None and path.is_file():
            with path.open("rb") as file:
                head = file.read(4096).removeprefix(_BOM).strip()
            fault = "exists and holds something else" if head and not begin.match(head) else None
    return fault
