"""Builds the arguments of litellm's `acompletion` from a target's settings and a prompt (agentv-formats 5.1)."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pytest_agentv.models.text import trim
from pytest_agentv.prompts.build import guidelines_section
from pytest_agentv.prompts.prompt import ChatMessage
from pytest_agentv.providers.apis.azure import resource_url
from pytest_agentv.providers.apis.base import ModelSettings
from pytest_agentv.providers.base import ProviderRequest

DEFAULT_SYSTEM_PROMPT: Final = (
    "You are a careful assistant: do what the instructions ask, and never invent facts or results."
)

_BASE_URL_VARIABLES: Final = {
    "anthropic": "ANTHROPIC_BASE_URL",
    "gemini": "GEMINI_API_BASE",
    "openai": "OPENAI_BASE_URL",
}
"""The variables that replace a missing `base_url`."""

_OWN_BODIES: Final = ("anthropic", "gemini")
"""Kinds for which litellm builds the body from all arguments."""

Arguments: TypeAlias = dict[str, Any]
"""Keyword arguments of `acompletion`."""


def build_arguments(kind: str, settings: ModelSettings, environment: Mapping[str, str]) -> Arguments:
    """Return the arguments that all requests of a target share. Arguments without a value are left out.

    Args:
        kind: `azure`, `anthropic`, `gemini`, `openai` or `litellm`.
        settings: The target's settings.
        environment: The variables with base URLs that the target does not set.
    """
    base_url = settings.base_url or environment.get(_BASE_URL_VARIABLES.get(kind, ""), "")
    prefix = "responses/" if settings.api_format == "responses" else ""  # litellm's term
    arguments: Arguments = {
        "model": settings.model if kind == "litellm" else f"{kind}/{prefix}{settings.model}",
        "api_key": settings.api_key,
        "api_base": base_url.strip().rstrip("/") or None,
        "api_version": settings.api_version,
        "temperature": settings.temperature,
        "max_tokens": settings.max_output_tokens,
        "top_p": settings.top_p,
        "seed": settings.seed,
        "stop": settings.stop and list(settings.stop),
        "reasoning_effort": settings.reasoning_effort,
        "response_format": settings.response_format,
        "tools": settings.tools and list(settings.tools),
        "organization": settings.organization,
        "extra_headers": dict(settings.headers) or None,
        "drop_params": True,  # a model that takes no temperature must still answer
        # The place that litellm prices by. Its argument `base_model` would also change the URL of Azure.
        "litellm_metadata": settings.base_model and {"model_info": {"base_model": settings.base_model}},
    }
    if kind in _OWN_BODIES:  # litellm would send a key `extra_body`
        arguments |= settings.extra_body
    else:
        arguments["extra_body"] = settings.extra_body or None
    adapt = _ADAPTATIONS.get(kind)
    arguments |= adapt(settings, arguments["api_base"]) if adapt else {}
    return {name: value for name, value in arguments.items() if value is not None}


def build_messages(request: ProviderRequest) -> list[ChatMessage]:
    """Return the messages of a request. A conversation keeps its own system message."""
    prompt = request.prompt
    system = request.system_prompt or DEFAULT_SYSTEM_PROMPT
    if prompt.chat_prompt is None:
        system = "\n\n".join(filter(None, (system, guidelines_section(prompt.guidelines))))
        return [ChatMessage("system", system), ChatMessage("user", trim(prompt.question), prompt.parts)]
    if any(message.role == "system" for message in prompt.chat_prompt):
        return list(prompt.chat_prompt)
    return [ChatMessage("system", system), *prompt.chat_prompt]


def _adapt_azure(settings: ModelSettings, base_url: str | None) -> Arguments:
    endpoint = resource_url(base_url or "")
    if not settings.reasoning:
        return {"api_base": endpoint}
    return {
        "model": f"azure/o_series/{settings.model}",  # litellm's term; the name alone would not tell it
        "api_base": endpoint,
        "temperature": None,
        "max_tokens": None,
        "max_completion_tokens": settings.max_output_tokens,
    }


def _adapt_anthropic(settings: ModelSettings, base_url: str | None) -> Arguments:
    tokens = settings.max_output_tokens
    endpoint = base_url and re.sub(r"/v1(/messages)?$", "", base_url)  # litellm adds it
    budget = settings.thinking_budget
    if budget is None:
        return {"api_base": endpoint, "max_tokens": tokens}
    return {
        "api_base": endpoint,
        "max_tokens": tokens and tokens + budget,
        "temperature": None,  # the API refuses it beside thinking
        "thinking": {"type": "enabled", "budget_tokens": budget},
    }


def _adapt_gemini(_settings: ModelSettings, base_url: str | None) -> Arguments:
    has_version = base_url is None or re.search(r"/v\d\w*$", base_url)
    return {"api_base": base_url if has_version else f"{base_url}/v1beta"}


_ADAPTATIONS: Final[Mapping[str, Callable[[ModelSettings, str | None], Arguments]]] = {
    "anthropic": _adapt_anthropic,
    "azure": _adapt_azure,
    "gemini": _adapt_gemini,
}
