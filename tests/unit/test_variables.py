"""Templates: what fills them, what stays, and what is said of those that cannot be filled."""

import sys

import pytest

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
    filled = fill(value, VARIABLES, place, ("script", "python"))
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
