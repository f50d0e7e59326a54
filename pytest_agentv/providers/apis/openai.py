"""OpenAI's chat completions, and every server that speaks them."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final

from pytest_agentv.loading.targets.fields import Flag, OptionalText, Whole
from pytest_agentv.models.base import ABSENT, Json, JsonObject, mapping
from pytest_agentv.models.kind import spelled
from pytest_agentv.models.messages import ToolCall
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.prompts.prompt import ChatMessage
from pytest_agentv.providers.apis.base import ApiRequest, Billing, Embeddings, ModelReply, ModelSettings
from pytest_agentv.providers.apis.data import (
    call_of,
    count,
    entries,
    is_count,
    known,
    name_of,
    parsed,
    split_query,
    terms_of,
    text_of,
    told_cost,
    usage_of,
    vectors_of,
)
from pytest_agentv.providers.apis.model import ORGANIZATION, REASONING, SEED, DirectModel
from pytest_agentv.providers.media import chat_content

_BASE_URL: Final = "https://api.openai.com/v1"
_DEVELOPER: Final = re.compile(r"o\d")
"""Models whose system message has the role `developer`."""
_REASONING: Final = re.compile(r"o\d|gpt-5(?!-chat)(?!\.\d-chat)")
"""Models whose limit `max_completion_tokens` includes reasoning."""
_MOST_VECTORS: Final = 10_000
"""More vectors than an API takes texts in one request."""
_FIXED_TEMPERATURE: Final = re.compile(r"o\d|gpt-5(?![.-]?\d*-chat)(?!\.\d)")
"""Models that accept no temperature but 1."""

_THOUGHTS: Final = ("thinking", "reasoning", "redacted_thinking")
"""Parts of a message that are thoughts, not part of the answer."""


class OpenAi(DirectModel):
    """A model of OpenAI, or of a server that speaks its language."""

    kind = "openai"
    needs: ClassVar = {"api_key": "OPENAI_API_KEY"}
    stand_ins: ClassVar = {"base_url": "OPENAI_BASE_URL"}

    seed: Whole | None = SEED
    organization: OptionalText = ORGANIZATION
    reasoning: Flag | None = REASONING
    api_version: OptionalText = spelled(
        *("api_version", "apiVersion", "version"), default=None, description="passed on to litellm"
    )

    @classmethod
    def needed(cls, written: Collection[str]) -> Mapping[str, str]:
        """Return nothing for a target with a server of its own: it may need no key, and must not get OpenAI's."""
        return {} if "base_url" in written else cls.needs

    def api(self, variables: Mapping[str, str]) -> "OpenAiApi":
        return OpenAiApi(self.api_settings, variables)


class OpenAiApi:
    """OpenAI, and servers with the same API."""

    price_provider = "openai"

    def __init__(self, settings: ModelSettings, environment: Mapping[str, str]) -> None:
        usual = environment.get("OPENAI_BASE_URL", "").strip()
        base_url = settings.base_url or usual or _BASE_URL
        base, self._query = split_query(base_url)
        self._base = base.removesuffix("/chat/completions")
        key = settings.api_key
        if key is None and settings.base_url in (None, usual):  # another server must not get OpenAI's key
            key = environment.get("OPENAI_API_KEY", "").strip()
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        if settings.organization:
            self._headers["openai-organization"] = settings.organization
        self._settings = settings
        self._system_role = "developer" if self._is_one_of(_DEVELOPER) else "system"

    def request(self, messages: Sequence[ChatMessage]) -> ApiRequest:
        body = chat_body(self._settings, messages, self._system_role, self._limits())
        return ApiRequest(f"{self._base}/chat/completions{self._query}", self._headers, body)

    def read(self, reply: JsonObject) -> ModelReply | None:
        return read_chat(reply)

    def embed(self, texts: Sequence[str]) -> ApiRequest:
        url = f"{self._base}/embeddings{self._query}"
        return ApiRequest(url, self._headers, {"model": self._settings.model, "input": list(texts)})

    def read_embeddings(self, reply: JsonObject) -> Embeddings | None:
        return read_data(reply)

    def _limits(self) -> dict[str, Any]:
        settings = self._settings
        name = "max_completion_tokens" if self._is_one_of(_REASONING) else "max_tokens"
        is_fixed = self._is_one_of(_FIXED_TEMPERATURE) and settings.temperature != 1
        return {"temperature": None if is_fixed else settings.temperature, name: settings.max_output_tokens}

    def _is_one_of(self, names: re.Pattern[str]) -> bool:
        """Whether the model is one of these, by the setting `reasoning`, else by its name."""
        settings = self._settings
        return bool(names.match(settings.known_as)) if settings.reasoning is None else settings.reasoning


def read_data(reply: JsonObject) -> Embeddings | None:
    """Read the vectors of a reply, which may be in another order than the texts, and lack some."""
    data = entries(reply.get("data"))
    found = {count(each["index"]): each.get("embedding") for each in data if is_count(each.get("index"))}
    is_numbered = len(found) == len(data) and 0 in found and max(found) < _MOST_VECTORS
    if is_numbered:
        vectors = vectors_of([found.get(place) for place in range(max(found) + 1)])
    else:
        data = sorted(data, key=lambda each: count(each.get("index")))
        vectors = vectors_of([each.get("embedding") for each in data])
    if vectors is None:
        return None
    tokens = count(mapping(reply.get("usage")).get("prompt_tokens"))
    return Embeddings(vectors, tokens, model=name_of(reply.get("model")), is_numbered=is_numbered)


def chat_body(
    settings: ModelSettings, messages: Sequence[ChatMessage], system_role: str, limits: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the body of a chat completion. Limits without a value are left out."""
    turns = [
        {"role": system_role if message.role == "system" else message.role, "content": chat_content(message)}
        for message in messages
    ]
    choices = {
        **limits,
        "top_p": settings.top_p,
        "seed": settings.seed,
        "stop": settings.stop and list(settings.stop),
        "reasoning_effort": settings.reasoning_effort,
        "response_format": settings.response_format,
        "tools": settings.tools and list(settings.tools),
    }
    return {"model": settings.model, "messages": turns, **known(choices)}


def read_chat(reply: JsonObject) -> ModelReply | None:
    """Read a chat completion. If an error interrupts an answer, gateways send both in one reply."""
    choices = entries(reply.get("choices"))
    if not choices:
        return None
    message = mapping(choices[0].get("message"))
    content = _content(message)
    if reply.get("error") and not content:
        return None
    is_broken = bool(reply.get("error") or choices[0].get("error"))
    usage = mapping(reply.get("usage"))
    return ModelReply(
        content,
        name_of(reply.get("model")),
        "error" if is_broken else name_of(choices[0].get("finish_reason")),
        name_of(message.get("refusal")) or name_of(_part(message, "refusal")),
        tuple(map(_call, _calls(message))),
        read_usage(usage),
        _reasoning(usage) or None,
        read_billing(usage, reply.get("service_tier")),
    )


def read_usage(usage: JsonObject) -> TokenUsage | None:
    """Return the tokens; None if the tokens of question or answer are missing, because the price would be too low.

    xAI reports reasoning tokens beside the answer's tokens, in the total only.
    """
    total_in, total_out = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if not (is_count(total_in) and is_count(total_out)):
        return None
    read, written, reasoning = count(total_in), count(total_out), _reasoning(usage)
    cached = count(mapping(usage.get("prompt_tokens_details")).get("cached_tokens"))
    cached = cached or count(usage.get("prompt_cache_hit_tokens"))  # DeepSeek's key
    is_beside = reasoning and count(usage.get("total_tokens")) == read + written + reasoning
    found = usage_of(read, written + reasoning if is_beside else written, cached)
    return found and found.replace(reasoning=reasoning or None)


def _reasoning(usage: JsonObject) -> int:
    return count(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))


def read_billing(usage: JsonObject, tier: Json) -> Billing:
    """Return what a server says of the cost, and the other facts that affect the price."""
    details = [mapping(usage.get(name)) for name in ("prompt_tokens_details", "completion_tokens_details")]
    return Billing(
        told_cost(usage),
        terms_of(tier),
        written=count(details[0].get("cache_write_tokens")),
        is_unknown=any(count(each.get("audio_tokens")) for each in details),
    )


def _calls(message: JsonObject) -> Sequence[JsonObject]:
    """Return the calls of a message. A deprecated request for `functions` gets one call, in a key of its own."""
    function = mapping(message.get("function_call"))
    return entries(message.get("tool_calls")) or ([{"function": function}] if function else [])


def _call(call: JsonObject) -> ToolCall:
    """Return a call. The input of a `custom` tool is a free text, which is not parsed."""
    if custom := mapping(call.get("custom")):
        return call_of(custom.get("name"), custom.get("input", ABSENT), call.get("id"))
    function = call.get("function")
    given = parsed(mapping(function).get("arguments"))
    none: Json = {} if isinstance(function, dict) else ABSENT
    return call_of(mapping(function).get("name"), none if given is None else given, call.get("id"))


def _content(message: JsonObject) -> str:
    """Return a message's text, which some servers send in parts."""
    content = message.get("content")
    parts = [part for part in entries(content) if part.get("type") not in _THOUGHTS]
    return text_of(content) or "".join(text_of(part.get("text")) for part in parts)


def _part(message: JsonObject, kind: str) -> Json:
    """Return the content of the first part of a kind."""
    return next((part.get(kind) for part in entries(message.get("content")) if part.get("type") == kind), None)
