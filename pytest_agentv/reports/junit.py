"""The fields and figures of a case as properties, for JUnit files and for `user_properties` of items."""

import re
from functools import lru_cache
from typing import Final, TypeAlias

from pytest_agentv.model.results import RESULT_FIELDS, EvalResult
from pytest_agentv.reports.figures import figures_of, visible

_Scalar: TypeAlias = str | int | float
"""A value of any other type would end an xdist session."""
Property: TypeAlias = tuple[str, _Scalar]

_SCORE: Final = "agentv_score_"
"""The beginning of the properties with the scores of evaluators."""
_FIELDS: Final = tuple(name for name, field in RESULT_FIELDS.items() if field.is_property)
_PLACE: Final = ("file", "line")
_OWN: Final = frozenset(
    f"agentv_{name}" for name in (*_PLACE, *_FIELDS, *figures_of(EvalResult("", "", "", 0.0, (), (), "", "")))
)

_LONGEST_NAME: Final = 100
_UNFIT_FOR_NAMES: Final = re.compile(r"[^\w.-]+")
"""pytest does not escape names of properties: one control character would make the whole file unreadable."""


def is_own(name: object) -> bool:
    """Whether a property of this name is ours."""
    return isinstance(name, str) and (name in _OWN or name.startswith(_SCORE))


def is_own_property(given: object) -> bool:
    """Whether a property of an item is ours. A plugin may put anything into the list."""
    return isinstance(given, tuple) and len(given) == 2 and is_own(given[0])


def place_properties(eval_file: str, line: int) -> list[Property]:
    """Return where a case is written, with its line counted from 1.

    The default JUnit family has no attributes for it.
    """
    return [_shared("agentv_file", eval_file), ("agentv_line", line)]


def result_properties(result: EvalResult) -> list[Property]:
    """Return the known fields and figures of a result, and the scores of the evaluators that could judge."""
    found: list[Property] = []
    for name in _FIELDS:
        value = getattr(result, name)
        if value is not None and (name != "score" or result.status != "error"):
            found.append(_shared(f"agentv_{name}", value))
    # pytest keeps the properties of each case: a figure is that of few cases
    found += [(f"agentv_{name}", value) for name, value in figures_of(result).items() if value is not None]
    evaluators = [each for each in result.evaluator_results or () if each.error is None]
    names = _score_names(tuple([each.name for each in evaluators]))
    found += [_shared(name, each.score) for name, each in zip(names, evaluators, strict=True)]
    return found


@lru_cache(maxsize=1000, typed=True)
def _shared(name: str, value: _Scalar | bool) -> Property:
    """Return a property that many cases share. One object for all saves memory, because pytest keeps those of each."""
    if isinstance(value, str):
        return name, visible(value)
    return name, "true" if value is True else value


@lru_cache(maxsize=100)
def _score_names(evaluators: tuple[str, ...]) -> tuple[str, ...]:
    """Return the properties of the scores of evaluators. A repeated name gets `-2`, `-3` and so on.

    Their names are of letters, digits, `_`, `.` and `-`.
    """
    seen: dict[str, None] = {}
    for given in map(visible, evaluators):
        base = _UNFIT_FOR_NAMES.sub("_", given)[:_LONGEST_NAME] or "unnamed"
        name, copy = base, 1
        while name in seen:
            copy += 1
            name = f"{base}-{copy}"
        seen[name] = None
    return tuple(f"{_SCORE}{name}" for name in seen)
