"""Warns of texts in targets that look like references to variables but are none."""

import re
from collections.abc import Iterator
from typing import Final

from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.places import Place
from pytest_agentv.loading.targets.environment import REFERENCE
from pytest_agentv.models.base import Json, JsonObject

_FOREIGN: Final = re.compile(r"\$\{?([A-Z][A-Z0-9_]+)\}?|\{\{\s*env\.(\w+)\s*\}\}")
"""A variable in the syntax of shells and other tools. Here it is a text, which would be sent as it is."""
_MEANT: Final = ("command_template", "commandTemplate", "command", "response", "content")
"""Keys whose text goes to a shell, or is an answer."""


def warn_of_references(values: JsonObject, place: Place) -> None:
    """Warn of an invalid `${{ … }}`, and of variables in the syntax of other tools."""
    for keys, text in _texts(values, ()):
        foreign = None if keys[-1] in _MEANT else _FOREIGN.fullmatch(text)
        if "${{" in REFERENCE.sub("", text):
            place.at(*keys).warn("holds '${{', but no variable", "write ${{ NAME }}: letters, digits and _")
        elif foreign:
            name = foreign[1] or foreign[2]
            place.at(*keys).warn(f"{text!r} is no variable here and stays as it is", f"write ${{{{ {name} }}}}")


def _texts(value: Json, keys: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield all texts within a value, with their places."""
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(item, (*keys, key))
