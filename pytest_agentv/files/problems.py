"""Faults found in files. All faults of a file are collected and shown together."""

import difflib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

from pytest_agentv.errors import AgentvError, FileError, locate
from pytest_agentv.model.base import Record, is_number
from pytest_agentv.model.secrets import Masker, masked, secrets_within

_Error = TypeVar("_Error", bound=AgentvError)

ASKS_NOTHING: Final = "is blank: the target is asked nothing"
_SHOWN: Final = 40
"""Most characters of a text in a message."""


@dataclass(frozen=True, slots=True)
class Problem(Record):
    """One fault of a file."""

    path: Path
    line: int | None
    key: str
    """The place in the file's data: `targets[0].cwd`; empty for the whole file."""
    message: str
    """What is wrong and what was expected."""
    hint: str | None = None
    """What to write instead."""
    level: Literal["error", "warning"] = "error"
    row: str | None = None
    """The row of a table in which it shows: `questions.csv:17`."""

    def __str__(self) -> str:
        where = f"{locate(self.path, self.line)}: "
        key = f"{self.key}: " if self.key else ""
        hint = f" ({self.hint})" if self.hint else ""
        row = f" [{self.row}]" if self.row else ""
        return f"{where}{key}{self.message}{hint}{row}"


class Hint(Problem):
    """A hint at a likely mistake. It is never an error, not even in a strict run."""


class UnreadKey(Problem):
    """An unknown key that says what is asked or checked. Ignored silently, it would make the case another one."""


class UnusableTarget(Problem):
    """Why a target cannot be used: an error of the cases that use it, and in `agentv validate`. Else a warning."""


class BlankInput(Problem):
    """A case whose target is asked nothing. A hook may still fill in the question."""


def did_you_mean(word: str, choices: Iterable[str]) -> str | None:
    """Return `did you mean 'x'?` for the choice nearest to a word, if one is near."""
    near = near_word(word, choices)
    return None if near is None else f"did you mean {near!r}?"


def near_word(word: str, choices: Iterable[str]) -> str | None:
    """Return the choice nearest to a word, if one is near."""
    return next(iter(difflib.get_close_matches(word, list(choices), n=1, cutoff=0.6)), None)


def near_file(path: Path, suffixes: Collection[str] = ()) -> str | None:
    """Return `did you mean 'x'?` for a file of nearly the same name in the same folder, whatever its suffix."""
    try:
        siblings = [each for each in path.parent.iterdir() if each.is_file()]
    except OSError:  # no folder, or without permission to list it
        return None
    by_name = {each.stem: each.name for each in siblings if not suffixes or each.suffix.lower() in suffixes}
    near = near_word(path.stem, by_name)
    return None if near is None else f"did you mean {by_name[near]!r}?"


def join_problems(problems: Sequence[Problem]) -> str:
    """Return one text with a line for each fault."""
    return "\n".join(str(problem) for problem in problems)


def with_problems(error: _Error, problems: Iterable[Problem]) -> _Error:
    """Attach the problems to the error that reports them, and return the error."""
    error.problems = tuple(problems)
    return error


def raise_errors(problems: Sequence[Problem], kind: type[FileError]) -> None:
    """Raise one error that names all faults among some problems, the first one first."""
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:
        first = errors[0]
        text = join_problems(errors).removeprefix(f"{locate(first.path, first.line)}: ")
        raise with_problems(kind(first.path, text, first.line), problems)


def quotes(value: object) -> str | None:
    """Return the hint to put a number into quotes; None for any other value."""
    return "put it into quotes" if is_number(value) else None


def describe_value(value: object) -> str:
    """Describe a value for a message: `the number 5`, `the text 'abc'`, `a list`, `null`."""
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, str):
        text = Masker(secrets_within(value)).mask(value)  # under a wrong key, whose name does not tell a secret
        return f"the text {text!r}" if len(value) <= _SHOWN else f"the text {masked(text)[:_SHOWN] + '…'!r}"
    if isinstance(value, int | float):
        return f"the number {value}"
    kind = "list" if isinstance(value, list | tuple) else "mapping"
    return f"a {kind}" if value else f"an empty {kind}"
