"""Reads parts of replies, any of which may be missing, and builds parts of requests."""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from pytest_agentv.models.base import Json, JsonObject, is_amount, is_measure, is_number, mapping
from pytest_agentv.models.messages import FilePart, ToolCall
from pytest_agentv.models.traces import UNNAMED, TokenUsage
from pytest_agentv.prompts.prompt import ChatMessage
from pytest_agentv.providers.media import parts_of

_USUAL_TIERS: Final = ("", "default", "standard", "auto", "on_demand", "standard_only", "unspecified")


def split_query(url: str) -> tuple[str, str]:
    """Return a base URL without slashes at its end, and its query with the question mark. Paths go between the two."""
    place, mark, query = url.partition("?")
    return place.rstrip("/"), mark + query


def query_without_version(url: str) -> str:
    """Return the rest of a URL's query unchanged, for example the key of a gateway."""
    parts = url.strip().partition("?")[2].split("&")
    return "&".join(part for part in parts if part and part.partition("=")[0].lower() != "api-version")


def count(value: Json) -> int:
    """Return a number of tokens; 0 for any other value."""
    return int(value) if is_count(value) else 0


def is_count(value: Json) -> bool:
    """Whether a value is a number of tokens: a whole number, which some servers write as 30.0."""
    return is_number(value) and value >= 0 and (isinstance(value, int) or value.is_integer())


def entries(value: Json) -> Sequence[JsonObject]:
    """Return the mappings of a list; empty for any other value."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def text_of(value: Json) -> str:
    """Return a text unchanged, and an empty one for any other value."""
    return value if isinstance(value, str) else ""


def name_of(value: Json) -> str | None:
    """Return a text unchanged; None for an empty one and for any other value."""
    return text_of(value) or None


def parsed(value: Json) -> Json:
    """Return the input of a tool call. Parses a text that is JSON."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def call_of(name: Json, given: Json, call_id: Json) -> ToolCall:
    """Return a tool call of a reply."""
    return ToolCall(text_of(name) or UNNAMED, given, id=name_of(call_id))


def name_of_tool(kind: Json) -> str:
    """Return the name of a tool that Google ran, as requests declare it: `google_search`, `url_context`."""
    word = text_of(kind).lower()
    return "google_search" if word.startswith("google_search") else word or UNNAMED


def function_of(tool: JsonObject) -> JsonObject | None:
    """Return the function of a tool in the shape of OpenAI; None for a tool that only the API knows."""
    function = tool.get("function")
    return function if tool.get("type") == "function" and isinstance(function, dict) else None


def schema_of(response_format: JsonObject | None) -> JsonObject | None:
    """Return the JSON Schema of a format in the shape of OpenAI; None if it has none."""
    schema = mapping(mapping(response_format).get("json_schema")).get("schema")
    return schema if isinstance(schema, dict) else None


def known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that are not None. Others are left out of a request."""
    return {name: value for name, value in values.items() if value is not None}


def in_turns(
    messages: Sequence[ChatMessage], role_of: Callable[[ChatMessage], str]
) -> list[tuple[str, list[str | FilePart]]]:
    """Return alternating roles, each with the texts, pictures and PDFs of its consecutive messages."""
    return [
        (role, [part for message in group for part in parts_of(message)]) for role, group in groupby(messages, role_of)
    ]


def merged(base: JsonObject, extra: JsonObject) -> dict[str, Json]:
    """Merge one mapping into another, at every depth."""
    found = dict(base)
    for key, value in extra.items():
        old = found.get(key)
        found[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return found


def without(body: JsonObject, path: str) -> dict[str, Json]:
    """Return a body without the value at a path with dots, and without a group that is empty then."""
    name, _, rest = path.partition(".")
    group = body.get(name)
    inner = without(group, rest) if rest and isinstance(group, dict) else {}
    found = {**body, name: inner}
    return found if inner else {key: value for key, value in body.items() if key != name}


def usage_of(total_in: int, total_out: int, cached: int) -> TokenUsage | None:
    """Return the tokens of a reply. `total_in` includes the cached ones, the record does not."""
    if not total_in and not total_out:
        return None
    return TokenUsage(max(0, total_in - cached), total_out, cached or None)


def told_cost(usage: JsonObject) -> float | None:
    """Return the US dollars that a gateway reports: OpenRouter a number, Perplexity parts and their sum.

    With a user's own key at OpenRouter (`is_byok`), the model's vendor is paid as well.
    """
    cost = usage.get("cost")
    parts = [cost.get("total_cost") if isinstance(cost, dict) else cost]
    if usage.get("is_byok") is True:
        parts.append(mapping(usage.get("cost_details")).get("upstream_inference_cost"))
    found = [float(part) for part in parts if is_amount(part)]
    return sum(found) or None if len(found) == len(parts) else None


def terms_of(tier: Json) -> dict[str, str]:
    """Return the terms of a service tier for `Billing.context`; empty for the usual tiers."""
    word = text_of(tier).strip().lower()
    return {} if word in _USUAL_TIERS else {"processing": word} if word == "batch" else {"service_tier": word}


def vectors_of(values: Sequence[Json]) -> tuple[tuple[float, ...] | None, ...] | None:
    """Return vectors; None for a value that is not a list of numbers or has no direction, and without any vector.

    Broken servers send zeros or NaN. A negated `similar` would pass then.
    """
    vectors = tuple(map(_vector_of, values))
    return vectors if any(vectors) else None


def _vector_of(value: Json) -> tuple[float, ...] | None:
    is_vector = isinstance(value, list) and any(value) and all(map(is_measure, value))
    return tuple(map(float, value)) if is_vector else None
