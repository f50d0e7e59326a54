"""Targets that are coding agents, with a script in the place of the program: what runs make of them."""

import json
import sys
import tempfile
from pathlib import Path

import pytest
from kills import wait_for_the_end

CLAUDE = """
import json, os, sys, time

prompt = sys.stdin.read()
with open(os.environ["CALLS"], "a") as calls:
    calls.write(prompt.split()[-1] + "\\n")
word = prompt.split()[-1]
if word == "hang":
    time.sleep(60)
if word == "hang-once" and open(os.environ["CALLS"]).read().count(word) == 1:
    time.sleep(60)
if word == "crash":
    sys.exit("no such option")
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "result": "hello " + word}))
"""


@pytest.fixture
def project(project, monkeypatch):
    """A project with the target `coder`, whose program notes the last word of its prompts."""
    monkeypatch.setenv("CALLS", str(project.path / "calls"))
    project.write("claude.py", CLAUDE)
    write_target(project)
    return project


def write_target(project, **fields):
    executable = f"{sys.executable} {project.path}/claude.py"
    target = {"name": "coder", "provider": "claude-code", "executable": executable, **fields}
    mock = {"name": "model", "provider": "mock", "response": '{"score": 1}'}
    judged = {"name": "judged", "provider": "mock", "response": "x", "judge_target": "coder"}
    project.write("targets.yaml", json.dumps({"targets": [target, mock, judged]}))


def write_cases(project, *words, **fields):
    said = [{"name": "said", "type": "heuristic", "hits": ["hello"]}]
    cases = [
        {"id": word, "expected_outcome": "o", "input": word, "target": "coder", "evaluators": said, **fields}
        for word in words
    ]
    project.write("a.eval.yaml", json.dumps({"evalcases": cases}))


def calls(project):
    path = project.path / "calls"
    return path.read_text().split() if path.exists() else []


def logs(project):
    return sorted(path.name for path in project.path.glob(".agentv/logs/claude-code/*"))


@pytest.mark.slow
@pytest.mark.scenario("Claude Code timeout handling")
def test_a_call_that_times_out_is_made_again_and_each_attempt_has_its_log(project):
    write_target(project, timeout_seconds=3)
    write_cases(project, "hang-once")
    run = project.run()
    result = run.by_id["hang-once"]
    assert (result["status"], result["attempts"], calls(project)) == ("pass", 2, ["hang-once"] * 2)
    assert [name.split("_")[3] for name in logs(project)] == ["attempt-1", "attempt-2"]
    assert result["log_file"].endswith(logs(project)[1])


ON_PATH = """#!{python} -IS
import json
for event in {events}:
    print(json.dumps(event))
"""
PROGRAMS = {
    "claude": [{"type": "result", "subtype": "success", "is_error": False, "result": "hello of claude"}],
    "codex": [
        {"type": "item.completed", "item": {"id": "a", "type": "agent_message", "text": "hello of codex"}},
        {"type": "turn.completed", "usage": {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 3}},
    ],
}


@pytest.mark.parametrize(("kind", "name"), [("claude-code", "claude"), ("codex", "codex")])
def test_without_executable_the_program_of_its_kind_on_path_is_called(project, monkeypatch, kind, name):
    for each, events in PROGRAMS.items():
        project.write(f"bin/{each}", ON_PATH.format(python=sys.executable, events=events)).chmod(0o755)
    monkeypatch.setenv("PATH", f"{project.path}/bin:/usr/bin:/bin")
    write_cases(project, "a")
    project.write("targets.yaml", json.dumps({"targets": [{"name": "coder", "provider": kind}]}))
    result = project.run().by_id["a"]
    assert (result["status"], result["candidate_answer"]) == ("pass", f"hello of {name}")


@pytest.mark.scenario("Claude Code stream logging")
def test_logs_may_be_switched_off_and_go_elsewhere(project, monkeypatch):
    write_cases(project, "a")
    write_target(project, log_dir="here")
    run = project.run()
    assert run.by_id["a"]["log_file"].startswith(f"{project.path}/here/")
    monkeypatch.setenv("AGENTV_CLAUDE_CODE_STREAM_LOGS", "false")
    assert "log_file" not in project.run().by_id["a"]
    assert len(list((project.path / "here").iterdir())) == 1


def test_a_log_that_cannot_be_written_costs_no_answer(project):
    write_cases(project, "a")
    write_target(project, log_dir="claude.py/logs")
    run = project.run("-rA")
    assert run.statuses == {"a": "pass"}
    assert f"no stream log {project.path}/claude.py/logs/" in run.text


def test_variables_of_a_dotenv_file_reach_the_program_and_the_logs_are_switched_there_too(project):
    project.write(".env", "CALLS=other-calls\nAGENTV_CLAUDE_CODE_STREAM_LOGS=off\nONLY_THERE=x\n")
    said = "{'type': 'result', 'subtype': 'success', 'result': os.environ['ONLY_THERE']}"
    project.write("claude.py", f"import os, json\nprint(json.dumps({said}))\n")
    write_cases(project, "a")
    run = project.run()
    assert run.by_id["a"]["candidate_answer"] == "x"
    assert logs(project) == []


DAEMONS = """#!/bin/sh
setsid sh -c 'echo $$ >> {place}; exec sleep 1000' </dev/null >/dev/null 2>&1 &
setsid sh -c 'setsid sh -c "echo \\$\\$ >> {place}; exec sleep 1000" & exit 0' </dev/null >/dev/null 2>&1
until [ "$(wc -l <{place})" -ge 2 ]; do sleep 0.02; done
{end}
"""
ENDS = {
    "answers": """echo '{"type": "result", "subtype": "success", "is_error": false, "result": "hello"}'""",
    "fails": "exit 1",
    "is-killed": "kill -9 $$",
    "hangs": "exec sleep 1000",
}


@pytest.mark.kills
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes that moved away are found in /proc")
def test_however_a_program_ends_what_it_started_ends_as_well(project, monkeypatch):
    temporary = project.path / "temporary files"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    targets, cases = [], []
    for name, end in ENDS.items():
        program = project.write(f"{name}.sh", DAEMONS.format(place=project.path / f"{name}.pids", end=end))
        program.chmod(0o755)
        targets.append({"name": name, "provider": "claude-code", "executable": str(program), "timeout_seconds": 3})
        cases.append({"id": name, "input": "q", "target": name, "assert": [{"equals": "hello"}]})
    project.write("targets.yaml", json.dumps({"targets": targets}))
    project.write("a.eval.yaml", json.dumps({"cases": cases}))
    run = project.run("--agentv-workers=4", "--agentv-max-retries=0")
    assert run.statuses == {"answers": "pass", "fails": "error", "is-killed": "error", "hangs": "error"}
    pids = [int(pid) for path in project.path.glob("*.pids") for pid in path.read_text().split()]
    assert len(pids) == 8
    assert wait_for_the_end(pids) == []
    assert list(temporary.iterdir()) == []
