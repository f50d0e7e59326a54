"""Recognizes eval files by their first bytes. Every pytest run that collects a YAML file imports this module."""

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

_FIRST_BYTES: Final = 65_536
_MOST_BYTES: Final = 1_048_576
"""The bytes of a file that are read if its first 64 kB show no cases.

Long texts may stand before the cases, such as a policy under `vars`, but hardly anyone writes so long a header by hand.
Data of this size takes about 10 ms, and that of other tools with `tests` about 0.1 s.
"""
_OUR_LISTS: Final = rb"eval_?cases"
"""Keys that only eval files have."""
_COMMON_LISTS: Final = rb"(?:cases|tests)"
"""Keys of case lists that files of other tools have, too."""
_SIDECAR_KEYS: Final = rb"(?:defaults|include|matrix|execution|evaluators|assertions|assert|evaluator|grader)"
"""Keys of a sidecar that give cases their inputs or their checks."""
_ROOT: Final = re.compile(
    rb"(?:[ \t]*+(?:#[^\n]*+)?\r?\n|%[^\n]*+\n|---[ \t]*+(?:#[^\n]*+)?\r?\n)*(?:---[ \t]++)?([ \t]*+)(\{)?"
)
"""The text before the first value of a YAML file, the value's indentation, and its opening brace, if any."""
_FLOW_TOKEN: Final = re.compile(
    rb""""[^"\\]*+(?:\\.[^"\\]*+)*(?:"|\\?\Z)|'[^']*+(?:'|\Z)|[{}\[\],:]|\#[^\n]*+|[^\s"'{}\[\],:\#][^\s{}\[\],:]*+""",
    re.DOTALL,
)
_CASE_KEY: Final = re.compile(
    rb"""(?:^[ \t-]*|[\[{,]\s*)["']?"""
    rb"""(?:id|input|input_messages|expected_outcome|outcome|criteria|expected_messages|expected_output)["']?[ \t]*:""",
    re.MULTILINE,
)
_GAP: Final = rb"[ \t]*+(?:(?:\#[^\n]*+)?\r?\n[ \t]*+)*"
"""Blanks, line breaks and comments."""
_FLOW: Final = re.compile(_GAP + rb"\{")
_BLOCK: Final = re.compile(rb"[ \t]*+(?:\#[^\n]*+)?\r?\n(?:[ \t]*+(?:\#[^\n]*+)?\r?\n)*(?=( +)[^\s\#-])")
"""The text between a key and the first line of the mapping below it, and the indentation of this line."""
_TABLE: Final = re.compile(
    _GAP + rb"""(?:\[\s*|-[ \t]+|)["']?"""
    rb"""(?:(?:[^\n"',:\[\]{}\#]|:(?=\S))+\.(?:csv|tsv|jsonl?|ya?ml|parquet|py:\w+)|[A-Za-z_]\w*(?:\.\w+)+:[A-Za-z_]\w*)"""
    rb"""["']?[ \t]*(?:[,\]}\#\r\n]|\Z)"""
)
"""The text after the key of a case list that is the name of a table, or a list of names."""
_JSONL_KEY: Final = re.compile(r'"(id|input|input_messages)"\s*:')
_INPUT_KEYS: Final = frozenset({"input", "input_messages"})


def looks_like_suite(path: Path) -> bool:
    """Whether the first bytes of a file show eval cases. Never raises.

    YAML needs `evalcases` at top level, or else `cases` or `tests` with a table or with some key of a case. JSONL needs
    an object with an id and an input. The input may be missing if a sidecar is beside the file.
    """
    return case_list_line(path) is not None


def case_list_line(path: Path) -> int | None:
    """Return the line on which a file's cases begin; None if it does not look like an eval file. Never raises."""
    head = _first_bytes(path, _FIRST_BYTES)
    line = _line_in(head, path)
    if line is not None or len(head) < _FIRST_BYTES or (path.suffix == ".jsonl" and b"\n" in head):
        return line
    return _line_in(_first_bytes(path, _MOST_BYTES), path)


def find_sidecar(path: Path) -> Path | None:
    """Return the file beside a JSONL file with the same name and the suffix .yaml or .yml, even a broken symlink."""
    sidecars = (path.with_suffix(suffix) for suffix in (".yaml", ".yml"))
    return next((sidecar for sidecar in sidecars if sidecar.is_file() or sidecar.is_symlink()), None)


def read_fault(path: Path) -> str | None:
    """Return why a file cannot be read, so that nobody knows whether it has eval cases; None if it can.

    Never raises.
    """
    try:
        if path.is_file() or not path.exists():  # reading a FIFO would block, and a link may be broken
            with path.open("rb") as file:
                file.read(1)
    except OSError as error:
        return error.strerror or type(error).__name__
    except ValueError:
        return None
    return None


def _first_bytes(path: Path, count: int) -> bytes:
    """Return the first bytes of a file; nothing if it cannot be read."""
    try:
        if not path.is_file():  # reading a FIFO would block
            return b""
        with path.open("rb") as file:
            return file.read(count)
    except (OSError, ValueError):
        return b""


def _line_in(head: bytes, path: Path) -> int | None:
    text = head.removeprefix(b"\xef\xbb\xbf")
    if path.suffix == ".jsonl":
        return _jsonl_line(text, path)
    end = next(_top_keys(text, _OUR_LISTS), None)
    if end is None:
        end = next(_top_keys(text, _COMMON_LISTS), None)
        if end is None or not _holds_cases(text, end):
            return None
    return text.count(b"\n", 0, end) + 1


def _top_keys(head: bytes, names: bytes) -> Iterator[int]:
    """Yield the offset after each of these keys at top level."""
    root = _ROOT.match(head)
    if root is None or not re.search(names, head):
        return
    if root[2]:
        yield from _flow_keys(head, root.end(), names)
        return
    key = re.compile(rb"""^%s["']?%s["']?[ \t]*:""" % (root[1], names), re.MULTILINE)
    yield from (found.end() for found in key.finditer(head))


def _flow_keys(head: bytes, start: int, names: bytes) -> Iterator[int]:
    """Yield the offset after each of these keys of one `{…}`, on one line or several. `start` is after its brace."""
    name = re.compile(rb"""["']?%s["']?""" % names)
    depth, before = 1, b""
    for match in _FLOW_TOKEN.finditer(head, start):
        token = match[0]
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
        elif token == b":" and depth == 1 and name.fullmatch(before):
            yield match.end()
        before = before if token.startswith(b"#") else token
        if depth == 0:
            return


def _holds_cases(head: bytes, end: int) -> bool:
    """Whether a list of eval cases, or the tables with them, follow the key that ends there."""
    is_written_here = _CASE_KEY.search(head, end) or _TABLE.match(head, end)
    return is_written_here is not None or _names_tables(head, end)


def _names_tables(head: bytes, end: int) -> bool:
    """Whether the mapping below the key that ends there has the key `from`. Deeper keys are those of other tools."""
    flow = _FLOW.match(head, end)
    if flow is not None:
        return next(_flow_keys(head, flow.end(), b"from"), None) is not None
    block = _BLOCK.match(head, end)
    if block is None:
        return False
    line = rb"(?:%b[^\n]*+\n|(?!%b)[ \t]*+(?:\#[^\n]*+)?\r?\n)" % (block[1], block[1])
    return re.compile(rb"""%b*?%b["']?from["']?[ \t]*:""" % (line, block[1])).match(head, block.end()) is not None


def _jsonl_line(head: bytes, path: Path) -> int | None:
    """Return the first line with a case. Some lines may be faulty: their cases are errors, and the others run."""
    with_id: int | None = None
    for number, line in enumerate(head.split(b"\n"), start=1):
        keys = _jsonl_keys(line, is_cut=b"\n" not in head)
        if "id" in keys and not _INPUT_KEYS.isdisjoint(keys):
            return number
        if "id" in keys and with_id is None:
            with_id = number
    return with_id if with_id is not None and _has_sidecar(path) else None


def _jsonl_keys(line: bytes, *, is_cut: bool) -> Collection[str]:
    """Return the keys of the object on a line. The line may be cut, because it is longer than the bytes read."""
    if b'"id"' not in line or not line.lstrip().startswith(b"{"):
        return ()
    try:
        keys: Collection[str] = json.loads(line)
    except RecursionError:
        return ()
    except ValueError:
        return _JSONL_KEY.findall(line.decode(errors="replace")) if is_cut else ()
    return keys


def _has_sidecar(path: Path) -> bool:
    """Whether a JSONL file has a sidecar with inputs or checks for its cases."""
    sidecar = find_sidecar(path)
    if sidecar is None or looks_like_suite(sidecar):
        return False
    return next(_top_keys(_first_bytes(sidecar, _MOST_BYTES), _SIDECAR_KEYS), None) is not None
