"""Coding agents as processes: scripts stand in for their programs, and do what a program may do."""

import asyncio
import json
import os
import shlex
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.secrets import Masker, Secret, masking
from pytest_agentv.providers import agents as output
from pytest_agentv.providers.agents import AgentProvider
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.table import KINDS, create_provider
from pytest_agentv.runtime.reaper import read_processes

ENVIRONMENT = {"PATH": os.environ["PATH"]}
HAS_PROC = Path("/proc/self/environ").exists()
RESULT = json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "4"})
SECRET = "sk-0123456789abcdef"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files, which calls leave empty; the logs are in the working directory."""
    folder = tmp_path / "temporary files"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    yield folder
    assert list(folder.iterdir()) == []


def program(text: str) -> str:
    """Write a shell script that stands in for a program; `$RESULT` is what Claude Code ends with."""
    path = Path("claude").absolute()
    path.write_text(f"#!/bin/sh\nRESULT={shlex.quote(RESULT)}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def provider(
    script: str, environment: dict[str, str] = ENVIRONMENT, kind: str = "claude-code", **fields: Any
) -> AgentProvider:
    settings = KINDS.table[kind](executable=program(script)).replace(**fields)
    target = Target("coder", kind, settings, path=str(Path("targets.yaml").absolute()), line=3)
    made = create_provider(target, environment)
    assert isinstance(made, AgentProvider)
    return made


def invoke(script: str, environment: dict[str, str] = ENVIRONMENT, **fields: Any) -> ProviderResponse:
    request = ProviderRequest(Prompt("What is 2 + 2?"), "case", timeout_seconds=30)
    return asyncio.run(provider(f"{script}\n", environment, **fields).invoke(request))


def failure(script: str, **fields: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        invoke(script, **fields)
    return caught.value


def headline(script: str, **fields: Any) -> tuple[str, str]:
    """Return the message of a failure without the place of the log, and its kind."""
    error = failure(script, **fields)
    text, _, log = str(error).partition("\nlog: ")
    assert log == error.raw["log_file"]
    return text, error.kind


def is_running(pid: int) -> bool:
    return any(info.pid == pid and info.state != "Z" for info in read_processes())


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        time.sleep(0.01)


def has_ended(pid: int, seconds: float = 5) -> bool:
    deadline = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_running(pid)


def test_variables_of_ours_do_not_replace_those_of_the_user_and_marks_of_nesting_are_gone() -> None:
    script = (
        'echo "$CLAUDE_CODE_MAX_RETRIES,$CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC,$CLAUDECODE,$X" >&2; echo "$RESULT"'
    )
    own = {**ENVIRONMENT, "CLAUDECODE": "1", "CLAUDE_CODE_MAX_RETRIES": "7", "X": "x"}
    assert invoke(script, own).raw["stderr"] == "7,1,,x"
    assert invoke(script).raw["stderr"] == "2,1,,"


@pytest.mark.scenario("Claude Code error handling")
@pytest.mark.scenario("Codex CLI provider")
@pytest.mark.parametrize(
    ("script", "text", "kind"),
    [
        ("echo early; echo late >&2; exit 1", "exited with code 1: stderr: late\nstdout: early", "process"),
        ('echo "$RESULT"; echo 401 >&2; exit 1', "exited with code 1: 401", "auth"),
        ("kill -SEGV $$", "was ended by signal 11", "process"),
        ("printf '\\377\\n'", "wrote no events: stdout: \ufffd", "process"),
        ("""echo '{"type": "system"}'; echo "not connected" >&2""", "ended without a result: not connected", "network"),
        (
            """echo '{"type": "result", "subtype": "success"}'""",
            "ended without a word and without a call of a tool",
            "no_answer",
        ),
        (
            """echo '{"type": "result", "is_error": 1, "result": "no", "api_error_status": 429}'; echo x >&2; exit 1""",
            "exited with code 1: no\nstderr: x",
            "rate_limit",
        ),
    ],
)
def test_a_program_that_ends_without_an_answer_is_an_error(script: str, text: str, kind: str) -> None:
    assert headline(script) == (f"Claude Code CLI {text}", kind)


def test_a_program_that_writes_more_than_is_kept_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.AgentOutput.__init__, "__defaults__", (frozenset(), 1000))
    text, kind = headline('for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do echo "$RESULT"; done')
    assert (text, kind) == ("Claude Code CLI wrote more than 256 MiB of events", "process")


def test_what_a_stopped_program_reported_of_its_cost_stays_in_the_record() -> None:
    event = {"type": "result", "subtype": "success", "result": "4", "total_cost_usd": 0.5}
    response = invoke(f"echo {shlex.quote(json.dumps(event))}; exec sleep 1000", timeout_seconds=1.5)
    assert (response.error or "").startswith("Claude Code CLI timed out after 2s")
    assert (response.error_kind, response.cost_usd) == ("timeout", 0.5)


DAEMONS = """
setsid sh -c 'echo $$ > PLACE/session; exec sleep 1000' </dev/null >/dev/null 2>&1 &
setsid sh -c 'setsid sh -c "echo \\$\\$ > PLACE/daemon; exec sleep 1000" & exit 0' </dev/null >/dev/null 2>&1
until [ -s PLACE/session ] && [ -s PLACE/daemon ]; do sleep 0.01; done
"""


def daemons(tmp_path: Path) -> list[int]:
    return [int((tmp_path / name).read_text()) for name in ("session", "daemon")]


@pytest.mark.skipif(not HAS_PROC, reason="processes that moved away are found in /proc")
@pytest.mark.parametrize(
    ("end", "limit"), [('echo "$RESULT"', 30), ("exit 1", 30), ("kill -9 $$", 30), ("exec sleep 1000", 3)]
)
def test_however_a_program_ends_what_it_started_ends_as_well(tmp_path: Path, end: str, limit: float) -> None:
    script = DAEMONS.replace("PLACE", str(tmp_path)) + end
    if "RESULT" in end:
        invoke(script, timeout_seconds=limit)
    else:
        failure(script, timeout_seconds=limit)
    assert [pid for pid in daemons(tmp_path) if not has_ended(pid)] == []


@pytest.mark.skipif(not HAS_PROC, reason="processes that moved away are found in /proc")
def test_a_call_that_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    async def scenario() -> float:
        made = provider(f"{DAEMONS.replace('PLACE', str(tmp_path))}touch {tmp_path}/up; sleep 1000\n")
        task = asyncio.ensure_future(made.invoke(ProviderRequest(Prompt("q"), "case")))
        await asyncio.to_thread(wait_for, tmp_path / "up")
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - started

    assert asyncio.run(scenario()) < 3
    assert [pid for pid in daemons(tmp_path) if not has_ended(pid)] == []
    (log,) = Path(".agentv/logs/claude-code").iterdir()
    assert "# eval: case" in log.read_text()


def test_no_secret_shows_in_what_is_told_of_a_failure() -> None:
    result = json.dumps({"type": "result", "is_error": True, "result": SECRET})
    script = f"""shift 6; echo "$KEY $*" >&2; echo "$KEY"; echo '{result}'; exit 1"""
    arguments = ("--key", Secret(SECRET), f"--other={SECRET}")
    with masking(Masker([SECRET])):
        error = failure(script, environment={**ENVIRONMENT, "KEY": SECRET}, args=arguments)
    assert SECRET not in repr((str(error), error.raw)) + Path(error.raw["log_file"]).read_text()
    assert error.raw["args"][-3:] == ["--key", "***", "--other=***"]
    assert "stderr: *** --key *** --other=***" in str(error)


def test_codex_that_only_said_why_it_waits_times_out_with_the_reason() -> None:
    event = json.dumps({"type": "error", "message": "Reconnecting... waiting for network"})
    text, kind = headline(f"echo {shlex.quote(event)}; exec sleep 1000", kind="codex", timeout_seconds=1.5)
    assert (text, kind) == ("Codex CLI timed out after 2s: Reconnecting... waiting for network", "timeout")
