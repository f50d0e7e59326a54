"""Fills the variables of a case into it, and replaces prompt files by their texts."""

from typing import Final

from pytest_agentv.errors import locate
from pytest_agentv.loading.cases.references import References
from pytest_agentv.loading.files.entries import COLLECTED_KEYS
from pytest_agentv.loading.keys import EVALUATOR_LIST_KEYS, EXPECTED_KEYS, INPUT_KEYS, OUTCOME_KEYS
from pytest_agentv.loading.places import Place, first_key
from pytest_agentv.loading.variables.filling import IN_CHECKS, UNFILLED, fill, has_template, render
from pytest_agentv.loading.variables.rendering import TemplateFault, as_text
from pytest_agentv.models.base import Json, JsonObject

_NOT_OF_CASES: Final = frozenset((*COLLECTED_KEYS, "vars", "metadata", "description", "note"))
"""Keys of a case that are filled at collection, or never."""
_TEXTS: Final = frozenset(("id", "conversation_id", "target", *INPUT_KEYS, *OUTCOME_KEYS, *EXPECTED_KEYS))
"""Keys whose numbers become texts."""
_CHECKS: Final = frozenset(("execution", *EVALUATOR_LIST_KEYS))
_CONTENT_KEYS: Final = frozenset(("content", "value", "name"))
_FILE: Final = "file"


def fill_case(
    value: JsonObject, variables: JsonObject | None, place: Place, references: References, *, is_row: bool
) -> JsonObject:
    """Return a case with its variables and its prompt file filled in. Notes faults at their places.

    The id of a case in a list stays unchanged, because it names the item.
    """
    if variables is not None:
        kept = _NOT_OF_CASES if is_row else _NOT_OF_CASES | {"id"}
        value = {
            key: item if key in kept else _filled(key, item, variables, place.at(key)) for key, item in value.items()
        }
    key = first_key(value, INPUT_KEYS)
    if key is None or not isinstance(value[key], dict) or _FILE not in value[key]:
        return value
    where = place.at(key)
    return {**value, key: _prompt(value[key], where, references.at(where), variables)}


def fill_value(value: Json, variables: JsonObject, place: Place, *, is_check: bool = False) -> Json:
    """Return a value of a case or file with its templates filled in; the same object if it has none."""
    return fill(value, variables, place, IN_CHECKS if is_check else UNFILLED)


def _filled(key: str, template: Json, variables: JsonObject, place: Place) -> Json:
    filled = fill_value(template, variables, place, is_check=key in _CHECKS)
    return _texts(filled, template) if key in _TEXTS and filled is not template else filled


def _prompt(value: JsonObject, place: Place, references: References, variables: JsonObject | None) -> str:
    """Return the text of `input: {file: …}`, filled; empty after a fault. Notes faults."""
    name = value[_FILE]
    if not isinstance(name, str) or not name.strip() or len(value) > 1:
        place.expected("a text, a list of messages, or {file: path of a prompt}", value)
        return ""
    file = references.read(name, place.at(_FILE), is_text=True)
    text = "" if file is None else file.text.rstrip("\n")
    if file is None or variables is None or not has_template(text):
        return text
    try:
        return as_text(render(text, variables))
    except TemplateFault as fault:
        place.at(_FILE).error(f"{locate(file.path, fault.line)}: {fault}", fault.hint)
        return ""


def _texts(filled: Json, template: Json) -> Json:
    """Convert numbers from templates to texts: whole texts, and the contents of messages. Data keeps its types."""
    if isinstance(template, str):
        return filled if isinstance(filled, list | dict) else as_text(filled)
    if isinstance(template, list):
        return [_message_texts(new, old) for new, old in zip(filled, template, strict=True)]
    return filled


def _message_texts(filled: Json, template: Json) -> Json:
    if not isinstance(template, dict):
        return _texts(filled, template)
    return {key: _texts(filled[key], item) if key in _CONTENT_KEYS else filled[key] for key, item in template.items()}
