"""Fills the variables of a case into it, and puts the texts of prompt files in their places."""

from typing import Final

from pytest_agentv.errors import locate
from pytest_agentv.loading.cases.references import References
from pytest_agentv.loading.files.entries import COLLECTED_KEYS
from pytest_agentv.loading.keys import EXPECTED_KEYS, INPUT_KEYS, OUTCOME_KEYS
from pytest_agentv.loading.places import Place, first_key, misspelling
from pytest_agentv.loading.variables.filling import TemplateFault, Unfilled, as_text, fill, has_template, render
from pytest_agentv.models.base import Json, JsonObject

UNFILLED: Final = Unfilled(
    ("script", "code", "prompt", "prompt_path", "promptPath", "python", "not-python", "not_python"),
    (("python", "value"), ("not-python", "value"), ("not_python", "value")),
)
"""Code, and the prompts of judges, which are templates of their own. All of these see the variables."""

_NOT_OF_CASES: Final = frozenset((*COLLECTED_KEYS, "vars", "metadata", "description", "note"))
"""Keys of a case that are filled when it is collected, or never."""
_TEXTS: Final = frozenset(("id", "conversation_id", "target", *INPUT_KEYS, *OUTCOME_KEYS, *EXPECTED_KEYS))
"""Keys whose numbers are shown as texts."""
_CONTENT_KEYS: Final = frozenset(("content", "value", "name"))
_FILE: Final = "file"


def fill_case(value: JsonObject, variables: JsonObject, place: Place, *, is_row: bool) -> JsonObject:
    """Return a case with its variables filled in. Notes faults at the places of the templates.

    The id of a case in a list stays as it is, because it names the item.
    """
    kept = _NOT_OF_CASES if is_row else _NOT_OF_CASES | {"id"}
    filled = {
        key: item if key in kept else fill(item, variables, place.at(key), UNFILLED) for key, item in value.items()
    }
    return {
        key: _texts(filled[key], item) if key in _TEXTS and filled[key] is not item else filled[key]
        for key, item in value.items()
    }


def read_prompt_file(value: JsonObject, place: Place, references: References, variables: JsonObject | None) -> str:
    """Return the text of `input: {file: …}`, filled; empty after a fault. Notes faults."""
    name = value.get(_FILE)
    unknown = [key for key in value if key != _FILE]
    if not isinstance(name, str) or not name.strip() or unknown:
        hint = misspelling(_FILE, value, (_FILE,)) if name is None else None
        place.expected("a text, a list of messages, or {file: path of a prompt}", value, hint)
        return ""
    file = references.read(name, place.at(_FILE), is_text=True)
    if file is None:
        return ""
    text = file.text.rstrip("\n")
    if variables is None or not has_template(text):
        return text
    try:
        return as_text(render(text, variables))
    except TemplateFault as fault:
        place.at(_FILE).error(f"{locate(file.path, fault.line)}: {fault}", fault.hint)
        return ""


def is_prompt_file(case: JsonObject) -> str | None:
    """Return the key under which a case names a prompt file; None if it has its prompt itself."""
    key = first_key(case, INPUT_KEYS)
    value = None if key is None else case[key]
    return key if isinstance(value, dict) and _FILE in value else None


def _texts(filled: Json, template: Json) -> Json:
    """Turn numbers that templates gave into texts: a whole text, and the contents of messages. Data keeps its types."""
    if isinstance(template, str):
        return filled if isinstance(filled, list | dict) else as_text(filled)
    if isinstance(template, list):
        return [_message_texts(new, old) for new, old in zip(filled, template, strict=True)]
    return filled


def _message_texts(filled: Json, template: Json) -> Json:
    if not isinstance(template, dict):
        return _texts(filled, template)
    return {key: _texts(filled[key], item) if key in _CONTENT_KEYS else filled[key] for key, item in template.items()}
