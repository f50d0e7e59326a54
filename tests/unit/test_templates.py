"""Templates and patterns: what fills them, what stays, what matches, and what is said of those that are wrong."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import render_template
from pytest_agentv.cases.references import References, matches_guideline
from pytest_agentv.cases.variables import TemplateFault, fill, render
from pytest_agentv.files.places import Place
from pytest_agentv.files.source import Source

VARIABLES = {
    "question": "Why?",
    "n": 5,
    "ratio": 3.0,
    "tags": ["a", "b"],
    "meta": {"limit": 3, "note": "x"},
    "nothing": None,
    "yes": True,
    "braces": "{{ n }}",
    "a column": "c",
}


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{{ question }}", "Why?"),
        ("{{question}}!", "Why?!"),
        ("{{ n }}", 5),
        ("{{ tags }}", ["a", "b"]),
        ("{{ meta }}", {"limit": 3, "note": "x"}),
        ("{{ nothing }}", None),
        ("n={{ n }} r={{ ratio }} t={{ tags }} m={{ meta }} 0={{ nothing }} y={{ yes }}",
         'n=5 r=3 t=["a", "b"] m={"limit": 3, "note": "x"} 0= y=true'),
        ("{{ n }} ", "5 "),
        ("{{ n + 1 }}", 6),
        ("{{ n | string }}", "5"),
        ("{{ '0.5' | float }}", 0.5),
        ("{{ meta.limit }}", 3),
        ("{{ meta['limit'] }} of {{ yes }} {{ nothing }}.", "3 of true ."),
        ("{{ vars['a column'] }}", "c"),
        ("{% if n > 3 %}many{% else %}few{% endif %}\n", "many\n"),
        ("{% for tag in tags %}<{{ tag }}>{% endfor %}", "<a><b>"),
        ("{{ missing | default('none') }}", "none"),
        ("{{ tags | map('upper') }}", ["A", "B"]),
        ("{% raw %}{{ n }}{% endraw %}", "{{ n }}"),
        ("{{ question }} <b> & \"", 'Why? <b> & "'),
    ],
)  # fmt: skip
def test_a_template_is_filled_and_a_whole_one_keeps_the_type(template, filled):
    assert render(template, VARIABLES) == filled


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("Write a letter{{ ' in a formal tone' if n > 9 }}.", "Write a letter."),
        ("{{ 'not yet' if n > 9 }}", ""),
        ("{{ ['a', 'b' if n > 9] }}", ["a", ""]),
        ("{{ {'a': 'b' if n > 9} }}", {"a": ""}),
        ("{{ ('a' if n > 9) ~ 'b' }} {{ ('a' if n > 9) | upper }}", "b "),
        ("{% set tone = 'formal' if n > 9 %}<{{ tone }}>", "<>"),
        ("{{ question if n > 9 else missing | default('') }}", ""),
        ("{{ 'a' if n > 3 }}", "a"),
    ],
)
def test_a_condition_without_else_is_an_empty_text_where_it_does_not_hold(template, filled):
    assert render(template, VARIABLES) == filled


@pytest.mark.parametrize("template", ["{{ braces }}", "{{ braces | trim }}", "see {{ braces }}"])
def test_what_a_variable_holds_is_never_a_template(template):
    assert render(template, VARIABLES).removeprefix("see ") == "{{ n }}"


@pytest.mark.parametrize(
    ("template", "message", "hint", "line"),
    [
        ("{{ qestion }}", "unknown variable 'qestion'", "did you mean 'question'?", 1),
        ("a\nb {{ qestion }}", "unknown variable 'qestion'", "did you mean 'question'?", 2),
        ("a\n\n{{ qestion | upper }} {{ n }}", "unknown variable 'qestion'", "did you mean 'question'?", 3),
        ("{% if zzz %}{% endif %}", "unknown variable 'zzz'", None, 1),
        ("{{ meta.limt }}", "cannot be filled: there is no 'limt' in it (did you mean 'limit'?)", None, 1),
        ("x {{ meta.limt }}", "cannot be filled: there is no 'limt' in it (did you mean 'limit'?)", None, 1),
        ("a\n{% if %}", "is no valid template: Expected an expression, got 'end of statement block'", None, 2),
        ("{{ 1 / 0 }}", "cannot be filled: division by zero", None, 1),
        ("{{ question + n }}", 'cannot be filled: can only concatenate str (not "int") to str', None, 1),
    ],
)
def test_a_template_that_cannot_be_filled_says_why_and_where(template, message, hint, line):
    with pytest.raises(TemplateFault) as caught:
        render(template, VARIABLES)
    assert (str(caught.value), caught.value.line) == (message, line)
    assert hint is None or caught.value.hint == hint


@pytest.mark.parametrize("hiding", ["text", 3, None, ["a"], {"b": 1}])
def test_a_variable_named_vars_hides_the_mapping_of_all(hiding):
    with pytest.raises(TemplateFault, match="cannot be filled: there is no 'a-b' in it"):
        render('{{ vars["a-b"] }}', {"vars": hiding, "a-b": "x"})
    assert render("{{ vars }}", {"vars": hiding, "a-b": "x"}) == hiding


@pytest.mark.parametrize(
    "template",
    [
        "{{ question.__class__ }}",
        "{{ question.__class__.__mro__ }}!",
        "{{ tags.append(1) }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{% include 'secrets.txt' %}",
        "{% import 'os' as os %}",
        "{{ lipsum() }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ range }}",
        "{{ tags | random }}",
    ],
)
def test_a_template_reaches_nothing_but_its_variables(template):
    with pytest.raises(TemplateFault):
        render(template, VARIABLES)
    assert VARIABLES["tags"] == ["a", "b"]


class _Exhausted:
    """Stands for a width for which there is no memory, without using it up."""

    def __index__(self) -> int:
        raise MemoryError


@pytest.mark.parametrize("template", ["{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ ''.ljust(width) }}"])
def test_a_template_that_takes_too_much_memory_is_a_fault(template):
    with pytest.raises(TemplateFault, match="cannot be filled: it takes too much memory"):
        render(template, {"width": _Exhausted()})


def test_nested_values_are_filled_but_keys_and_code_are_not(tmp_path):
    problems = []
    place = Place(Source(tmp_path / "a.yaml", {}, "", {}), ("evalcases", 0), problems)
    value = {
        "{{ n }}": ["{{ n }}", {"deep": "{{ question }}"}],
        "script": "{{ n }}",
        "nested": {"type": "python", "value": "{{ n }}", "other": "{{ n }}"},
        "plain": {"type": "equals", "value": "{{ n }}"},
    }
    filled = fill(value, VARIABLES, place)
    assert filled == {
        "{{ n }}": [5, {"deep": "Why?"}],
        "script": "{{ n }}",
        "nested": {"type": "python", "value": "{{ n }}", "other": 5},
        "plain": {"type": "equals", "value": 5},
    }
    assert problems == []
    untouched = {"a": ["b", {"c": 1}], "d": "no {braces}"}
    assert fill(untouched, VARIABLES, place) is untouched
    assert fill(["x", {"y": "a\n{{ qestion }}"}], VARIABLES, place) == ["x", {"y": "a\n{{ qestion }}"}]
    assert [problem.key for problem in problems] == ["evalcases[0][1].y"]
    assert problems[0].message == "unknown variable 'qestion' (line 2 of the text)"


def test_names_alone_do_not_import_jinja(monkeypatch):
    monkeypatch.setitem(sys.modules, "pytest_agentv.cases.jinja", None)
    assert render("plain names {{ question }} need none: {{ n }}", VARIABLES) == "plain names Why? need none: 5"
    with pytest.raises(ImportError):
        render("filters do: {{ question | lower }}", VARIABLES)


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("Sold: {{ order.items }}.", 'Sold: ["tent"].'),
        ("{{ order.items }}", ["tent"]),
        ("{{ vars.keys }}!", "k!"),
        ("{% for name, each in order.lines.items() %}{{ name }}={{ each }};{% endfor %}", "a=1;"),
        ("Say {{ order.items | map('upper') }}!", 'Say ["TENT"]!'),
        ("{{ range(3) }} go", "[0, 1, 2] go"),
    ],
)
def test_a_key_wins_over_a_method_and_what_gives_values_is_a_list(template, filled):
    variables = {"order": {"items": ["tent"], "lines": {"a": 1}}, "keys": "k"}
    assert render(template, variables) == filled


@pytest.mark.parametrize("template", ["{{ order.values }}", "Of {{ order.values }}!", "Of {{ order.name.upper }}!"])
def test_a_function_is_no_value(template):
    with pytest.raises(TemplateFault, match="cannot be filled: expected a text, a number, a list or a map"):
        render(template, {"order": {"name": "x"}})


@pytest.mark.parametrize(
    ("template", "rendered"),
    [
        ("{{question}} / {{ question }} / {{\n question\t}}", "Q / Q / Q"),
        ("{{ unknown }} stays", "{{ unknown }} stays"),
        ("{{ question-1 }} {question} ${question} {{}}", "{{ question-1 }} {question} ${question} {{}}"),
        ("{{{question}}}", "{Q}"),
        ("{{ größe }}", "{{ größe }}"),
        ("", ""),
    ],
)
def test_known_names_are_filled_in_and_all_else_stays(template: str, rendered: str) -> None:
    assert render_template(template, {"question": "Q", "größe": "no"}) == rendered


def test_what_a_variable_holds_is_not_searched_again() -> None:
    variables = {"a": "{{ b }}", "b": r"\1 $& {{ a }}"}
    assert render_template("{{ a }}{{ b }}", variables) == r"{{ b }}\1 $& {{ a }}"


@given(st.text(), st.text())
def test_any_value_arrives_as_it_is(before: str, value: str) -> None:
    before = before.replace("{", "").replace("}", "")
    assert render_template(f"{before}{{{{ x }}}}{before}", {"x": value}) == f"{before}{value}{before}"


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a.instructions.md", "**/*.instructions.md", True),
        ("a/b/x.instructions.md", "**/*.instructions.md", True),
        ("/abs/x.instructions.md", "**/*.instructions.md", True),
        ("a\\b\\x.instructions.md", "**/*.instructions.md", True),
        ("./a.instructions.md", "**/*.instructions.md", False),
        ("../x/a.instructions.md", "**/*.instructions.md", False),
        (".x.instructions.md", "**/*.instructions.md", False),
        (".github/x.instructions.md", "**/*.instructions.md", False),
        (".github/x.instructions.md", ".github/**", True),
        ("A.INSTRUCTIONS.MD", "**/*.instructions.md", False),
        ("prompts/a.txt", "**/prompts/**", True),
        ("x/prompts/y/a.txt", "**/prompts/**", True),
        ("xprompts/a.txt", "**/prompts/**", False),
        ("a/b.x", "*.x", False),
        ("b.md", "{a,b}.md", True),
        ("c.md", "{a,b}.md", False),
        ("b.md", "[ab].md", True),
        ("ab.md", "+(a|b).md", True),
        ("docs/a.md", "./docs/*.md", True),
        ("a.txt", "!*.md", True),
        ("a.md", "!*.md", False),
        ("a.md", "!!*.md", True),
        ("docs/a b.md", "docs/a b.md", True),
        ("a5.md", "a{1..9}.md", True),
    ],
)
def test_patterns_match_as_in_agentv(path: str, pattern: str, expected: bool) -> None:
    assert matches_guideline(path, [pattern]) is expected


def test_one_matching_pattern_is_enough_and_none_matches_nothing() -> None:
    assert matches_guideline("a.md", ["*.txt", "*.md"])
    assert not matches_guideline("a.md", [])


@pytest.mark.filterwarnings("ignore:Possible nested set")
@given(st.text(), st.text("ab/*?[]{}()!@+|,.\\-^", max_size=12))
def test_no_pattern_breaks_matching(path: str, pattern: str) -> None:
    assert matches_guideline(path, [pattern]) in (True, False)


@given(st.text() | st.just("x" * 5000) | st.just("a\0b"))
def test_no_reference_is_too_odd_to_be_looked_up(value: str) -> None:
    assert References(Path("/nowhere/evals"), Path("/nowhere"), Path("/nowhere")).find(value).value == value
