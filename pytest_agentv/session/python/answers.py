"""Answers that a test gives to be judged, instead of those of a target."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pytest_agentv.engine.answers import require_writable
from pytest_agentv.models.answers import candidate_answer, is_null
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.messages import Message
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.response_faults import response_fault, with_tuples
from pytest_agentv.providers.wire import WireError, parse_response


def given_response(
    answer: str | JsonObject | ProviderResponse, output_messages: Sequence[Mapping[str, Any]] | None
) -> ProviderResponse:
    """Return the answer as the response of a target. Raises `TypeError` or `ValueError` for an invalid answer."""
    __tracebackhide__ = True
    if isinstance(answer, ProviderResponse):
        if fault := response_fault(answer):
            raise TypeError(f"expected an answer, got {fault}")
        require_writable(answer.output_messages or (), answer.trace or ())
        return with_tuples(answer)
    if not isinstance(answer, str | Mapping | list):
        raise TypeError(f"expected an answer: a text, data or a ProviderResponse, got {type(answer).__name__}")
    try:
        response = parse_response({"output_messages": list(map(dict, output_messages or ()))})
    except WireError as error:
        raise ValueError(f"output_messages: {error}") from None
    messages = response.output_messages or ()
    said = Message("assistant", content=answer)
    require_writable((*messages, said), ())
    if is_null(messages) or candidate_answer(messages) != candidate_answer((said,)):
        messages = (*messages, said)
    return ProviderResponse(output_messages=messages, is_text_only=not output_messages)


def hash_of(*parts: object) -> str:
    """Return the hash of plain data and responses."""
    content = json.dumps(
        [part.to_plain() if isinstance(part, ProviderResponse) else part for part in parts], default=str
    )
    return hashlib.sha256(content.encode()).hexdigest()[:16]
