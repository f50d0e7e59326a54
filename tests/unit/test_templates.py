"""Templates with `{{ name }}` placeholders."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import render_template, template_variables


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


def test_names_are_listed_once_in_the_order_of_first_use() -> None:
    assert template_variables("{{ b }} {{a}} {{ b }} {{ c-d }}") == ("b", "a")


@given(st.text(), st.text())
def test_any_value_arrives_as_it_is(before: str, value: str) -> None:
    before = before.replace("{", "").replace("}", "")
    assert render_template(f"{before}{{{{ x }}}}{before}", {"x": value}) == f"{before}{value}{before}"
