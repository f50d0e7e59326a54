"""Prompts and traces of single cases, in files of their own."""

import json

import pytest
from pooled import TWO

ECHO = """
targets:
  - name: default
    provider: cli
    command_template: printf %s {PROMPT}
    env: {COLOUR: vermilion}
"""


def dumps(project, folder):
    return {path.name: json.loads(path.read_text("utf-8")) for path in sorted((project.path / folder).iterdir())}


@pytest.mark.parametrize(("flag", "folder"), [("prompts", ".agentv/prompts"), ("traces", ".agentv/traces")])
def test_each_case_has_a_file_whatever_its_id_and_whoever_else_has_it(project, suite, flag, folder):
    project.write("targets.yaml", ECHO)
    ids = ["a/b", "a:b", "../up", ".hidden", "x" * 300, "ä ö", "same"]
    for name in ("one", "two"):
        project.write(f"{name}.eval.yaml", suite(**{json.dumps(eval_id): "hello" for eval_id in ids}))
    run = project.run(f"--agentv-dump-{flag}")
    assert run.outcomes == {"passed": 14}
    found = dumps(project, folder)
    assert sorted(dump["eval_id"] for dump in found.values()) == sorted(ids * 2)
    assert all(len(name) < 150 and not name.startswith(".") for name in found)


def test_ids_that_differ_by_case_only_have_files_of_their_own_on_disks_that_do_not_tell_them_apart(project, suite):
    project.write("targets.yaml", ECHO)
    project.write("a.eval.yaml", suite(Paris="hello", paris="hello", other="hello"))
    assert project.run("--agentv-dump-prompts").outcomes == {"passed": 3}
    found = dumps(project, ".agentv/prompts")
    assert len({name.lower() for name in found}) == 3
    assert "other.json" in found


@pytest.mark.scenario("Dump traces enabled")
def test_an_attempt_without_an_answer_has_a_file_with_null_for_its_trace(project, suite):
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            timeout_seconds: 0.8
            command_template: if [ {ATTEMPT} = 0 ]; then sleep 60; fi; echo hello
        """,
    )
    project.write("a.eval.yaml", suite(a="hello"))
    project.run("--agentv-dump-traces")
    found = dumps(project, ".agentv/traces")
    assert list(found) == ["a_attempt-1.json", "a_attempt-2.json"]
    assert found["a_attempt-1.json"] == {
        "eval_id": "a",
        "attempt": 1,
        "target": "default",
        "trace": None,
        "trace_summary": None,
    }
    assert found["a_attempt-2.json"]["attempt"] == 2
    assert found["a_attempt-2.json"]["trace"] is None


FLAKY = """
from pathlib import Path

CALLS = Path(__file__).with_name("calls")


def answer(prompt):
    count = len(CALLS.read_text()) if CALLS.exists() else 0
    CALLS.write_text("x" * (count + 1))
    call = {"role": "assistant", "tool_calls": [{"tool": f"tool_{count}"}]}
    return {"output_messages": [call, {"role": "assistant", "content": "hello" if count else "no"}]}
"""


@pytest.mark.scenario("Dump traces enabled")
def test_a_rerun_keeps_the_trace_of_the_answer_that_failed(project, suite):
    """It was overwritten."""
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    project.write("agent.py", FLAKY)
    project.write("a.eval.yaml", suite(a="hello"))
    assert project.run("--agentv-dump-traces", "--reruns=2").outcomes == {"passed": 1, "rerun": 1}
    found = dumps(project, ".agentv/traces")
    assert {name: dump["trace_summary"]["tool_names"] for name, dump in found.items()} == {
        "a_attempt-1.json": ["tool_0"],
        "a_rerun-1_attempt-1.json": ["tool_1"],
    }


def test_a_dump_that_cannot_be_written_is_an_error_of_its_case_that_names_the_file(project, suite):
    project.write("targets.yaml", ECHO)
    project.write("a.eval.yaml", suite(a="hello"))
    taken = project.write("taken", "a file\n")
    run = project.run("--agentv-dump-prompts=taken")
    assert run.statuses == {"a": "error"}
    assert run.by_id["a"]["error"] == f"taken/a.json: cannot be written: {taken} is a file, not a folder"


def test_workers_warn_of_traces_that_cannot_be_dumped(project, suite):
    """A warning without a line broke the case, whose answer was lost."""
    project.write("targets.yaml", ECHO)
    project.write("a.eval.yaml", suite(a="hello"))
    project.write("taken", "a file\n")
    run = project.run("--agentv-dump-traces=taken", *TWO)
    assert run.statuses == {"a": "pass"}
    assert "the trace is not dumped: cannot be written: " in run.text
