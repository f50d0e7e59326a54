"""The results file: where it is, what it holds, and when."""

import json
import re
from datetime import UTC, datetime

import pytest
import yaml
from thorough import varied

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
    flags = ("--agentv-targets=mine.yaml", "--agentv-dump-prompts=prompts", "--agentv-dump-traces")
    finished = pytester.runpytest_inprocess("-p", "no:hypothesispytest", *mode, *flags, str(project.path))
    finished.assert_outcomes(passed=1)
    written = {path.parent for path in (project.path / "sub").rglob("*.json*")}
    folders = (".agentv/results", ".agentv/traces", "prompts")
    assert written == {project.path / "sub" / folder for folder in folders}
    assert not (project.path / ".agentv").exists()


def test_a_run_without_eval_files_writes_nothing(project, pytester):
    project.write("test_plain.py", "def test_plain():\n    pass\n")
    pytester.runpytest_inprocess("-p", "no:hypothesispytest").assert_outcomes(passed=1)
    assert not (project.path / ".agentv").exists()


@pytest.mark.scenario("YAML output")
@pytest.mark.scenario("YAML output format")
@pytest.mark.parametrize("mode", [(), varied(("-n", "1"))], ids=["plain", "a worker"])
def test_yaml_results_are_one_document_each_with_block_literals(project, mode):
    project.write("targets.yaml", 'targets: [{name: default, provider: mock, response: "one\\ntwo\\n"}]\n')
    project.write("a.eval.yaml", CASES)
    run = project.run("--agentv-output-format=yaml", "--agentv-out=r.yaml", mode=mode)
    assert "Total eval cases: 2 (2 passed, 0 failed, 0 errors)" in run.lines
    text = (project.path / "r.yaml").read_text("utf-8")
    documents = list(yaml.safe_load_all(text))
    assert [document["eval_id"] for document in documents] == ["a", "b"]
    assert [document["candidate_answer"] for document in documents] == ["one\ntwo\n"] * 2
    assert text.startswith("---\n")
    assert text.count("---\n") == 2
    assert "\ncandidate_answer: |\n  one\n  two\n" in text


@pytest.mark.scenario("Invalid format specification")
def test_an_unknown_format_is_an_error_that_lists_the_known_ones_and_nothing_runs(project, suite):
    project.write("targets.yaml", MOCK)
    project.write("a.eval.yaml", suite(a="hello"))
    run = project.run("--agentv-output-format=xml")
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    message = "argument --agentv-output-format: unknown output format 'xml': expected one of jsonl, yaml"
    assert any(line.endswith(message) for line in run.lines)
    assert not (project.path / ".agentv").exists()


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
