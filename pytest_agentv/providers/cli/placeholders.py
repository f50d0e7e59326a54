"""Checks the placeholders in braces of a command template when the targets file is read."""

import re
from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator

from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.loading.targets.environment import REFERENCE
from pytest_agentv.loading.targets.fields import FinalFault, filled_text, optional_text
from pytest_agentv.providers.cli.shell_context import find_unsafe

PLACEHOLDERS: Final = (
    *("PROMPT", "PROMPT_FILE", "PROMPT_JSON", "GUIDELINES", "EVAL_ID", "ATTEMPT"),
    *("FILES", "ATTACHMENTS", "OUTPUT_FILE"),
)
"""The names that a command template may hold in braces."""

_PLACEHOLDER: Final = re.compile(r"(\$?)\{([A-Z_]+)\}")
_KNOWN_PLACEHOLDER: Final = re.compile(r"\{(?:" + "|".join(PLACEHOLDERS) + r")\}")
_FILE_PLACEHOLDER: Final = re.compile(r"\{(?:path|basename)\}")


def _command(value: object) -> str:
    text = _input(value)
    _refuse_quotes(text, _KNOWN_PLACEHOLDER)
    return text


def _input(value: object) -> str:
    text = filled_text(value)
    for dollar, name in _PLACEHOLDER.findall(REFERENCE.sub("", text)):
        if dollar and name in PLACEHOLDERS:
            raise FinalFault(f"write {{{name}}} without the $: it is a placeholder, not a variable of the shell")
        if not dollar and name not in PLACEHOLDERS:
            valid = [f"{{{placeholder}}}" for placeholder in PLACEHOLDERS]
            near = did_you_mean(f"{{{name}}}", valid)
            hint = f"{near} " if near else ""
            raise FinalFault(f"unknown placeholder {{{name}}}; {hint}valid are {', '.join(valid)}")
    return text


def _files_format(value: object) -> str:
    text = optional_text(value)
    _refuse_quotes(f"{text} {text}", _FILE_PLACEHOLDER)  # an open quote includes the next file
    return text


def _refuse_quotes(text: str, placeholder: re.Pattern[str]) -> None:
    found = find_unsafe(REFERENCE.sub("x", text), placeholder)
    if found:
        name, where = found
        other = "" if name != "{PROMPT}" else "; or use {PROMPT_JSON}, {PROMPT_FILE}, the key stdin or $AGENTV_PROMPT"
        raise FinalFault(
            f"{name} stands {where}, where its text could run as a command; write it as a word of its own, without "
            f"quotes: it is quoted for the shell{other}"
        )


CommandTemplate: TypeAlias = Annotated[str, BeforeValidator(_command)]
InputTemplate: TypeAlias = Annotated[str, BeforeValidator(_input)]
FilesFormat: TypeAlias = Annotated[str, BeforeValidator(_files_format)]
