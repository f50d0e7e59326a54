"""What the words of the APIs say about an answer: whether it is whole."""

import pytest

from pytest_agentv.model.messages import incomplete_reason, is_broken, is_cut


@pytest.mark.parametrize(
    "word",
    [
        *("stop", "STOP", "end_turn", "stop_sequence", "tool_calls", "tool-calls", "tool_use", "function_call"),
        *("eos", "eos_token", "COMPLETE", "completed", "", None),
    ],
)
def test_an_answer_that_came_to_its_end_is_whole(word: str | None) -> None:
    assert incomplete_reason(word) is None
    assert not is_cut(word)


@pytest.mark.parametrize(
    "word",
    [
        "length",
        "max_tokens",
        "MAX_TOKENS",
        "model_context_window_exceeded",
        "model_length",
        "max_length",
        "token_limit",
        "CONTINUATION",
    ],
)
def test_an_answer_may_be_cut(word: str) -> None:
    assert is_cut(word)
    assert incomplete_reason(word) == "it was cut at the token limit"


@pytest.mark.parametrize(
    "word",
    [
        *("content_filter", "content-filter", "SAFETY", "RECITATION", "guardrail_intervened"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR", "ERROR_TOXIC"),
        *("ESCALATION", "JAILBREAK"),
    ],
)
def test_an_answer_may_be_filtered(word: str) -> None:
    assert incomplete_reason(word) == "a content filter stopped it"


@pytest.mark.parametrize(
    "word",
    [
        "pause_turn",
        "MALFORMED_FUNCTION_CALL",
        "OTHER",
        "NO_IMAGE",
        "IMAGE_OTHER",
        "MISSING_THOUGHT_SIGNATURE",
        "time_limit",
        "compaction",
        "PUP_LIMITED_DISABLED",
    ],
)
def test_an_answer_may_be_stopped(word: str) -> None:
    assert incomplete_reason(word) == "the API stopped it before its end"


@pytest.mark.parametrize("word", ["error", "insufficient_system_resource", "abort", "cancelled"])
def test_an_answer_may_be_broken_off_by_its_server(word: str) -> None:
    assert is_broken(word)
    assert incomplete_reason(word) == "an error of the server broke it off"
