import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.session.names import clean_name, unique_names


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


def test_equal_ids_are_numbered_and_missing_ones_named_by_their_place() -> None:
    assert list(unique_names(["a", "a", "a-2", None, "a", ""])) == [
        "a",
        "a-2",
        "a-2-2",
        "unnamed-4",
        "a-3",
        "unnamed-6",
    ]


@given(st.lists(st.one_of(st.none(), st.text(max_size=8))))
def test_names_are_unique_and_hold_no_line_break(eval_ids: list[str | None]) -> None:
    names = list(unique_names(eval_ids))
    assert len(set(names)) == len(names) == len(eval_ids)
    assert all(len(name.splitlines()) == 1 and "::" not in name and "[" not in name for name in names)
