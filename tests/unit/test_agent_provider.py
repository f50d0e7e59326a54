"""Coding agents as processes: scripts stand in for their programs, and do what a program may do."""

import asyncio
import json
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import TokenUsage, candidate_answer
from pytest_agentv.model.secrets import Masker, Secret, masking
from pytest_agentv.providers.agents import output
from pytest_agentv.providers.agents.agent import AgentProvider
from pytest_agentv.providers.agents.claude_code import ClaudeCode
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, require_answer
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


def program(text: str, name: str = "claude") -> str:
    """Write a shell script that stands in for a program; `$RESULT` is what Claude Code ends with."""
    path = Path(name).absolute()
    path.write_text(f"#!/bin/sh\nRESULT={shlex.quote(RESULT)}\n{text}\n")
    path.chmod(0o755)
    return str(path)


def provider(
    script: str, environment: dict[str, str] = ENVIRONMENT, kind: str = "claude-code", **fields: Any
) -> AgentProvider:
    settings = KINDS.table[kind](
        executable=script if "/" in script and "\n" not in script else program(script)
    ).replace(**fields)
    made = create_provider(
        Target("coder", kind, settings, path=str(Path("targets.yaml").absolute()), line=3), environment
    )
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


@pytest.mark.scenario("Claude Code provider invocation")
def test_the_prompt_comes_on_standard_input_and_the_answer_from_the_events() -> None:
    response = invoke('cat > "$TMPDIR/../../../cwd/asked"; echo "$RESULT"')
    assert candidate_answer(response.output_messages) == "4"
    assert Path("asked").read_text() == "[[ ## user_query ## ]]\n\nWhat is 2 + 2?"
    assert response.raw["executable"] == str(Path("claude").absolute())
    assert response.raw["args"][:4] == ["-p", "--output-format", "stream-json", "--verbose"]
    assert (response.raw["exit_code"], response.raw["stderr"]) == (0, "")
    assert Path(response.raw["log_file"]).read_text().endswith("result: success, $0.0000, 0ms\n")
    assert response.duration_ms is not None
    assert response.duration_ms > 0


@pytest.mark.scenario("Claude Code working directory")
@pytest.mark.scenario("Codex CLI provider")
def test_without_a_folder_of_its_own_a_call_gets_a_new_one_with_the_prompt_in_it(tmp_path: Path) -> None:
    response = invoke(f'pwd > {tmp_path}/place; ls -A >> {tmp_path}/place; cat prompt.md >&2; echo "$RESULT"')
    place, *names = (tmp_path / "place").read_text().split("\n")
    assert place.startswith(f"{tmp_path}/temporary files/agentv-claude-code-")
    assert names == ["prompt.md", ""]
    assert response.raw["stderr"] == "[[ ## user_query ## ]]\n\nWhat is 2 + 2?".replace("\n\n", "\n")


@pytest.mark.scenario("Claude Code working directory")
def test_the_folder_of_the_target_is_used_and_left_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "my folder"
    folder.mkdir()
    invoke(f'pwd > {tmp_path}/place; echo "$RESULT"', cwd=str(folder))
    assert (tmp_path / "place").read_text() == f"{folder}\n"
    assert list(folder.iterdir()) == []


def test_variables_of_ours_do_not_replace_those_of_the_user_and_marks_of_nesting_are_gone() -> None:
    script = (
        'echo "$CLAUDE_CODE_MAX_RETRIES,$CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC,$CLAUDECODE,$X" >&2; echo "$RESULT"'
    )
    own = {**ENVIRONMENT, "CLAUDECODE": "1", "CLAUDE_CODE_MAX_RETRIES": "7", "X": "x"}
    assert invoke(script, own).raw["stderr"] == "7,1,,x"
    assert invoke(script).raw["stderr"] == "2,1,,"


def test_words_may_follow_the_program_and_its_path_may_hold_blanks(tmp_path: Path) -> None:
    (tmp_path / "my tools").mkdir()
    text = 'echo "$1" >&2; echo "$RESULT"'
    script = program(text, str(tmp_path / "my tools" / "claude"))
    assert invoke_program(script).raw["stderr"] == "-p"
    assert invoke_program(f"{program(text)} --first").raw["stderr"] == "--first"


def invoke_program(command: str) -> ProviderResponse:
    request = ProviderRequest(Prompt("q"), "case", timeout_seconds=30)
    return asyncio.run(provider(command).invoke(request))


@pytest.mark.scenario("Claude Code provider invocation")
@pytest.mark.scenario("Codex CLI provider")
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("/nowhere/claude", "executable '/nowhere/claude' is no program that can be run"),
        ("no-such-claude --x", "executable 'no-such-claude' was not found on PATH"),
    ],
)
def test_a_program_that_is_missing_is_found_before_anything_is_called(command: str, reason: str) -> None:
    settings = ClaudeCode(executable=command)
    made = create_provider(
        Target("coder", "claude-code", settings, path=str(Path("targets.yaml").absolute()), line=3), ENVIRONMENT
    )
    with pytest.raises(ProviderError) as caught:
        asyncio.run(made.check())
    assert str(caught.value) == (
        f"target 'coder' (targets.yaml:3): Claude Code CLI: {reason}; install it, or write its path as `executable`"
    )
    assert caught.value.kind == "config"
    assert not Path(".agentv").exists()


def test_a_folder_that_does_not_exist_is_an_error_of_the_target() -> None:
    error = failure("exit 0", cwd="/nowhere")
    assert error.kind == "config"
    assert str(error) == (
        f"target 'coder' (targets.yaml:3): Claude Code CLI: cannot run '{Path('claude').absolute()}': its working "
        "directory '/nowhere' does not exist"
    )


@pytest.mark.scenario("Claude Code error handling")
@pytest.mark.scenario("Codex CLI provider")
@pytest.mark.parametrize(
    ("script", "text", "kind"),
    [
        ("echo 'unknown option' >&2; exit 2", "exited with code 2: unknown option", "process"),
        ("exit 3", "exited with code 3", "process"),
        ("echo early; echo late >&2; exit 1", "exited with code 1: stderr: late\nstdout: early", "process"),
        ('echo "$RESULT"; echo 401 >&2; exit 1', "exited with code 1: 401", "auth"),
        ("kill -SEGV $$", "was ended by signal 11", "process"),
        ("exit 0", "wrote no events", "process"),
        ("echo rubbish", "wrote no events: stdout: rubbish", "process"),
        ("printf '\\377\\n'", "wrote no events: stdout: \ufffd", "process"),
        ("""echo '{"type": "resu'""", """wrote no events: stdout: {"type": "resu""", "process"),
        ("""echo '{"type": "system"}'""", "ended without a result", "process"),
        ("""echo '{"type": "system"}'; echo "not connected" >&2""", "ended without a result: not connected", "network"),
        (
            """echo '{"type": "result", "subtype": "success"}'""",
            "ended without a word and without a call of a tool",
            "no_answer",
        ),
        ("""echo '{"type": "result", "subtype": "error_max_turns"}'""", "failed: error_max_turns", "process"),
        (
            """echo '{"type": "result", "is_error": 1, "result": "no", "api_error_status": 429}'; echo x >&2; exit 1""",
            "exited with code 1: no\nstderr: x",
            "rate_limit",
        ),
    ],
)
def test_a_program_that_ends_without_an_answer_is_an_error(script: str, text: str, kind: str) -> None:
    assert headline(script) == (f"Claude Code CLI {text}", kind)


def test_what_a_failed_run_cost_stays_in_the_record() -> None:
    usage = {"input_tokens": 30, "output_tokens": 5}
    failed = {"type": "result", "subtype": "error_max_turns", "total_cost_usd": 0.5, "usage": usage}
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": "half"}]}}
    response = invoke("".join(f"echo {shlex.quote(json.dumps(event))}; " for event in (said, failed)) + "exit 1")

    assert (response.error or "").startswith("Claude Code CLI exited with code 1: error_max_turns\nlog: ")
    assert response.error_kind == "process"
    assert (response.token_usage, response.cost_usd) == (TokenUsage(30, 5), 0.5)
    assert candidate_answer(response.output_messages) == "half"
    assert (response.raw["exit_code"], response.raw["stdout"]) == (1, "\n".join(map(json.dumps, (said, failed))))


def test_a_program_that_is_killed_may_end_with_exit_code_0_and_has_no_answer_all_the_same() -> None:
    said = json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": "half"}]}})
    assert headline(f"echo {shlex.quote(said)}; exit 0") == ("Claude Code CLI ended without a result", "process")


@pytest.mark.scenario("Claude Code error handling")
@pytest.mark.scenario("Codex CLI provider")
def test_a_failure_keeps_what_the_program_wrote_for_hooks() -> None:
    raw = failure("""echo '{"type": "system"}'; echo oops >&2; exit 4""").raw
    assert (raw["exit_code"], raw["stderr"], raw["stdout"]) == (4, "oops", '{"type": "system"}')
    log = Path(raw["log_file"]).read_text()
    assert "[stderr] oops" in log
    assert "[stdout] system" in log


def test_long_words_of_a_failure_are_shortened() -> None:
    text, _ = headline(f"""{sys.executable} -c 'print("x" * 5000)' >&2; exit 1""")
    assert text == f"Claude Code CLI exited with code 1: {'x' * 1000}…"


def test_output_may_be_large_and_its_last_line_unended() -> None:
    script = f"""{sys.executable} -c '
import json
for _ in range(20):
    print(json.dumps({{"type": "user", "text": "x" * 1_000_000}}))
'; printf %s "$RESULT" """
    response = invoke(script, log_dir="logs")
    assert candidate_answer(response.output_messages) == "4"
    assert Path(response.raw["log_file"]).stat().st_size < 10_000


def test_a_program_that_writes_more_than_is_kept_has_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output.AgentOutput.__init__, "__defaults__", (frozenset(), 1000))
    text, kind = headline('for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do echo "$RESULT"; done')
    assert (text, kind) == ("Claude Code CLI wrote more than 256 MiB of events", "process")


@pytest.mark.scenario("Claude Code timeout handling")
def test_a_program_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    script = f"""echo '{{"type": "system"}}'; echo waiting >&2; echo $$ > {tmp_path}/pid; exec sleep 1000"""
    text, kind = headline(script, timeout_seconds=1.5)
    assert (text, kind) == ("Claude Code CLI timed out after 2s: waiting", "timeout")
    assert has_ended(int((tmp_path / "pid").read_text()))


def test_what_a_stopped_program_reported_of_its_cost_stays_in_the_record() -> None:
    event = {"type": "result", "subtype": "success", "result": "4", "total_cost_usd": 0.5}
    response = invoke(f"echo {shlex.quote(json.dumps(event))}; exec sleep 1000", timeout_seconds=1.5)
    assert (response.error or "").startswith("Claude Code CLI timed out after 2s")
    assert (response.error_kind, response.cost_usd) == ("timeout", 0.5)


def test_an_answer_that_comes_while_a_program_is_stopped_is_none() -> None:
    text, kind = headline("""trap 'echo "$RESULT"; exit 0' TERM; while :; do sleep 0.05; done""", timeout_seconds=1.5)
    assert text.startswith("Claude Code CLI timed out after 2s")
    assert kind == "timeout"


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


def test_a_program_that_reads_no_prompt_is_not_waited_for() -> None:
    request = ProviderRequest(Prompt("x" * 5_000_000), "case", timeout_seconds=30)
    response = asyncio.run(provider('exec <&-; echo "$RESULT"\n').invoke(request))
    assert candidate_answer(response.output_messages) == "4"


def test_calls_in_flight_have_folders_and_logs_of_their_own(tmp_path: Path) -> None:
    look = f"pwd >> {tmp_path}/places; sleep 0.2; ls -A | grep -v prompt.md >> {tmp_path}/strangers; touch x"
    made = provider(f'{look}; echo "$RESULT"\n')

    async def scenario() -> list[ProviderResponse]:
        request = ProviderRequest(Prompt("q"), "case", timeout_seconds=30)
        return await asyncio.gather(*(made.invoke(request.replace(attempt=number)) for number in range(5)))

    responses = asyncio.run(scenario())
    assert len(set((tmp_path / "places").read_text().split("\n")[:-1])) == 5
    assert (tmp_path / "strangers").read_text() == ""
    assert len({response.raw["log_file"] for response in responses}) == 5


def test_no_secret_shows_in_what_is_told_of_a_failure() -> None:
    result = json.dumps({"type": "result", "is_error": True, "result": SECRET})
    script = f"""shift 6; echo "$KEY $*" >&2; echo "$KEY"; echo '{result}'; exit 1"""
    arguments = ("--key", Secret(SECRET), f"--other={SECRET}")
    with masking(Masker([SECRET])):
        error = failure(script, environment={**ENVIRONMENT, "KEY": SECRET}, args=arguments)
    assert SECRET not in repr((str(error), error.raw)) + Path(error.raw["log_file"]).read_text()
    assert error.raw["args"][-3:] == ["--key", "***", "--other=***"]
    assert "stderr: *** --key *** --other=***" in str(error)


def test_pi_is_judged_by_its_last_message_because_its_exit_code_is_always_0() -> None:
    broken = {"role": "assistant", "content": [], "stopReason": "error", "errorMessage": "401 no"}
    event = json.dumps({"type": "agent_end", "messages": [broken]})
    assert headline(f"echo {shlex.quote(event)}", kind="pi-coding-agent") == ("pi failed: 401 no", "auth")


def test_an_answer_of_pi_that_was_cut_says_so_and_a_blank_one_is_no_answer() -> None:
    def run(text: str) -> ProviderResponse:
        cut = {"role": "assistant", "content": [{"type": "text", "text": text}], "stopReason": "length"}
        event = json.dumps({"type": "agent_end", "messages": [cut]})
        return require_answer(invoke(f"echo {shlex.quote(event)}", kind="pi-coding-agent"))

    half, blank = run("It is fo"), run("")
    assert (half.finish_reason, half.error) == ("length", None)
    assert (blank.error_kind, blank.error) == (
        "no_answer",
        "the target gave no answer: it was cut at the token limit (finish_reason=length)",
    )


def test_codex_that_only_said_why_it_waits_times_out_with_the_reason() -> None:
    event = json.dumps({"type": "error", "message": "Reconnecting... waiting for network"})
    text, kind = headline(f"echo {shlex.quote(event)}; exec sleep 1000", kind="codex", timeout_seconds=1.5)
    assert (text, kind) == ("Codex CLI timed out after 2s: Reconnecting... waiting for network", "timeout")
