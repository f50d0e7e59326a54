"""Builds the standard input of a code judge (agentv-formats 6.5; requirement "Canonical Code Judge Wire Schema").

Templates of judges and the target proxy show messages under camelCase names instead.
"""

import math
import re
from collections.abc import Mapping

from pytest_agentv.evaluators.context import Context
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.messages import Message


def build_payload(context: Context, config: JsonObject | None) -> dict[str, Json]:
    """Build the payload: AgentV's keys in AgentV's order, then ours. What is not known is null.

    Args:
        context: The case and its answer.
        config: The keys of the evaluator that are the judge's own.
    """
    case = context.case
    messages = context.output_messages if context.reports_calls else None  # of a text, they would be made up
    guidelines = set(case.guideline_paths)
    payload = {
        "question": case.question,
        "expected_outcome": case.expected_outcome,
        "expected_messages": case.expected_messages,
        "reference_answer": case.reference_answer,
        "candidate_answer": context.candidate_answer,
        "output_messages": None if messages is None else list(map(_message, messages)),
        "guideline_files": case.guideline_paths,
        "input_files": [path for path in case.file_paths if path not in guidelines],
        "input_messages": case.input_messages,
        "trace_summary": context.trace_summary.to_plain() if context.trace_summary else None,
        "config": config,
        "execution_metrics": context.metrics.to_plain() if context.metrics else None,
        "trace": None if context.trace is None else [event.to_plain() for event in context.trace],
    }
    if context.retrieved_context is not None:
        payload["retrieved_context"] = context.retrieved_context
    converted = {key: snake_case_keys(value) for key, value in payload.items()}
    return converted if case.vars is None else {**converted, "vars": case.vars}  # under the names of templates


def snake_case_keys(value: Json) -> Json:
    """Rename the keys at every depth, the user's own too, as judges of AgentV expect; NaN becomes null."""
    if isinstance(value, Mapping):
        return {_snake_case(key): snake_case_keys(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [snake_case_keys(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _snake_case(key: str) -> str:
    """`docId` gives `doc_id`; a key that starts with an upper-case letter stays."""
    return key if re.match("[A-Z]", key) else re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key)


def _message(message: Message) -> dict[str, Json]:
    plain = message.to_plain()
    if not message.tool_calls:
        del plain["tool_calls"]  # AgentV's messages have no empty list
    return plain


def camel_case_message(message: Message) -> dict[str, Json]:
    """Return a message under AgentV's camelCase key names; user data within keeps its own."""
    plain = message.to_plain()
    if calls := plain.pop("tool_calls"):
        names = {"duration_ms": "durationMs"}
        plain["toolCalls"] = [{names.get(key, key): value for key, value in call.items()} for call in calls]
    return plain
