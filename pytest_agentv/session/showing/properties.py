"""The figures of a case as JUnit properties of its item; other reporters find them in `user_properties`."""

import re
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import pytest

from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.figures import cost_of, tokens_of

_Scalar: TypeAlias = str | int | float
"""Anything else ends an xdist session."""

_LONGEST_NAME: Final = 100
_UNFIT_FOR_NAMES: Final = re.compile(r"[^\w.-]+")
"""pytest does not escape the names of properties: one control character would make the whole file unreadable."""


_OWN: Final = pytest.StashKey[list[tuple[str, object]]]()
"""The properties that this module gave an item."""


def add_properties(item: pytest.Item, properties: Iterable[tuple[str, _Scalar]]) -> None:
    own = list(properties)
    item.stash.setdefault(_OWN, []).extend(own)
    item.user_properties.extend(own)


def forget_properties(item: pytest.Item) -> None:
    """Remove our properties, so that a rerun does not add its own to them."""
    own = item.stash.get(_OWN, [])
    if own:
        item.user_properties[:] = [each for each in item.user_properties if not any(each is known for known in own)]
        own.clear()


def place_properties(eval_file: str, line: int) -> list[tuple[str, _Scalar]]:
    """Return where a case is written, its line counted from 1: the default JUnit family has no attributes for it."""
    return [("agentv_file", visible(eval_file)), ("agentv_line", line)]


def result_properties(result: EvalResult) -> list[tuple[str, _Scalar]]:
    """Return the known figures of a result, and the scores of the evaluators that could judge."""
    usage = tokens_of(result)
    figures = {
        "agentv_status": result.status,
        "agentv_score": None if result.status == "error" else result.score,
        "agentv_threshold": result.threshold,
        "agentv_target": visible(result.target),
        "agentv_attempts": result.attempts,
        "agentv_duration_ms": result.duration_ms,
        "agentv_cost_usd": cost_of(result),
        "agentv_tokens_input": _whole(usage.input) if usage else None,
        "agentv_tokens_output": _whole(usage.output) if usage else None,
        "agentv_tokens_cached": _whole(usage.cached) if usage else None,
        "agentv_tokens_reasoning": _whole(usage.reasoning) if usage else None,
    }
    if result.repeat is not None:
        repeat = result.repeat
        figures |= {
            "agentv_repeat": repeat.planned,
            "agentv_judged": repeat.judged,
            "agentv_passes": repeat.passes,
            "agentv_pass_rate": repeat.pass_rate,
            "agentv_pass_rate_low": repeat.pass_rate_low,
            "agentv_pass_rate_high": repeat.pass_rate_high,
            "agentv_stopped": repeat.stopped,
        }
    evaluators = [each for each in result.evaluator_results or () if each.error is None]
    names = _unique_names(visible(evaluator.name) for evaluator in evaluators)
    scores = [(f"agentv_score_{name}", each.score) for name, each in zip(names, evaluators, strict=True)]
    return [*((name, value) for name, value in figures.items() if value is not None), *scores]


def _whole(count: float | None) -> float | None:
    """Tokens come as floats, and are read as whole numbers."""
    return int(count) if count is not None and float(count).is_integer() else count


def _unique_names(names: Iterable[str]) -> Iterator[str]:
    """Yield names of letters, digits, `_`, `.` and `-`; one that was there before gets `-2`, `-3` and so on."""
    seen: set[str] = set()
    for given in names:
        base = _UNFIT_FOR_NAMES.sub("_", given)[:_LONGEST_NAME] or "unnamed"
        name, copy = base, 1
        while name in seen:
            copy += 1
            name = f"{base}-{copy}"
        seen.add(name)
        yield name
