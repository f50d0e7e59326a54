import contextlib
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.errors import SourceError
from pytest_agentv.files.source import build_yaml, plain_value, read_yaml

HERE = Path("cases.yaml")


def value_of(text: str) -> object:
    return build_yaml(HERE, text, 2)[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("2025-01-15", "2025-01-15"),
        ("2025-01-15T10:00:00Z", "2025-01-15T10:00:00Z"),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("1e3", 1000),
        (".5", 0.5),
        ("1.", 1),
        ("+1", 1),
        ("-7", -7),
        ("true", True),
        ("True", True),
        ("TRUE", True),
        ("tRUE", "tRUE"),
        ("null", None),
        ("~", None),
        ("", None),
        ("-", "-"),
        (".", "."),
        ("١٢", "١٢"),
        ("-.inf", float("-inf")),
    ],
)
def test_plain_scalars_have_the_values_of_yaml_1_2(text: str, value: object) -> None:
    assert plain_value(text) == value
    assert type(plain_value(text)) is type(value) or isinstance(value, int)


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
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3", "cases.yaml:3: duplicate key 'a', first on line 1"),
        ("x:\n  - {k: 1, k: 2}", "cases.yaml:2: duplicate key 'k', first on line 2"),
        ("1: a\n'1': b", "cases.yaml:2: duplicate key '1', first on line 1"),
        ("a: 1\n---\nb: 2", "cases.yaml:2: a second document starts here; expected one document in the file"),
        ("a: &x [*x]", "cases.yaml:1: the alias *x has no anchor &x before it"),
        ("a: *nowhere", "cases.yaml:1: the alias *nowhere has no anchor &nowhere before it"),
        ("<<: 3", "cases.yaml:1: a merge key `<<` takes a mapping or a list of mappings"),
        (
            "a: {{ b }}",
            "cases.yaml:1: a key must be a plain value, not a mapping or a list (a text with {{ }} needs quotes)",
        ),
        ("a: !!int x", "cases.yaml:1: the text 'x' is no !!int"),
        ("a: !!seq x", "cases.yaml:1: the text 'x' is no !!seq"),
        ("a: !!str [x]", "cases.yaml:1: a list is no !!str"),
        ("a: 1\nb: !!seq\n  c: 2", "cases.yaml:2: a mapping is no !!seq"),
    ],
)
def test_faults_are_told_with_their_line(text: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        value_of(text)
    assert str(caught.value) == message


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'a: 1\nb: "never closed\nc: 2\n',
            "x.yaml:4: invalid YAML: while scanning a quoted scalar that begins on line 2, "
            "found unexpected end of stream",
        ),
        (
            "a:\n\t- b\n",
            "x.yaml:2: invalid YAML: while scanning for the next token, found character that cannot start any token "
            "(a tab cannot indent YAML: use spaces)",
        ),
        (
            "a:\n  - b: c\n   d: e\n",
            "x.yaml:3: invalid YAML: while parsing a block collection that begins on line 2, did not find expected '-' "
            "indicator (is this line indented as its neighbours are?)",
        ),
        (
            "a: b: c",
            "x.yaml:1: invalid YAML: mapping values are not allowed in this context "
            "(a text with a colon needs quotes; else look at the indentation)",
        ),
        (
            "a: 'it's'\n",
            "x.yaml:1: invalid YAML: while parsing a block mapping, did not find expected key "
            "(is this line indented as its neighbours are, and a quote not closed too early?)",
        ),
        (
            "a: @b",
            "x.yaml:1: invalid YAML: while scanning for the next token, found character that cannot start any token "
            "(a text that begins with this character needs quotes)",
        ),
        (
            'a: "\\d+"',
            "x.yaml:1: invalid YAML: while parsing a quoted scalar, found unknown escape character "
            "(double quotes read backslashes: use single quotes)",
        ),
        ("ü: é\nb: x\0y\n", "x.yaml:2: invalid YAML: the character U+0000 is not allowed"),
        ("a: 1\nb:\n  - " + "[" * 5_000, "x.yaml:3: the values are nested too deeply"),
        ("a: [\n" + "[" * 200_000 + "\n]\n[", "x.yaml:2: the values are nested too deeply"),  # takes no hours
        ("a: [[[[\n" + "[" * 5_000, "x.yaml:2: the values are nested too deeply"),
        # Newer releases of libyaml refuse those above. This one is too deep for Python only.
        ("a: [[[[\n" + "[" * 900 + "]" * 900 + "\n]]]]", "x.yaml:1: the values are nested too deeply"),
    ],
)
def test_a_fault_is_told_with_the_line_that_helps_to_find_it(text: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        build_yaml(Path("x.yaml"), text, 2)
    assert str(caught.value) == message
