"""The output of templates, and their faults."""

import json
from collections.abc import Callable
from typing import Final, TypeAlias

from pytest_agentv.errors import AgentvError
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.text import format_number

ALL_VARIABLES: Final = "vars"
"""The name of the mapping of all variables: `{{ vars["a column"] }}`."""

_SHOWN_NAMES: Final = 8

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
    hint = did_you_mean(name, variables)
    if hint is None and name == "env":
        hint = "templates do not see the environment: write `vars`, or ${{ NAME }} in a targets file"
    if hint is None:
        names = list(variables)
        rest = ", …" if len(names) > _SHOWN_NAMES else ""
        hint = f"known: {', '.join(names[:_SHOWN_NAMES])}{rest}" if names else "there are no variables"
    return TemplateFault(f"unknown variable {name!r}", hint, line)
