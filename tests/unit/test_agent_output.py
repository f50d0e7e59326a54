"""The output of a coding agent: cut into lines, read, logged and told of."""

import json
import re
import time
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.model.secrets import Masker, masking
from pytest_agentv.providers.agents import AgentOutput, StreamLog, parse_event

SECRET = "sk-0123456789abcdef"


def log_to(path: Path | None, is_summary: bool = True) -> StreamLog:
    return StreamLog(path, "# head\n\n", in_full=not is_summary)


def text_of(path: Path) -> str:
    """Return a log as if no time had passed."""
    return re.sub(r"\[\+\d\d:\d\d\]", "[+00:00]", path.read_text("utf-8"))


def listen(data: bytes, output: AgentOutput | None = None, pieces: int = 7) -> AgentOutput:
    output = output or AgentOutput(log_to(None))
    for start in range(0, len(data), pieces):
        output.listen("stdout", data[start : start + pieces])
    output.end()
    return output


@given(st.lists(st.binary(max_size=5)))
def test_a_stream_is_cut_at_newlines_wherever_its_pieces_end(pieces: list[bytes]) -> None:
    output = AgentOutput(log_to(None))
    for piece in pieces:
        output.listen("stdout", piece)
    output.end()
    lines = [line.strip().decode("utf-8", "replace") for line in b"".join(pieces).split(b"\n")]
    assert output.noise == "\n".join(filter(None, lines)).strip()


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_line_that_is_longer_than_what_is_kept_ends_the_reading(stream: Literal["stdout", "stderr"]) -> None:
    output = AgentOutput(log_to(None), most_kept=20)
    for piece in (b'{"a": 1}\n', b"12345", b"678901", b"2345678901"):
        assert not output.overflowed
        output.listen(stream, piece)
    assert output.overflowed


def test_a_line_of_many_megabytes_is_read_in_no_more_time_than_it_takes() -> None:
    event = json.dumps({"text": "x" * 20_000_000}).encode() + b"\n"
    started = time.monotonic()
    output = listen(event, pieces=10_000)
    assert time.monotonic() - started < 5  # quadratic work takes minutes
    assert len(output.events) == 1


def test_events_hold_line_separators_of_unicode_and_bytes_that_are_no_text() -> None:
    raw = '{"text": "a\u2028b\u2029c\u0085d"}\n'.encode() + b'{"text": "\xff"}\r\n'
    assert listen(raw).events == [{"text": "a\u2028b\u2029c\u0085d"}, {"text": "\ufffd"}]


@pytest.mark.parametrize(
    "line", [b"[1]", b"3", b"null", b'{"a": ', b"rubbish", b"[" * 100_000, b"\xff\xfe", b"1" * 5000]
)
def test_what_is_no_event_is_kept_to_be_told(line: bytes) -> None:
    assert parse_event(line) is None
    output = listen(line + b"\n")
    assert output.events == []
    assert output.noise.startswith(line[:1].decode("utf-8", "replace"))


def test_the_end_of_the_output_is_what_was_no_event_or_the_last_events() -> None:
    assert listen(b'{"a": 1}\n' * 5).stdout == '{"a": 1}\n' * 2 + '{"a": 1}'
    assert listen(b'{"a": 1}\noops\n').stdout == "oops"


def test_no_secret_is_told_whole_or_in_part_wherever_the_output_is_cut() -> None:
    with masking(Masker([SECRET])):
        for length in range(60):
            output = AgentOutput(log_to(None))
            for line in (SECRET, "x" * length + SECRET, f"{SECRET}\n" * 200):
                output.listen("stderr", f"{line}\n".encode())
                listen(json.dumps({"text": line}).encode(), output)
            assert not any(SECRET[start : start + 6] in output.stderr + output.stdout for start in range(13))


@pytest.mark.parametrize("is_summary", [True, False])
def test_no_secret_is_logged_whole_or_in_part(tmp_path: Path, is_summary: bool) -> None:
    secret = "sk-01234  567890\nabcdef"
    with masking(Masker([secret])):
        output = AgentOutput(log_to(tmp_path / "log", is_summary))
        listen(json.dumps({"type": secret, "text": f"the key is {secret}, see?"}).encode() + b"\n", output)
    text = (tmp_path / "log").read_text()
    assert "***" in text
    assert not any(secret[start : start + 6] in text for start in range(len(secret) - 5))


def test_a_json_log_has_the_events_whole(tmp_path: Path) -> None:
    output = AgentOutput(log_to(tmp_path / "log", is_summary=False))
    listen('{"type": "quiet", "text": "ü"}\n'.encode() + b'{"a":' * 900 + b"1" + b"}" * 900, output)
    assert text_of(tmp_path / "log").startswith(
        '# head\n\n[+00:00] [stdout] {\n  "type": "quiet",\n  "text": "ü"\n}\n[+00:00] [stdout] '
    )


def test_a_log_that_cannot_be_created_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    log = log_to(tmp_path / "file" / "a.log")
    assert listen(b'{"a": 1}', AgentOutput(log)).events == [{"a": 1}]
    assert log.path is None
    assert caplog.messages == [f"no stream log {tmp_path}/file/a.log: File exists"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is full")
def test_a_log_that_cannot_be_written_on_ends_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = Path.open

    def open_full(path: Path, *_: Any, **options: Any) -> Any:
        return real_open(Path("/dev/full"), "w", **options)

    monkeypatch.setattr(Path, "open", open_full)
    log = StreamLog(tmp_path / "a.log")
    monkeypatch.undo()
    assert len(listen(b'{"a": 1}\n{"a": 2}\n', AgentOutput(log)).events) == 2
    assert caplog.messages == [f"the stream log {tmp_path}/a.log ends here: No space left on device"]
