"""Which results of earlier runs, and of workers that died, are carried over."""

import os
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.engine.jobs import CaseIdentity, CaseJob
from pytest_agentv.evaluators.composite import Composite, WeightedAverage
from pytest_agentv.evaluators.text import Contains, Heuristic
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import EvalResult, RepeatFigures
from pytest_agentv.model.secrets import Masker
from pytest_agentv.session.recording.identity import ResumedFile, RunIdentity, find_last_run
from pytest_agentv.session.recording.resume import FinishedCases, Journal
from pytest_agentv.store.writers import ResultSink

RESULT = EvalResult(
    "t", "a", "d", 0.5, (), (), "hello", "default", status="fail", threshold=1.0, threshold_source="default",
    node_id="x.eval.yaml::a", run_id="run", eval_file="x.eval.yaml", line=2, case_hash="h1", target_hash="t1",
    grading_hash="g1",
)  # fmt: skip
IDENTITY = CaseIdentity(
    eval_id="a", dataset="d", target="default", eval_file="x.eval.yaml", line=2, node_id="x.eval.yaml::a",
    run_id="run", case_hash="h1", target_hash="t1", grading_hash="g1",
)  # fmt: skip
CASE = EvalCase("a", "d", "/e/x.eval.yaml", 2, "outcome", "q", (), ())


def job(options: RunOptions | None = None, **identity: Any) -> CaseJob:
    return CaseJob(IDENTITY.replace(**identity), CASE, options or RunOptions())


def journal(*results: EvalResult, with_errors: bool = True) -> Journal:
    return Journal(results, "run", with_errors=with_errors)


def test_a_result_is_carried_over_once() -> None:
    finished = journal(RESULT)
    carried = finished.take(job())
    assert carried is not None
    assert (carried.result, carried.is_changed) == (RESULT, False)
    assert finished.take(job()) is None


@pytest.mark.parametrize(
    "other",
    [
        {"eval_file": "y.eval.yaml"},
        {"eval_id": "b"},
        {"target": "other"},
        {"case_hash": "h2"},
        {"target_hash": "t2"},
        {"grading_hash": "g2"},
    ],
)
def test_another_file_id_target_or_text_is_another_case(other: dict[str, Any]) -> None:
    assert journal(RESULT).take(job(**other)) is None


@pytest.mark.parametrize("status", ["pass", "fail"])
def test_what_a_hook_decided_holds_whatever_the_threshold_of_now(status: Any) -> None:
    decided = RESULT.replace(status=status, assertion="because")
    for threshold in (0.1, 0.9):
        carried = journal(decided).take(job(RunOptions(threshold=threshold)))
        assert carried is not None
        assert (carried.result, carried.is_changed) == (decided, False)


def test_a_result_is_of_the_case_as_it_is_now() -> None:
    """A case that had become `required` was left to the verdict on the run, and could be green."""
    carried = journal(RESULT.replace(group="old")).take(job(required=True, group="g"))
    assert carried is not None
    assert (carried.result, carried.is_changed) == (RESULT.replace(required=True, group="g"), True)
    carried = journal(RESULT.replace(required=True, group="g")).take(job())
    assert carried is not None
    assert (carried.result, carried.is_changed) == (RESULT, True)


def test_the_last_word_on_a_case_counts() -> None:
    carried = journal(RESULT.replace(status="error"), RESULT.replace(score=0.7)).take(job())
    assert carried is not None
    assert carried.result.score == 0.7
    assert journal(RESULT, RESULT.replace(status="error"), with_errors=False).take(job()) is None


def test_a_case_that_broke_is_finished_unless_errors_are_retried() -> None:
    broken = RESULT.replace(status="error", error="no tokens")
    carried = journal(broken).take(job(RunOptions(threshold=0.0)))
    assert carried is not None
    assert carried.result.status == "error"
    assert journal(broken, with_errors=False).take(job()) is None


def test_the_status_follows_the_threshold_of_now() -> None:
    carried = journal(RESULT).take(job(RunOptions(threshold=0.5)))
    assert carried is not None
    assert carried.is_changed
    assert (carried.result.status, carried.result.threshold, carried.result.threshold_source) == (
        *("pass", 0.5, "command line"),
    )


WORDS = Heuristic(name="words", hits=("a",), required=True)
PLAIN = Contains(name="plain", value="a", required=True)
GROUP = Composite(name="group", evaluators=(WORDS,), aggregator=WeightedAverage())


@pytest.mark.parametrize(
    ("evaluator", "before", "status"),
    [
        (WORDS, 0.6, None),
        (WORDS, 0.8, "pass"),
        (WORDS.replace(required=False), 0.6, "pass"),
        (PLAIN, 0.6, "pass"),
        (GROUP, 0.6, None),
    ],
)
def test_a_case_with_a_required_evaluator_that_has_to_reach_another_threshold_is_judged_anew(
    evaluator: Any, before: float, status: str | None
) -> None:
    asked = CaseJob(IDENTITY, CASE.replace(evaluators=(evaluator,)), RunOptions(threshold=0.8))
    carried = journal(RESULT.replace(score=0.9, threshold=before)).take(asked)
    assert (carried and carried.result.status) == status


def test_figures_under_the_rules_of_now_are_written_even_if_the_status_stays() -> None:
    """Gates read them from the file."""
    passed = RESULT.replace(status="pass", threshold=0.2)
    carried = journal(passed).take(job(RunOptions(threshold=0.5)))
    assert carried is not None
    assert (carried.result.status, carried.result.threshold, carried.is_changed) == ("pass", 0.5, True)


def test_a_case_that_moved_keeps_its_result_and_gets_its_new_place() -> None:
    carried = journal(RESULT).take(job(line=9, node_id="x.eval.yaml::a-2"))
    assert carried is not None
    assert (carried.result.line, carried.result.node_id, carried.is_changed) == (9, "x.eval.yaml::a-2", True)


@pytest.mark.parametrize(
    ("rules", "is_carried"),
    [
        ({"min_pass_rate": 1.0}, True),
        ({"min_pass_rate": 0.9}, True),
        ({"min_pass_rate": 0.5}, False),
        ({"min_pass_rate": 1.0, "threshold": 0.4}, False),
    ],
)
def test_a_case_that_had_too_few_answers_is_judged_by_the_rules_of_now(rules: dict[str, Any], is_carried: bool) -> None:
    """Its answers may suffice now. It stayed an error, which named the rule of the run before."""
    figures = RepeatFigures(4, 4, 3, 2, 1, 4, 1.0, "default", (1.0, 0.5, 1.0))
    few = RESULT.replace(status="error", error="cannot be judged", repeat=figures)
    carried = journal(few).take(job(RunOptions(repeat=4, **rules)), 4)
    assert (carried is not None) == is_carried


@pytest.mark.parametrize(
    "now", [{"line": 9}, {"row": "t.csv:3"}, {"combination": "other"}, {"tags": ("t",)}, {"xfail": "known"}]
)
def test_a_line_that_names_another_place_or_another_rule_is_written_again(now: dict[str, Any]) -> None:
    """Annotations and tables of targets are made of the file, and named the line and the targets of the run before."""
    carried = journal(RESULT).take(job(**now))
    assert carried is not None
    assert (carried.result, carried.is_changed) == (RESULT.replace(**now), True)


def test_a_line_that_names_another_source_of_the_same_threshold_is_written_again() -> None:
    carried = journal(RESULT).take(job(RunOptions(threshold=1.0)))
    assert carried is not None
    assert (carried.result.threshold_source, carried.is_changed) == ("command line", True)


def test_items_that_ask_the_same_under_one_id_get_their_own_results() -> None:
    """As a test with parameters and `agentv.run(…, id="a")`. All but the last were asked again by each resumed run."""
    names = ["t.py::test[0]", "t.py::test[1]", "t.py::test[2]"]
    finished = journal(*(RESULT.replace(node_id=name, score=0.1 * place) for place, name in enumerate(names)))
    for place in (1, 0, 2):
        carried = finished.take(job(node_id=names[place]))
        assert carried is not None
        assert (carried.result.score, carried.is_changed) == (0.1 * place, False)
        assert finished.take(job(node_id=names[place])) is None


@pytest.mark.parametrize("between", [{"target": "other"}, {"case_hash": "h2"}], ids=str)
def test_such_items_get_their_own_results_whatever_they_were_asked_in_between(between: dict[str, Any]) -> None:
    """All but the last were asked again after a run with another target, or after an edit that was undone."""
    names = ["t.py::test[0]", "t.py::test[1]", "t.py::test[2]"]
    results = [RESULT.replace(node_id=name, score=0.1 * place) for place, name in enumerate(names)]
    finished = journal(*results, *(each.replace(**between) for each in results))
    for place in (1, 0, 2):
        carried = finished.take(job(node_id=names[place]))
        assert carried is not None
        assert (carried.result.score, carried.is_changed) == (0.1 * place, True)
        assert finished.take(job(node_id=names[place])) is None


def test_an_item_that_broke_does_not_get_the_result_of_another_one_that_asked_the_same() -> None:
    other = RESULT.replace(node_id="t.py::test[0]", status="pass", score=1.0)
    finished = journal(other, RESULT.replace(node_id="t.py::test[1]", status="error"), with_errors=False)
    assert finished.take(job(node_id="t.py::test[1]")) is None
    assert finished.take(job(node_id="t.py::test[0]")) is not None


def test_a_case_that_could_not_be_loaded_is_never_carried_over() -> None:
    assert journal(RESULT.replace(status="error", case_hash=None)).take(job(case_hash=None)) is None


def written(path: Path, *results: EvalResult) -> Path:
    sink = ResultSink(path, "jsonl", Masker())
    sink.write(*results)
    sink.close()
    return path


def test_what_a_dead_worker_finished_is_known_as_soon_as_its_death_is(tmp_path: Path) -> None:
    run = RunIdentity("run", tmp_path / "new.jsonl", ResumedFile(tmp_path / "old.jsonl", "before"))
    written(tmp_path / "old.jsonl", RESULT.replace(run_id="before"))
    finished = FinishedCases(run, with_errors=True, is_worker=True)
    assert finished.take(job()) is not None
    written(run.results_path, *(RESULT.replace(eval_id=name) for name in "bc"))
    assert finished.take(job(eval_id="b")) is None
    run.crash_mark.touch()
    assert finished.take(job(eval_id="b")) is not None
    written(run.results_path, RESULT.replace(eval_id="d"))
    assert finished.take(job(eval_id="d")) is None
    os.utime(run.crash_mark, ns=(1, 1))  # another worker died
    assert finished.take(job(eval_id="d")) is not None
    assert finished.take(job(eval_id="a")) is not None, "what is to be resumed is still known"


def test_the_cases_to_retry_are_those_that_broke_in_the_end_whatever_run_they_are_of(tmp_path: Path) -> None:
    broken = RESULT.replace(status="error")
    path = written(
        tmp_path / "r.jsonl",
        *(broken, RESULT),
        *(RESULT.replace(eval_id="b"), broken.replace(eval_id="b")),
        broken.replace(eval_id="c", run_id="another"),
    )
    found = find_last_run(path, "--agentv-retry-errors")
    assert found.broken == (("x.eval.yaml", "b"), ("x.eval.yaml", "c"))
    assert (found.run_id, found.last_line, found.eval_files, found.remarks) == ("another", 5, ("x.eval.yaml",), ())


def test_the_cases_to_retry_are_those_whose_last_result_with_any_target_is_an_error(tmp_path: Path) -> None:
    error, other = RESULT.replace(status="error"), RESULT.replace(target="other")
    named = {name: {"eval_id": name, "node_id": f"x.eval.yaml::{name}"} for name in "abc"}
    lines = [error.replace(**named["a"]), RESULT.replace(**named["b"]), RESULT.replace(**named["c"])]
    lines += [other.replace(**named["a"]), other.replace(**named["b"], status="error")]
    path = written(tmp_path / "r.jsonl", *lines)
    found = find_last_run(path, "--agentv-retry-errors")
    assert [eval_id for _, eval_id in found.broken] == ["a", "b"]
    assert found.hidden == (("x.eval.yaml::a", "a", "other"), ("x.eval.yaml::b", "b", "default"))


def test_an_empty_run_id_does_not_name_the_run(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", RESULT, RESULT.replace(eval_id="b", run_id=""))
    assert find_last_run(path, "--agentv-retry-errors").run_id == RESULT.run_id


def test_a_result_of_another_run_is_written_again_under_this_one() -> None:
    carried = journal(RESULT.replace(run_id="shard")).take(job())
    assert carried is not None
    assert (carried.is_changed, carried.result.run_id) == (True, "run")


def test_an_older_result_that_holds_again_is_written_again() -> None:
    carried = journal(RESULT, RESULT.replace(target_hash="t2", score=0.9)).take(job())
    assert carried is not None
    assert (carried.is_changed, carried.result.score) == (True, 0.5)


@pytest.mark.parametrize("name", ["case_hash", "target_hash", "grading_hash"])
def test_a_result_of_unknown_origin_is_never_carried_over(name: str) -> None:
    assert journal(RESULT.replace(**{name: None})).take(job(**{name: None})) is None
