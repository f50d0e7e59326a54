"""Shared parts of the command line parsers. Parsers raise usage errors, and `main` prints them."""

import argparse
import math
from typing import Any, Final, NoReturn

from pytest_agentv.errors import AgentvError
from pytest_agentv.models.options.defaults import DEFAULT_MARGIN

USAGE_EXIT_CODE: Final = 2
"""The usual code of programs with argparse. `agentv eval` has pytest's codes instead."""


_MISSING: Final = "the following arguments are required: "
"""The beginning of argparse's error about missing arguments."""


class UsageError(AgentvError):
    """A command was called with wrong arguments."""


class ArgumentParser(argparse.ArgumentParser):
    """A parser that rejects abbreviated flags and raises `UsageError`."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def error(self, message: str) -> NoReturn:
        is_missing = message.startswith(_MISSING)
        names = message.removeprefix(_MISSING).split(", ") if is_missing else []
        raise UsageError(f"missing: {', '.join(map(self._in_words, names))}" if is_missing else message)

    def _in_words(self, name: str) -> str:
        """Return an argument's name with the first sentence of its help."""
        names = ((action, (action.dest, action.metavar, "/".join(action.option_strings))) for action in self._actions)
        text = next((action.help for action, known in names if name in known and action.help), None)
        if text is None:
            return name
        sentence = " ".join(text.split()).partition(". ")[0].rstrip(".")
        return f"{name} ({sentence[0].lower()}{sentence[1:]})"


def add_margin(parser: argparse.ArgumentParser, where: str = "") -> None:
    """Add `--margin`; `where` says in which case it counts."""
    parser.add_argument(
        "--margin",
        type=parse_delta,
        default=DEFAULT_MARGIN,
        metavar="DROP",
        help=f'Drop of the pass rate that "not worse" excludes, 0 to 1{where} (default: {DEFAULT_MARGIN}).',
    )


def parse_delta(text: str) -> float:
    """Parse a difference of scores."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 1, got {text!r}")
    return value
