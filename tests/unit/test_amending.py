"""Results that get what is known at the end of their run only."""

import json

import pytest

from pytest_agentv.errors import FileError
from pytest_agentv.model.results import BaselineFigures, EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.runtime.files import LockedAppender
from pytest_agentv.store.readers import RecordedResult, iter_recorded
from pytest_agentv.store.writers import ResultSink, amend

FIGURES = BaselineFigures(passes=5, judged=5, delta=-0.4, p=0.222, q=1.0, broke=False, state="compared")
ADDED = {"baseline": FIGURES.to_plain()}


def result(eval_id, run_id="now", time="t1", answer="two\nlines", **changes):
    return EvalResult(
        time, eval_id, "d", 0.7, (), (), answer, "azure", node_id=f"a.yaml::{eval_id}", run_id=run_id, **changes
    )


@pytest.fixture(params=["jsonl", "yaml"])
def written(request, tmp_path):
    """Return a function that writes results, and amends those of the run `now`."""
    path = tmp_path / f"r.{request.param}"

    def write(*results, torn=b""):
        sink = ResultSink(path, request.param, Masker())
        sink.write(*results)
        sink.close()
        with path.open("ab") as file:
            file.write(torn)
        return path, lambda *ids: amend(path, "now", request.param, {(f"a.yaml::{each}", each): ADDED for each in ids})

    return write


def read(path):
    return [each.result for each in iter_recorded(path) if isinstance(each, RecordedResult)]


def test_the_last_result_of_a_case_gets_the_figures(written):
    first, again, other = result("a"), result("a", time="t2"), result("b", attempts=2)
    path, amend_now = written(first, again, other)
    amend_now("a")
    assert read(path) == [first, again.replace(baseline=FIGURES), other]


def test_a_line_that_says_an_earlier_one_anew_takes_its_place(written):
    asked = {"question": "How long?"}
    first, more = result("a", attempts=5, lm_provider_request=asked), result("a", attempts=15)
    path, amend_now = written(first, result("b"), more, result("a", time="t2"))
    amend_now("b")
    found = [(each.eval_id, each.attempts, each.lm_provider_request) for each in read(path)]
    assert found == [("b", 0, None), ("a", 15, asked), ("a", 0, None)], "the prompt is not lost"


def test_figures_of_an_earlier_verdict_are_replaced(written):
    path, amend_now = written(result("a", baseline=BaselineFigures(state="new")))
    amend_now("a")
    assert read(path) == [result("a", baseline=FIGURES)]


def test_lines_of_other_runs_and_what_cannot_be_read_stay_as_they_are(written):
    before = result("a", run_id="before")
    torn = b'{"eval_id": "a", "sco'
    path, amend_now = written(before, result("b"), torn=torn)
    alone = path.read_bytes()
    amend_now("a")
    assert path.read_bytes() == alone, "nothing of this run is to be changed"
    amend_now("a", "b")
    assert path.read_bytes().endswith(torn)
    assert read(path) == ([before, result("b", baseline=FIGURES)] if path.suffix == ".jsonl" else [before])


def test_appenders_go_on_with_the_new_file(written):
    path, amend_now = written(result("a"))
    appender = LockedAppender(path)
    appender.append(path.read_bytes())
    amend_now("a")
    appender.append(b'---\n{"eval_id": "z"}\n' if path.suffix == ".yaml" else b'{"eval_id": "z"}\n')
    appender.close()
    assert path.read_bytes().count(b"baseline") == 1
    assert path.read_bytes().endswith(b'{"eval_id": "z"}\n')


def test_a_file_that_cannot_be_replaced_keeps_all_results(written, monkeypatch):
    path, amend_now = written(result("a"))
    before = path.read_bytes()

    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pytest_agentv.runtime.files.os.replace", refuse)
    with pytest.raises(FileError, match="No space left on device"):
        amend_now("a")
    assert path.read_bytes() == before


def test_the_figures_stand_at_the_end_of_the_line(tmp_path):
    path = tmp_path / "r.jsonl"
    sink = ResultSink(path, "jsonl", Masker())
    sink.write(result("a"))
    sink.close()
    before = path.read_text("utf-8")
    amend(path, "now", "jsonl", {("a.yaml::a", "a"): ADDED})
    figures = json.dumps(ADDED["baseline"], separators=(",", ":"))
    assert path.read_text("utf-8") == f'{before[:-2]},"baseline":{figures}}}\n'
