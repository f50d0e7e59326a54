"""The output of coding agents, cut and damaged anywhere; the folders `agent-*` of the corpus show what is read."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.model.secrets import Masker, masking
from pytest_agentv.providers import agents
from pytest_agentv.providers.agent_programs import ClaudeCode, Codex, Pi
from pytest_agentv.providers.agents import AgentOutput, CodingAgent, StreamLog, summarize

PROGRAMS: dict[str, CodingAgent] = {"claude": ClaudeCode(), "codex": Codex(), "pi": Pi()}
RECORDED = Path(__file__).parents[1] / "golden" / "agents"
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(10**400) | st.just([[]])
)


def listen(data: bytes, output: AgentOutput | None = None, pieces: int = 7) -> AgentOutput:
    output = output or AgentOutput(StreamLog(None))
    for start in range(0, len(data), pieces):
        output.listen("stdout", data[start : start + pieces])
    output.end()
    return output


def mutated(value: Any, draw: st.DrawFn) -> Any:
    """Return JSON data some of whose parts are gone or something else."""
    if draw(st.integers(0, 30)) == 0:
        return draw(SCALARS)
    if isinstance(value, dict):
        return {key: mutated(item, draw) for key, item in value.items() if draw(st.integers(0, 30))}
    return [mutated(item, draw) for item in value] if isinstance(value, list) else value


def take(name: str, events: list[Any]) -> None:
    """Read events as they come through a pipe."""
    read = listen("\n".join(map(json.dumps, events)).encode(), pieces=1000).events
    json.dumps([message.to_plain() for message in PROGRAMS[name].read(read).messages])
    assert all(0 < len(summarize(event)) < 400 for event in read)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_damage_to_recorded_events_breaks_the_reading(name: str) -> None:
    lines = [line for path in RECORDED.glob(f"{name}-*.jsonl") for line in path.read_text("utf-8").split("\n") if line]
    recorded = list(map(json.loads, lines))
    take(name, recorded)

    @st.composite
    def damaged(draw: st.DrawFn) -> list[Any]:
        return [mutated(event, draw) for event in draw(st.lists(st.sampled_from(recorded), max_size=6))]

    given(damaged())(lambda events: take(name, events))()


@given(st.lists(st.binary(max_size=5)))
def test_a_stream_is_cut_at_newlines_wherever_its_pieces_end(pieces: list[bytes]) -> None:
    output = AgentOutput(StreamLog(None))
    for piece in pieces:
        output.listen("stdout", piece)
    output.end()
    lines = [line.strip().decode("utf-8", "replace") for line in b"".join(pieces).split(b"\n")]
    assert output.said("stdout") == "\n".join(filter(None, lines)).strip()


def test_a_long_line_is_read_in_no_more_time_than_it_takes_and_one_that_is_too_long_ends_the_reading(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    event = json.dumps({"text": "x" * 20_000_000}).encode() + b"\n"
    started = time.monotonic()
    output = listen(event, pieces=10_000)
    assert time.monotonic() - started < 5  # quadratic work takes minutes
    assert len(output.events) == 1
    monkeypatch.setattr(agents, "MOST_KEPT", 20)
    for line in (event[:30], event, b'{"a": 1}\n' * 3):
        assert listen(line).overflowed


def test_no_secret_is_told_whole_or_in_part_wherever_the_output_is_cut() -> None:
    secret = "sk-0123456789abcdef"
    with masking(Masker([secret])):
        for length in range(60):
            output = AgentOutput(StreamLog(None))
            for line in (secret, "x" * length + secret, f"{secret}\n" * 200):
                output.listen("stderr", f"{line}\n".encode())
                listen(json.dumps({"text": line}).encode(), output)
            summaries = "".join(map(summarize, output.events))
            assert not any(
                secret[start : start + 6] in output.said("stderr") + output.said("stdout") + summaries
                for start in range(13)
            )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
def test_a_log_that_cannot_be_written_on_ends_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *_, **options: real_open(Path("/dev/full"), "w", **options))
    log = StreamLog(tmp_path / "a.log")
    monkeypatch.undo()
    assert len(listen(b'{"a": 1}\n{"a": 2}\n', AgentOutput(log)).events) == 2
    assert caplog.messages == [f"the stream log {tmp_path}/a.log ends here: No space left on device"]
