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


def test_all_disagreements_are_listed_on_request(agentv):
    files = [
        write(f"{name}.jsonl", *(line(number, score) for number in range(1, 13)))
        for name, score in {"a": 1, "b": 1, "c": 0.5}.items()
    ]
    assert "  … and 2 more\n" in agentv("compare", *files).out
    assert agentv("compare", *files, "--format=verbose").out.count("  evals/a.yaml::q") == 12
