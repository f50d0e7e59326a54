"""OpenAI's chat completions and responses, of OpenAI, Azure, and every server that speaks them."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import parse_qs, quote, urlsplit

from pydantic import AfterValidator, Field

from pytest_agentv.cases.prompts import ChatMessage
from pytest_agentv.model.base import Json, JsonObject, is_amount, mapping
from pytest_agentv.model.kind import spelled
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.api.base import (
    ApiRequest,
    Billing,
    Embeddings,
    ModelReply,
    chat_content,
    count,
    entries,
    form_of,
    function_of,
    is_unusual,
    known,
    name_of,
    read_usage,
    split_query,
    text_of,
    vectors_of,
    without,
)
from pytest_agentv.providers.api.model import ORGANIZATION, REASONING, SEED, DirectModel
from pytest_agentv.providers.kind import read_call
from pytest_agentv.targets.fields import DefaultText, Flag, OptionalText, Whole

_USUAL_URL: Final = "https://api.openai.com/v1"
_OPENAI: Final = re.compile(r"(?i)https?://([^/]+\.)?openai\.com[:/]")
"""The server that has replaced `max_tokens` by `max_completion_tokens`."""
_THOUGHTS: Final = ("thinking", "reasoning", "redacted_thinking")
"""Parts of a message that are thoughts, not part of the answer."""

_DEFAULT_VERSION: Final = "2024-10-01-preview"
_UNVERSIONED: Final = ("v1", "preview", "latest")
"""Versions of Azure's newer API, whose URL has neither version nor deployment."""
_PORTAL_PATH: Final = re.compile(
    r"/openai(/v1|/deployments/[^/]+)?(/chat/completions|/completions|/embeddings|/responses)?$"
)
"""The rest of a URL that Azure's portal shows after a resource."""


class _SpeaksOpenAi(DirectModel):
    seed: Whole | None = SEED
    reasoning: Flag | None = REASONING
    api_format: Literal["chat", "responses"] | None = Field(
        default=None,
        description="the API: chat completions, or Responses, which newer models need for tools (default: `chat`)",
    )

    @property
    def limit_name(self) -> str:
        """The name of the token limit in chat completions."""
        return "max_completion_tokens"

    def place(self) -> tuple[str, str, dict[str, str | None]]:
        """Return the URL before the path of a request, the query after it, and the headers that say who asks."""
        raise NotImplementedError

    def _post(self, path: str, body: Mapping[str, Any]) -> ApiRequest:
        base, query, headers = self.place()
        return self.post(f"{base}{path}{query}", known(headers), known(body))

    def request(self, messages: Sequence[ChatMessage], schema: JsonObject | None = None) -> ApiRequest:
        is_chat = self.api_format != "responses"
        content_of = chat_content if is_chat else _responses_content
        turns = [{"role": message.role, "content": content_of(message)} for message in messages]
        effort, tools = self.reasoning_effort, self.tools
        shape = self.response_format if schema is None else form_of(schema)
        common = {
            "model": self.model,
            "temperature": None if self.reasoning else self.temperature,
            "top_p": self.top_p,
            "seed": self.seed,
            "stop": self.stop and list(self.stop),
        }
        if is_chat:
            own = {
                "messages": turns,
                self.limit_name: self.max_output_tokens,
                "reasoning_effort": effort,
                "response_format": shape,
                "tools": tools and list(tools),
            }
            return self._post("/chat/completions", {**common, **own})
        own = {
            "input": turns,
            "store": False,
            "max_output_tokens": self.max_output_tokens,
            "reasoning": effort and {"effort": effort},
            "text": shape and {"format": _flat(shape, "json_schema")},
            "tools": tools
            and [{"strict": False, **_flat(tool, "function")} if function_of(tool) else tool for tool in tools],
        }
        return self._post("/responses", {**common, **own})

    def read(self, reply: JsonObject) -> ModelReply | None:
        return read_answer(reply)

    def embed(self, texts: Sequence[str]) -> ApiRequest:
        return self._post("/embeddings", {"model": self.model, "input": list(texts)})

    def read_embeddings(self, reply: JsonObject) -> Embeddings | None:
        return read_data(reply)


class OpenAi(_SpeaksOpenAi):
    """A model of OpenAI, or of a server that speaks its language."""

    kind = "openai"
    price_provider = "openai"
    needs: ClassVar = {"api_key": "OPENAI_API_KEY"}
    stand_ins: ClassVar = {"base_url": "OPENAI_BASE_URL"}

    organization: OptionalText = ORGANIZATION
    api_version: OptionalText = spelled(
        *("api_version", "apiVersion", "version"), default=None, description="passed on to litellm"
    )

    @classmethod
    def needed(cls, written: Collection[str]) -> Mapping[str, str]:
        """Return nothing for a target with a server of its own: it may need no key, and must not get OpenAI's."""
        return {} if "base_url" in written else cls.needs

    def api(self, variables: Mapping[str, str]) -> Self:
        """Add the usual key, unless the target names another server than the usual one."""
        usual_url, usual_key = (variables.get(name, "").strip() for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"))
        is_keyless = self.api_key is None and self.base_url in (None, usual_url)
        found = super().api(variables)
        return found.replace(api_key=Secret(usual_key)) if is_keyless and usual_key else found

    def place(self) -> tuple[str, str, dict[str, str | None]]:
        base, query = split_query(self.base_url or _USUAL_URL)
        key = f"Bearer {self.key}" if self.key else None
        headers = {"authorization": key, "openai-organization": self.organization or None}
        return re.sub(r"/(chat/completions|responses)$", "", base), query, headers

    @property
    def limit_name(self) -> str:
        return "max_completion_tokens" if _OPENAI.match(f"{self.base_url or _USUAL_URL}/") else "max_tokens"


class Azure(_SpeaksOpenAi):
    """A deployment of Azure OpenAI."""

    kind = "azure"
    price_provider = "azure"
    needs: ClassVar = {
        "base_url": "AZURE_OPENAI_ENDPOINT",
        "api_key": "AZURE_OPENAI_API_KEY",
        "model": "AZURE_DEPLOYMENT_NAME",
    }

    base_url: OptionalText = spelled(
        *("endpoint", "resource", "resourceName", "base_url", "baseUrl", "baseURL"),
        default=None,
        description="the URL, the host or the name of the resource",
    )
    model: DefaultText = spelled(
        *("deployment", "deploymentName", "model"), default="", description="the name of the deployment"
    )
    api_version: Annotated[
        DefaultText, AfterValidator(lambda version: re.sub(r"(?i)^\s*api[-_]?version=", "", version))
    ] = spelled(
        *("version", "api_version", "apiVersion"), default=_DEFAULT_VERSION, description="the version of the API"
    )

    def api(self, variables: Mapping[str, str]) -> Self:
        """Take the version from a URL of Azure's portal, unless the target sets another."""
        found = super().api(variables)
        query = parse_qs(urlsplit(self.base_url or "").query)
        version = next((values[0] for name, values in query.items() if name.lower() == "api-version"), None)
        return found.replace(api_version=version) if version and self.api_version == _DEFAULT_VERSION else found

    def place(self) -> tuple[str, str, dict[str, str | None]]:
        headers = {"api-key": self.key or None}
        endpoint, query = resource_url(self.base_url or ""), query_without_version(self.base_url or "")
        if self.api_version in _UNVERSIONED or self.api_format == "responses":
            return f"{endpoint}/openai/v1", f"?{query}" if query else "", headers
        query = "&".join(filter(None, (f"api-version={self.api_version}", query)))
        return f"{endpoint}/openai/deployments/{quote(self.model, safe='')}", f"?{query}", headers


def query_without_version(url: str) -> str:
    """Return the query of a URL of Azure without the version of the API, for example the key of a gateway."""
    parts = url.strip().partition("?")[2].split("&")
    return "&".join(part for part in parts if part and part.partition("=")[0].lower() != "api-version")


def resource_url(text: str) -> str:
    """Return the URL of a resource of Azure, given as a URL, host name or name."""
    text = text.partition("?")[0].strip().rstrip("/")
    if not re.match(r"(?i)https?://", text):
        return f"https://{text}" if "." in text else f"https://{text}.openai.azure.com"
    return _PORTAL_PATH.sub("", text)


def read_data(reply: JsonObject) -> Embeddings | None:
    """Read the vectors of a reply, which may be in another order than the texts."""
    data = sorted(entries(reply.get("data")), key=lambda each: count(each.get("index")))
    vectors = vectors_of([each.get("embedding") for each in data])
    tokens = count(mapping(reply.get("usage")).get("prompt_tokens"))
    return None if vectors is None else Embeddings(vectors, tokens, model=name_of(reply.get("model")))


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
        tuple(map(read_call, calls)),
        read_usage(usage),
        _billing(usage, reply.get("service_tier")),
    )


def _read_response(reply: JsonObject) -> ModelReply | None:
    from pytest_agentv.providers.frameworks import read_response  # noqa: PLC0415 - files are checked without it

    answer = read_response(reply)
    if answer.error:
        return None
    kinds = [item.get("type") for item in entries(reply.get("output"))]
    calls = tuple(call for message in answer.messages for call in message.tool_calls)
    return ModelReply(
        "".join(text_of(message.content) for message in answer.messages),
        name_of(reply.get("model")),
        answer.finish_reason,
        answer.refusal,
        calls,
        answer.replies[0].usage if answer.replies else None,
        answer.replies[0].billing if answer.replies else Billing(),
        ran=len(calls) - kinds.count("function_call") - kinds.count("custom_tool_call"),
    )


def _billing(usage: JsonObject, tier: Json) -> Billing:
    """Return what a gateway such as OpenRouter says of the cost, and the other facts that affect the price.

    With a user's own key at OpenRouter (`is_byok`), the model's vendor is paid as well.
    """
    details = [mapping(usage.get(name)) for name in ("prompt_tokens_details", "completion_tokens_details")]
    cost = None if usage.get("is_byok") is True else usage.get("cost")
    return Billing(
        float(cost) or None if is_amount(cost) else None,
        written=count(details[0].get("cache_write_tokens")),
        is_unknown=is_unusual(tier) or any(count(each.get("audio_tokens")) for each in details),
    )
