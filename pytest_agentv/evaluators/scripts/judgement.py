"""Turns the output of a judge script into a score."""

import json
from typing import Final, get_args

from pytest_agentv.evaluators.judging.grading import feedback, has_score, reasoning_of
from pytest_agentv.evaluators.judging.json_text import json_object
from pytest_agentv.evaluators.scripts.script import cut
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.masking.secrets import beginning
from pytest_agentv.models.scores import Score, Verdict, verdict_of
from pytest_agentv.models.text import compact_json, trim

SHOWN_OUTPUT: Final = 200
"""Characters of wrong output that a message shows."""

_EXPECTED: Final = (
    'print exactly one JSON object such as {"score": 0.5, "hits": [], "misses": [], "reasoning": ""} '
    "on standard output, and everything else on standard error"
)


def parse_judgement(stdout: str) -> Score:
    """Turn the output of a judge into a score.

    Other output scores 0, with an `error` that says what was expected. A score outside 0..1 is left as it is:
    `build_result` clamps it and warns.
    """
    text = trim(stdout)
    try:
        found = _result(text)
        details = _details(found.get("details"))
    except ValueError as error:
        message = str(error)
        return Score(
            0.0, misses=(message,), reasoning=message, raw_output=cut(stdout), error=message, error_kind="process"
        )
    return Score(
        found["score"],
        hits=feedback(found.get("hits")),
        misses=feedback(found.get("misses")),
        reasoning=reasoning_of(found),
        details=details,
    )


def read_aggregate(stdout: str) -> Score:
    """Turn the output of an aggregator into a score, like that of a code judge. Keeps its verdict.

    The score decides whether the case passes. Source: agentv-formats 6.6 and its sample S6.
    """
    score = parse_judgement(stdout)
    verdict = (json_object(stdout.strip()) or {}).get("verdict")
    if verdict not in get_args(Verdict) or score.raw_output is not None:
        return score
    if verdict == "fail" and verdict_of(score.value) == "pass":
        warning = f"the aggregator prints the verdict 'fail' and the score {score.value:g}: the score counts"
        return score.replace(verdict=verdict, warnings=(warning,))
    return score.replace(verdict=verdict)


def _result(text: str) -> JsonObject:
    if not text:
        raise ValueError(f"Code evaluator printed nothing: {_EXPECTED}")
    found = json_object(text)
    if found is None:
        constant = _constant_in(text)
        if constant is not None:
            advice = "which is no JSON: print a number, or null in details"
            raise ValueError(f"Code evaluator printed {constant}, {advice}; it printed: {_head(text)}")
        raise ValueError(f"Code evaluator did not print one JSON object: {_EXPECTED}; it printed: {_head(text)}")
    if "score" not in found:
        raise ValueError(f"Code evaluator printed no `score`: {_EXPECTED}; it printed: {_head(text)}")
    if not has_score(found):
        given = _head(compact_json(found["score"]))
        raise ValueError(f"Code evaluator printed a `score` that is no number: {given}; print one from 0 to 1")
    return found


def _constant_in(text: str) -> str | None:
    """Return the first NaN or Infinity of an object that is JSON but for these. Many programs write them."""
    constants: list[str] = []
    try:
        value = json.loads(text, parse_constant=constants.append)
    except (ValueError, RecursionError):
        return None
    return constants[0] if constants and isinstance(value, dict) else None


def _details(value: Json) -> JsonObject | None:
    """Return the details unchanged. A text that holds a JSON object counts as that object."""
    details = json_object(value) if isinstance(value, str) else value
    if value is None or isinstance(details, dict):
        return details
    given = _head(compact_json(value))
    raise ValueError(
        f"Code evaluator printed `details` that are no JSON object: {given}; "
        'print a mapping such as {"reason": "…"}, or leave them out'
    )


def _head(text: str) -> str:
    return beginning(text, SHOWN_OUTPUT)
