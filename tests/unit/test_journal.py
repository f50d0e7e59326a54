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
from pytest_agentv.session.identity import ResumedFile, RunIdentity
from pytest_agentv.session.resume import FinishedCases, Journal
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


@pytest.mark.parametrize(
    ("before", "now"),
    [
        *(({}, {key: "x"}) for key in ("eval_file", "eval_id", "target", "case_hash", "target_hash", "grading_hash")),
        *(({name: None}, {name: None}) for name in ("case_hash", "target_hash", "grading_hash")),
    ],
)
def test_another_file_id_target_or_text_is_another_case_and_so_is_one_of_unknown_origin(
    before: dict[str, Any], now: dict[str, Any]
) -> None:
    assert journal(RESULT.replace(**before)).take(job(**now)) is None


AT_HALF = {"status": "pass", "threshold": 0.5, "threshold_source": "command line"}


@pytest.mark.parametrize(
    ("results", "asked", "found", "is_changed"),
    [
        ([RESULT], job(), RESULT, False),
        ([RESULT], job(RunOptions(threshold=0.5)), RESULT.replace(**AT_HALF), True),
        (
            [RESULT.replace(status="pass", threshold=0.2)],
            job(RunOptions(threshold=0.5)),
            RESULT.replace(**AT_HALF),
            True,
        ),
        ([RESULT], job(RunOptions(threshold=1.0)), RESULT.replace(threshold_source="command line"), True),
        ([RESULT.replace(run_id="shard")], job(), RESULT, True),
        ([RESULT, RESULT.replace(target_hash="t2", score=0.9)], job(), RESULT, True),
        ([RESULT.replace(status="error"), RESULT.replace(score=0.7)], job(), RESULT.replace(score=0.7), False),
        *(
            ([RESULT], job(**now), RESULT.replace(**now), True)
            for now in (
                *({"line": 9, "node_id": "x.eval.yaml::a-2"}, {"row": "t.csv:3"}, {"combination": "other"}),
                *({"tags": ("t",)}, {"xfail": "known"}, {"required": True, "group": "g"}),
            )
        ),
        ([RESULT.replace(required=True, group="g")], job(), RESULT, True),
    ],
)
def test_a_result_is_carried_over_once_by_the_rules_and_names_of_now_and_written_again_if_it_changed(
    results: list[EvalResult], asked: CaseJob, found: EvalResult, is_changed: bool
) -> None:
    finished = journal(*results)
    carried = finished.take(asked)
    assert carried is not None
    assert (carried.result, carried.is_changed) == (found, is_changed)
    assert finished.take(asked) is None


def test_a_case_that_broke_is_finished_unless_errors_are_retried() -> None:
    broken = RESULT.replace(status="error", error="no tokens")
    carried = journal(broken).take(job(RunOptions(threshold=0.0)))
    assert carried is not None
    assert carried.result.status == "error"
    assert journal(RESULT, broken, with_errors=False).take(job()) is None


@pytest.mark.parametrize("status", ["pass", "fail"])
def test_what_a_hook_decided_holds_whatever_the_threshold_of_now(status: Any) -> None:
    decided = RESULT.replace(status=status, assertion="because")
    for threshold in (0.1, 0.9):
        carried = journal(decided).take(job(RunOptions(threshold=threshold)))
        assert carried is not None
        assert (carried.result, carried.is_changed) == (decided, False)


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
