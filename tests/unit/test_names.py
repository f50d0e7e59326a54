import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.session.outcomes import clean_name, unique_names


@pytest.mark.parametrize(
    ("eval_id", "name"),
    [
        ("plain-id", "plain-id"),
        ("with space", "with space"),
        ("a::b", "a:b"),
        ("a:::b", "a:b"),
        ("m[gpt]", "m(gpt)"),
        ("line\nbreak", "line break"),
        ("sep\u2028arator", "sep arator"),
        ("lone\ud800", "lone"),
        ("  edges  ", "edges"),
        ("Größe/日本", "Größe/日本"),
        ("\x00", ""),
    ],
)
def test_names_are_ids_without_what_breaks_selection(eval_id: str, name: str) -> None:
    assert clean_name(eval_id) == name


def test_equal_ids_and_missing_ones_are_numbered() -> None:
    assert list(unique_names(["a", "a", None, "a", ""])) == ["a", "a-2", "unnamed", "a-3", "unnamed-2"]


@pytest.mark.parametrize(
    ("eval_ids", "names"),
    [
        (["a", "a", "a-2"], ["a", "a-3", "a-2"]),
        ([" a ", "a"], ["a-2", "a"]),
        (["m[1]", "m::1", "m(1)"], ["m(1)-2", "m:1", "m(1)"]),
        ([None, "unnamed"], ["unnamed-2", "unnamed"]),
    ],
)
def test_an_id_that_can_be_a_name_is_one_wherever_it_stands(eval_ids: list[str | None], names: list[str]) -> None:
    assert list(unique_names(eval_ids)) == names


@given(st.lists(st.text("ab-2[ ", max_size=4), unique=True), st.text("ab-2[ ", max_size=4))
def test_a_case_added_above_takes_no_name_of_an_id_that_is_one(eval_ids: list[str], added: str) -> None:
    before = dict(zip(eval_ids, unique_names(eval_ids), strict=True))
    after = dict(zip([added, *eval_ids], unique_names([added, *eval_ids]), strict=True))
    assert all(after[eval_id] == name for eval_id, name in before.items() if name == eval_id != added)


def test_many_equal_ids_are_numbered_in_no_time() -> None:
    assert list(unique_names(["a"] * 100_000))[-1] == "a-100000"


@given(st.lists(st.one_of(st.none(), st.text(max_size=8))))
def test_names_are_unique_and_hold_no_line_break(eval_ids: list[str | None]) -> None:
    names = list(unique_names(eval_ids))
    assert len(set(names)) == len(names) == len(eval_ids)
    assert all(len(name.splitlines()) == 1 and "::" not in name and "[" not in name for name in names)
