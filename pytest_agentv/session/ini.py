"""Reads values of the ini file, which are texts or types of native TOML."""

import shlex
from pathlib import Path

import pytest

from pytest_agentv.errors import locate
from pytest_agentv.models.options.option import RunOption
from pytest_agentv.models.options.values import parse_bool
from pytest_agentv.session.compat import ini_value


def ini_option(config: pytest.Config, option: RunOption) -> object:
    """Return the value of an option in the ini file; None: it is not set. Raises `pytest.UsageError`."""
    name = f"agentv_{option.dest}"
    written = ini_value(config, name) if option.ini else None
    if written is None or (isinstance(written, str) and not written.strip()):
        return None
    try:
        value = _parse(option, written)
    except ValueError as error:
        raise pytest.UsageError(f"{ini_name(config)}: {name}: {error}") from None
    if isinstance(value, Path) and config.inipath is not None:
        return config.inipath.parent / value  # must not depend on the folder where pytest is started
    return value


def _parse(option: RunOption, written: object) -> object:
    """Parse a value of the ini file: a text, or in pytest's native TOML a number or a boolean as well."""
    if option.is_flag:
        return written if isinstance(written, bool) else parse_bool(_as_text(written, "true or false"))
    if option.parse in (str, Path) and not isinstance(written, str):
        raise ValueError(f"expected a text, got {_shown(written)}")
    return option.parse(_as_text(written, "a text or a number"))


def _as_text(written: object, expected: str) -> str:
    if isinstance(written, bool) or not isinstance(written, str | int | float):
        raise ValueError(f"expected {expected}, got {_shown(written)}")  # noqa: TRY004 - like all other wrong values
    return str(written)


def ini_names(config: pytest.Config, name: str) -> tuple[str, ...]:
    """Return a list of the ini file. A text is split at its blanks, in native TOML too."""
    written = ini_value(config, name)
    words = shlex.split(written) if isinstance(written, str) else written
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise pytest.UsageError(f"{ini_name(config)}: {name}: expected a list of texts, got {_shown(written)}")
    return tuple(words)


def _shown(written: object) -> str:
    """Name a value of the ini file in a message. TOML has lists, tables and dates."""
    from pytest_agentv.loading.problems import describe_value  # noqa: PLC0415 - only for mistakes

    return describe_value(written) if isinstance(written, str | int | float) else str(written)


def ini_name(config: pytest.Config) -> str:
    return locate(config.inipath, None) if config.inipath else "the ini file"
