"""Writes results as CSV: a row per case, a column per figure."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from typing import Final

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.figures import duration_of, judge_cost_of, known_parts, paid_cost_of, tokens_of
from pytest_agentv.reporting.html.opened.details import question_of

_FORMULA: Final = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
"""The beginning of a cell that a spreadsheet may run as a formula. Some drop blanks first."""
_INNER_FORMULA: Final = re.compile(r"(?<=[;\t\n])([\"']*)([=@＝＠]|[+\-＋－](?=\S))")
"""The beginning of a cell after a semicolon or a tab. These separate cells in Excel of many languages, which then does
not recognize texts with several lines. Items of a list, `- one`, stay as they are.
"""


def results_csv(results: Sequence[EvalResult], masker: Masker) -> str:
    """Return the rows under the columns that any of them has. The score of each evaluator is a column of its own.

    A text that a spreadsheet would run as a formula gets a `'` in front. So does a part of a text that would become a
    cell with another separator.
    """
    rows = [_row(result) for result in results]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_safe, columns))
    for row in rows:
        writer.writerow([_cell(row.get(name), masker) for name in columns])
    return file.getvalue()


def _row(result: EvalResult) -> Mapping[str, object]:
    usage = tokens_of(result)
    return {
        "eval_file": result.eval_file,
        "line": result.line,
        "eval_id": result.eval_id,
        "dataset": result.dataset,
        "target": result.target,
        "status": result.status,
        **({} if result.xfail is None else {"xfail": result.xfail}),
        "score": None if result.status == "error" else result.score,
        "threshold": result.threshold,
        "passes": result.repeat.passes if result.repeat else None,
        "answers": result.repeat.judged if result.repeat else None,
        "tags": ", ".join(result.tags or ()),
        "question": question_of(result.to_plain()),
        "candidate_answer": result.candidate_answer,
        "expected_outcome": result.expected_outcome,
        "reference_answer": result.reference_answer,
        "hits": "\n".join(result.hits),
        "misses": "\n".join(result.misses),
        "reasoning": result.reasoning,
        "error": result.error,
        "cost_usd": paid_cost_of(result),
        **({"cached": True} if result.cached else {}),
        "judge_cost_usd": judge_cost_of(result),
        "latency_ms": duration_of(result),
        "duration_ms": result.duration_ms,
        "tokens_input": usage.input if usage else None,
        "tokens_output": usage.output if usage else None,
        "timestamp": result.timestamp,
        **{f"{name}_known_for": part for name, part in known_parts(result).items()},
        **{f"score: {each.name}": each.score for each in result.evaluator_results or () if each.error is None},
    }


def _cell(value: object, masker: Masker) -> object:
    return _safe(masker.mask(value)) if isinstance(value, str) else value


def _safe(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()  # no file can hold lone surrogates
    text = re.sub(r"\r\n?", "\n", text.replace("\0", ""))  # a lone CR would end the row, and few programs read NUL
    text = _INNER_FORMULA.sub(r"\1'\2", text)
    return f"'{text}" if _FORMULA.match(text) else text
