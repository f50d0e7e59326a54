"""Google's Gemini, `generateContent`."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import quote

from pytest_agentv.cases.prompts import ChatMessage
from pytest_agentv.model.base import Json, JsonObject, mapping
from pytest_agentv.model.kind import spelled
from pytest_agentv.model.messages import UNNAMED, FilePart, TokenUsage, ToolCall
from pytest_agentv.providers.api.base import (
    ApiRequest,
    Billing,
    Embeddings,
    ModelReply,
    count,
    encoded,
    entries,
    form_of,
    function_of,
    in_turns,
    is_count,
    is_unusual,
    known,
    name_of,
    schema_of,
    split_query,
    text_of,
    vectors_of,
)
from pytest_agentv.providers.api.model import SEED, DirectModel
from pytest_agentv.providers.kind import read_call
from pytest_agentv.targets.fields import DefaultText, Whole

_SEARCHES: Final = ("webSearchQueries", "imageSearchQueries", "retrievalQueries", "googleMapsWidgetContextToken")
"""What a reply tells of searches. Some are free, but it is unknown which."""
_RAN: Final = ("executableCode", "toolCall")
"""Calls of Google's own tools, which have run when the reply arrives."""


class Gemini(DirectModel):
    """A model of Google."""

    kind = "gemini"
    price_provider = "google"
    needs: ClassVar = {"api_key": "GOOGLE_API_KEY"}
    stand_ins: ClassVar = {"model": "GOOGLE_GEMINI_MODEL", "base_url": "GEMINI_API_BASE"}

    model: DefaultText = spelled(
        *("model", "deployment", "variant"), default="gemini-2.5-flash", description="the name of the model"
    )

    seed: Whole | None = SEED

    def _post(self, method: str, body: JsonObject) -> ApiRequest:
        base, query = split_query(self.base_url or "https://generativelanguage.googleapis.com/v1beta")
        base = base if re.search(r"/v\d\w*$", base) else f"{base}/v1beta"
        url = f"{base}/models/{quote(self.model, safe='')}:{method}{query}"
        return self.post(url, known({"x-goog-api-key": self.key}), known(body))

    def request(self, messages: Sequence[ChatMessage], schema: JsonObject | None = None) -> ApiRequest:
        system = [{"text": message.content} for message in messages if message.role == "system"]
        turns = [message for message in messages if message.role != "system"]
        contents = [
            {"role": role, "parts": list(map(_part, parts))}
            for role, parts in in_turns(turns, lambda message: "model" if message.role == "assistant" else "user")
        ]
        shape = self.response_format if schema is None else form_of(schema)
        wants_json = mapping(shape).get("type") in ("json_schema", "json_object")
        config = {
            "temperature": self.temperature,
            "max_output_tokens": self.max_output_tokens,
            "top_p": self.top_p,
            "seed": self.seed,
            "stop_sequences": self.stop and list(self.stop),
            "response_mime_type": "application/json" if wants_json else None,
            "response_json_schema": schema_of(shape),
            "thinkingConfig": self.reasoning_effort and {"thinkingLevel": self.reasoning_effort},
        }
        body = {
            "contents": contents,
            "generationConfig": known(config) or None,
            "tools": _tools(self.tools) if self.tools else None,
            "system_instruction": {"parts": system} if system else None,
        }
        return self._post("generateContent", body)

    def read(self, reply: JsonObject) -> ModelReply | None:
        return read_answer(reply, self.extra_body.get("serviceTier", self.extra_body.get("service_tier")))

    def embed(self, texts: Sequence[str]) -> ApiRequest:
        model = f"models/{self.model}"
        requests = [{"model": model, "content": {"parts": [{"text": text}]}} for text in texts]
        return self._post("batchEmbedContents", {"requests": requests})

    def read_embeddings(self, reply: JsonObject) -> Embeddings | None:
        vectors = vectors_of([each.get("values") for each in entries(reply.get("embeddings"))])
        tokens = count(mapping(reply.get("usageMetadata")).get("promptTokenCount"))
        return None if vectors is None else Embeddings(vectors, tokens)


def read_answer(reply: JsonObject, tier: Json = None) -> ModelReply | None:
    """Read a reply to a request of a service tier. A blocked prompt has no candidate, but the reason."""
    usage = mapping(reply.get("usageMetadata"))
    model = name_of(reply.get("modelVersion"))
    candidates = entries(reply.get("candidates"))
    if not candidates:
        blocked = text_of(mapping(reply.get("promptFeedback")).get("blockReason"))
        return ModelReply("", model, blocked, usage=_usage(usage)) if blocked else None
    parts = entries(mapping(candidates[0].get("content")).get("parts"))
    text = "".join(text_of(part.get("text")) for part in parts if part.get("thought") is not True)
    if reply.get("error") and not text:
        return None
    return ModelReply(
        text,
        model,
        "error" if reply.get("error") else name_of(candidates[0].get("finishReason")),
        tools=tuple(_calls(parts)),
        usage=_usage(usage),
        billing=_billing(usage, candidates[0], tier),
        ran=sum(isinstance(part.get(name), dict) for part in parts for name in _RAN),
    )


def _tools(tools: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the tools in the shape of the API: all functions in one tool."""
    declared: list[JsonObject] = []
    others: list[JsonObject] = []
    for tool in tools:
        function = function_of(tool)
        if function is None:
            others.append(tool)
            continue
        rest = {key: value for key, value in function.items() if key not in ("parameters", "strict")}
        schema = function.get("parameters")
        declared.append(rest if schema is None else {**rest, "parametersJsonSchema": schema})
    return [{"function_declarations": declared}, *others] if declared else others


def _part(part: str | FilePart) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    sent = encoded(part)
    return {"inline_data": {"mime_type": sent.media_type, "data": sent.data}}


def _calls(parts: Sequence[JsonObject]) -> Iterator[ToolCall]:
    """Yield the calls of functions, and those of Google's tools."""
    for part in parts:
        if isinstance(call := part.get("functionCall"), dict):
            yield read_call({**call, "args": call.get("args") or {}})
        elif isinstance(code := part.get("executableCode"), dict):
            yield ToolCall("code_execution", {"code": text_of(code.get("code"))})
        elif isinstance(call := part.get("toolCall"), dict):
            kind = text_of(call.get("toolType")).lower()  # as requests declare it: `google_search`, `url_context`
            name = "google_search" if kind.startswith("google_search") else kind or UNNAMED
            yield ToolCall(name, call.get("args") or {}, id=name_of(call.get("id")))


def _usage(usage: JsonObject) -> TokenUsage | None:
    """Return the tokens. Thoughts are paid for as output, results of Google's tools as input."""
    if not is_count(usage.get("promptTokenCount")):
        return None
    reasoning, cached = count(usage.get("thoughtsTokenCount")), count(usage.get("cachedContentTokenCount"))
    written = count(usage.get("candidatesTokenCount")) + reasoning
    read = count(usage.get("promptTokenCount")) + count(usage.get("toolUsePromptTokenCount"))
    found = TokenUsage(max(0, read - cached), written, cached or None, reasoning or None)
    return found if read or written else None


def _billing(usage: JsonObject, candidate: JsonObject, tier: Json) -> Billing:
    """Return whether there is more to pay for than texts: another tier, sounds, pictures, searches."""
    drawn = entries(usage.get("candidatesTokensDetails"))
    read = entries(usage.get("promptTokensDetails"))
    return Billing(
        is_unknown=is_unusual(tier)
        or is_unusual(usage.get("trafficType"))
        or _is_searched(candidate)
        or any(count(each.get("tokenCount")) and each.get("modality") == "AUDIO" for each in read)
        or any(count(each.get("tokenCount")) and each.get("modality") not in (None, "TEXT") for each in drawn),
    )


def _is_searched(candidate: JsonObject) -> bool:
    """Whether Google searched the web, its maps or a data store for the answer."""
    grounding = mapping(candidate.get("groundingMetadata"))
    called = [mapping(part.get("toolCall")) for part in entries(mapping(candidate.get("content")).get("parts"))]
    return (
        any(grounding.get(name) for name in _SEARCHES)
        or any("maps" in chunk or "image" in chunk for chunk in entries(grounding.get("groundingChunks")))
        or any(text_of(call.get("toolType")).upper().startswith("GOOGLE_") for call in called)
    )
