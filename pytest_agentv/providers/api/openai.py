"""OpenAI's chat completions and responses, and every server that speaks them."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Final, Literal

from pytest_agentv.cases.prompts import ChatMessage
from pytest_agentv.model.base import ABSENT, Json, JsonObject, mapping
from pytest_agentv.model.kind import spelled
from pytest_agentv.model.messages import TokenUsage, ToolCall
from pytest_agentv.providers.api.base import (
    ApiRequest,
    Billing,
    Embeddings,
    ModelReply,
    ModelSettings,
    call_of,
    chat_content,
    count,
    entries,
    function_of,
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
    without,
)
from pytest_agentv.providers.api.model import API_FORMAT, ORGANIZATION, REASONING, SEED, DirectModel
from pytest_agentv.targets.fields import Flag, OptionalText, Whole

_OPENAI: Final = re.compile(r"(?i)https?://([^/]+\.)?openai\.com[:/]")
"""The server that has replaced `max_tokens` by `max_completion_tokens`."""
_MOST_VECTORS: Final = 10_000
"""More vectors than an API takes texts in one request."""

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
    api_format: Literal["chat", "responses"] | None = API_FORMAT
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
        base, self._query = split_query(settings.base_url or usual or "https://api.openai.com/v1")
        self._base = re.sub(r"/(chat/completions|responses)$", "", base)
        key = settings.api_key
        if key is None and settings.base_url in (None, usual):  # another server must not get OpenAI's key
            key = environment.get("OPENAI_API_KEY", "").strip()
        self._headers = {"authorization": f"Bearer {key}"} if key else {}
        if settings.organization:
            self._headers["openai-organization"] = settings.organization
        self._settings = settings
        self._limit = "max_completion_tokens" if _OPENAI.match(f"{base}/") else "max_tokens"

    def request(self, messages: Sequence[ChatMessage], schema: JsonObject | None = None) -> ApiRequest:
        path, body = asked(self._settings.bound(schema), messages, self._limit)
        return ApiRequest(f"{self._base}{path}{self._query}", self._headers, body)

    def read(self, reply: JsonObject) -> ModelReply | None:
        return read_answer(reply)

    def embed(self, texts: Sequence[str]) -> ApiRequest:
        url = f"{self._base}/embeddings{self._query}"
        return ApiRequest(url, self._headers, {"model": self._settings.model, "input": list(texts)})

    def read_embeddings(self, reply: JsonObject) -> Embeddings | None:
        return read_data(reply)


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


def asked(settings: ModelSettings, messages: Sequence[ChatMessage], limit: str) -> tuple[str, dict[str, Any]]:
    """Return the path and the body of a question. `limit` is the name of the token limit in chat completions."""
    is_chat = settings.api_format != "responses"
    content_of = chat_content if is_chat else _responses_content
    turns = [{"role": message.role, "content": content_of(message)} for message in messages]
    common = {
        "model": settings.model,
        "temperature": None if settings.reasoning else settings.temperature,
        "top_p": settings.top_p,
        "seed": settings.seed,
        "stop": settings.stop and list(settings.stop),
    }
    effort, shape, tools = settings.reasoning_effort, settings.response_format, settings.tools
    if is_chat:
        own = {
            "messages": turns,
            limit: settings.max_output_tokens,
            "reasoning_effort": effort,
            "response_format": shape,
            "tools": tools and list(tools),
        }
        return "/chat/completions", known({**common, **own})
    own = {
        "input": turns,
        "store": False,
        "max_output_tokens": settings.max_output_tokens,
        "reasoning": effort and {"effort": effort},
        "text": shape and {"format": _flat(shape, "json_schema")},
        "tools": tools
        and [{"strict": False, **_flat(tool, "function")} if function_of(tool) else tool for tool in tools],
    }
    return "/responses", known({**common, **own})


def _flat(value: JsonObject, name: str) -> dict[str, Any]:
    """Return a tool or a format as Responses writes it: what chat completions put into a mapping stands beside it."""
    return {**without(value, name), **mapping(value.get(name))}


def _responses_content(message: ChatMessage) -> Any:
    """Return the content of a message for Responses: a text, or a list of parts."""
    if message.parts is None:
        return message.content
    return [
        {"type": "input_image", "image_url": part["image_url"]["url"]}
        if part["type"] == "image_url"
        else {**_flat(part, "file"), "type": f"input_{part['type']}"}
        for part in chat_content(message)
    ]


def read_answer(reply: JsonObject) -> ModelReply | None:
    """Read a chat completion or a response. If an error interrupts an answer, gateways send both in one reply."""
    if reply.get("object") == "response":
        return _read_response(reply)
    choices = entries(reply.get("choices"))
    if not choices:
        return None
    message = mapping(choices[0].get("message"))
    parts = entries(message.get("content"))  # some servers send a text in parts
    texts = (text_of(part.get("text")) for part in parts if part.get("type") not in _THOUGHTS)
    content = text_of(message.get("content")) or "".join(texts)
    if reply.get("error") and not content:
        return None
    is_broken = bool(reply.get("error") or choices[0].get("error"))
    refusals = (part.get("refusal") for part in parts if part.get("type") == "refusal")
    function = mapping(message.get("function_call"))  # a deprecated request for `functions` gets one call here
    calls = entries(message.get("tool_calls")) or ([{"function": function}] if function else [])
    usage = mapping(reply.get("usage"))
    return ModelReply(
        content,
        name_of(reply.get("model")),
        "error" if is_broken else name_of(choices[0].get("finish_reason")),
        name_of(message.get("refusal")) or name_of(next(refusals, None)),
        tuple(map(_call, calls)),
        read_usage(usage),
        _reasoning(usage) or None,
        read_billing(usage, reply.get("service_tier")),
    )


def _call(call: JsonObject) -> ToolCall:
    """Return a call. The input of a `custom` tool is a free text, which is not parsed."""
    if custom := mapping(call.get("custom")):
        return call_of(custom.get("name"), custom.get("input", ABSENT), call.get("id"))
    function = call.get("function")
    given = parsed(mapping(function).get("arguments"))
    none: Json = {} if isinstance(function, dict) else ABSENT
    return call_of(mapping(function).get("name"), none if given is None else given, call.get("id"))


def _read_response(reply: JsonObject) -> ModelReply | None:
    from pytest_agentv.providers.frameworks import read_response  # noqa: PLC0415 - files are checked without it

    answer = read_response(reply)
    if answer.error:
        return None
    kinds = [item.get("type") for item in entries(reply.get("output"))]
    calls = tuple(call for message in answer.messages for call in message.tool_calls)
    usage = answer.spent[0].usage if answer.spent else None
    return ModelReply(
        "".join(text_of(message.content) for message in answer.messages),
        name_of(reply.get("model")),
        answer.finish_reason,
        answer.refusal,
        calls,
        usage,
        count(usage.reasoning) or None if usage else None,
        answer.spent[0].billing if answer.spent else Billing(),
        ran=len(calls) - kinds.count("function_call") - kinds.count("custom_tool_call"),
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
