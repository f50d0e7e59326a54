"""Annotations on GitHub: at the case's line, at most ten, and no text can give commands."""

from typing import Any

from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.ci import annotation_lines


def failed(eval_id: str = "tent", score: float = 0.5, **changes: Any) -> EvalResult:
    plain = EvalResult("t", eval_id, "qa", score, (), ("too curt",), "answer", "default", status="fail", threshold=0.8)
    place = {"node_id": f"evals/a.yaml::{eval_id}", "eval_file": "evals/a.yaml", "line": 12}
    return plain.replace(**(place | changes))


def test_an_error_is_marked_where_a_failure_was_expected() -> None:
    """It fails the run, and was the one thing that no annotation showed."""
    [line] = annotation_lines([failed(status="error", error="no key")], ["evals/a.yaml::tent"], Masker())
    assert line.endswith("::no key")


def test_no_text_can_give_commands_or_hold_secrets() -> None:
    evil = "100%\r\n::add-mask::x\n::error::y s3cret-value ::stop-commands::z"
    [line] = annotation_lines(
        [failed(misses=(evil,), eval_file="a,b:c%\n.yaml", node_id=f"a::{evil}", eval_id="x")],
        (),
        Masker(["s3cret-value"]),
    )
    assert "\n" not in line
    assert "\r" not in line
    assert "100%25" in line
    assert "file=a%2Cb%3Ac%25%0A.yaml,line=12,title=" in line
    assert line.count("::") == 2, "that of the command and that before its text"
    assert "s3cret-value" not in line.split("::")[2]
