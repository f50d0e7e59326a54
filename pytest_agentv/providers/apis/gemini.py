"""Google's Gemini, `generateContent`."""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final
from urllib.parse import quote

from pytest_agentv.loading.targets.fields import DefaultText
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.kind import spelled
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.prompts.prompt import ChatMessage
from pytest_agentv.providers.apis.base import (
    ApiRequest,
    Embeddings,
    ModelReply,
    ModelSettings,
    count,
    entries,
    mapping,
    text_of,
    usage_of,
    vectors_of,
)
from pytest_agentv.providers.apis.model import DirectModel

_BASE_URL: Final = "https://generativelanguage.googleapis.com/v1beta"
_NO_SYSTEM: Final = re.compile(r"gemini-(1\.0-)?pro(-vision)?$|gemma-[123]")
"""Models without system instructions: these stand before the first question there."""


class Gemini(DirectModel):
    """A model of Google."""

    kind = "gemini"
    needs: ClassVar = {"api_key": "GOOGLE_API_KEY"}
    stand_ins: ClassVar = {"model": "GOOGLE_GEMINI_MODEL"}

    model: DefaultText = spelled(
        *("model", "deployment", "variant"), default="gemini-2.5-flash", description="the name of the model"
    )

    def api(self, variables: Mapping[str, str]) -> "GeminiApi":
        return GeminiApi(self.api_settings, variables)


class GeminiApi:
    """Gemini and servers that speak its language."""

    price_provider = "google"

    def __init__(self, settings: ModelSettings, environment: Mapping[str, str]) -> None:
        base_url = (settings.base_url or environment.get("GEMINI_API_BASE", "").strip() or _BASE_URL).rstrip("/")
        base_url = base_url if re.search(r"/v\d\w*$", base_url) else f"{base_url}/v1beta"
        self._url = f"{base_url}/models/{quote(settings.model, safe='')}:generateContent"
        self._headers = {"x-goog-api-key": settings.api_key} if settings.api_key else {}
        self._model = f"models/{settings.model}"
        self._takes_system = not _NO_SYSTEM.match(settings.model)
        limits = {"temperature": settings.temperature, "max_output_tokens": settings.max_output_tokens}
        given = {name: value for name, value in limits.items() if value is not None}
        self._config: dict[str, Any] = {"generationConfig": given} if given else {}

    def request(self, messages: Sequence[ChatMessage]) -> ApiRequest:
        system = [_part(message) for message in messages if message.role == "system"]
        turns = [message for message in messages if message.role != "system" or not self._takes_system]
        body: dict[str, Any] = {"contents": _contents(turns), **self._config}
        if system and self._takes_system:
            body["system_instruction"] = {"parts": system}
        return ApiRequest(self._url, self._headers, body)

    def read(self, reply: JsonObject) -> ModelReply | None:
        """Read a reply; a prompt that was blocked has no candidate, and its reason is the finish reason."""
        usage = mapping(reply.get("usageMetadata"))
        model = text_of(reply.get("modelVersion")) or None
        candidates = entries(reply.get("candidates"))
        if not candidates:
            blocked = text_of(mapping(reply.get("promptFeedback")).get("blockReason"))
            return ModelReply("", model, blocked, usage=_usage(usage)) if blocked else None
        parts = entries(mapping(candidates[0].get("content")).get("parts"))
        return ModelReply(
            "".join(text_of(part.get("text")) for part in parts if part.get("thought") is not True),
            model,
            text_of(candidates[0].get("finishReason")) or None,
            tools=tuple(
                text_of(mapping(part["functionCall"]).get("name")) or "?" for part in parts if "functionCall" in part
            ),
            usage=_usage(usage),
            reasoning_tokens=count(usage.get("thoughtsTokenCount")) or None,
        )

    def embed(self, texts: Sequence[str]) -> ApiRequest:
        url = f"{self._url.rpartition(':')[0]}:batchEmbedContents"
        requests = [{"model": self._model, "content": {"parts": [{"text": text}]}} for text in texts]
        return ApiRequest(url, self._headers, {"requests": requests})

    def read_embeddings(self, reply: JsonObject) -> Embeddings | None:
        vectors = vectors_of([each.get("values") for each in entries(reply.get("embeddings"))])
        return None if vectors is None else Embeddings(vectors)


def _contents(turns: Sequence[ChatMessage]) -> list[dict[str, Any]]:
    """Return the turns, those of one side in a row as one."""
    return [
        {"role": role, "parts": [_part(message) for message in group]}
        for role, group in groupby(turns, key=lambda message: "model" if message.role == "assistant" else "user")
    ]


def _part(message: ChatMessage) -> dict[str, str]:
    return {"text": message.content}


def _usage(usage: JsonObject) -> TokenUsage | None:
    """Return the tokens; thoughts are paid for as output."""
    written = count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount"))
    return usage_of(count(usage.get("promptTokenCount")), written, count(usage.get("cachedContentTokenCount")))
