"""Fills `{{ name }}` into plain values. Texts are Jinja2 templates. Filled values are data, not templates.

Most templates have nothing but names. These are filled here, without importing Jinja2.
"""

import json
import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Final, TypeAlias

from pytest_agentv.errors import AgentvError
from pytest_agentv.files.places import Place
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import Data, Json, JsonObject, format_number

# The output of templates, and their faults.

ALL_VARIABLES: Final = "vars"
"""The name of the mapping of all variables: `{{ vars["a column"] }}`."""

_SHOWN_NAMES: Final = 8


class Filled(dict[str, Json]):
    """A mapping of a check with its variables filled in. It knows what was written, which names the check."""

    def __init__(self, value: JsonObject, written: JsonObject) -> None:
        super().__init__(value)
        self.written = written


Render: TypeAlias = Callable[[JsonObject], Json]
"""Fills one template. Raises `TemplateFault`."""


class TemplateFault(AgentvError):
    """A template cannot be filled. `line` is the line within its text, 1-based."""

    def __init__(self, message: str, hint: str | None = None, line: int = 1) -> None:
        super().__init__(message)
        self.hint = hint
        self.line = line


def as_text(value: Json) -> str:
    """Return a value as text: null becomes empty, lists and mappings become JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return format_number(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def unknown_name(name: str, variables: JsonObject, line: int = 1) -> TemplateFault:
    """Return the fault of an unknown variable name."""
    names = list(variables)
    known = ", ".join([*names[:_SHOWN_NAMES], *(["…"] if len(names) > _SHOWN_NAMES else [])])
    hint = did_you_mean(name, variables) or (f"known: {known}" if names else "there are no variables")
    if name == "env":
        hint = "templates do not see the environment: write `vars`, or ${{ NAME }} in a targets file"
    return TemplateFault(f"unknown variable {name!r}", hint, line)


# Values with templates.

_NAME: Final = re.compile(r"\{\{\s*([A-Za-z_]\w*)\s*\}\}", re.ASCII)
_TAG: Final = re.compile(r"\{[{%#]")
_COMMENT: Final = re.compile(r"(?<!['\"])\{#.*?#\}", re.DOTALL)
_JINJA_CONSTANTS: Final = frozenset({"true", "false", "none", "True", "False", "None", "loop", "self", ALL_VARIABLES})


_UNFILLED: Final = ("script", "code", "prompt", "prompt_path", "promptPath", "python", "not-python", "not_python")
"""Keys with code, or with prompts of judges, which are templates of their own. All of these get the variables."""


def has_template(text: str) -> bool:
    """Whether a text holds `{{`, `{%` or `{#`."""
    return "{" in text and _TAG.search(text) is not None


def fill(value: Json, variables: JsonObject, place: Place, *, is_check: bool = False) -> Json:
    """Return a value with all its templates filled in; the same object if it has none. Keys are not templates.

    A text that is only one `{{ … }}` becomes its value: a number, a list or a mapping keeps its type. Notes an error
    for each template that cannot be filled. In a check, mappings become `Data` from variables, and `Filled` with them.
    """
    if isinstance(value, str):
        filled = _fill_text(value, variables, place) if has_template(value) else value
        return Data(filled) if is_check and isinstance(filled, dict) else filled
    if isinstance(value, dict):
        raw = raw_keys(value)
        filled = {
            key: item if key in raw else fill(item, variables, place.at(key), is_check=is_check)
            for key, item in value.items()
        }
        if all(filled[key] is item for key, item in value.items()):
            return value
        return Filled(filled, value) if is_check else filled
    if isinstance(value, list):
        items = [fill(item, variables, place.at(index), is_check=is_check) for index, item in enumerate(value)]
        return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
    return value


def _fill_text(text: str, variables: JsonObject, place: Place) -> Json:
    try:
        filled = render(text, variables)
    except TemplateFault as fault:
        where = f" (line {fault.line} of the text)" if fault.line > 1 else ""
        place.error(f"{fault}{where}", fault.hint or _of_no_name(text, variables))
        return text
    comment = _COMMENT.search(text)
    if comment is not None and comment[0] not in str(filled):
        place.suggest("`{#` begins a comment of the template, which is left out", "write {{ '{#' }} if it is none")
    return filled


def _of_no_name(text: str, variables: JsonObject) -> str | None:
    """Return the hint for a variable whose name is not an identifier, such as the column `unit price`."""
    used = (
        name for name in variables if not name.isidentifier() and re.search(rf"[{{(]\s*{re.escape(name)}(?!\w)", text)
    )
    return next((f'write {{{{ {ALL_VARIABLES}["{name}"] }}}}' for name in used), None)


def render(text: str, variables: JsonObject) -> Json:
    """Fill one template. Raises `TemplateFault`."""
    return _compiled(text)(variables)


@lru_cache(maxsize=512)
def _compiled(text: str) -> Render:
    pieces = _NAME.split(text)  # texts and names alternate
    literals, names = pieces[::2], pieces[1::2]
    if any(map(_TAG.search, literals)) or not _JINJA_CONSTANTS.isdisjoint(names):
        from pytest_agentv.cases.jinja import compile_template  # noqa: PLC0415 - 0.1 s, only for a few files

        return compile_template(text)
    is_whole = literals == ["", ""]

    def fill_names(variables: JsonObject) -> Json:
        shown = literals[:1]
        for name, literal in zip(names, literals[1:], strict=True):
            if name not in variables:
                raise unknown_name(name, variables, "".join(shown).count("\n") + 1)
            shown += as_text(variables[name]), literal
        return variables[names[0]] if is_whole else "".join(shown)

    return fill_names


def raw_keys(value: JsonObject) -> Collection[str]:
    """Return the keys of a mapping that are not templates."""
    return (*_UNFILLED, "value") if value.get("type") in ("python", "not-python", "not_python") else _UNFILLED
