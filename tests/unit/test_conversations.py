"""Conversations in results are bounded, and say what is left out."""

from pytest_agentv.model.base import compact_json
from pytest_agentv.model.secrets import Masker
from pytest_agentv.store.writers import (
    LONGEST_TEXT,
    MOST_CALLS,
    MOST_MESSAGES,
    MOST_TEXT,
    bounded_messages,
    recordable,
)


def test_short_conversations_stay_as_they_are() -> None:
    call = {"tool": "search", "input": {"q": "tents"}, "output": [1, 2], "duration_ms": 3}
    messages = [{"role": "assistant", "content": "Hello", "tool_calls": [call]}]
    assert bounded_messages(messages) == messages


def test_long_texts_are_cut() -> None:
    call = {"tool": "read", "output": {"text": "y" * 10_000}}
    [message] = bounded_messages([{"role": "assistant", "content": "x" * 5_000, "tool_calls": [call]}])
    assert message["content"] == "x" * LONGEST_TEXT + "… (1,000 more characters)"
    assert message["tool_calls"][0]["output"].endswith("more characters)")


def test_the_whole_is_bounded() -> None:
    call = {"tool": "t", "input": "i" * 5_000, "output": "o" * 5_000}
    messages = [{"role": "assistant", "content": "c" * 5_000, "tool_calls": [call] * 100}] * 500
    found = bounded_messages(messages)
    assert len(found) == MOST_MESSAGES + 1
    assert found[MOST_MESSAGES // 2]["content"] == f"… {500 - MOST_MESSAGES} messages are left out …"
    assert len(found[0]["tool_calls"]) == MOST_CALLS + 1
    first = bounded_messages(messages[:1])
    assert len(compact_json(first)) < 1.5 * MOST_TEXT


def test_secrets_are_masked_before_texts_are_cut() -> None:
    masker = Masker()
    masker.add(["sk-a-very-secret-value-1234567890"])
    text = "x" * (LONGEST_TEXT - 10) + "sk-a-very-secret-value-1234567890"
    call = {"tool": "search", "input": {"key": text}, "output": text}
    record = recordable({"output_messages": [{"role": "assistant", "content": text, "tool_calls": [call]}]}, masker)
    assert "sk-a" not in compact_json(record)
    assert record["output_messages"][0]["tool_calls"][0]["tool"] == "search"
