"""Recognizes eval files by their first bytes. Every pytest run that collects a YAML file imports this module."""

import json
import re
from pathlib import Path
from typing import Final

_SNIFFED_BYTES: Final = 65_536
_LIST_NAMES: Final = rb"(?:evalcases|eval_cases|cases|tests)"
_ANY_LIST: Final = re.compile(_LIST_NAMES)
_QUOTED_LIST: Final = re.compile(rb"""["']?%s["']?""" % _LIST_NAMES)
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
_TABLE: Final = re.compile(
    rb"""[ \t]*(?:\#[^\n]*)?(?:\[\s*|(?:\s*-[ \t]*)|\{?\s*["']?from["']?[ \t]*:[ \t]*|)"""
    rb"""\[?["']?[^\s"',\]]+\.(?:csv|tsv|jsonl?|ya?ml|parquet|py:\w+)\b"""
)
"""The text after the key of a case list that names tables."""
_JSONL_ID: Final = re.compile(rb'"id"\s*:')
_JSONL_INPUT: Final = re.compile(rb'"input(?:_messages)?"\s*:')


def looks_like_suite(path: Path) -> bool:
    """Whether the first 64 kB of a file hold eval cases. Never raises.

    YAML needs a case list at top level with some key of a case below it. JSONL needs a first object with an id and
    an input.
    """
    return case_list_line(path) is not None


def case_list_line(path: Path) -> int | None:
    """Return the line on which a file's cases begin; None if it does not look like an eval file. Never raises."""
    try:
        if not path.is_file():  # reading a FIFO would block
            return None
        with path.open("rb") as file:
            head = file.read(_SNIFFED_BYTES).removeprefix(b"\xef\xbb\xbf")
    except (OSError, ValueError):
        return None
    if path.suffix == ".jsonl":
        return 1 if _is_case_line(head.lstrip().partition(b"\n")) else None
    end = _case_list_end(head)
    has_cases = end is not None and (_CASE_KEY.search(head, end) or _TABLE.match(head, end)) is not None
    return head.count(b"\n", 0, end) + 1 if has_cases else None


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


def _case_list_end(head: bytes) -> int | None:
    """Return the offset after the key of the case list at top level."""
    root = _ROOT.match(head)
    if root is None or not _ANY_LIST.search(head):
        return None
    if root[2]:
        return _flow_list_end(head, root.end())
    key = re.compile(rb"""^%s["']?%s["']?[ \t]*:""" % (root[1], _LIST_NAMES), re.MULTILINE)
    found = key.search(head)
    return found.end() if found else None


def _flow_list_end(head: bytes, start: int) -> int | None:
    """Return the offset after the key of the case list in a file written as one `{…}`, on one line or several."""
    depth, before = 1, b""
    for match in _FLOW_TOKEN.finditer(head, start):
        token = match[0]
        if token in b"{[":
            depth += 1
        elif token in b"}]":
            depth -= 1
        elif token == b":" and depth == 1 and _QUOTED_LIST.fullmatch(before):
            return match.end()
        before = before if token.startswith(b"#") else token
        if depth == 0:
            break
    return None


def _is_case_line(parts: tuple[bytes, bytes, bytes]) -> bool:
    line, newline, _ = parts
    if not line.startswith(b"{"):
        return False
    try:
        case = json.loads(line)
    except RecursionError:
        return False
    except ValueError:  # the line may be longer than the bytes read
        return not newline and all(key.search(line) for key in (_JSONL_ID, _JSONL_INPUT))
    return "id" in case and ("input" in case or "input_messages" in case)
