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


def test_workers_warn_of_traces_that_cannot_be_dumped(project, suite):
    """A warning without a line broke the case, whose answer was lost."""
    project.write("targets.yaml", ECHO)
    project.write("a.eval.yaml", suite(a="hello"))
    project.write("taken", "a file\n")
    run = project.run("--agentv-dump-traces=taken", *TWO)
    assert run.statuses == {"a": "pass"}
    assert "the trace is not dumped: cannot be written: " in run.text
