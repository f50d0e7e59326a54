"""Looks whether the members of a user's kind of evaluator have the types that the rest of the code relies on."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from pytest_agentv.models.base import is_amount, is_number


class _Member(NamedTuple):
    """A member that a kind may override."""

    read: Callable[[Any], object]
    is_right: Callable[[Any], bool]
    expected: str


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: object) -> bool:
    return isinstance(value, str | None)


def _are_evaluators(value: Any) -> bool:
    return all(hasattr(each, "evaluate") for each in value)


def _are_scripts(value: Any) -> bool:
    return all(_is_text_or_none(folder) and isinstance(words, Sequence) for folder, words in value)


_MEMBERS: Final = {
    "walk()": _Member(lambda kind: list(kind.walk()), _are_evaluators, "itself and its members"),
    "label": _Member(lambda kind: kind.label, _is_text, "a text"),
    "summary()": _Member(lambda kind: kind.summary(), _is_text, "a text"),
    "weight": _Member(lambda kind: kind.weight, is_amount, "a number of 0 or more"),
    "required_score()": _Member(lambda kind: kind.required_score(0.5), is_number, "a number from 0 to 1"),
    "asks_judge": _Member(lambda kind: kind.asks_judge, lambda _: True, "True or False"),
    "calls_targets": _Member(lambda kind: kind.calls_targets, lambda _: True, "True or False"),
    "embeds_with": _Member(lambda kind: kind.embeds_with, _is_text_or_none, "the name of a target, or None"),
    "scripts": _Member(lambda kind: kind.scripts, _are_scripts, "pairs of a folder and a command"),
    "to_plain()": _Member(lambda kind: kind.to_plain(), lambda value: isinstance(value, dict), "a dict of its keys"),
}


def member_fault(evaluator: Any) -> str | None:
    """Return which member of a user's evaluator has a wrong type, or raises an error; None: none does."""
    for name, member in _MEMBERS.items():
        try:
            value = member.read(evaluator)
            if member.is_right(value):
                continue
            found = f"is of type {type(value).__name__}"
        except Exception as error:  # noqa: BLE001 - it is the user's code
            found = f"raised {type(error).__name__}: {error}".removesuffix(": ")
        return f"`{name}` of {type(evaluator).__name__} {found}, expected {member.expected}"
    return None
