"""The types of the fields of targets: each says in its error what it expected.

What variables fill in is always text. So fields that want real numbers and booleans in the file accept texts once the
variables are filled in, which the context `RESOLVED` of the validation tells. Importing this costs pydantic.
"""

import math
import re
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BeforeValidator, ValidationInfo

from pytest_agentv.loading.environment import REFERENCE
from pytest_agentv.loading.problems import describe_value, did_you_mean
from pytest_agentv.loading.shell_context import find_unsafe

RESOLVED: Final = {"resolved": True}

PLACEHOLDERS: Final = (
    *("PROMPT", "PROMPT_FILE", "PROMPT_JSON", "GUIDELINES", "EVAL_ID", "ATTEMPT"),
    *("FILES", "ATTACHMENTS", "OUTPUT_FILE"),
)
"""What a command template may hold, in braces."""

_PLACEHOLDER: Final = re.compile(r"(\$?)\{([A-Z_]+)\}")
_KNOWN_PLACEHOLDER: Final = re.compile(r"\{(?:" + "|".join(PLACEHOLDERS) + r")\}")
_FILE_PLACEHOLDER: Final = re.compile(r"\{(?:path|basename)\}")
_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}


class PlaceholderError(ValueError):
    """A template holds a placeholder that is unknown, or not safe where it stands. Variables do not mend that."""


def _text(value: object) -> str:
    if not isinstance(value, str):
        quoted = f'; write "{value}"' if type(value) in (int, float) else ""
        raise ValueError(f"expected a text, got {describe_value(value)}{quoted}")  # noqa: TRY004 - pydantic wants it
    return value


def _filled_text(value: object) -> str:
    text = _text(value)
    if not text.strip():
        raise ValueError("must not be empty")
    return text


def _optional_text(value: object) -> str | None:
    return _text(value) if not isinstance(value, str) or value.strip() else None


def _template(value: object) -> str:
    text = _text_with_placeholders(value)
    _refuse_quotes(text, _KNOWN_PLACEHOLDER)
    return text


def _files_format(value: object) -> str | None:
    text = _optional_text(value)
    if text is not None:
        _refuse_quotes(f"{text} {text}", _FILE_PLACEHOLDER)  # a quote that stays open holds the next file
    return text


def _refuse_quotes(text: str, placeholder: re.Pattern[str]) -> None:
    found = find_unsafe(REFERENCE.sub("x", text), placeholder)
    if found:
        name, where = found
        other = "" if name != "{PROMPT}" else "; or use {PROMPT_JSON}, {PROMPT_FILE}, the key stdin or $AGENTV_PROMPT"
        raise PlaceholderError(
            f"{name} stands {where}, where its text could run as a command; write it as a word of its own, without "
            f"quotes: it is quoted for the shell{other}"
        )


def _text_with_placeholders(value: object) -> str:
    text = _filled_text(value)
    for dollar, name in _PLACEHOLDER.findall(REFERENCE.sub("", text)):
        if dollar and name in PLACEHOLDERS:
            raise PlaceholderError(f"write {{{name}}} without the $: it is a placeholder, not a variable of the shell")
        if not dollar and name not in PLACEHOLDERS:
            valid = [f"{{{placeholder}}}" for placeholder in PLACEHOLDERS]
            near = did_you_mean(f"{{{name}}}", valid)
            hint = f"{near} " if near else ""
            raise PlaceholderError(f"unknown placeholder {{{name}}}; {hint}valid are {', '.join(valid)}")
    return text


def _url(value: object) -> str:
    text = _filled_text(value)
    if not text.startswith(("http://", "https://")):
        raise ValueError(f"expected a URL that starts with http:// or https://, got {describe_value(value)}")
    return text


def _callable(value: object) -> str:
    text = _filled_text(value)
    module, _, function = text.rpartition(":")
    if not module.strip() or not function.strip():
        raise ValueError(f"expected package.module:function or path/to/file.py:function, got {describe_value(value)}")
    return text


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _FLAGS:
        return _FLAGS[value.strip().lower()]
    raise ValueError(f"expected true or false, got {describe_value(value)}")


def _real_flag(value: object, info: ValidationInfo) -> bool:
    if isinstance(value, str) and info.context is None:
        raise ValueError(f"expected true or false without quotes, got {describe_value(value)}")
    return _flag(value)


def _log_format(value: object) -> str:
    if isinstance(value, str) and value.strip().lower() in ("summary", "json"):
        return value.strip().lower()
    raise ValueError(f"expected summary or json, got {describe_value(value)}")


def _as_number(value: object, *, accept_text: bool) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, str) and not accept_text:
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _number(
    expected: str, *, at_least: float = -math.inf, above: float = -math.inf, whole: bool = False, real: bool = False
) -> BeforeValidator:
    """Accept a number, or a text that is one; `real`: texts only when they come from variables."""

    def check(value: object, info: ValidationInfo) -> float:
        number = _as_number(value, accept_text=not real or info.context is not None)
        if number is None or number < at_least or number <= above or (whole and not number.is_integer()):
            raise ValueError(f"expected {expected}, got {describe_value(value)}")
        return int(number) if whole else number

    return BeforeValidator(check)


Text: TypeAlias = Annotated[str, BeforeValidator(_filled_text)]
AnyText: TypeAlias = Annotated[str, BeforeValidator(_text)]
OptionalText: TypeAlias = Annotated[str | None, BeforeValidator(_optional_text)]
"""Blank counts as absent."""
Template: TypeAlias = Annotated[str, BeforeValidator(_template)]
InputTemplate: TypeAlias = Annotated[str, BeforeValidator(_text_with_placeholders)]
FilesFormat: TypeAlias = Annotated[str | None, BeforeValidator(_files_format)]
Url: TypeAlias = Annotated[str, BeforeValidator(_url)]
CallableName: TypeAlias = Annotated[str, BeforeValidator(_callable)]
Flag: TypeAlias = Annotated[bool, BeforeValidator(_flag)]
RealFlag: TypeAlias = Annotated[bool, BeforeValidator(_real_flag)]
LogFormat: TypeAlias = Annotated[Literal["summary", "json"], BeforeValidator(_log_format)]
Number: TypeAlias = Annotated[float, _number("a number")]
Seconds: TypeAlias = Annotated[float, _number("a number of seconds above 0", above=0)]
RealSeconds: TypeAlias = Annotated[float, _number("a number of seconds above 0, without quotes", above=0, real=True)]
Milliseconds: TypeAlias = Annotated[float, _number("a number of milliseconds, 0 or more", at_least=0)]
Factor: TypeAlias = Annotated[float, _number("a number above 0", above=0)]
Count: TypeAlias = Annotated[int, _number("a whole number, 0 or more", at_least=0, whole=True)]
PositiveCount: TypeAlias = Annotated[int, _number("a whole number, 1 or more", at_least=1, whole=True)]
Workers: TypeAlias = Annotated[
    int, _number("a whole number of workers, 1 or more, without quotes", at_least=1, whole=True, real=True)
]
StatusCode: TypeAlias = Annotated[
    int, _number("an HTTP status code without quotes", at_least=100, whole=True, real=True)
]
