"""Reads facts from the names of models, deployments and resources."""

import re
from typing import Final
from urllib.parse import parse_qs, urlsplit

from pytest_agentv.providers.apis.base import ModelSettings

_ANTHROPIC_LIMITS: Final = (
    (re.compile(r"claude-[12]|claude-instant|claude-3-(opus|sonnet|haiku)"), 4096),
    (re.compile(r"3-5-"), 8192),
    (re.compile(r"opus-4(-1)?(-0|-\d{8})?$"), 32_000),
    (re.compile(r"(sonnet|opus|haiku)-4-5|sonnet-4(-0|-\d{8})?$|3-7-sonnet"), 64_000),
)
"""The longest answers of Anthropic's models, in tokens."""

_PORTAL_PATH: Final = re.compile(
    r"/openai(/v1|/deployments/[^/]+)?(/chat/completions|/completions|/embeddings|/responses)?$"
)
"""The rest of a URL that Azure's portal shows after a resource."""

_VERSION: Final = "api-version"

_NOT_REASONING: Final = ("gpt-3", "gpt-4", "chatgpt-4o", "gpt-5-chat")
"""Deployments with any other name count as reasoning models, which take no temperature."""


def known_limit(model: str) -> int | None:
    """Return the most tokens that a model of Anthropic writes; None if unknown."""
    return next((limit for name, limit in _ANTHROPIC_LIMITS if name.search(model)), None)


def is_reasoning_deployment(settings: ModelSettings) -> bool:
    """Whether a deployment counts as a reasoning model."""
    if settings.reasoning is not None:
        return settings.reasoning
    return not settings.known_as.startswith(_NOT_REASONING)


def resource_url(text: str) -> str:
    """Return the URL of a resource, given as a URL, host name or name."""
    text = text.partition("?")[0].strip().rstrip("/")
    if not re.match(r"(?i)https?://", text):
        return f"https://{text}" if "." in text else f"https://{text}.openai.azure.com"
    return _PORTAL_PATH.sub("", text)


def version_in_url(url: str) -> str | None:
    """Return the API version in a URL, as in URLs of Azure's portal."""
    query = parse_qs(urlsplit(url).query)
    return next((values[0] for name, values in query.items() if name.lower() == _VERSION), None)


def query_without_version(url: str) -> str:
    """Return the rest of a URL's query unchanged, for example the key of a gateway."""
    parts = url.strip().partition("?")[2].split("&")
    return "&".join(part for part in parts if part and part.partition("=")[0].lower() != _VERSION)
