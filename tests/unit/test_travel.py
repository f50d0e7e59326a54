"""Whether a worker writes to the run's file itself, or sends its records home."""

from pathlib import Path
from types import SimpleNamespace

from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.session.recording.identity import RECORDS, TravellingSink, unpack
from pytest_agentv.store.writers import ResultSink

RESULT = EvalResult("t", "a", "d", 1.0, (), (), "tops3cret", "default", node_id="x::a")


def test_records_go_with_the_report_of_their_item_once_and_the_rest_at_the_end(tmp_path: Path) -> None:
    sink = TravellingSink(ResultSink(tmp_path / "run.jsonl", "jsonl", Masker(["tops3cret"])))
    sink.write(RESULT, RESULT.replace(node_id="x::b"), RESULT.replace(eval_id="a2"))
    report = SimpleNamespace()
    sink.pack("x::a", report)
    texts = list(unpack(vars(report)[RECORDS]))
    assert [text.count("\n") for text in texts] == [1, 1]
    assert ['"eval_id":"a"' in texts[0], '"eval_id":"a2"' in texts[1]] == [True, True]
    assert "tops3cret" not in "".join(texts)
    again = SimpleNamespace()
    sink.pack("x::a", again)
    assert vars(again) == {}
    assert ['"node_id":"x::b"' in text for text in unpack(sink.rest())] == [True]
    assert list(unpack(sink.rest())) == []
    assert list(unpack(None)) == []
    assert not (tmp_path / "run.jsonl").exists()
