"""Numbers, links and hidden characters as the report says them."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from views import view

from pytest_agentv.reports.figures import format_cost, format_duration
from pytest_agentv.reports.html import cases as reading
from pytest_agentv.reports.html.cases import cases_of


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (250, "250 ms"),
        (3_700, "3.7 s"),
        (150_000, "2 min 30 s"),
        (4_320_000, "72 min 0 s"),
        (999.7, "1.0 s"),
        (59_999, "1 min 0 s"),
        (3_599_999, "60 min 0 s"),
    ],
)
def test_durations(milliseconds: float, text: str) -> None:
    assert format_duration(milliseconds) == text


@pytest.mark.node
@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize(
    ("name", "say", "values"),
    [
        ("duration", format_duration, [0, 250, 999.4, 999.7, 3_700, 59_940, 59_999, 150_000, 3_599_999, 4_320_000]),
        ("dollars", format_cost, [0, 0.00004, 0.0042, 0.01, 0.0149, 0.0225, 1234.5]),
    ],
    ids=["durations", "dollars"],
)
def test_scripts_of_the_page_tell_figures_as_the_page_does(
    name: str, say: Callable[[float], str], values: list[float]
) -> None:
    script = (Path(reading.__file__).parent / "assets/texts.js").read_text("utf-8")
    found = re.search(rf"^function {name}\(.*?^}}", script, re.DOTALL | re.MULTILINE)
    assert found is not None
    code = f"{found[0]}; console.log(JSON.stringify({json.dumps([None, *values])}.map({name})))"
    done = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["", *map(say, values)]


def test_hidden_characters_are_spelled_out() -> None:
    assert reading.spelled("a\u202eb\x1b\tc\n") == "a[U+202E]b[U+001B]\tc\n"


def test_links_hold_no_markup() -> None:
    [case] = cases_of(
        view("run.jsonl", [{"eval_id": "<b>'\"", "eval_file": "evals/a.yaml", "target": "t", "score": 1}])
    )
    assert case.link == "#case=evals%2Fa.yaml%3A%3A%3Cb%3E%27%22%40t"
    assert reading.filter_link(q="a&b=c") == "#q=a%26b%3Dc"


def test_why_names_the_reason() -> None:
    judged = [{"name": "facts", "type": "llm_judge", "score": 0.5, "misses": ["the price", "the weight"]}]
    value = {"status": "fail", "evaluator_results": judged, "unmet_required": ["Names the price"]}
    [case] = cases_of(view("run.jsonl", [{"eval_id": "a", "score": 0.5, "threshold": 0.8, **value}]))
    assert case.why == "required: Names the price; facts: the price; the weight"


def test_a_reason_is_said_once() -> None:
    judged = [{"name": "contains: 130", "type": "contains", "score": 0, "misses": ["lacks 130"]}] * 2
    [case] = cases_of(view("run.jsonl", [{"eval_id": "a", "score": 0, "threshold": 1, "evaluator_results": judged}]))
    assert case.why == "contains: 130: lacks 130"
