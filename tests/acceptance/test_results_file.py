"""The results file: where it is, what it holds, and when."""

import json
import re
from datetime import UTC, datetime

import pytest

MOCK = "targets: [{name: default, provider: mock, response: hello world}]\n"


def results_files(project):
    return sorted((project.path / ".agentv" / "results").iterdir())


@pytest.mark.scenario("Incremental JSONL writing")
@pytest.mark.scenario("Sequential execution (default)")
@pytest.mark.parametrize("mode", [(), ("-n", "1")], ids=["plain", "a worker"])
def test_each_line_is_on_disk_before_the_next_case_runs_and_lines_are_in_the_order_of_the_cases(project, suite, mode):
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            command_template: test -e out-1.jsonl && tail -n 1 out-1.jsonl | tr -d '\\n'; printf ' %s' {EVAL_ID}
        """,
    )
    project.write("a.eval.yaml", suite(a="a", b="b", c="c"))
    run = project.run(mode=mode)
    answers = [result["candidate_answer"].rpartition(" ") for result in run.results]
    assert [eval_id for _, _, eval_id in answers] == ["a", "b", "c"]
    seen = [json.loads(line) if line else None for line, _, _ in answers]
    assert seen == [None, run.results[0], run.results[1]]


@pytest.mark.scenario("JSONL format validation")
@pytest.mark.scenario("JSONL output")
@pytest.mark.scenario("JSONL output format (default)")
@pytest.mark.scenario("Output file specification")
def test_results_are_one_json_object_a_line_with_a_newline_at_the_end(project):
    project.write("targets.yaml", 'targets: [{name: default, provider: mock, response: "ä\\n\\u2028 \\t\\"x\\""}]\n')
    project.write("a.eval.yaml", CASES)
    project.run("--agentv-out=deep/er/mine.jsonl")
    raw = (project.path / "deep/er/mine.jsonl").read_bytes().decode("utf-8")
    assert raw.endswith("}\n")
    assert not raw.startswith("[")
    lines = raw.split("\n")[:-1]
    assert [json.loads(line)["eval_id"] for line in lines] == ["a", "b"]
    assert all(json.loads(line)["candidate_answer"] == 'ä\n\u2028 \t"x"' for line in lines)
    assert "ä" in lines[0]


CASES = """
evalcases:
  - {id: a, expected_outcome: o, input_messages: [{role: user, content: q}],
     evaluators: [{name: n, type: latency, threshold: 9000}]}
  - {id: b, expected_outcome: o, input_messages: [{role: user, content: q}],
     evaluators: [{name: n, type: latency, threshold: 9000}]}
"""


@pytest.mark.scenario("Default output location and format")
@pytest.mark.scenario("Output format flag")
@pytest.mark.parametrize(("flags", "suffix"), [((), "jsonl"), (("--agentv-output-format=yaml",), "yaml")])
def test_without_a_path_results_go_to_a_file_named_after_the_time(project, pytester, suite, flags, suffix):
    project.write("targets.yaml", MOCK)
    project.write("a.eval.yaml", suite(a="hello"))
    before = datetime.now(UTC)
    finished = pytester.runpytest_inprocess("-p", "no:hypothesispytest", *flags)
    (path,) = results_files(project)
    named = re.fullmatch(rf"eval_(\d{{4}}-\d\d-\d\dT\d\d-\d\d-\d\d)-(\d{{3}})Z\.{suffix}", path.name)
    started = datetime.strptime(f"{named[1]}.{named[2]}000", "%Y-%m-%dT%H-%M-%S.%f").replace(tzinfo=UTC)
    assert -0.002 < (started - before).total_seconds() < 30
    assert f"Results written to: .agentv/results/{path.name}" in finished.outlines


@pytest.mark.parametrize("mode", [(), ("-n", "1")], ids=["plain", "a worker"])
def test_paths_of_flags_are_relative_to_where_pytest_is_started_in_workers_too(
    project, pytester, suite, monkeypatch, mode
):
    project.write("pytest.ini", "[pytest]\n")
    project.write("sub/mine.yaml", MOCK)
    project.write("a.eval.yaml", suite(a="hello"))
    monkeypatch.chdir(project.path / "sub")
    flags = ("--agentv-targets-file=mine.yaml", "--agentv-dump-prompts=prompts", "--agentv-dump-traces")
    finished = pytester.runpytest_inprocess("-p", "no:hypothesispytest", *mode, *flags, str(project.path))
    finished.assert_outcomes(passed=1)
    written = {path.parent for path in (project.path / "sub").rglob("*.json*")}
    folders = (".agentv/results", ".agentv/traces", "prompts")
    assert written == {project.path / "sub" / folder for folder in folders}
    assert not (project.path / ".agentv/results").exists()


def test_a_second_run_into_the_same_file_adds_to_it_and_sums_up_only_its_own_results(project, suite):
    project.write("targets.yaml", MOCK)
    project.write("a.eval.yaml", suite(a="hello", b="nowhere"))
    project.run("--agentv-out=r.jsonl")
    second = project.run("--agentv-out=r.jsonl", "-k", "a.eval.yaml and not b")
    results = [json.loads(line) for line in (project.path / "r.jsonl").read_text("utf-8").splitlines()]
    assert [result["eval_id"] for result in results] == ["a", "b", "a"]
    first_id, same_id, second_id = (result["run_id"] for result in results)
    assert first_id == same_id != second_id
    assert "Total eval cases: 1 (1 passed, 0 failed, 0 errors)" in second.lines


@pytest.mark.scenario("Write ordering with parallel execution")
@pytest.mark.scenario("Mutex-protected JSONL writes")
def test_workers_write_whole_lines_into_one_file_and_each_names_its_case(project, suite):
    answer = "x" * 100_000
    project.write("targets.yaml", f"targets: [{{name: default, provider: mock, response: hello {answer}}}]\n")
    ids = [f"case{number}" for number in range(24)]
    project.write("a.eval.yaml", suite(**dict.fromkeys(ids, "hello")))
    run = project.run(mode=("-n", "2"))
    assert sorted(run.by_id) == sorted(ids)
    assert len({result["run_id"] for result in run.results}) == 1
    assert {result["candidate_answer"] for result in run.results} == {f"hello {answer}"}


KEYS = (
    *("timestamp", "eval_id", "dataset", "conversation_id", "score", "hits", "misses", "candidate_answer", "target"),
    *("reasoning", "agent_provider_request", "lm_provider_request", "evaluator_provider_request", "evaluator_results"),
    *("trace_summary", "error", "error_detail", "schema_version", "status", "threshold", "threshold_source"),
    *("attempts", "execution_metrics", "node_id", "run_id", "eval_file", "line", "duration_ms"),
    *("trace", "dry_run", "cached"),
)
"""The documented keys of a result, in their order; AgentV's come first, up to `error`."""

AGENTV_KEYS = KEYS[: KEYS.index("error") + 1]

ALWAYS = {
    *("timestamp", "eval_id", "dataset", "score", "hits", "misses", "candidate_answer", "target", "schema_version"),
    *("status", "attempts", "node_id", "run_id", "eval_file", "line", "duration_ms"),
}


AGENT = """
def answer(prompt):
    if "break" in prompt:
        raise RuntimeError("out of order")
    call = {"tool": "knowledgeSearch", "input": {"docId": "x", "deepKey": {"innerKey": [1.5]}}, "duration_ms": 12}
    messages = [{"role": "assistant", "tool_calls": [call]}, {"role": "assistant", "content": "hello"}]
    return {"output_messages": messages, "token_usage": {"input": 10, "output": 6, "cached": 2}, "cost_usd": 0.25}
"""
ALL_KINDS = """
defaults: {criteria: o, input: q}
evalcases:
  - id: passes
    conversation_id: talk
    evaluators: [{name: judge, type: code_judge, script: judge.py, weight: 2}, {contains: hello}]
  - {id: fails, input: [{role: user, content: q}, {role: assistant, content: a}], evaluators: [{contains: nowhere}]}
  - {id: default-judge, target: model}
  - {id: target-breaks, input: break, evaluators: [{contains: nowhere}]}
  - {id: judge-breaks, evaluators: [{name: judge, type: code_judge, script: [python3, gone.py]}]}
  - {id: cannot-be-set-up, input: [{role: user, content: [{type: file, value: gone.md}]}]}
"""
DETAILS = {"byField": {"unitPrice": 2, "Total_Sum": [{"rowId": 1}]}}


@pytest.mark.parametrize("flags", [(), ("--agentv-include-trace",), ("--agentv-dry-run",)])
def test_every_record_has_the_known_keys_in_their_order(project, flags):
    project.write("agent.py", AGENT)
    project.write("judge.py", f"import json\nprint(json.dumps({{'score': 1, 'details': {DETAILS}}}))\n")
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: python, callable: agent.py:answer}
          - {name: model, provider: mock, response: hi, judge_target: judge}
          - {name: judge, provider: mock, response: '{"score": 1, "hits": ["h"], "reasoning": "r"}'}
        """,
    )
    project.write("all.eval.yaml", ALL_KINDS)
    run = project.run(*flags)
    assert list(run.by_id) == [
        *("passes", "fails", "default-judge", "target-breaks", "judge-breaks", "cannot-be-set-up")
    ]
    for record in run.results:
        assert [key for key in record if key in KEYS] == [key for key in KEYS if key in record]
        upstream = [key for key in AGENTV_KEYS if key in record]
        assert list(record)[: len(upstream)] == upstream
        assert set(record) >= ALWAYS
        assert None not in record.values()
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["timestamp"])
    if flags == ("--agentv-include-trace",):
        record = run.by_id["passes"]
        assert record["evaluator_results"][0]["details"] == DETAILS, "keys of users stay as they are"
        assert record["trace"][0]["input"] == {"docId": "x", "deepKey": {"innerKey": [1.5]}}


def test_the_prompt_file_is_removed_unless_it_is_to_be_kept(project, suite, monkeypatch):
    folder = project.path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    target = "{name: default, provider: cli, command_template: 'cat {PROMPT_FILE}', keep_temp_files: KEEP}"
    project.write("a.eval.yaml", suite(a="hello"))
    for keep, kept in (("false", []), ("true", ["Say hello"])):
        project.write("targets.yaml", f"targets: [{target.replace('KEEP', keep)}]\n")
        assert project.run().outcomes == {"passed": 1}
        assert [path.read_text() for path in folder.rglob("prompt.txt")] == kept
