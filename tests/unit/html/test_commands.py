"""The command of an opened case, made from the results alone or from the start of their run."""

from pathlib import Path
from typing import Any

import pytest
from views import view

from pytest_agentv.reports.failure import Start
from pytest_agentv.reports.html.cases import cases_of
from pytest_agentv.reports.html.opened import Commands


def commands(*values: dict[str, Any], start: Start | None = None) -> list[str]:
    cases = cases_of(view("run.jsonl", [{"eval_id": "tent", "score": 1, **value} for value in values]))
    made = Commands(cases, start)
    return [made.of(case) for case in cases]


def combined(name: str, target: str, **more: str) -> dict[str, Any]:
    return {"node_id": f"evals/p.yaml::tent@{name}", "target": target, "combination": name, **more}


def in_python(test: str, target: str) -> dict[str, Any]:
    return {"node_id": f"test_a.py::{test}", "eval_id": test, "target": target}


CAREFUL, GPT = combined("careful", "careful"), combined("gpt", "gpt")
FOUND = (
    ([{"node_id": "p.yaml::tent", "target": "gpt"}], ["pytest p.yaml::tent --agentv-target=gpt"]),
    ([{"node_id": "p.yaml::tent"}], ["pytest p.yaml::tent"]),
    ([{"target": "gpt"}], [""]),
    ([{"node_id": "[a]/p.yaml::tent", "target": "t"}], ["cd '[a]' && pytest p.yaml::tent --agentv-target=t"]),
    ([{"node_id": "p[1].yaml::tent", "target": "t"}], [""]),
    ([GPT, CAREFUL], [f"pytest evals/p.yaml::tent@{name} --agentv-target=gpt,careful" for name in ("gpt", "careful")]),
    ([GPT], ["pytest evals/p.yaml --agentv-eval-id=tent --agentv-target=gpt"]),
    ([combined("formal", "gpt", eval_id="tent@formal")], ["pytest evals/p.yaml::tent@formal --agentv-target=gpt"]),
    (
        [combined("gpt-formal", "gpt", eval_id="tent@formal"), combined("gpt-short", "gpt", eval_id="tent@short")],
        [f"pytest evals/p.yaml --agentv-eval-id=tent@{tone} --agentv-target=gpt" for tone in ("formal", "short")],
    ),
    (
        [in_python("test_it[1-gpt]", "gpt"), in_python("test_it[1-careful]", "careful")],
        [f"pytest 'test_a.py::test_it[1-{name}]' --agentv-target=gpt,careful" for name in ("gpt", "careful")],
    ),
    ([in_python("test_it[gpt]", "gpt")], ["pytest test_a.py::test_it --agentv-target=gpt"]),
    ([in_python("test_it[1]", "gpt")], ["pytest 'test_a.py::test_it[1]' --agentv-target=gpt"]),
)


@pytest.mark.parametrize(("values", "expected"), FOUND)
def test_results_alone_give_a_command_that_finds_the_case(values: list[dict[str, Any]], expected: list[str]) -> None:
    assert commands(*values) == expected


def test_the_command_of_a_run_is_that_of_its_terminal() -> None:
    start = Start(Path("/p"), Path("/p/evals"), ("--agentv-target=gpt,careful", "--agentv-targets-file=../other.yaml"))
    expected = "pytest p.yaml::tent@gpt --agentv-target=gpt,careful --agentv-targets-file=../other.yaml"
    assert commands(GPT, start=start) == [expected]
    assert commands({"node_id": "evals/p[1].yaml::tent"}, {}, start=start) == ["", ""]
