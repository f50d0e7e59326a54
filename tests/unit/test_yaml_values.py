"""Values of YAML and their lines. `tests/corpus/yaml-at-its-edges` shows scalars, and what is told of faults."""

import contextlib
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.errors import SourceError
from pytest_agentv.files.source import build_yaml, read_yaml

HERE = Path("cases.yaml")


def value_of(text: str) -> object:
    return build_yaml(HERE, text, 2)[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 'yes'\nb: \"1\"", {"a": "yes", "b": "1"}),
        ("1: a\ntrue: b\nnull: c\n1.5: d", {"1": "a", "true": "b", "": "c", "1.5": "d"}),
        ("base: &b {x: 1, y: 2}\nc: {<<: *b, y: 3}", {"base": {"x": 1, "y": 2}, "c": {"x": 1, "y": 3}}),
        (
            "a: &a {x: 1}\nb: &b {x: 2, z: 3}\nc:\n  <<: [*a, *b]",
            {
                "a": {"x": 1},
                "b": {"x": 2, "z": 3},
                "c": {"x": 1, "z": 3},
            },
        ),
        ("'<<': q", {"<<": "q"}),
        (
            "a: !!timestamp 2025-01-15\nb: !!str 5\nc: ! 5\nd: !!int '3'\ne: !!null\nf: !!float 1\ng: !!bool true",
            {"a": "2025-01-15", "b": "5", "c": "5", "d": 3, "e": None, "f": 1, "g": True},
        ),
        (
            "!!map\na: !!seq [1]\nb: ! {c: ! [2]}\n!!str d: !<tag:yaml.org,2002:str> 3",
            {"a": [1], "b": {"c": [2]}, "d": "3"},
        ),
        ("a: &x [1]\nb: *x", {"a": [1], "b": [1]}),
        ("a: &x hi\nb: *x", {"a": "hi", "b": "hi"}),
        ("", None),
        ("# only a comment\n", None),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
    ],
)
def test_documents_become_plain_values(text: str, value: object) -> None:
    assert value_of(text) == value


@pytest.mark.parametrize(
    ("text", "tag", "value"),
    [
        ("b: !foo bar", "!foo", "bar"),
        ("b: !include prompt.md", "!include", "prompt.md"),
        ("b: !env [HOME]", "!env", ["HOME"]),
        ("b: !file {path: x}", "!file", {"path": "x"}),
        ("b: !important", "!important", ""),
        ("b: !!binary aGVsbG8=", "!!binary", "aGVsbG8="),
        ("b: !!python/object/apply:os.system [echo]", "!!python/object/apply:os.system", ["echo"]),
        ("!env b: 2", "!env", 2),
        ("b: !<int> 3", "int", "3"),
        ("%TAG !e! tag:example.com:\n---\nb: !e!foo x", "tag:example.com:foo", "x"),
    ],
)
def test_a_warning_names_a_tag_that_is_not_read(text: str, tag: str, value: object, tmp_path: Path) -> None:
    """As AgentV has it (agentv-formats 1.1): the value counts, but it is surely not what was meant."""
    path = tmp_path / "cases.yaml"
    path.write_text(text)
    source = read_yaml(path)
    assert [(each.line, each.level, each.message) for each in source.warnings] == [
        (text.count("\n") + 1, "warning", f"unknown YAML tag {tag}: only the value behind it counts")
    ]
    assert source.value == {"b": value}


@pytest.mark.parametrize("digits", ["9" * 400, "9" * 5000, "0x" + "f" * 300, "0x" + "f" * 5000, "0o" + "7" * 5000])
def test_a_number_too_large_for_a_float_is_infinite(digits: str) -> None:
    assert value_of(f"a: {digits}") == {"a": math.inf}


@given(st.text())
def test_any_text_is_a_value_or_a_source_error(text: str) -> None:
    with contextlib.suppress(SourceError):
        value_of(text)


@pytest.mark.parametrize("break_of_yaml_1_1", ["\x85", "\u2028", "\u2029"])
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: x#y", "x#y"),
        ("a: x #", "x #"),
        ('a: "x # y"', "x # y"),
        ("a: 'x#'", "x#"),
        ("a: |\n  x#y\n  # z\n", "x#y\n# z\n"),
        ("a: >\n  x#y\n  z\n", "x#y z\n"),
    ],
)
def test_a_text_keeps_characters_that_only_older_yaml_reads_as_line_breaks(
    text: str, value: str, break_of_yaml_1_1: str
) -> None:
    assert value_of(text.replace("#", break_of_yaml_1_1)) == {"a": value.replace("#", break_of_yaml_1_1)}


def test_lines_are_counted_as_editors_count_them() -> None:
    text = "a\u2028b: x\x85\nc: y\u2029\nd: z"
    assert build_yaml(HERE, text, 2)[1] == {(): 1, ("a\u2028b",): 1, ("c",): 2, ("d",): 3}
    with pytest.raises(SourceError, match=r"^cases\.yaml:3: duplicate key 'a\\u2028b', first on line 1$"):
        value_of("a\u2028b: x\u2028\nc: y\na\u2028b: z")


def test_characters_that_json_writes_as_two_escapes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text('a: "\\ud83d\\ude42"\nb: "\\\\ud83d\\\\ude42"\nc: "\\ud83d"', "utf-8")
    with pytest.raises(SourceError, match="invalid Unicode character escape code"):
        read_yaml(path)
    path.write_text('a: "\\ud83d\\ude42"\nb: "\\\\ud83d\\\\ude42"\nc: "\\\\\\ud83d\\ude42"', "utf-8")
    assert read_yaml(path).value == {"a": "\U0001f642", "b": "\\ud83d\\ude42", "c": "\\\U0001f642"}


def test_values_nested_too_deeply_take_no_hours() -> None:
    with pytest.raises(SourceError, match=r"^cases\.yaml:2: the values are nested too deeply$"):
        value_of("a: [\n" + "[" * 200_000 + "\n]\n[")
