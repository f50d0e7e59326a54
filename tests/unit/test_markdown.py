"""The verdict as Markdown. The golden file shows the whole of one."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.model.results import ErrorDetail, EvalResult, EvaluatorResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.ci import MARKDOWN_LIMIT, markdown_lines
from pytest_agentv.reports.view import Ending, RunView, Trouble

FILE = "evals/qa.eval.yaml"


def result(eval_id: str, score: float = 1.0, **changes: Any) -> EvalResult:
    plain = EvalResult("2026-11-20T13:11:09.075Z", eval_id, "qa", score, (), (), "answer", "agent")
    status = "pass" if score == 1 else "fail"
    place = {"node_id": f"{FILE}::{eval_id}", "eval_file": FILE, "line": 12, "status": status, "threshold": 1.0}
    return plain.replace(**(place | changes))


def broken(eval_id: str, error: str, **changes: Any) -> EvalResult:
    detail = ErrorDetail("provider", "timeout")
    return result(eval_id, 0.0, **({"status": "error", "error": error, "error_detail": detail} | changes))


def judged(**scores: float) -> dict[str, Any]:
    return {"evaluator_results": tuple(EvaluatorResult(name, "heuristic", score) for name, score in scores.items())}


def markdown(*results: EvalResult, masker: Masker | None = None, limit: int = MARKDOWN_LIMIT, **facts: Any) -> str:
    run = RunView(results, Ending(troubles=facts.pop("troubles", ())))
    lines = markdown_lines(run, masker or Masker(), limit, **facts)
    return "".join(f"{line}\n" for line in lines)


def rows(text: str, title: str) -> list[list[str]]:
    """Return the cells of a section's table, the way GitHub takes a row apart."""
    lines = text.partition(f"### {title}")[2].splitlines()[4:]
    table = lines[: lines.index("")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


def plain(code: str) -> str:
    """Return what a reader sees of a code span in a table."""
    fence = re.match("`+", code)[0]  # type: ignore[index]
    content = code[len(fence) : -len(fence)].replace("\\|", "|")
    assert code.endswith(fence)
    assert fence not in re.findall("`+", content), "the code span ends early"
    is_padded = content.startswith(" ") and content.endswith(" ") and content.strip()
    return content[1:-1] if is_padded else content


def test_statistics_of_many_broken_cases_leave_room_for_the_verdict() -> None:
    broken = (f"BROKEN         {'x' * 60}{number}   5/5 -> 0/5    q 0.001" for number in range(1_000))
    statistics = (
        "EVALUATION STATISTICS",
        "1,000 cases, 5 answers each",
        *broken,
        "GATE: FAILED, 1,000 cases are broken",
    )
    text = markdown(result("a", 0.1), statistics=statistics)
    assert len(text.encode()) < 20_000
    assert "\n1,000 cases, 5 answers each\nBROKEN" in text
    assert re.search(r"\n… and \d+ more lines\nBROKEN", text)
    assert "\nGATE: FAILED, 1,000 cases are broken\n```\n" in text
    assert "### Failed (1)" in text
    few = markdown(result("a"), statistics=statistics[:20])
    assert "more lines" not in few


@given(st.text(alphabet=st.sampled_from("|`\\ \n\r\t<>@#*_[]()!$&;:-=~+.ä日\u202e\ud800x"), max_size=60))
def test_any_text_is_one_code_span_in_one_cell(text: str) -> None:
    shown = markdown(broken("a", text or "-", node_id=f"x{text}"))
    ((case, _, error),) = rows(shown, "Errors")
    assert plain(case).startswith("x")
    assert plain(error).startswith("[provider, timeout]")


def test_secrets_are_masked_before_anything_is_cut() -> None:
    secret = "sk-0123456789abcdef" * 40
    text = markdown(
        broken("a", "x" * 400 + secret),
        troubles=(Trouble("Results were lost", (f"{'z' * 190}{secret}",)),),
        results_path=Path(f"/r/{secret}"),
        masker=Masker([secret]),
    )
    assert "sk-0" not in text
    assert text.count("***") == 3


def test_a_huge_run_stays_below_the_limit_and_says_what_is_left_out() -> None:
    results = [
        *(broken(f"broken-{number}", f"{number}{'日|`' * 5_000}", node_id="|日" * 500) for number in range(3_000)),
        *(result(f"bad-{number}", 0.5, node_id="|日" * 500, **judged(a=0.5)) for number in range(4_000)),
    ]
    troubles = tuple(Trouble("日" * 50, ("|日`" * 5_000,) * 100) for _ in range(4))
    text = markdown(*results, troubles=troubles, results_path=Path("日" * 5_000))
    assert 32_000 < len(text.encode()) <= MARKDOWN_LIMIT
    assert "### Errors (3,000)" in text
    assert "### Failed (4,000)" in text
    assert [int(more.replace(",", "")) for more in re.findall(r"^… and ([\d,]+) more$", text, re.MULTILINE)] == [
        3_000 - len(rows(text, "Errors")),
        4_000 - len(rows(text, "Failed")),
    ]
    assert text.endswith("…`\n")


@pytest.mark.parametrize("limit", [0, 10, 200, 400, 1_000, 5_000])
def test_with_little_room_there_is_less_and_at_last_nothing(limit: int) -> None:
    text = markdown(*(broken(f"a-{number}", f"{number}") for number in range(100)), result("b", 0.5), limit=limit)
    assert len(text.encode()) <= limit
    assert bool(text) == (limit >= 200)
    assert ("### Errors (100)" in text) == (limit >= 400)
