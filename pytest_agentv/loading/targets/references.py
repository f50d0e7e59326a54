"""Refuses texts in targets that look like references to variables but are none."""

import re
from collections.abc import Iterator
from typing import Final

from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.places import Place
from pytest_agentv.loading.targets.environment import REFERENCE
from pytest_agentv.models.base import Json, JsonObject

_FOREIGN: Final = re.compile(r"^\$([A-Z][A-Z0-9_]+)$|\$\{([A-Z][A-Z0-9_]*)\}|^\{\{\s*env\.(\w+)\s*\}\}$")
"""A variable in the syntax of shells and other tools. Here it is a text, which would be sent as it is."""
_MEANT: Final = (
    *("command_template", "commandTemplate", "command", "stdin", "response", "content"),
    *("files_format", "filesFormat", "attachments_format", "attachmentsFormat"),
)
"""Keys whose text goes to a shell, or is an answer."""


def check_references(values: JsonObject, place: Place, *, is_own: bool) -> None:
    """Warn of an invalid `${{ … }}`. Refuse variables of other tools, unless the project's own code may read them."""
    for keys, text in _texts(values, ()):
        foreign = None if keys[-1] in _MEANT else _FOREIGN.search(text)
        if "${{" in REFERENCE.sub("", text):
            place.at(*keys).warn("holds '${{', but no variable", "write ${{ NAME }}: letters, digits and _")
        elif foreign:
            note = place.at(*keys).warn if is_own else place.at(*keys).error
            name = foreign[1] or foreign[2] or foreign[3]
            note(f"{foreign[0]!r} is no variable here and stays as it is", f"write ${{{{ {name} }}}}")


def _texts(value: Json, keys: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield all texts within a value, with their places."""
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(item, (*keys, key))
