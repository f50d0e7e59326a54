import asyncio
import json
import logging
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.messages import TraceEvent, candidate_answer
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers import cli
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.cli import Cli, CliProvider, CommandHealthcheck
from pytest_agentv.runtime import processes

ENVIRONMENT = {"PATH": os.environ["PATH"]}


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files; all tests but those that keep them leave it empty."""
    folder = tmp_path / "temporary files"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    kept = list(folder.glob("*/*.json*"))
    assert [path for path in folder.iterdir() if not any(file.parent == path for file in kept)] == []


def wait_for_text(path: Path) -> None:
    deadline = time.monotonic() + 10
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, f"nothing was written to {path}"
        time.sleep(0.01)


def provider(template: str, **fields: object) -> CliProvider:
    return CliProvider("agent", Cli(command_template=template, cwd="/").replace(**fields), ENVIRONMENT)


def request(question: str = "q", eval_id: str = "case", **fields: object) -> ProviderRequest:
    return ProviderRequest(Prompt(question), eval_id).replace(**fields)


def invoke(template: str, asked: ProviderRequest | None = None, **fields: object) -> ProviderResponse:
    return asyncio.run(provider(template, **fields).invoke(asked or request()))


def answer(response: ProviderResponse) -> str:
    return candidate_answer(response.output_messages)


def failure(template: str, asked: ProviderRequest | None = None, **fields: object) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        invoke(template, asked, **fields)
    return caught.value


def message(template: str, asked: ProviderRequest | None = None, **fields: object) -> str:
    error = failure(template, asked, **fields)
    assert error.kind == "process"
    return str(error)


@pytest.mark.scenario("Render and execute template")
def test_the_answer_is_read_from_the_output_file(temporary: Path) -> None:
    response = invoke("echo noise; printf %s {PROMPT} > {OUTPUT_FILE}; ls {OUTPUT_FILE} >&2", request("it's\n$HOME"))

    assert answer(response) == "it's\n$HOME"
    assert response.raw["exit_code"] == 0
    assert "output_file" not in response.raw
    assert list(temporary.iterdir()) == []


@pytest.mark.scenario("Render and execute template")
def test_without_an_output_file_the_answer_is_standard_output() -> None:
    response = invoke("echo {EVAL_ID}-{ATTEMPT}; echo diagnostics >&2", request(attempt=1))

    assert answer(response) == "case-1"
    assert response.raw == {
        "command": "echo case-1; echo diagnostics >&2",
        "exit_code": 0,
        "stderr": "diagnostics\n",
    }


@pytest.mark.parametrize("where", ["", "> {OUTPUT_FILE}"])
def test_both_channels_are_read_the_same_way(where: str) -> None:
    data = {
        "output_messages": [{"role": "assistant", "content": "a", "tool_calls": [{"tool": "t"}]}],
        "trace": [{"type": "tool_call", "name": "t"}],
        "token_usage": {"input": 1, "output": 2},
        "cost_usd": 0.25,
        "duration_ms": 12,
    }

    response = invoke(f"printf %s {{PROMPT}} {where}", request(json.dumps(data)))

    assert response.replace(raw={}).to_plain() == {**data, **ProviderResponse().to_plain()}


def test_the_duration_falls_back_to_the_wall_clock() -> None:
    response = invoke("sleep 0.1; echo x")

    assert response.duration_ms is not None
    assert 90 < response.duration_ms < 10_000
    assert isinstance(response.duration_ms, int)


def test_a_trace_file_is_relative_to_the_folder_of_the_command() -> None:
    response = invoke('echo \'{"text":"x","trace_ref":"t/trace.jsonl"}\'', cwd="/usr")

    assert response.trace_ref == "/usr/t/trace.jsonl"


TRACE = 'f="$(dirname {OUTPUT_FILE})/trace.jsonl"; echo \'{"type":"tool_call","name":"find"}\' > "$f"; '


def test_a_trace_beside_the_output_file_is_read_before_the_folder_is_removed() -> None:
    response = invoke(TRACE + 'printf \'{"text":"x","trace_ref":"%s"}\' "$f" > {OUTPUT_FILE}')

    assert (answer(response), response.trace, response.error) == ("x", (TraceEvent("tool_call", name="find"),), None)


def test_a_broken_trace_beside_the_output_file_keeps_answer_and_cost() -> None:
    write = 'f="$(dirname {OUTPUT_FILE})/trace.jsonl"; echo oops > "$f"; '
    response = invoke(write + 'printf \'{"text":"x","cost_usd":2,"trace_ref":"%s"}\' "$f" > {OUTPUT_FILE}')

    assert (answer(response), response.cost_usd, response.trace, response.error_kind) == ("x", 2, None, "config")
    assert response.error is not None
    assert response.error.endswith(
        "/trace.jsonl:1: expected a JSON list of events, or one event per line: Expecting value"
    )


def test_traces_of_a_batch_are_read_before_its_folder_is_removed() -> None:
    lines = (
        'printf \'{"id":"b1","text":"x","trace_ref":"%s"}\\n\' "$f"; '
        'printf \'{"id":"b2","text":"y","trace_ref":"%s.lost"}\\n\' "$f"'
    )
    first, second = invoke_batch(
        TRACE + "{ " + lines + "; } > {OUTPUT_FILE}", [request(eval_id="b1"), request(eval_id="b2")]
    )

    assert (answer(first), first.trace, first.error) == ("x", (TraceEvent("tool_call", name="find"),), None)
    assert (answer(second), second.trace) == ("y", None)
    assert second.error is not None
    assert second.error.endswith("/trace.jsonl.lost: cannot read this trace file: No such file or directory")


def test_files_and_guidelines_reach_the_command() -> None:
    asked = request(guideline_paths=("/g/rules.md",), input_paths=("/i/a b.txt",))

    assert answer(invoke("printf '%s\\n' {FILES}", asked, files_format="--file={path}")) == (
        "--file=/g/rules.md\n--file=/i/a b.txt"
    )


def test_the_command_runs_in_its_folder_with_the_targets_variables(tmp_path: Path) -> None:
    env = {"TOKEN": Secret("s3cret-value"), "MODE": "fast"}

    response = invoke('pwd; echo "$TOKEN $MODE"', cwd=str(tmp_path), env=env)

    assert answer(response) == f"{tmp_path}\ns3cret-value fast"
    assert "s3cret-value" not in str(response.raw)


@pytest.mark.parametrize(("where", "what"), [("", "output"), (" > {OUTPUT_FILE}", "output file")])
def test_output_that_is_no_utf8_is_an_error_that_names_the_byte(where: str, what: str) -> None:
    with pytest.raises(ProviderError) as caught:
        invoke(r"printf 'a\r\nb\377'" + where)
    assert str(caught.value) == f"The {what} of the command is not UTF-8: byte 0xff in line 2"
    assert answer(invoke(r"printf 'a\r\n\303\251'" + where)) == "a\né"


@pytest.mark.parametrize("where", ["", " > {OUTPUT_FILE}"])
def test_a_byte_order_mark_is_no_part_of_the_answer(where: str) -> None:
    response = invoke(r"""printf '\357\273\277{"text": "a", "cost_usd": 0.25}'""" + where)

    assert (answer(response), response.cost_usd) == ("a", 0.25)


def test_an_answer_in_a_file_keeps_its_white_space() -> None:
    assert answer(invoke("echo ' x ' > {OUTPUT_FILE}")) == " x \n"


def test_kept_output_files_are_named(temporary: Path) -> None:
    response = invoke("echo x > {OUTPUT_FILE}", request(eval_id="a/../b c"), keep_temp_files=True)

    kept = Path(response.raw["output_file"])
    assert kept.read_text() == "x\n"
    assert kept.parent.parent == temporary
    assert kept.parent.name.startswith("agentv-a-..-b-c-")


def test_a_command_without_an_output_file_has_none_to_keep(temporary: Path) -> None:
    assert "output_file" not in invoke("echo x", keep_temp_files=True).raw
    assert list(temporary.iterdir()) == []


@pytest.mark.scenario("Timeout and retries")
def test_a_timeout_is_an_error_of_its_kind(temporary: Path) -> None:
    started = time.monotonic()

    error = failure("echo half > {OUTPUT_FILE}; sleep 1000", timeout_seconds=0.5)

    assert (str(error), error.kind) == ("CLI provider timed out after 0.5s", "timeout")
    assert time.monotonic() - started < 5
    assert list(temporary.iterdir()) == []


@pytest.mark.scenario("Timeout and retries")
def test_a_timeout_tells_what_the_command_said() -> None:
    assert str(failure("echo stuck >&2; exec sleep 1000", timeout_seconds=0.5)) == (
        "CLI provider timed out after 0.5s: stuck"
    )


@pytest.mark.parametrize(("own", "run"), [(0.4, 50.0), (50.0, 0.4), (None, 0.4)])
def test_the_shorter_limit_holds(own: float | None, run: float) -> None:
    error = failure("exec sleep 1000", request(timeout_seconds=run), timeout_seconds=own)

    assert str(error) == "CLI provider timed out after 0.4s"


def test_a_command_that_hangs_and_ignores_signals_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_TERM_SECONDS", 0.1)

    assert failure("trap '' TERM; while :; do sleep 0.05; done", timeout_seconds=0.3).kind == "timeout"


@pytest.mark.scenario("Timeout and retries")
@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo out; echo ' bad luck ' >&2; exit 1", "bad luck (exit code 1)"),
        ("echo out; exit 2", "out (exit code 2)"),
        ("exit 3", "CLI exited with code 3"),
        ("kill -KILL $$", "CLI failed (exit code unknown: killed by SIGKILL)"),
        ("echo oh >&2; kill -SEGV $$", "oh (exit code unknown: killed by SIGSEGV)"),
        ("printf %3000s | tr ' ' x >&2; exit 1", f"[… 1000 characters left out] {'x' * 2000} (exit code 1)"),
        ("echo x > {OUTPUT_FILE}; exit 4", "CLI exited with code 4"),
    ],
)
def test_a_command_that_fails_is_an_error_with_what_it_said(command: str, text: str) -> None:
    assert message(command) == text


def test_the_last_line_of_what_a_command_said_comes_first() -> None:
    text = message("seq 1 2000 >&2; echo 'the cause' >&2; exit 1")

    first, second, *_, last = text.splitlines()
    assert (first, last) == ("the cause (exit code 1)", "the cause")
    assert second.startswith("[… ")
    assert len(text) < 2100


@pytest.mark.parametrize("command", ["mkfifo {OUTPUT_FILE}", "ln -s /dev/zero {OUTPUT_FILE}"])
def test_an_output_file_that_is_no_file_does_not_hold_up_the_others(command: str) -> None:
    started = time.monotonic()

    assert message(command).endswith(", not a regular file")
    assert time.monotonic() - started < 5


def test_a_long_answer_is_parsed_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []
    parse = cli.parse_output
    monkeypatch.setattr(cli, "parse_output", lambda text: threads.append(threading.current_thread()) or parse(text))

    invoke("echo short")
    invoke("head -c 300000 /dev/zero | tr '\\0' x")

    assert [thread is threading.main_thread() for thread in threads] == [True, False]


def test_a_missing_output_file_is_an_error() -> None:
    text = message(": {OUTPUT_FILE}")

    assert text.startswith("Failed to read output file '")
    assert text.endswith("/output.json': the command ended with exit code 0 but did not write it")


def test_a_missing_output_file_is_an_error_with_what_the_command_said() -> None:
    text = message(": {OUTPUT_FILE}; echo why >&2")

    assert text.endswith("/output.json': the command ended with exit code 0 but did not write it; it said: why")


def test_an_output_file_that_is_a_folder_is_an_error() -> None:
    assert message("mkdir {OUTPUT_FILE}").endswith("/output.json': it is a folder, not a regular file")


def test_an_output_file_that_is_too_large_is_an_error() -> None:
    text = message("head -c 10485761 /dev/zero > {OUTPUT_FILE}")

    assert text.endswith("/output.json': it has more than 10 MiB")


def test_a_flood_of_output_is_an_error() -> None:
    assert message("yes") == "CLI wrote more than 10 MiB and was stopped (exit code unknown)"


def test_a_folder_that_does_not_exist_is_an_error() -> None:
    assert message("echo", cwd="/no/such") == (
        "CLI provider could not be started: cannot run '/bin/sh': its working directory '/no/such' does not exist"
    )


def test_children_in_the_background_are_not_waited_for() -> None:
    started = time.monotonic()

    assert answer(invoke("sleep 1000 & echo x")) == "x"
    assert time.monotonic() - started < 5


def test_a_command_that_closes_its_output_early_still_answers() -> None:
    assert answer(invoke("exec >&- 2>&-; sleep 0.1; echo x > {OUTPUT_FILE}")) == "x\n"


def test_a_long_prompt_works_where_it_is_no_argument_of_a_program() -> None:
    question = "ä$x'" * 100_000

    assert answer(invoke("printf %s {PROMPT} | cat", request(question))) == question


def test_a_prompt_that_is_too_long_for_an_argument_names_the_limit() -> None:
    text = message("/bin/echo {PROMPT}", request("x" * 200_000))

    assert "Argument list too long" in text
    assert text.endswith(
        " (exit code 126); {PROMPT} has 200000 bytes and the system takes 128 KiB in one argument: "
        'use {PROMPT_FILE}, or the key stdin: "{PROMPT}"'
    )


def test_an_exit_code_that_has_another_reason_names_no_limit() -> None:
    assert message("exit 126") == "CLI exited with code 126"


def test_cancelling_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    pid_file = tmp_path / "pid"

    async def scenario() -> None:
        task = asyncio.ensure_future(
            provider(f"echo $$ > {pid_file}; echo x > {{OUTPUT_FILE}}; sleep 1000").invoke(request())
        )
        await asyncio.to_thread(wait_for_text, pid_file)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize(("verbose", "level"), [(True, logging.INFO), (False, logging.DEBUG)])
def test_a_verbose_target_tells_what_it_runs(verbose: bool, level: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "pytest_agentv.providers.cli")

    invoke("echo note >&2; echo a", verbose=verbose)

    records = [record for record in caplog.records if record.name == "pytest_agentv.providers.cli"]
    assert {record.levelno for record in records} == {level}
    texts = [record.getMessage() for record in records]
    assert texts[0] == "target agent: running echo note >&2; echo a"
    assert texts[1].startswith("target agent: exit code 0 after ")
    assert texts[2] == "target agent: stderr: note"


def invoke_batch(template: str, requests: list[ProviderRequest], **fields: object) -> list[ProviderResponse]:
    return asyncio.run(provider(template, **fields).invoke_batch(requests))


REPLY = 'printf \'{"id":"b2","text":"two"}\\n{"id":"b1","text":{"x":1},"duration_ms":3}\\n\''


@pytest.mark.parametrize("where", ["", "> {OUTPUT_FILE}"])
def test_a_batch_is_one_command(where: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    requests = [
        request(eval_id="b1", guideline_paths=("/g",), input_paths=("/1",)),
        request(eval_id="b2", guideline_paths=("/g",), input_paths=("/2",)),
    ]

    first, second = invoke_batch(
        f"echo {{EVAL_ID}} {{ATTEMPT}} {{PROMPT}} {{FILES}} >> {log}; {REPLY} {where}", requests
    )

    assert log.read_text() == "batch 0  /g /1 /2\n"
    assert (answer(first), answer(second)) == ('{"x":1}', "two")
    assert first.duration_ms == 3
    assert second.duration_ms is not None
    assert second.duration_ms == int(second.duration_ms)
    assert first.raw == second.raw


def test_an_id_that_a_batch_left_out_is_an_error_of_that_case() -> None:
    responses = invoke_batch(REPLY, [request(eval_id="b1"), request(eval_id="b9")])

    assert [response.error for response in responses] == [None, "Batch output missing id 'b9'"]


def test_a_batch_line_that_cannot_be_read_is_an_error() -> None:
    [response] = invoke_batch("echo x", [request()])
    assert response.error is not None
    assert response.error.startswith("CLI batch output, line 1: not JSON: ")


def test_a_batch_may_take_as_long_as_its_requests_together() -> None:
    requests = [request(eval_id="b1", timeout_seconds=0.2), request(eval_id="b2", timeout_seconds=0.3)]

    with pytest.raises(ProviderError) as caught:
        invoke_batch("exec sleep 1000", requests)

    assert str(caught.value) == "CLI provider timed out after 0.5s"


def test_a_target_without_a_health_check_is_healthy() -> None:
    asyncio.run(provider("false").check())


@pytest.mark.scenario("Optional health check")
def test_a_health_check_gets_the_targets_variables_and_limit() -> None:
    healthy = CommandHealthcheck(command_template='test "$TOKEN" = t', cwd="/")
    asyncio.run(provider("false", env={"TOKEN": Secret("t")}, healthcheck=healthy).check())

    hanging = CommandHealthcheck(command_template="exec sleep 1000", cwd="/")
    with pytest.raises(ProviderError) as caught:
        asyncio.run(provider("false", timeout_seconds=0.2, healthcheck=hanging).check())
    assert str(caught.value) == (
        "CLI healthcheck failed for 'agent': the command `exec sleep 1000` timed out after 0.2s"
    )
