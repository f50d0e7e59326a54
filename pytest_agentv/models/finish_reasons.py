"""Why a model stopped writing: the words of the APIs (`finish_reason`), and what they mean for the answer."""

from typing import Final

_CUT: Final = frozenset({"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded", "incomplete"})
_FILTERED: Final = frozenset(
    {
        *("content_filter", "content_filtered", "guardrail_intervened", "sensitive"),
        *("safety", "recitation", "blocklist", "prohibited_content", "spii", "language", "image_safety"),
    }
)
_REFUSED: Final = frozenset({"refusal"})


def is_cut(finish_reason: str | None) -> bool:
    """Return whether the answer ends where the token limit was reached."""
    return (finish_reason or "").lower() in _CUT


def incomplete_reason(finish_reason: str | None) -> str | None:
    """Return what kept an answer from being whole; None for an answer that ended by itself."""
    word = (finish_reason or "").lower()
    if word in _CUT:
        return "it was cut at the token limit"
    if word in _FILTERED:
        return "a content filter stopped it"
    return "the model refused" if word in _REFUSED else None
