"""Types for the fields of targets, and for data that a target passes on. Importing this costs pydantic."""

import contextlib
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticUseDefault

from pytest_agentv.files.problems import describe_value
from pytest_agentv.model.base import Json
from pytest_agentv.model.kind import Text, expected
from pytest_agentv.model.secrets import Secret
from pytest_agentv.targets.definitions import has_reference

_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True, slots=True)
class Resolution:
    """The validation context of a target with its variables filled in. The folders are absolute."""

    eval_dir: Path
    targets_dir: Path
    cwd: Path
    shield: Callable[[str], str | Secret]
    """Wraps a text that holds a secret."""


class FinalFault(ValueError):
    """A fault that no value of the text's variables can fix."""


class AsWritten:
    """The validation context of a target as written, where `${{ VAR }}` may stand for any value."""

    @staticmethod
    def may_pass(value: Json, cause: object) -> bool:
        """Whether a fault may pass when variables are filled in."""
        return has_reference(value) and not isinstance(cause, FinalFault)


AS_WRITTEN: Final = AsWritten()


def optional_text(value: object) -> str:
    """Return a value that is a text. A blank text counts as absent."""
    if isinstance(value, str) and not value.strip():
        raise PydanticUseDefault
    if not isinstance(value, str):
        raise expected("a text")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else optional_text(value)


def _url(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise expected("a URL that starts with http:// or https://")
    return value


def _server_url(value: object) -> str | None:
    """Return the URL of a server without white space around it. Shows no URL that may hold a password."""
    text = (_text_or_none(value) or "").strip()
    if not text:
        return None
    shown = "" if "@" in text or "?" in text else f", got {describe_value(text)}"
    if not text.lower().startswith(("http://", "https://")):
        raise ValueError(f"expected a URL that starts with http:// or https://{shown}")
    if not _has_host(text):
        raise ValueError(f"expected a URL with a host, and a number as port if any{shown}")
    return text


def _has_host(url: str) -> bool:
    """Whether a URL names a host, and no port or a port that is a number."""
    from urllib.parse import urlsplit  # noqa: PLC0415 - for files with a URL

    with contextlib.suppress(ValueError):
        parts = urlsplit(url)
        host = parts.hostname or ""
        return bool(host) and not re.search(r"\s", parts.netloc) and parts.port != 0  # reading the port checks it
    return False


def _flag(value: object) -> object:
    word = value.strip().lower() if isinstance(value, str) else ""
    return _FLAGS.get(word, value)


def _secret(value: object) -> Secret | None:
    """Return a key without white space around it.

    Refuses a key with invalid characters: a server would show half of it.
    """
    if value is None or isinstance(value, Secret):
        return value
    text = optional_text(value).strip()
    odd = next((place for place, character in enumerate(text) if not " " <= character <= "~"), None)
    if odd is not None:
        import unicodedata  # noqa: PLC0415 - only for a fault

        name = unicodedata.name(text[odd], "")
        what = f"U+{ord(text[odd]):04X}{f' ({name})' if name else ''} at character {odd + 1}"
        raise ValueError(f"the key holds {what}, which no key does: copy it anew")
    if re.fullmatch(r"""(["']).*\1""", text):
        raise ValueError("the key is in quotes, which `docker --env-file` keeps: leave them out")
    return Secret(text)


def _text_or_secret(value: object) -> object:
    if not isinstance(value, str | Secret):
        raise expected("a text")
    return value


def _shield(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(info.context, Resolution):
        return value
    if isinstance(value, str):
        return info.context.shield(value)
    if isinstance(value, dict):
        return {key: _shield(item, info) for key, item in value.items()}
    return [_shield(item, info) for item in value] if isinstance(value, list) else value


def path_in(folder: Literal["eval_dir", "targets_dir", "cwd"], *, is_default: bool = False) -> Any:
    """Return a validator that makes a path absolute. With `is_default`, an absent path means the folder itself."""

    def resolve(value: str | None, info: ValidationInfo) -> str | None:
        if not isinstance(info.context, Resolution) or (value is None and not is_default):
            return value
        base: Path = getattr(info.context, folder)
        return os.path.normpath(base / (value or ""))

    return AfterValidator(resolve)


def program_in(folder: Literal["cwd"]) -> Any:
    """Return a validator that makes a program's path absolute, because it runs in another folder. Keeps a bare name.

    Words may follow the program, unless the whole text is the path of a file (agentv-formats 5.4).
    """

    def resolve(command: str, info: ValidationInfo) -> str:
        if not isinstance(info.context, Resolution) or "/" not in command:
            return command
        base: Path = getattr(info.context, folder)
        if (base / command).is_file():
            return os.path.normpath(base / command)
        program, *words = command.split(maxsplit=1)
        return " ".join((os.path.normpath(base / program) if "/" in program else program, *words))

    return AfterValidator(resolve)


def _number(
    what: str, *, at_least: float = -math.inf, above: float = -math.inf, at_most: float = math.inf, whole: bool = False
) -> BeforeValidator:
    """Accept a number, or the text of one: variables give texts."""

    def check(value: object) -> float:
        number = math.nan
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            with contextlib.suppress(ValueError, OverflowError):
                number = float(value)
        is_fit = math.isfinite(number) and at_least <= number <= at_most and number > above
        if not is_fit or (whole and not number.is_integer()):
            raise expected(what)
        return int(number) if whole else number

    return BeforeValidator(check)


SHIELDED: Final = AfterValidator(_shield)
"""For data of any shape: texts with a secret become `Secret`, so that they are in no record and in no cache key."""

OptionalText: TypeAlias = Annotated[str | None, BeforeValidator(_text_or_none)]
"""Blank counts as absent."""
DefaultText: TypeAlias = Annotated[str, BeforeValidator(optional_text)]
"""The same for a field with a default."""
SecretText: TypeAlias = Annotated[Secret | None, BeforeValidator(_secret), WithJsonSchema({"type": "string"})]
"""Blank counts as absent."""
ShieldedText: TypeAlias = Annotated[
    str | Secret, BeforeValidator(_text_or_secret), SHIELDED, WithJsonSchema({"type": "string"})
]
"""A text that becomes a `Secret` if one of its variables holds a secret."""
Url: TypeAlias = Annotated[Text, AfterValidator(_url)]
ServerUrl: TypeAlias = Annotated[str | None, BeforeValidator(_server_url)]
"""Blank counts as absent."""
Flag: TypeAlias = Annotated[bool, BeforeValidator(_flag)]
Number: TypeAlias = Annotated[float, _number("a number")]
Share: TypeAlias = Annotated[float, _number("a number from 0 to 1", at_least=0, at_most=1)]
Whole: TypeAlias = Annotated[int, _number("a whole number", whole=True)]
Seconds: TypeAlias = Annotated[float, _number("a number of seconds above 0", above=0)]
Milliseconds: TypeAlias = Annotated[float, _number("a number of milliseconds, 0 or more", at_least=0)]
Factor: TypeAlias = Annotated[float, _number("a number above 0", above=0)]
Count: TypeAlias = Annotated[int, _number("a whole number, 0 or more", at_least=0, whole=True)]
PositiveCount: TypeAlias = Annotated[int, _number("a whole number, 1 or more", at_least=1, whole=True)]
StatusCode: TypeAlias = Annotated[int, _number("an HTTP status code", at_least=100, whole=True)]


# Data that a target passes on: headers, and parts of request bodies.

_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_HEADER_TEXT: Final = re.compile(r"[\r\n\0]")


def reveal(value: Json) -> Json:
    """Return plain data with the values of its secrets."""
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, Mapping):
        return {key: reveal(item) for key, item in value.items()}
    return [reveal(item) for item in value] if isinstance(value, list | tuple) else value


def _header_name(value: str) -> str:
    if not _HEADER_NAME.fullmatch(value):
        raise ValueError(f"{value!r} is no name of a header")
    return value


def _header_text(value: object) -> object:
    if isinstance(value, Secret):
        return value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise expected("a text")
    if _NO_HEADER_TEXT.search(str(value)):
        raise ValueError("a header must not hold the end of a line")
    return str(value)


FreeMapping: TypeAlias = Annotated[dict[str, Any], SHIELDED, WithJsonSchema({"type": "object"})]
"""A mapping of any content."""
Headers: TypeAlias = dict[
    Annotated[str, AfterValidator(_header_name)],
    Annotated[str | Secret, BeforeValidator(_header_text), SHIELDED, WithJsonSchema({"type": "string"})],
]
"""Names and values of HTTP headers."""
