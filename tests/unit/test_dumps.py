"""Prompts and traces in files of their own."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.dumps import dump_prompt, file_name


def test_dumps_hold_no_secrets_and_survive_lone_surrogates(tmp_path: Path) -> None:
    prompt = Prompt("key sk-123456 \ud800", "sk-123456")
    path = dump_prompt(tmp_path, "c", prompt, guideline_paths=(), masker=Masker(["sk-123456"]))
    assert json.loads(path.read_text()) == {
        "eval_id": "c",
        "question": "key *** \ufffd",
        "guidelines": "***",
        "guideline_paths": [],
    }


@pytest.mark.parametrize(
    ("eval_id", "expected"),
    [
        *((safe, safe) for safe in ("case-1", "v1.2_x", "A", "9")),
        ("a/b", "a_b~c85bed17"),
        ("a:b", "a_b~cfc849f6"),
        ("../x", "_._x~198ed126"),
        ("été 1", "_t_1~2a274100"),
        (".hidden", "_hidden~d8250e18"),
        ("", "~6e340b9c"),
        ("x" * 300, "x" * 100 + "~2981ffef"),
    ],
)
def test_a_file_has_the_id_as_its_name_made_safe_and_told_apart_by_a_hash(eval_id: str, expected: str) -> None:
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
