"""`agentv compare` of three results files or more: the table, the same as data, and its exit codes."""

import json
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def line(number: int, score: float = 1.0, **more: object) -> dict[str, object]:
    metrics = {"token_usage": {"input": 10, "output": number}, "cost_usd": 0.001 * number, "duration_ms": 100 * number}
    result = {"eval_id": f"q{number}", "eval_file": "evals/a.yaml", "score": score, "target": "gpt"}
    status = "pass" if score == 1 else "fail"
    return {**result, "status": status, "execution_metrics": metrics, "node_id": f"evals/a.yaml::q{number}", **more}


def write(name: str, *lines: dict[str, object]) -> str:
    Path(name).write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    return name


@pytest.fixture
def three() -> list[str]:
    broken = {"status": "error", "error": "timed out", "execution_metrics": None}
    return [
        write("a.jsonl", line(1), line(2), line(3)),
        write("b.jsonl", line(1), line(2, 0.25), line(3)),
        write("c.jsonl", line(1), line(2), line(3, 0, **broken)),
    ]


def test_each_file_has_a_row_and_the_best_of_each_column_is_marked(agentv, golden, three):
    run = agentv("compare", *three)
    assert (run.exit_code, run.out) == (0, golden("cli/compare_runs.txt"))
    assert run.err == "c.jsonl: 1 case could not be judged and has no score\n"


def test_the_same_as_data(agentv, three):
    data = json.loads(agentv("compare", *three, "--format=json").out)
    assert data["runs"][1] == {
        "name": "b.jsonl",
        "cases": 3,
        "errors": 0,
        "passed": 2,
        "mean": 0.75,
        "cost_usd": pytest.approx(0.006),
        "tokens": 36,
        "median_ms": 200,
        "p95_ms": 300,
        "cost_cases": 3,
        "token_cases": 3,
        "cached_cases": 0,
        "best": ["errors"],
    }
    assert data["disagreements"][1] == {
        "case": "evals/a.yaml::q3",
        "runs": {
            "a.jsonl": {"status": "pass", "score": 1},
            "b.jsonl": {"status": "pass", "score": 1},
            "c.jsonl": {"status": "error", "score": None},
        },
    }
    assert data["missing"] == []


def test_a_file_of_several_targets_has_a_row_for_each(agentv):
    both = [
        line(1, target=target, node_id=f"evals/a.yaml::q1@{kind}", eval_id="q1@formal", combination=kind)
        for target, kind in (("gpt", "gpt-formal"), ("claude", "claude-formal"))
    ]
    run = agentv("compare", write("two.jsonl", *both), write("b.jsonl", line(1, 0.5)), write("c.jsonl", line(1)))
    assert [row.split("  ")[0] for row in run.out.splitlines()[1:5]] == [
        "two.jsonl gpt-formal",
        "two.jsonl claude-formal",
        "b.jsonl",
        "c.jsonl",
    ]
    assert "They disagree on 1 of 1 cases:" in run.out
    assert run.exit_code == 0


def test_several_cases_of_a_test_are_several_cases(agentv):
    """The last one had the place of all, where other tests needed their classes to be told apart."""
    nodes = {"TestA::test_x": "test_x", "TestB::test_x": "test_x", "test_two": "test_two"}
    cases = [line(1, eval_file="test_a.py", node_id=f"test_a.py::{item}", eval_id=name) for item, name in nodes.items()]
    files = [
        write(f"{name}.jsonl", *cases, cases[-1] | {"eval_id": "named", "score": score, "status": status})
        for name, score, status in (("a", 1, "pass"), ("b", 1, "pass"), ("c", 0, "fail"))
    ]
    out = agentv("compare", *files).out
    assert (
        "They disagree on 1 of 4 cases:\n  test_a.py::test_two (named): a.jsonl pass, b.jsonl pass, c.jsonl fail" in out
    )


def test_cases_that_a_run_lacks_are_left_out_and_told(agentv, three):
    write("c.jsonl", line(1), line(2))
    run = agentv("compare", *three)
    told = "agentv compare: left out 1 case that not all runs have: evals/a.yaml::q3; lacking in c.jsonl"
    assert (run.exit_code, run.err) == (2, f"{told} (accept that with --allow-missing)\n")
    allowed = agentv("compare", *three, "--allow-missing")
    assert (allowed.exit_code, allowed.err, allowed.out) == (0, f"{told}\n", run.out)
    assert [row.split()[1] for row in run.out.splitlines()[1:4]] == ["2", "2", "2"]


def test_files_without_a_common_case_cannot_be_compared(agentv):
    run = agentv("compare", *(write(f"{number}.jsonl", line(number)) for number in (1, 2, 3)))
    assert (run.exit_code, run.out) == (2, "")
    assert (
        run.err
        == "agentv compare: no case is in all files, so there is nothing to compare (parts of one run: --statistics)\n"
    )


def test_results_of_agentv_itself_have_scores_but_no_status(agentv):
    files = [
        write(f"{name}.jsonl", {"eval_id": "x", "score": score}) for name, score in {"a": 1, "b": 0.5, "c": 1}.items()
    ]
    out = agentv("compare", *files).out.splitlines()
    assert [row.split() for row in out[1:4]] == [
        ["a.jsonl", "1", "-", "1.000*", "-", "-", "-", "-"],
        ["b.jsonl", "1", "-", "0.500", "-", "-", "-", "-"],
        ["c.jsonl", "1", "-", "1.000*", "-", "-", "-", "-"],
    ]
    assert out[4:] == ["They disagree on 1 of 1 cases:", "  x: a.jsonl 1.000, b.jsonl 0.500, c.jsonl 1.000"]


def test_files_of_one_name_have_their_paths_and_none_may_be_given_twice(agentv):
    for name in ("x", "y"):
        Path(name).mkdir()
    files = [write("x/run.jsonl", line(1)), write("y/run.jsonl", line(1)), write("z.jsonl", line(1))]
    assert [row.split()[0] for row in agentv("compare", *files).out.splitlines()[1:]] == files
    twice = agentv("compare", *files, files[0])
    assert twice.exit_code == 2
    assert "x/run.jsonl is given twice" in twice.err


def test_all_disagreements_are_listed_on_request(agentv):
    files = [
        write(f"{name}.jsonl", *(line(number, score) for number in range(1, 13)))
        for name, score in {"a": 1, "b": 1, "c": 0.5}.items()
    ]
    assert "  … and 2 more\n" in agentv("compare", *files).out
    assert agentv("compare", *files, "--format=verbose").out.count("  evals/a.yaml::q") == 12
