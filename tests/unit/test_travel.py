"""Whether a worker writes to the run's file itself, or sends its records home."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.session.recording.identity import RECORDS, Place, TravellingSink, unpack
from pytest_agentv.store.writers import ResultSink

RESULT = EvalResult("t", "a", "d", 1.0, (), (), "tops3cret", "default", node_id="x::a")


def test_a_folder_of_this_machine_is_here_even_if_it_is_still_to_be_made(tmp_path: Path) -> None:
    place = Place.of(tmp_path / "not" / "yet" / "run.jsonl")
    assert (place.folder, place.is_here()) == (str(tmp_path), True)
    assert Place.from_plain(place.to_plain()) == place


@pytest.mark.parametrize(
    "changes", [{"inode": 1}, {"device": -1}, {"machine": "another"}, {"folder": "/no/such/folder"}]
)
def test_a_folder_of_the_same_name_elsewhere_is_another_one(tmp_path: Path, changes: dict[str, object]) -> None:
    assert not Place.of(tmp_path / "run.jsonl").replace(**changes).is_here()


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
