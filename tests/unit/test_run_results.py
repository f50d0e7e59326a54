"""How the results of a run are read back from its file."""

from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.model.base import compact_json
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.figures import cost_of, duration_of, tokens_of
from pytest_agentv.reports.html.page import report_text
from pytest_agentv.reports.merging import read_part
from pytest_agentv.reports.reading import read_view
from pytest_agentv.reports.summary import total_figures
from pytest_agentv.reports.verdict import compared
from pytest_agentv.session.recording.identity import ResumedFile, RunIdentity
from pytest_agentv.session.recording.run_results import KnownLines, RunResults, read_run
from pytest_agentv.store.writers import ResultSink

USAGE = {"input": 10, "output": 2}
TEXTS: dict[str, Any] = {
    "hits": ["greets"],
    "misses": ["is polite"],
    "candidate_answer": "hello",
    "reasoning": "why",
    "lm_provider_request": {"question": "q"},
    "evaluator_results": [{"name": "j", "type": "llm_judge", "score": 1, "details": {"a": 1}, "raw_output": "{}"}],
    "trace": [{"type": "message", "text": "hello"}],
    "output_messages": [{"role": "assistant", "content": "hello"}],
    "retrieved_context": ["page 1"],
    "expected_outcome": "greets",
    "reference_answer": "hello!",
}


@pytest.fixture
def identity(tmp_path: Path) -> RunIdentity:
    return RunIdentity("run", tmp_path / "results.jsonl")


def line(name: str, second: int = 0, **changes: Any) -> dict[str, Any]:
    return {
        "timestamp": f"2026-11-22T10:00:{second:02}.000Z",
        "eval_id": name,
        "dataset": "shop",
        "score": 1,
        "target": "default",
        "status": "pass",
        "node_id": f"a.eval.yaml::{name}",
        "run_id": "run",
        "eval_file": "a.eval.yaml",
        "line": 1,
        "duration_ms": 5,
        **TEXTS,
        **changes,
    }


def read(identity: RunIdentity, *lines: dict[str, Any], **options: Any) -> RunResults:
    identity.results_path.write_text("".join(f"{compact_json(each)}\n" for each in lines))
    return read_run(identity, **options)


def test_of_a_case_that_passed_a_summary_needs_no_texts(identity: RunIdentity) -> None:
    whole = line("a", execution_metrics={"token_usage": USAGE, "duration_ms": 7}, trace_summary=summary(cost_usd=0.5))
    [result] = read(identity, whole).results
    assert {name: getattr(result, name) for name in TEXTS} == {
        **dict.fromkeys(TEXTS),
        "hits": (),
        "misses": (),
        "candidate_answer": "",
    }
    assert (result.score, result.status, result.duration_ms, result.line) == (1, "pass", 5, 1)
    usage = tokens_of(result)
    assert usage is not None
    assert (cost_of(result), usage.input, usage.output, result.trace_summary) == (0.5, 10, 2, None)


def test_of_other_cases_it_tells_the_findings(identity: RunIdentity) -> None:
    failed, broken = line("a", status="fail", score=0), line("b", status="error", error="it broke", score=0)
    for result in read(identity, failed, broken).results:
        assert (result.hits, result.misses, result.reasoning) == (("greets",), ("is polite",), "why")
        [judged] = result.evaluator_results or ()
        assert (judged.name, judged.details, judged.raw_output) == ("j", None, None)
        assert (result.candidate_answer, result.trace, result.output_messages) == ("", None, None)


def test_texts_are_read_for_who_asks_for_them(identity: RunIdentity) -> None:
    [result] = read(identity, line("a"), with_texts=True).results
    assert result == EvalResult.from_plain(line("a"))


def test_how_long_an_answer_took_is_kept_for_the_table_of_combinations(identity: RunIdentity) -> None:
    metrics = {"execution_metrics": {"duration_ms": 7}}
    run = read(identity, line("a", **metrics), line("b", combination="claude", **metrics))
    assert [duration_of(result) for result in run.results] == [None, 7]


def test_equal_values_of_results_are_one_object(identity: RunIdentity) -> None:
    names = ("target", "eval_file", "score", "dataset")
    first, second = read(identity, line("a"), line("b")).results
    assert [name for name in names if getattr(first, name) is not getattr(second, name)] == []
    reported = "".join(["a.eval.yaml", "::a"])
    [known] = read(identity, line("a"), reported={reported: reported}).results
    assert known.node_id is reported


def test_the_last_result_of_a_case_counts_and_tells_all_that_was_paid_for_it(identity: RunIdentity) -> None:
    paid: list[dict[str, Any]] = [
        {"spent": {"answer": {"calls": calls, "cost_usd": calls, "cost_known": calls}}} for calls in (3, 5, 1)
    ]
    first, last = line("a", 1, score=0.1, **paid[0]), line("a", 2, score=0.2, reruns=1, **paid[1])
    run = read(identity, first, last, line("b", 3, **paid[2]))
    assert ([each.score for each in run.results], run.replaced) == ([0.2, 1], 1)
    for results in (run.results, read_view(identity.results_path).results):
        figures = dict(total_figures(results, None))
        assert figures == {"Cost": "$6.0000", "Reruns": "1"}
    assert "$6.0000" in report_text(compared(read_view(identity.results_path), None))


def test_all_who_read_a_file_agree_on_what_is_one_case(tmp_path: Path) -> None:
    """Without a node id, the comment and JUnit took two cases of one id in two files for one."""
    path = tmp_path / "results.jsonl"
    one = {**line("a"), "node_id": None}
    lines = (one, {**one, "eval_file": "b.eval.yaml"}, {**one, "target": "other"}, {**one, "score": 0.5})
    path.write_text("".join(f"{compact_json(each)}\n" for each in lines))
    assert [len(each.results) for each in (read_view(path), read_part(path))] == [3, 3]


def summary(**known: Any) -> dict[str, Any]:
    return {"event_count": 0, "tool_names": [], "tool_calls_by_name": {}, "error_count": 0, **known}


def written(identity: RunIdentity, *secrets: str) -> KnownLines:
    """Write three results as a run does, and return the lines that it knows then."""
    known = KnownLines()
    sink = ResultSink(identity.results_path, "jsonl", Masker(secrets), known.note)
    metrics = {"token_usage": USAGE, "duration_ms": 7.5, "cost_usd": 0.25}
    whole = line("a", execution_metrics=metrics, trace_summary=summary(cost_usd=0.5), tags=["x"], last_error="sesame1")
    for each in (whole, line("b", score=0.5), line("c", status="fail")):
        sink.write(EvalResult.from_plain(each))
    sink.close()
    return known


def test_lines_that_this_process_wrote_are_known_and_tell_the_same(identity: RunIdentity) -> None:
    known = written(identity)
    lines = identity.results_path.read_bytes().splitlines(keepends=True)
    assert [known.find(each) is not None for each in lines] == [True, True, False]
    assert read_run(identity, known=known) == read_run(identity)
    assert read_run(identity, known=known, with_texts=True) == read_run(identity, with_texts=True)


def test_a_line_that_somebody_changed_is_read(identity: RunIdentity) -> None:
    known = written(identity)
    text = identity.results_path.read_text()
    identity.results_path.write_text(text.replace('"score":0.5', '"score":7'))
    run = read_run(identity, known=known)
    assert [result.eval_id for result in run.results] == ["a", "c"]
    assert [problem.message for problem in run.problems] == [
        "score: expected a number from 0 to 1, got the number 7; the result was skipped"
    ]


def test_what_a_run_with_secrets_wrote_is_read(identity: RunIdentity) -> None:
    known = written(identity, "sesame1")
    assert not any(map(known.find, identity.results_path.read_bytes().splitlines(keepends=True)))
    assert [result.last_error for result in read_run(identity, known=known).results] == ["***", None, None]


def test_a_line_of_another_run_is_not_counted(identity: RunIdentity) -> None:
    known = written(identity)
    other = RunIdentity("other", identity.results_path)
    assert read_run(other).results == ()
    assert len(read_run(identity, known=known).results) == 3


def append(identity: RunIdentity, known: KnownLines | None, *lines: dict[str, Any]) -> None:
    """Append lines as this process does, or without `known` as another one does."""
    sink = ResultSink(identity.results_path, "jsonl", Masker(), known.note if known else None)
    sink.write(*map(EvalResult.from_plain, lines))
    sink.close()


COSTLY: dict[str, Any] = {"trace_summary": summary(cost_usd=0.5), "execution_metrics": {"token_usage": USAGE}}
NODE_IDS = {f"a.eval.yaml::{name}": f"a.eval.yaml::{name}" for name in "abc"}


@pytest.mark.parametrize(("reported", "counted"), [(None, "b a lost late c"), (NODE_IDS, "b a late c")])
def test_a_resumed_run_counts_its_known_lines_and_those_that_another_process_wrote(
    identity: RunIdentity, reported: dict[str, str] | None, counted: str
) -> None:
    append(identity, None, line("b", status="fail", score=0), line("a", **COSTLY), line("lost", score=0.5))
    resumed = identity.replace(resumed=ResumedFile(identity.results_path, "run", last_line=3))
    known = KnownLines()
    append(identity, known, line("b", 1, **COSTLY))
    append(identity, None, line("late", 2))
    append(identity, known, line("c", 2, score=0.5))
    run = read_run(resumed, reported, known=known)
    assert run == read_run(resumed, reported)
    assert [result.eval_id for result in run.results] == counted.split()
    assert run.replaced == 1
    assert sum(cost_of(result) or 0 for result in run.results) == 1


@pytest.mark.parametrize("statuses", ["fail pass", "pass fail", "pass pass", "error pass pass"])
def test_known_lines_of_reruns_replace_each_other(identity: RunIdentity, statuses: str) -> None:
    known = KnownLines()
    for second, status in enumerate(statuses.split()):
        append(identity, known, line("a", second, status=status, error="busy" if status == "error" else None, **COSTLY))
    run = read_run(identity, known=known)
    assert run == read_run(identity)
    assert [result.status for result in run.results] == statuses.split()[-1:]
    assert run.replaced == len(statuses.split()) - 1


def test_what_somebody_changes_during_the_run_counts_beside_known_lines(identity: RunIdentity) -> None:
    known = KnownLines()
    append(identity, known, line("a", 1), line("b", 2), line("c", 3), line("d", 4))
    a, b, c, d = identity.results_path.read_text().splitlines(keepends=True)
    fault, other = b.replace('"pass"', '"fail"'), c.replace('"run_id":"run"', '"run_id":"other"')
    identity.results_path.write_text(f"{d}{fault}{a}{other}{d[:40]}\n")
    append(identity, known, line("e", 5))
    run = read_run(identity, known=known)
    assert run == read_run(identity)
    assert {result.eval_id: result.status for result in run.results} == {
        **dict.fromkeys("dae", "pass"),
        "b": "fail",
    }
    assert [problem.line for problem in run.problems] == [5]
