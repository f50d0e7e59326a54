"""Why a model stopped: the words of the APIs (`finish_reason`) and their meaning for the answer."""

from typing import Final

_CUT: Final = frozenset(
    {
        *("length", "max_tokens", "max_output_tokens", "model_context_window_exceeded", "incomplete"),
        *("model_length", "max_length", "token_limit", "continuation"),
    }
)
_FILTERED: Final = frozenset(
    {
        *("content_filter", "content_filtered", "guardrail_intervened", "sensitive"),
        *("safety", "recitation", "blocklist", "prohibited_content", "spii", "language", "image_safety"),
        *("image_prohibited_content", "image_recitation", "model_armor", "error_toxic", "escalation", "jailbreak"),
    }
)
_REFUSED: Final = frozenset({"refusal"})
_STOPPED: Final = frozenset(
    {
        *("pause_turn", "malformed_function_call", "malformed_response", "unexpected_tool_call", "too_many_tool_calls"),
        *("other", "image_other", "no_image", "missing_thought_signature", "time_limit", "compaction"),
        "pup_limited_disabled",
    }
)
_BROKEN: Final = frozenset({"error", "insufficient_system_resource", "abort", "aborted", "cancelled", "canceled"})


def _plain(finish_reason: str | None) -> str:
    """Return a word in the form of the tables: some libraries write `content-filter`, some APIs upper case."""
    return (finish_reason or "").lower().replace("-", "_")


def is_cut(finish_reason: str | None) -> bool:
    """Whether the token limit cut the answer."""
    return _plain(finish_reason) in _CUT


def is_broken(finish_reason: str | None) -> bool:
    """Whether an error of the model's server ended the answer: it says nothing about the model."""
    return _plain(finish_reason) in _BROKEN


def incomplete_reason(finish_reason: str | None) -> str | None:
    """Return the reason why an answer is incomplete; None for a complete answer."""
    word = _plain(finish_reason)
    if word in _CUT:
        return "it was cut at the token limit"
    if word in _FILTERED:
        return "a content filter stopped it"
    if word in _BROKEN:
        return "an error of the server broke it off"
    if word in _STOPPED:
        return "the API stopped it before its end"
    return "the model refused" if word in _REFUSED else None
