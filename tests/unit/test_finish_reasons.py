"""What the words of the APIs say about an answer: whether it is whole."""

import pytest

from pytest_agentv.model.messages import incomplete_reason, is_broken, is_cut

WORDS = {
    None: "stop STOP end_turn stop_sequence tool_calls tool-calls tool_use function_call eos eos_token COMPLETE "
    "completed",
    "it was cut at the token limit": (
        "length max_tokens MAX_TOKENS model_context_window_exceeded model_length max_length token_limit CONTINUATION"
    ),
    "a content filter stopped it": (
        "content_filter content-filter SAFETY RECITATION guardrail_intervened IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT "
        "IMAGE_RECITATION MODEL_ARMOR ERROR_TOXIC ESCALATION JAILBREAK"
    ),
    "the API stopped it before its end": (
        "pause_turn MALFORMED_FUNCTION_CALL OTHER NO_IMAGE IMAGE_OTHER MISSING_THOUGHT_SIGNATURE time_limit compaction "
        "PUP_LIMITED_DISABLED"
    ),
    "an error of the server broke it off": "error insufficient_system_resource abort cancelled",
}


@pytest.mark.parametrize(("word", "reason"), [(word, reason) for reason in WORDS for word in WORDS[reason].split()])
def test_the_reason_why_a_model_stopped_tells_whether_the_answer_is_whole(word: str, reason: str | None) -> None:
    assert incomplete_reason(word) == reason
    assert is_cut(word) == (reason == "it was cut at the token limit")
    assert is_broken(word) == (reason == "an error of the server broke it off")


@pytest.mark.parametrize("word", ["", None])
def test_without_a_word_an_answer_is_whole(word: str | None) -> None:
    assert (incomplete_reason(word), is_cut(word)) == (None, False)
