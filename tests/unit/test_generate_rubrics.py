"""What `agentv generate rubrics` makes of replies. `tests/corpus/generate-rubrics` shows the rest."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cli.generate import read_rubrics


@pytest.mark.parametrize(
    "reply",
    [
        '{"rubrics": [{"id": "a", "description": "A", "weight": 2, "required": false}, {"description": " B\\n b "}]}',
        'Here:\n```json\n{"rubrics": [{"id": "a", "description": "A", "weight": 2.0, "required": false}, '
        '{"id": " ", "description": "B b", "weight": "x", "required": "y"}]}\n```\nDone.',
        '{"rubrics": []} {"rubrics": [{"id": "a", "description": "A", "weight": 2, "required": false}, 5, {}, '
        '{"description": ""}, {"description": "B b", "weight": -1}]}',
    ],
)
def test_a_reply_is_read_and_what_is_left_out_gets_its_default(reply):
    first = {"id": "a", "description": "A", "weight": 2, "required": False}
    assert read_rubrics(reply) == [first, {"id": "rubric-2", "description": "B b", "weight": 1, "required": True}]


@pytest.mark.parametrize(
    "reply", ["", "no", "[]", '{"rubrics": []}', '{"rubrics": "x"}', '{"rubrics": [{"id": "a"}]}', '{"rubrics": [']
)
def test_a_reply_without_rubrics_has_none(reply):
    assert read_rubrics(reply) == []


def test_ids_that_occur_twice_are_told_apart():
    reply = json.dumps({"rubrics": [{"id": "a", "description": d} for d in ("A", "B", "C")]})
    assert [rubric["id"] for rubric in read_rubrics(reply)] == ["a", "a-2", "a-3"]


@pytest.mark.parametrize("weight", ["1e999", "1" * 400, "true", "-0.5", "null"])
def test_a_weight_that_is_none_is_1(weight):
    assert read_rubrics(f'{{"rubrics": [{{"description": "A", "weight": {weight}}}]}}')[0]["weight"] == 1


@given(st.text())
def test_any_reply_can_be_read(reply):
    assert isinstance(read_rubrics(reply), list)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MOCK_API_KEY", "hunter2hunter2")
    (tmp_path / "a.eval.yaml").write_text("cases: [{id: a, criteria: o, input: Hello}]")
    return tmp_path


def test_a_secret_that_a_model_repeats_is_not_printed(folder, agentv):
    named = [{"id": f"is-{secret}", "description": "d"} for secret in ("hunter2hunter2", "hunter2hunter2")]
    reply = json.dumps({"rubrics": [{"id": "r", "description": "names hunter2hunter2\x1b[2J"}, *named]})
    targets = {"targets": [{"name": "default", "provider": "mock", "response": reply}]}
    (folder / "targets.yaml").write_text(json.dumps(targets))
    out = agentv("generate", "rubrics", "a.eval.yaml").out
    rubrics = yaml.safe_load(out)["rubrics"]
    assert [(rubric["id"], rubric["description"]) for rubric in rubrics] == [
        ("r", "names ***\x1b[2J"),
        ("is-***", "d"),
        ("is-***-3", "d"),
    ]
    assert "hunter2" not in out
    assert "\x1b" not in out


@pytest.mark.parametrize("length", range(186, 200))
def test_a_reply_is_cut_after_its_secrets_are_masked(folder, agentv, length):
    targets = {"targets": [{"name": "default", "provider": "mock", "response": "x" * length + "hunter2hunter2" * 3}]}
    (folder / "targets.yaml").write_text(json.dumps(targets))
    run = agentv("generate", "rubrics", "a.eval.yaml")
    assert (run.exit_code, "hun" in run.err) == (1, False)
