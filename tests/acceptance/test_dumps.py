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


@pytest.mark.scenario("Dump prompts enabled")
def test_prompts_are_dumped_as_they_are_sent_and_without_the_settings_of_the_provider(project):
    project.write("targets.yaml", ECHO)
    rules = project.write("rules.instructions.md", "Be brief.\n")
    project.write(
        "a.eval.yaml",
        """
        evalcases:
          - id: talk
            expected_outcome: o
            input_messages:
              - role: user
                content: [{type: file, value: rules.instructions.md}, {type: text, value: "What's $1?\\n"}]
              - {role: assistant, content: A dollar.}
              - {role: user, content: And $2?}
            evaluators: [{name: words, type: heuristic, hits: [dollar]}]
          - id: plain
            expected_outcome: o
            input_messages: [{role: user, content: dollar}]
            evaluators: [{name: words, type: heuristic, hits: [dollar]}]
        """,
    )
    run = project.run("--agentv-dump-prompts")
    found = dumps(project, ".agentv/prompts")
    assert sorted(found) == ["plain.json", "talk.json"]
    assert found["plain.json"] == {"eval_id": "plain", "question": "dollar", "guidelines": "", "guideline_paths": []}
    talk = found["talk.json"]
    assert list(talk) == ["eval_id", "question", "guidelines", "guideline_paths"]
    assert talk["question"] == run.by_id["talk"]["candidate_answer"]
    assert talk["guidelines"] == '<file path="rules.instructions.md">\nBe brief.\n</file>'
    assert talk["guideline_paths"] == [str(rules)]
    text = (project.path / ".agentv/prompts/talk.json").read_text("utf-8")
    assert "vermilion" not in text
    assert "printf" not in text


@pytest.mark.scenario("Dump prompts enabled")
@pytest.mark.parametrize("flag", ["--agentv-dump-prompts=deep/er", "--agentv-dump-traces=deep/er"])
def test_dumps_go_to_the_folder_that_is_named(project, suite, flag):
    project.write("targets.yaml", ECHO)
    project.write("a.eval.yaml", suite(a="hello"))
    assert project.run(flag).exit_code == 0
    assert len(dumps(project, "deep/er")) == 1
    assert not (project.path / ".agentv/prompts").exists()
    assert not (project.path / ".agentv/traces").exists()


@pytest.mark.scenario("Dump prompts disabled")
@pytest.mark.scenario("Dump traces disabled by default")
def test_without_the_flags_nothing_is_dumped(project, suite):
    project.write("targets.yaml", ECHO)
    project.write("a.eval.yaml", suite(a="hello"))
    assert project.run().exit_code == 0
    assert not (project.path / ".agentv").exists()


def test_the_prompt_of_a_case_whose_target_breaks_is_dumped_too(project, suite):
    project.write("targets.yaml", "targets: [{name: default, provider: cli, command_template: exit 1}]\n")
    project.write("a.eval.yaml", suite(a="hello"))
    assert project.run("--agentv-dump-prompts").statuses == {"a": "error"}
    assert dumps(project, ".agentv/prompts")["a.json"]["question"] == "Say hello"


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


TRACING = """
targets:
  - name: default
    provider: mock
    output_messages:
      - role: assistant
        tool_calls: [{tool: readFile, input: {filePath: a.txt}, output: text}]
      - {role: assistant, content: hello}
"""


@pytest.mark.scenario("Dump traces enabled")
def test_traces_are_dumped_one_file_an_attempt(project, suite):
    project.write("targets.yaml", TRACING)
    project.write("a.eval.yaml", suite(**{"branch-deactivation-001": "hello"}))
    run = project.run("--agentv-dump-traces")
    assert run.exit_code == 0
    assert dumps(project, ".agentv/traces") == {
        "branch-deactivation-001_attempt-1.json": {
            "eval_id": "branch-deactivation-001",
            "attempt": 1,
            "target": "default",
            "trace": [{"type": "tool_call", "name": "readFile", "input": {"filePath": "a.txt"}, "output": "text"}],
            "trace_summary": {
                "event_count": 1,
                "tool_names": ["readFile"],
                "tool_calls_by_name": {"readFile": 1},
                "error_count": 0,
            },
        }
    }
    assert "trace" not in run.results[0]


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


@pytest.mark.scenario("Dump traces enabled")
def test_an_answer_of_a_target_that_tells_nothing_of_its_way_has_null_for_its_trace_and_summary(project, suite):
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    project.write(
        "agent.py",
        "from pytest_agentv import ProviderResponse\ndef answer(prompt):\n    return ProviderResponse(duration_ms=7)\n",
    )
    project.write("a.eval.yaml", suite(a="hello"))
    run = project.run("--agentv-dump-traces")
    (found,) = dumps(project, ".agentv/traces").values()
    assert (found["trace"], found["trace_summary"]) == (None, None)
    assert run.by_id["a"]["execution_metrics"] == {"duration_ms": 7}


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


@pytest.mark.scenario("Include full trace in results")
@pytest.mark.scenario("Default excludes full trace")
def test_the_trace_is_in_the_results_only_where_it_is_asked_for(project, suite):
    project.write("targets.yaml", TRACING)
    project.write("a.eval.yaml", suite(a="hello"))
    (with_trace,) = project.run("--agentv-include-trace").results
    (without,) = project.run().results
    assert with_trace["trace"] == [
        {"type": "tool_call", "name": "readFile", "input": {"filePath": "a.txt"}, "output": "text"}
    ]
    assert "trace" not in without
    assert with_trace["trace_summary"] == without["trace_summary"]


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
