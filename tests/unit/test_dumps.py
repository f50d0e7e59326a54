"""Prompts and traces in files of their own."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import ChatMessage, Prompt
from pytest_agentv.model.messages import TraceEvent, TraceSummary
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.dumps import dump_prompt, dump_trace, file_name


@pytest.mark.scenario("Dump prompts enabled")
def test_a_prompt_is_dumped_as_it_is_sent(tmp_path: Path) -> None:
    prompt = Prompt("@[User]:\nhé", "<file>x</file>", (ChatMessage("user", "hé"),))
    folder = tmp_path / ".agentv" / "prompts"
    path = dump_prompt(folder, "case-1", prompt, guideline_paths=("/r/a.instructions.md",), masker=Masker())
    assert path == folder / "case-1.json"
    assert path.read_text(encoding="utf-8") == (
        "{\n"
        '  "eval_id": "case-1",\n'
        '  "question": "@[User]:\\nhé",\n'
        '  "guidelines": "<file>x</file>",\n'
        '  "guideline_paths": [\n'
        '    "/r/a.instructions.md"\n'
        "  ]\n"
        "}\n"
    )
    assert list(folder.iterdir()) == [path]


@pytest.mark.scenario("Dump traces enabled")
def test_a_trace_is_dumped_with_its_summary(tmp_path: Path) -> None:
    path = dump_trace(
        tmp_path / "traces",
        "branch-deactivation-001",
        attempt=1,
        target="agent",
        trace=(TraceEvent("tool_call", name="docSearch", input={"docId": 1}),),
        trace_summary=TraceSummary(1, ("docSearch",), {"docSearch": 1}, 0),
        masker=Masker(),
    )
    assert path == tmp_path / "traces" / "branch-deactivation-001_attempt-1.json"
    assert json.loads(path.read_text()) == {
        "eval_id": "branch-deactivation-001",
        "attempt": 1,
        "target": "agent",
        "trace": [{"type": "tool_call", "name": "docSearch", "input": {"docId": 1}}],
        "trace_summary": {
            "event_count": 1,
            "tool_names": ["docSearch"],
            "tool_calls_by_name": {"docSearch": 1},
            "error_count": 0,
        },
    }


def test_a_missing_trace_is_null(tmp_path: Path) -> None:
    path = dump_trace(tmp_path, "c", attempt=2, target="t", trace=None, trace_summary=None, masker=Masker())
    assert json.loads(path.read_text()) == {
        "eval_id": "c",
        "attempt": 2,
        "target": "t",
        "trace": None,
        "trace_summary": None,
    }


def test_an_empty_trace_is_a_trace(tmp_path: Path) -> None:
    path = dump_trace(tmp_path, "c", attempt=1, target="t", trace=(), trace_summary=None, masker=Masker())
    assert json.loads(path.read_text())["trace"] == []


def test_dumps_hold_no_secrets_and_survive_lone_surrogates(tmp_path: Path) -> None:
    prompt = Prompt("key sk-123456 \ud800", "sk-123456")
    path = dump_prompt(tmp_path, "c", prompt, guideline_paths=(), masker=Masker(["sk-123456"]))
    assert json.loads(path.read_text()) == {
        "eval_id": "c",
        "question": "key *** \ufffd",
        "guidelines": "***",
        "guideline_paths": [],
    }


def test_a_second_dump_of_a_case_replaces_the_first(tmp_path: Path) -> None:
    for question in ("first", "second"):
        path = dump_prompt(tmp_path, "c", Prompt(question), guideline_paths=(), masker=Masker())
    assert json.loads(path.read_text())["question"] == "second"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("eval_id", ["case-1", "v1.2_x", "A", "9"])
def test_a_safe_id_is_the_name(eval_id: str) -> None:
    assert file_name(eval_id) == eval_id


@pytest.mark.parametrize(
    ("eval_id", "expected"),
    [
        ("a/b", "a_b~c85bed17"),
        ("a:b", "a_b~cfc849f6"),
        ("../x", "_._x~198ed126"),
        ("été 1", "_t_1~2a274100"),
        (".hidden", "_hidden~d8250e18"),
        ("", "~6e340b9c"),
        ("x" * 300, "x" * 100 + "~2981ffef"),
    ],
)
def test_an_unsafe_id_is_made_safe_and_told_apart_by_a_hash(eval_id: str, expected: str) -> None:
    assert file_name(eval_id) == expected


def test_a_qualifier_tells_cases_of_the_same_id_apart() -> None:
    names = {file_name("c"), file_name("c", "evals/a.eval.yaml"), file_name("c", "evals/b.eval.yaml")}
    assert len(names) == 3


@settings(deadline=None)  # a busy machine is no failure
@given(st.text(), st.text())
def test_names_are_safe_and_different_for_different_ids(one: str, other: str) -> None:
    names = [file_name(one), file_name(other)]
    assert (names[0] == names[1]) == (one == other)
    assert all(len(name) <= 109 and name.isascii() and "/" not in name and not name.startswith(".") for name in names)
