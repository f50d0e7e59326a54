"""Targets that are coding agents, with a script in the place of the program: what runs make of them."""

import json
import sys

import pytest

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


@pytest.mark.scenario("Claude Code timeout handling")
def test_a_call_that_times_out_is_made_again_and_each_attempt_has_its_log(project):
    write_target(project, timeout_seconds=3)
    write_cases(project, "hang-once")
    run = project.run()
    result = run.by_id["hang-once"]
    assert (result["status"], result["attempts"], calls(project)) == ("pass", 2, ["hang-once"] * 2)
    assert [name.split("_")[3] for name in logs(project)] == ["attempt-1", "attempt-2"]
    assert result["log_file"].endswith(logs(project)[1])


def test_after_the_last_retry_the_case_is_an_error(project):
    write_target(project, timeout_seconds=0.5)
    write_cases(project, "hang")
    run = project.run("--agentv-max-retries=1")
    result = run.by_id["hang"]
    assert (run.outcomes, result["attempts"]) == ({"errors": 1}, 2)
    assert result["error_detail"] == {"stage": "provider", "kind": "timeout"}
    assert result["error"] == f"Claude Code CLI timed out after 1s\nlog: {result['log_file']}"


@pytest.mark.scenario("Claude Code error handling")
def test_a_program_that_fails_is_an_error_with_its_words_and_its_siblings_run(project):
    write_cases(project, "crash", "fine")
    run = project.run()
    assert run.statuses == {"crash": "error", "fine": "pass"}
    result = run.by_id["crash"]
    assert result["error"] == f"Claude Code CLI exited with code 1: no such option\nlog: {result['log_file']}"
    assert any("no such option" in line for line in run.lines)
    assert run.internals == []


@pytest.mark.scenario("Claude Code provider invocation")
def test_a_program_that_is_missing_is_an_error_of_the_set_up_of_its_cases_only(project):
    write_target(project, executable="./bin/claude")
    write_cases(project, "a")
    project.write(
        "b.eval.yaml", (project.path / "a.eval.yaml").read_text().replace('"a"', '"b"').replace("coder", "model")
    )
    run = project.run()
    assert run.by_id["b"]["status"] == "fail"
    assert run.by_id["a"]["error_detail"] == {"stage": "setup", "kind": "config"}
    assert run.by_id["a"]["error"] == (
        f"target 'coder' (targets.yaml:1): Claude Code CLI: executable '{project.path}/bin/claude' is no program that "
        "can be run; install it, or write its path as `executable`"
    )


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


def test_a_working_directory_that_does_not_exist_is_an_error_that_names_it(project):
    write_target(project, cwd="nowhere")
    write_cases(project, "a")
    error = project.run().by_id["a"]["error"]
    assert error.startswith("target 'coder' (targets.yaml:1): Claude Code CLI: cannot run ")
    assert error.endswith(f": its working directory '{project.path}/nowhere' does not exist")


def test_an_answer_in_the_cache_is_not_asked_for_again(project):
    write_cases(project, "a")
    first, second = project.run("--agentv-cache"), project.run("--agentv-cache")
    assert calls(project) == ["a"]
    assert first.by_id["a"]["candidate_answer"] == second.by_id["a"]["candidate_answer"] == "hello a"
    assert second.by_id["a"]["cached"] is True


def test_a_resumed_run_asks_only_for_what_is_missing(project):
    write_cases(project, "crash", "b")
    project.run("--agentv-out=own.jsonl")
    project.run("--agentv-out=own.jsonl", "--agentv-resume=own.jsonl", "--agentv-retry-errors")
    assert calls(project) == ["crash", "b", "crash"]


def test_a_dry_run_starts_no_program(project):
    write_cases(project, "a")
    assert project.run("--agentv-dry-run").outcomes == {"passed": 1}
    assert (calls(project), logs(project)) == ([], [])


def test_an_agent_does_not_judge_its_own_answers_unasked(project):
    write_cases(project, "a", evaluators=[{"name": "judge", "type": "llm_judge"}])
    run = project.run()
    assert "target 'coder' (targets.yaml:1) would have to judge its own answers" in run.by_id["a"]["error"]
    assert calls(project) == []


def test_an_agent_that_judges_is_given_the_contract_before_the_question(project):
    prompt = "import sys\nopen('asked', 'w').write(sys.stdin.read())\nprint('''%s''')\n"
    result = {"type": "result", "subtype": "success", "result": '{"score": 0.5, "hits": ["h"]}'}
    project.write(
        "claude.py",
        prompt.replace("'asked'", repr(str(project.path / "asked"))) % json.dumps(result).replace("\\", "\\\\"),
    )
    write_cases(project, "a", target="judged", threshold=0.5, evaluators=[{"name": "judge", "type": "llm_judge"}])
    run = project.run()
    assert (run.by_id["a"]["score"], run.by_id["a"]["hits"]) == (0.5, ["h"])
    asked = (project.path / "asked").read_text()
    assert asked.index('"score"') < asked.index("[[ ## candidate_answer ## ]]")


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
