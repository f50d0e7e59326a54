"""Checks the placeholders in braces of a command template when the targets file is read."""

import re
from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

from pydantic import BeforeValidator

from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.loading.targets.environment import REFERENCE
from pytest_agentv.loading.targets.fields import FinalFault, filled_text, optional_text
from pytest_agentv.providers.cli.shell_context import find_unsafe
from pytest_agentv.providers.cli.template import PROMPT_VARIABLE

PLACEHOLDERS: Final = (
    *("PROMPT", "PROMPT_FILE", "PROMPT_JSON", "GUIDELINES", "EVAL_ID", "ATTEMPT"),
    *("FILES", "ATTACHMENTS", "OUTPUT_FILE"),
)
"""The names that a command template may hold in braces."""

_PROMPTS: Final = ("PROMPT", "PROMPT_FILE", "PROMPT_JSON")
_GUIDELINES: Final = ("GUIDELINES", "FILES", "ATTACHMENTS")
_PLACEHOLDER: Final = re.compile(r"(\$?)\{([A-Z_]+)\}")
_ANY_WORD: Final = re.compile(r"(?<![${])\{(\w+)\}(?!\})")
"""A word in single braces that is no variable of the shell."""
_TEMPLATE: Final = re.compile(r"(\{\{ *(\w+) *\}\})")
KNOWN_PLACEHOLDER: Final = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_FILE_PLACEHOLDERS: Final = ("path", "basename")
_FILE_PLACEHOLDER: Final = re.compile(r"\{(?:" + "|".join(_FILE_PLACEHOLDERS) + r")\}")


def has_prompt_only(text: str) -> bool:
    """Whether a command and its input hold the question, and neither the texts nor the paths of guidelines."""
    names = {name for _, name in _PLACEHOLDER.findall(text)}
    return (PROMPT_VARIABLE in text or not names.isdisjoint(_PROMPTS)) and names.isdisjoint(_GUIDELINES)


def _command(value: object) -> str:
    text = _input(value)
    _refuse_quotes(text, KNOWN_PLACEHOLDER)
    return text


def _input(value: object) -> str:
    text = filled_text(value)
    for dollar, name in _PLACEHOLDER.findall(REFERENCE.sub("", text)):
        if dollar and name in PLACEHOLDERS:
            raise FinalFault(f"write {{{name}}} without the $: it is a placeholder, not a variable of the shell")
        if not dollar and name not in PLACEHOLDERS:
            raise _unknown(name, PLACEHOLDERS)
    _refuse_other_cases(text)
    return text


def _refuse_other_cases(text: str) -> None:
    """Refuse `{prompt}` and `{{ prompt }}`, unless the command gets it otherwise: then they may be a program's."""
    words = set(_ANY_WORD.findall(REFERENCE.sub("", text)))
    if PROMPT_VARIABLE in text or not words.isdisjoint(_PROMPTS):
        words.add("PROMPT")
    for name in sorted(words - {*PLACEHOLDERS}):
        meant = name.upper()
        if meant in PLACEHOLDERS and meant not in words:
            raise FinalFault(
                f"{{{name}}} is no placeholder, and would be passed on as it is; write {{{meant}}}, or "
                f"{{ {name} }} for braces of the command"
            )
    for found, name in _TEMPLATE.findall(REFERENCE.sub("", text)):
        if (meant := name.upper()) in PLACEHOLDERS and meant not in words:
            raise FinalFault(f"{found} is filled in for services, not in commands; write {{{meant}}}")


def _unknown(name: str, known: Sequence[str]) -> FinalFault:
    valid = [f"{{{placeholder}}}" for placeholder in known]
    near = did_you_mean(f"{{{name}}}", valid)
    hint = f"{near} " if near else ""
    return FinalFault(f"unknown placeholder {{{name}}}; {hint}valid are {', '.join(valid)}")


def _files_format(value: object) -> str:
    text = optional_text(value)
    for name in _ANY_WORD.findall(REFERENCE.sub("", text)):
        if name not in _FILE_PLACEHOLDERS:
            raise _unknown(name, _FILE_PLACEHOLDERS)
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
