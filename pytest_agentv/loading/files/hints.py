"""Finds texts that look as if variables were meant, in files that have none."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from pytest_agentv.loading.files.entries import CaseEntry
from pytest_agentv.loading.keys import EXPECTED_KEYS, INPUT_KEYS, OUTCOME_KEYS
from pytest_agentv.loading.places import Place
from pytest_agentv.loading.problems import Hint
from pytest_agentv.models.base import Json

_VARIABLE: Final = re.compile(r"(?<!\$)\{\{\s*[A-Za-z_]\w*\s*\}\}", re.ASCII)
_SHOWN_KEYS: Final = (*INPUT_KEYS, *OUTCOME_KEYS, *EXPECTED_KEYS)


def hints(entries: Iterable[CaseEntry], place: Place) -> list[Hint]:
    """Return one hint for the first text of a case that holds `{{ word }}` where there are no variables.

    `place` is that of the case list.
    """
    if not _VARIABLE.search(place.source.text):
        return []
    for entry in entries:
        value = entry.value
        combined = entry.combination is not None and entry.combination.variables
        if entry.row is None and not combined and isinstance(value, dict) and value.get("vars") is None:
            for key in _SHOWN_KEYS:
                if found := next(_texts_with_variables(value.get(key)), None):
                    return [_hint(found, place.at(entry.index, key))]
    return []


def _hint(text: str, place: Place) -> Hint:
    message = f"{text} stays as it is, because the case has no variables"
    line = place.source.line_of(place.keys)
    return Hint(place.path, line, place.key, message, "`vars:` of the case or its file fill it in", "warning")


def _texts_with_variables(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        if found := _VARIABLE.search(value):
            yield found[0]
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts_with_variables(item)
