"""The figures of a case as properties, for JUnit files and for `user_properties` of items."""

import re
from functools import lru_cache
from typing import Final, TypeAlias

from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.figures import (
    answer_cost_of,
    answer_tokens_of,
    judge_cost_of,
    known_parts,
    visible,
)

_Scalar: TypeAlias = str | int | float
"""A value of any other type would end an xdist session."""
Property: TypeAlias = tuple[str, _Scalar]

SCORE: Final = "agentv_score_"
"""The beginning of the properties with the scores of evaluators."""

_LONGEST_NAME: Final = 100
_UNFIT_FOR_NAMES: Final = re.compile(r"[^\w.-]+")
"""pytest does not escape names of properties: one control character would make the whole file unreadable."""


def place_properties(eval_file: str, line: int) -> list[Property]:
    """Return where a case is written, with its line counted from 1.

    The default JUnit family has no attributes for it.
    """
    return [_shown("agentv_file", eval_file), ("agentv_line", line)]


def result_properties(result: EvalResult) -> list[Property]:
    """Return the known figures of a result, and the scores of the evaluators that could judge."""
    usage, cost, judge_cost = answer_tokens_of(result), answer_cost_of(result), judge_cost_of(result)
    figures = [_shared("agentv_status", result.status)]
    if result.status != "error":
        figures.append(_shared("agentv_score", result.score))
    if result.threshold is not None:
        figures.append(_shared("agentv_threshold", result.threshold))
    figures += _shown("agentv_target", result.target), _shared("agentv_attempts", result.attempts)
    if result.duration_ms is not None:
        figures.append(("agentv_duration_ms", result.duration_ms))
    if cost is not None:
        figures.append(("agentv_cost_usd", cost))
    if result.cached:
        figures.append(_shared("agentv_cached", "true"))
    if judge_cost is not None:
        figures.append(("agentv_judge_cost_usd", judge_cost))
    for kind in ("input", "output", "cached", "reasoning") if usage is not None else ():
        count = getattr(usage, kind)
        if count is not None:
            # tokens are floats here, but are shown as whole numbers
            figures.append((f"agentv_tokens_{kind}", int(count) if float(count).is_integer() else count))
    figures += ((f"agentv_{name}_known_for", part) for name, part in known_parts(result).items())
    if result.repeat is not None:
        repeat = {
            "agentv_repeat": result.repeat.planned,
            "agentv_judged": result.repeat.judged,
            "agentv_passes": result.repeat.passes,
            "agentv_pass_rate": result.repeat.pass_rate,
            "agentv_pass_rate_low": result.repeat.pass_rate_low,
            "agentv_pass_rate_high": result.repeat.pass_rate_high,
            "agentv_stopped": result.repeat.stopped if result.repeat.asked < result.repeat.planned else None,
        }
        figures += ((name, value) for name, value in repeat.items() if value is not None)
    evaluators = [each for each in result.evaluator_results or () if each.error is None]
    names = _score_names(tuple([evaluator.name for evaluator in evaluators]))
    figures += [_shared(name, each.score) for name, each in zip(names, evaluators, strict=True)]
    return figures


@lru_cache(maxsize=1000, typed=True)
def _shared(name: str, value: _Scalar) -> Property:
    """Return a property that many cases share.

    One object for all saves memory, because pytest keeps those of each case.
    """
    return name, value


@lru_cache(maxsize=1000)
def _shown(name: str, text: str) -> Property:
    """Return a property with a text that many cases share, such as the name of their target."""
    return name, visible(text)


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
    return tuple(f"{SCORE}{name}" for name in seen)
