"""What the events of all coding agents go through: odd ones are passed over, and tell of failures in many words."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import tries

from pytest_agentv.model.secrets import Masker, masking
from pytest_agentv.providers.agents.agent import CodingAgent
from pytest_agentv.providers.agents.claude_code import ClaudeCode
from pytest_agentv.providers.agents.codex import Codex
from pytest_agentv.providers.agents.output import (
    as_number,
    guess_kind,
    joined_text,
    parse_event,
    result_output,
    shorten,
    status_kind,
)
from pytest_agentv.providers.agents.pi import Pi

PROGRAMS: dict[str, CodingAgent] = {"claude": ClaudeCode(), "codex": Codex(), "pi": Pi()}
RECORDED = Path(__file__).parents[1] / "golden" / "agents"


def recorded(name: str) -> list[dict[str, Any]]:
    """Return the events of all recorded runs of a program."""
    paths = sorted(RECORDED.glob(f"{name}-*.jsonl"))
    assert paths
    return [json.loads(line) for path in paths for line in path.read_text("utf-8").split("\n") if line]


def words_of(value: Any) -> set[str]:
    """Return all keys, and the short texts, of JSON data."""
    if isinstance(value, dict):
        return set(value) | {word for item in value.values() for word in words_of(item)}
    if isinstance(value, list):
        return {word for item in value for word in words_of(item)}
    return {value} if isinstance(value, str) and len(value) < 30 else set()


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(10**400) | st.just([[]])
)


def garbage(name: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Return event lists made of the words that a program uses, in any arrangement."""
    words = st.sampled_from(sorted(words_of(recorded(name))))
    inner = st.recursive(
        SCALARS | words,
        lambda some: st.lists(some, max_size=3) | st.dictionaries(words, some, max_size=5),
        max_leaves=12,
    )
    return st.lists(st.dictionaries(words, inner, max_size=5), max_size=5)


def mutated(value: Any, draw: st.DrawFn) -> Any:
    """Return JSON data some of whose parts are gone or something else."""
    if draw(st.integers(0, 30)) == 0:
        return draw(SCALARS)
    if isinstance(value, dict):
        return {key: mutated(item, draw) for key, item in value.items() if draw(st.integers(0, 30))}
    if isinstance(value, list):
        return [mutated(item, draw) for item in value]
    return value


@st.composite
def damaged(draw: st.DrawFn, name: str) -> list[dict[str, Any]]:
    """Return recorded events of which some are damaged, left out or told in another order."""
    chosen = draw(st.lists(st.sampled_from(recorded(name)), max_size=6))
    return [event for event in (mutated(event, draw) for event in chosen) if isinstance(event, dict)]


def take(name: str, events: list[dict[str, Any]]) -> None:
    """Read events as they come through a pipe."""
    read = [event for event in (parse_event(json.dumps(event).encode()) for event in events) if event is not None]
    answer = PROGRAMS[name].read(read)
    json.dumps([message.to_plain() for message in answer.messages])
    for event in read:
        assert isinstance(PROGRAMS[name].summarize(event), str | None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_garbage_breaks_the_reading(name: str) -> None:
    settings(max_examples=tries(15, 50))(given(garbage(name))(lambda events: take(name, events)))()


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_damage_to_recorded_events_breaks_the_reading(name: str) -> None:
    given(damaged(name))(lambda events: take(name, events))()


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_recorded_events_are_read(name: str) -> None:
    take(name, recorded(name))


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (3, 3),
        (0.5, 0.5),
        (None, 0),
        ("3", 0),
        (True, 0),
        ([], 0),
        (math.nan, 0),
        (math.inf, 0),
        (10**400, 0),
        (1e300, 0),
    ],
)
def test_what_is_no_number_to_compute_with_is_0(value: Any, number: float) -> None:
    assert as_number(value) == number


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("API Error: 401 no", "auth"),
        ("unexpected status 403 Forbidden", "auth"),
        ("exceeded retry limit, last status: 429", "rate_limit"),
        ("500 the server says no", "network"),
        ("529 {}", "network"),
        ("Not logged in · Please run /login", "auth"),
        ("Missing environment variable: `KEY`", "auth"),
        ("Rate limit reached", "rate_limit"),
        ("Unable to connect to API (ConnectionRefused)", "network"),
        ("stream disconnected before completion", "network"),
        ("stream disconnected before completion: Incomplete response returned, reason: content_filter", "no_answer"),
        ("stream disconnected before completion: Incomplete response returned, reason: max_tokens", "no_answer"),
        ("terminated: other side closed (UND_ERR_SOCKET)", "network"),
        ("read ECONNRESET", "network"),
        ("socket hang up", "network"),
        ("We’re currently experiencing high demand", "network"),
        ("Request timed out", "network"),
        ("error: unknown option '--x'", "process"),
        ("SyntaxError at main.js:512:34", "process"),
        ("", "process"),
    ],
)
def test_the_words_of_a_program_tell_the_kind_of_its_failure(text: str, kind: str) -> None:
    assert guess_kind(text) == kind


@pytest.mark.parametrize(("status", "kind"), [(0, None), (200, None), (400, None), (401, "auth"), (503, "network")])
def test_statuses_tell_the_kind_of_a_failure(status: float, kind: str | None) -> None:
    assert status_kind(status) == kind


def test_texts_are_cut_after_their_secrets_are_hidden() -> None:
    with masking(Masker(["sk-secret  with blanks"])):
        line = shorten("x" * 40 + " sk-secret  with blanks and more")
    assert line == "x" * 40 + " *** and m..."
    assert shorten("a\n b") == "a b"


def test_the_text_of_a_message_is_that_of_its_blocks() -> None:
    assert joined_text("a") == "a"
    assert joined_text([{"type": "text", "text": "a"}, {"type": "x"}, {"type": "text", "text": "b"}, 3]) == "a\nb"
    assert joined_text([{"type": "x"}]) is None
    assert joined_text(None) is None


@pytest.mark.parametrize("content", [None, "a", [], [{"type": "image"}], 3])
def test_what_a_tool_gave_is_kept_as_it_is_unless_it_is_all_text(content: Any) -> None:
    assert result_output(content) == content
    assert result_output([{"type": "text", "text": "a"}]) == "a"
