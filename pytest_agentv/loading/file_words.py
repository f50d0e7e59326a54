"""Finds `file://…` where promptfoo reads a file but this plugin takes a text. Suggests what to write instead.

Texts with more than the address are allowed. Import this lazily: few files have such texts.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from pytest_agentv.loading.places import Place
from pytest_agentv.models.base import Json, JsonObject

_ADDRESS: Final = re.compile(r"\s*file://(\S*\w\S*|[^\n]*\.\w{1,8}(?::\w+)?)\s*")
"""A text that is only an address. It may contain blanks if it ends with a suffix."""
_FUNCTION: Final = re.compile(r"(.+\.py)(?::(\w+))?")
_PLAIN: Final = re.compile(r"[\w./@~ -]+")
_PATH_KEYS: Final = frozenset({"prompt", "prompt_path", "promptPath"})


def path_in(value: Json) -> str | None:
    """Return the path of a text `file://path`; None for any other value."""
    found = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
    return found and found[1]


def alone(value: str) -> str | None:
    """Return the hint for an address where a path is expected; None for a path."""
    path = path_in(value)
    return path and f"write the path alone: {path}"


def note_in_check(kind: str, keys: JsonObject, place: Place, *, takes_data: bool) -> bool:
    """Note an error for each value of a check that names a file like this. Return whether there is one."""
    noted = len(place.problems)
    for key, value in keys.items():
        for where, path in _paths(value, place.at(key), with_items=not takes_data):
            if kind == "regex" and not _PLAIN.fullmatch(path):
                continue  # a pattern may search for addresses
            _note(where, path, _in_check(kind, key, path))
    return len(place.problems) > noted


def note_statement(text: str, place: Place) -> bool:
    """Note an error for a sentence or a rubric that names a file. Return whether it does."""
    path = path_in(text)
    if path is not None:
        _note(place, path, "write the sentence itself")
    return path is not None


def note_outcome(text: Json, place: Place) -> None:
    """Note an expected outcome that names a file, because a judge would be shown the address."""
    path = path_in(text)
    if path is not None:
        _note(place, path, "write the text itself", may_be_text=True)


def note_in_message(text: str, place: Place, *, is_asked: bool) -> None:
    """Note a message that names a file, because the address itself would be sent or compared."""
    path = path_in(text)
    if path is None:
        return
    role = "user" if is_asked else "assistant"
    message = f"{{role: {role}, content: [{{type: file, value: {path}}}]}}"
    asked = f"`input: {{file: {path}}}` sends its text, the message {message} attaches it"
    _note(place, path, asked if is_asked else f"write the message {message}", may_be_text=True)


def note_in_variables(variables: Mapping[str, Json], place: Place) -> None:
    """Note each variable that names a file, because templates would show the address."""
    for name, value in variables.items():
        for where, path in _paths(value, place.at(name), with_items=True):
            _note(where, path, f"write the text itself; `input: {{file: {path}}}` fills a file", may_be_text=True)


def warn_of_columns(row: Mapping[str, Json], place: Place) -> None:
    """Warn once of each table column that names files. Its cells may be meant as texts."""
    for name, value in row.items():
        if path_in(value) is not None:
            place.warn(f"the column {name!r} has file://…, for which no file is read", "write the texts themselves")


def _paths(value: Json, place: Place, *, with_items: bool) -> Iterator[tuple[Place, str]]:
    """Yield the addresses in a value: itself, or its items."""
    if with_items and isinstance(value, list | tuple):
        found = [(place.at(index), path_in(item)) for index, item in enumerate(value)]
    else:
        found = [(place, path_in(value))]
    yield from ((where, path) for where, path in found if path is not None)


def _note(place: Place, path: str, hint: str, *, may_be_text: bool = False) -> None:
    """Note an error. Only a warning for an absolute address where any text is allowed."""
    note = place.warn if may_be_text and path.startswith("/") else place.error
    note(f"'file://{path}' is a text here: no file is read for it", hint)


def _in_check(kind: str, key: str, path: str) -> str:
    """Return what to write in a check instead of an address."""
    if kind in ("is-json", "contains-json") or key in _PATH_KEYS:
        return f"write the path alone: {path}"
    if kind == "python":
        found = _FUNCTION.fullmatch(path)
        shown = "`python` takes an expression, or file.py:function"
        return shown if found is None else f"write {found[1]}:{found[2] or 'function'}"
    if key in ("script", "code"):
        return f"write the command: script: [python, {path}]"
    as_text = f"; to look for the address, write regex: '[f]ile://{path}'" if path.startswith("/") else ""
    return f"write the text itself, or python: checks.py:function, which may read the file{as_text}"
