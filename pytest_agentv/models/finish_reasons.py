"""Why a model stopped: the words of the APIs (`finish_reason`) and their meaning for the answer."""

from typing import Final

_CUT: Final = frozenset({"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded", "incomplete"})
_FILTERED: Final = frozenset(
    {
        *("content_filter", "content_filtered", "guardrail_intervened", "sensitive"),
        *("safety", "recitation", "blocklist", "prohibited_content", "spii", "language", "image_safety"),
    }
)
_REFUSED: Final = frozenset({"refusal"})
_STOPPED: Final = frozenset(
    {"pause_turn", "malformed_function_call", "malformed_response", "unexpected_tool_call", "too_many_tool_calls"}
)
_BROKEN: Final = frozenset({"error"})


def is_cut(finish_reason: str | None) -> bool:
    """Whether the token limit cut the answer."""
    return (finish_reason or "").lower() in _CUT


def is_broken(finish_reason: str | None) -> bool:
    """Whether an error of the model's server ended the answer: it says nothing about the model."""
    return (finish_reason or "").lower() in _BROKEN


def incomplete_reason(finish_reason: str | None) -> str | None:
    """Return the reason why an answer is incomplete; None for a complete answer."""
    word = (finish_reason or "").lower()
    if word in _CUT:
        return "it was cut at the token limit"
    if word in _FILTERED:
        return "a content filter stopped it"
    if word in _BROKEN:
        return "an error of the server broke it off"
    if word in _STOPPED:
        return "the API stopped it before its end"
    return "the model refused" if word in _REFUSED else None
