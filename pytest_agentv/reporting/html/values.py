"""Reads values of results of any origin: what has another shape than expected counts as missing."""

import math
from collections.abc import Mapping, Sequence

from pytest_agentv.models.base import LARGEST, Json, JsonObject, is_amount
from pytest_agentv.reporting.verdicts.case_reading import is_part
from pytest_agentv.reporting.verdicts.cases import is_number


def text_of(value: JsonObject, key: str) -> str:
    """Return a text; empty where there is none."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def number_of(value: JsonObject, key: str) -> float | None:
    """Return a finite number; None where there is none."""
    found = value.get(key)
    return found if is_number(found) else None


def score_of(value: JsonObject) -> float:
    """Return the score of an evaluator; 0 where there is none, and for one that is too large the largest number."""
    found = value.get("score")
    if isinstance(found, bool) or not isinstance(found, int | float) or math.isnan(found):
        return 0.0
    return max(-LARGEST, min(LARGEST, found))


def amount_of(value: JsonObject, key: str) -> float | None:
    """Return a finite number of 0 or more; None where there is none."""
    found = value.get(key)
    return found if is_amount(found) else None


def mapping_of(value: JsonObject, key: str) -> JsonObject:
    """Return a mapping; empty where there is none."""
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def list_of(value: JsonObject, key: str) -> Sequence[Json]:
    """Return a list; empty where there is none."""
    found = value.get(key)
    return found if isinstance(found, list | tuple) else ()


def mappings_of(value: JsonObject, key: str) -> list[JsonObject]:
    """Return the mappings of a list."""
    return [each for each in list_of(value, key) if isinstance(each, Mapping)]


def texts_of(value: JsonObject, key: str) -> list[str]:
    """Return the texts of a list."""
    return [each for each in list_of(value, key) if isinstance(each, str)]


def cost_of(value: JsonObject) -> float | None:
    """Return what the answers of a result cost in US dollars.

    None where it is not known, and for answers from the cache, which cost nothing now.
    """
    if is_cached(value):
        return None
    metrics = (mapping_of(value, key) for key in ("execution_metrics", "trace_summary"))
    return next((cost for each in metrics if (cost := amount_of(each, "cost_usd")) is not None), None)


def judge_cost_of(value: JsonObject) -> float | None:
    """Return what the models cost in US dollars that judged a result; None where it is not known."""
    return amount_of(mapping_of(value, "judge_metrics"), "cost_usd")


def judge_calls_of(value: JsonObject) -> tuple[float, float]:
    """Return how many calls of judges report their cost, and how many there were."""
    metrics = mapping_of(value, "judge_metrics")
    return _known_calls(metrics, "priced", amount_of(metrics, "cost_usd") is not None)


def judge_tokens_known_of(value: JsonObject) -> tuple[float, float]:
    """Return how many calls of judges report their tokens, and how many there were."""
    metrics = mapping_of(value, "judge_metrics")
    return _known_calls(metrics, "metered", bool(mapping_of(metrics, "token_usage")))


def _known_calls(metrics: JsonObject, key: str, is_known: bool) -> tuple[float, float]:
    calls, known = amount_of(metrics, "calls") or 0, number_of(metrics, key)
    return 0 if not is_known else calls if known is None else known, calls


def known_answers_of(value: JsonObject, key: str) -> tuple[float, float]:
    """Return of how many answers a figure is that is known, and of how many it should be: `priced` or `metered`."""
    repeat = mapping_of(value, "repeat")
    parts = [part for part in (repeat, mapping_of(repeat, "confirm")) if part]
    if not is_part(value, key):
        return len(parts), len(parts)
    free = 0 if is_cached(value) else 1
    asked = [(amount_of(part, "asked") or 0) - free * (amount_of(part, "cached") or 0) for part in parts]
    told = [number_of(part, key) for part in parts]
    return sum(count if known is None else known for known, count in zip(told, asked, strict=True)), sum(asked)


def is_cached(value: JsonObject) -> bool:
    """Whether the answers of a result came from the cache, so that it is known that they cost nothing now."""
    return value.get("cached") is True


def whole_cost_of(value: JsonObject) -> float | None:
    """Return what all answers of a result cost; None where that is not known, or only of some."""
    return None if is_part(value, "priced") else cost_of(value)
