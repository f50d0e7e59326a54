"""Reads values of results of any origin. A value of an unexpected shape counts as missing."""

from collections.abc import Mapping, Sequence

from pytest_agentv.models.base import LARGEST, Json, JsonObject, is_amount, is_measure, is_number
from pytest_agentv.reporting.figures import known_of
from pytest_agentv.reporting.verdicts.case_reading import is_part


def text_of(value: JsonObject, key: str) -> str:
    """Return a text; empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def number_of(value: JsonObject, key: str) -> float | None:
    """Return a finite number; None if there is none."""
    found = value.get(key)
    return found if is_measure(found) else None


def score_of(value: JsonObject) -> float:
    """Return the score of an evaluator; 0 if there is none, and the largest float for one that is too large."""
    found = value.get("score")
    if not is_number(found) or found != found:  # noqa: PLR0124 - NaN; `math.isnan` fails for huge integers
        return 0.0
    return max(-LARGEST, min(LARGEST, found))


def amount_of(value: JsonObject, key: str) -> float | None:
    """Return a finite number of 0 or more; None if there is none."""
    found = value.get(key)
    return found if is_amount(found) else None


def mapping_of(value: JsonObject, key: str) -> JsonObject:
    """Return a mapping; empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def list_of(value: JsonObject, key: str) -> Sequence[Json]:
    """Return a list; empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, list | tuple) else ()


def mappings_of(value: JsonObject, key: str) -> list[JsonObject]:
    """Return the mappings of a list."""
    return [each for each in list_of(value, key) if isinstance(each, Mapping)]


def texts_of(value: JsonObject, key: str) -> list[str]:
    """Return the texts of a list."""
    return [each for each in list_of(value, key) if isinstance(each, str)]


def cost_of(value: JsonObject) -> float | None:
    """Return the cost of a result's answers in US dollars.

    None if it is unknown, and for cached answers, which cost nothing now.
    """
    if is_cached(value):
        return None
    metrics = (mapping_of(value, key) for key in ("execution_metrics", "trace_summary"))
    return next((cost for each in metrics if (cost := amount_of(each, "cost_usd")) is not None), None)


def judge_cost_of(value: JsonObject) -> float | None:
    """Return the cost of the models that judged a result, in US dollars; None if it is unknown."""
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
    """Return how many answers a known figure covers (`priced` or `metered`), and how many count."""
    repeat = mapping_of(value, "repeat")
    parts = [part for part in (repeat, mapping_of(repeat, "confirm")) if part]
    counts = [(amount_of(part, "asked") or 0, amount_of(part, "cached") or 0, number_of(part, key)) for part in parts]
    return known_of(counts, is_cached=is_cached(value))


def is_cached(value: JsonObject) -> bool:
    """Whether the answers of a result came from the cache, so that they cost nothing now."""
    return value.get("cached") is True


def asked_nothing(value: JsonObject) -> bool:
    """Whether a case could not be asked, so that there is no cost to know. If its worker died, it may have been."""
    detail = mapping_of(value, "error_detail")
    if detail.get("stage") != "setup" or value.get("attempts") != 0:
        return False
    return detail.get("kind") != "crash" or value.get("duration_ms") is not None


def may_cost(value: JsonObject) -> bool:
    """Whether answers of a result were paid for, known or not."""
    return not is_cached(value) and not asked_nothing(value)


def whole_cost_of(value: JsonObject) -> float | None:
    """Return the cost of all answers of a result; None if it is unknown, or known only for some."""
    return None if is_part(value, "priced") else cost_of(value)
