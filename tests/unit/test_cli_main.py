"""The `agentv` command itself: which subcommand runs, and how faults are told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import warm

RUN = [sys.executable, "-c", "from pytest_agentv.cli.main import main; raise SystemExit(main())"]


def test_a_command_is_imported_only_when_it_is_run():
    code = (
        "import sys; from pytest_agentv.cli.main import main; main(['--help']);"
        "print([name for name in ('pytest', 'pydantic', 'yaml', 'pytest_agentv.engine') if name in sys.modules])"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.splitlines()[-1] == "[]"


def test_a_name_that_the_system_refuses_is_told_without_a_traceback(agentv):
    run = agentv("convert", "x" * 5000 + ".jsonl")
    assert run.exit_code == 2
    assert run.err.startswith("agentv convert: ")
    assert len(run.err.splitlines()) == 1


def test_an_interrupt_ends_a_command_quietly(agentv, monkeypatch):
    def interrupted(_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_agentv.cli.init.run_schema", interrupted)
    run = agentv("schema", "eval")
    assert (run.exit_code, run.out, run.err) == (130, "", "")


@pytest.mark.parametrize(("code", "exit_code", "err"), [("gone", 1, "agentv: gone\n"), (None, 0, ""), (3, 3, "")])
def test_code_that_ends_a_command_gives_the_exit_code_that_python_gives(agentv, monkeypatch, code, exit_code, err):
    monkeypatch.setattr("pytest_agentv.cli.init.run_schema", lambda _: sys.exit(code))
    run = agentv("schema", "eval")
    assert (run.exit_code, run.out, run.err) == (exit_code, "", err)


def test_a_reader_that_goes_away_is_no_traceback(tmp_path):
    results = "".join(f'{{"eval_id": "{"long" * 20}-{number}", "score": 1}}\n' for number in range(200))
    (tmp_path / "r.jsonl").write_text(results)
    command = [*RUN, "compare", "r.jsonl", "r.jsonl"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait() == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize("buffered", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_full_disk_below_the_output_is_no_lost_comparison(tmp_path, buffered):
    (tmp_path / "r.jsonl").write_text('{"eval_id": "a", "score": 1}\n')
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    for command in (["compare", "r.jsonl", "r.jsonl"], ["--version"]):
        with Path("/dev/full").open("w") as full:
            run = subprocess.run(
                [*RUN, *command],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
                cwd=tmp_path,
                check=False,
            )
        assert run.returncode == 2
        assert run.stderr.splitlines()[-1].endswith("No space left on device")
        assert "Traceback" not in run.stderr


def test_a_terminal_that_lacks_characters_gets_escapes():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    run = warm.run([*RUN, "validate", "ä.yaml"], capture_output=True, env=environment)
    assert run.returncode == 1
    assert run.stdout.startswith(b"\\xe4.yaml: error: there is no such file or folder\n")
