"""Tells eval files from other files by their first bytes; every pytest run that meets a YAML file loads this."""

import json
import re
from pathlib import Path
from typing import Final

_SNIFFED_BYTES: Final = 65_536
_CASE_LIST: Final = re.compile(rb"""^(?:\{\s*)?["']?(?:evalcases|eval_cases|cases|tests)["']?[ \t]*:""", re.MULTILINE)
_CASE_KEY: Final = re.compile(
    rb"""(?:^[ \t-]*|[\[{,]\s*)["']?"""
    rb"""(?:id|input|input_messages|expected_outcome|outcome|criteria|expected_messages|expected_output)["']?[ \t]*:""",
    re.MULTILINE,
)
_JSONL_ID: Final = re.compile(rb'"id"\s*:')
_JSONL_INPUT: Final = re.compile(rb'"input(?:_messages)?"\s*:')


def looks_like_suite(path: Path) -> bool:
    """Tell from the first 64 kB whether a file holds eval cases; never raises.

    YAML: a case list at top level with some key of a case below it. JSONL: a first object with an id and an input.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_SNIFFED_BYTES).removeprefix(b"\xef\xbb\xbf")
    except (OSError, ValueError):
        return False
    if path.suffix == ".jsonl":
        return _is_case_line(head.lstrip().partition(b"\n"))
    case_list = _CASE_LIST.search(head)
    return case_list is not None and _CASE_KEY.search(head, case_list.end()) is not None


def _is_case_line(parts: tuple[bytes, bytes, bytes]) -> bool:
    line, newline, _ = parts
    if not line.startswith(b"{"):
        return False
    try:
        case = json.loads(line)
    except RecursionError:
        return False
    except ValueError:  # perhaps a line longer than what was read
        return not newline and all(key.search(line) for key in (_JSONL_ID, _JSONL_INPUT))
    return "id" in case and ("input" in case or "input_messages" in case)
