"""What is asked of a model: messages, model names, URLs, limits."""

from typing import Any

import pytest

from pytest_agentv.cases.prompts import ChatMessage, Prompt
from pytest_agentv.providers.api.azure import resource_url
from pytest_agentv.providers.api.base import ModelSettings
from pytest_agentv.providers.api.replies import (
    DEFAULT_SYSTEM_PROMPT,
    build_arguments,
    build_messages,
)
from pytest_agentv.providers.base import ProviderRequest


def messages(prompt: Prompt, system_prompt: str | None = None) -> list[tuple[str, str]]:
    built = build_messages(ProviderRequest(prompt, "c1", system_prompt=system_prompt))
    return [(message.role, message.content) for message in built]


class TestMessages:
    def test_a_question_follows_the_default_system_prompt(self) -> None:
        assert messages(Prompt("\n hi \n")) == [("system", DEFAULT_SYSTEM_PROMPT), ("user", "hi")]

    def test_guidelines_are_a_section_of_the_system_message(self) -> None:
        assert messages(Prompt("hi", guidelines="<file>be kind</file>")) == [
            ("system", f"{DEFAULT_SYSTEM_PROMPT}\n\n[[ ## Guidelines ## ]]\n\n<file>be kind</file>"),
            ("user", "hi"),
        ]

    def test_a_judge_brings_a_system_prompt_of_its_own(self) -> None:
        assert messages(Prompt("judge this"), "You are a judge.") == [
            ("system", "You are a judge."),
            ("user", "judge this"),
        ]

    def test_a_conversation_with_a_system_message_keeps_that_one(self) -> None:
        chat = (ChatMessage("system", "rules"), ChatMessage("user", "q"), ChatMessage("assistant", "@[Tool]:\nx"))

        assert messages(Prompt("flat", "guidelines", chat)) == [
            ("system", "rules"),
            ("user", "q"),
            ("assistant", "@[Tool]:\nx"),
        ]

    def test_a_conversation_without_one_gets_one_without_guidelines(self) -> None:
        chat = (ChatMessage("user", "q"), ChatMessage("assistant", "a"))

        assert messages(Prompt("flat", "", chat))[0] == ("system", DEFAULT_SYSTEM_PROMPT)
        assert messages(Prompt("flat", "", chat), "mine")[0] == ("system", "mine")


@pytest.mark.parametrize(
    ("written", "endpoint"),
    [
        ("https://r.openai.azure.com", "https://r.openai.azure.com"),
        ("https://r.openai.azure.com/openai", "https://r.openai.azure.com"),
        ("https://r.openai.azure.com/openai/v1", "https://r.openai.azure.com"),
        ("HTTP://proxy:8080/azure", "HTTP://proxy:8080/azure"),
        ("r", "https://r.openai.azure.com"),
        ("r.openai.azure.com", "https://r.openai.azure.com"),
        ("r.cognitiveservices.azure.com", "https://r.cognitiveservices.azure.com"),
    ],
)
@pytest.mark.scenario("Azure OpenAI provider")
def test_an_azure_resource_is_named_by_url_or_host_or_name(written: str, endpoint: str) -> None:
    assert resource_url(written) == endpoint


def arguments(kind: str, settings: ModelSettings, **environment: str) -> dict[str, Any]:
    return build_arguments(kind, settings, environment)


class TestArguments:
    def test_what_is_not_set_is_left_out(self) -> None:
        assert arguments("openai", ModelSettings("gpt-4o")) == {"model": "openai/gpt-4o", "drop_params": True}

    @pytest.mark.parametrize("kind", ["openai", "azure"])
    def test_litellm_asks_in_the_responses_api(self, kind: str) -> None:
        assert (
            arguments(kind, ModelSettings("m", base_url="r", api_format="responses"))["model"] == f"{kind}/responses/m"
        )

    def test_an_azure_deployment_of_a_chat_model(self) -> None:
        settings = ModelSettings("gpt-4o", "k", "https://r.openai.azure.com/", "2024-10-01-preview", 0.2, 100)

        assert arguments("azure", settings) == {
            "model": "azure/gpt-4o",
            "api_key": "k",
            "api_base": "https://r.openai.azure.com",
            "api_version": "2024-10-01-preview",
            "temperature": 0.2,
            "max_tokens": 100,
            "drop_params": True,
        }

    def test_an_azure_deployment_of_a_reasoning_model_has_no_temperature_and_another_limit(self) -> None:
        settings = ModelSettings("o3-mini", "k", "r", "v", 0.2, 100, reasoning=True)

        assert arguments("azure", settings) == {
            "model": "azure/o_series/o3-mini",
            "api_key": "k",
            "api_base": "https://r.openai.azure.com",
            "api_version": "v",
            "max_completion_tokens": 100,
            "drop_params": True,
        }

    @pytest.mark.parametrize("model", ["claude-opus-4-1", "claude-sonnet-5"])
    def test_the_limit_of_models_of_anthropic_is_left_to_litellm(self, model: str) -> None:
        assert "max_tokens" not in arguments("anthropic", ModelSettings(model, thinking_budget=1000))

    def test_thinking_comes_on_top_of_the_answer_and_excludes_a_temperature(self) -> None:
        settings = ModelSettings("claude-sonnet-4-5", temperature=0.5, max_output_tokens=1000, thinking_budget=2000)

        assert arguments("anthropic", settings) == {
            "model": "anthropic/claude-sonnet-4-5",
            "max_tokens": 3000,
            "thinking": {"type": "enabled", "budget_tokens": 2000},
            "drop_params": True,
        }

    @pytest.mark.parametrize(
        "written", ["http://p", "http://p/", "http://p/v1", "http://p/v1/", "http://p/v1/messages"]
    )
    def test_the_base_url_of_anthropic_may_end_in_its_version(self, written: str) -> None:
        assert arguments("anthropic", ModelSettings("m", base_url=written))["api_base"] == "http://p"

    @pytest.mark.parametrize(
        ("written", "used"),
        [
            ("http://p", "http://p/v1beta"),
            ("http://p/v1beta/", "http://p/v1beta"),
            ("http://p/v1", "http://p/v1"),
            ("http://p/gemini", "http://p/gemini/v1beta"),
        ],
    )
    def test_the_base_url_of_gemini_may_leave_its_version_out(self, written: str, used: str) -> None:
        assert arguments("gemini", ModelSettings("m", base_url=written))["api_base"] == used

    @pytest.mark.parametrize(
        ("kind", "variable"),
        [("anthropic", "ANTHROPIC_BASE_URL"), ("openai", "OPENAI_BASE_URL"), ("gemini", "GEMINI_API_BASE")],
    )
    def test_a_variable_stands_in_for_a_base_url_that_is_left_out(self, kind: str, variable: str) -> None:
        environment = {variable: "http://p/v1"}

        assert arguments(kind, ModelSettings("m"), **environment)["api_base"].startswith("http://p")
        assert arguments(kind, ModelSettings("m", base_url="http://q/v1"), **environment)["api_base"].startswith(
            "http://q"
        )

    def test_a_model_of_litellm_is_named_as_written(self) -> None:
        settings = ModelSettings("groq/llama-3.1-8b", base_url="http://p/v1", api_version="v")

        assert arguments("litellm", settings, OPENAI_BASE_URL="http://other") == {
            "model": "groq/llama-3.1-8b",
            "api_base": "http://p/v1",
            "api_version": "v",
            "drop_params": True,
        }
