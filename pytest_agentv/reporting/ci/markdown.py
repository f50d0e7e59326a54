"""Renders the verdict of a run as Markdown, short enough for the summary page of a GitHub step.

Texts from files, targets and models go into code spans, so that they cannot become links, mentions or HTML.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.errors import locate
from pytest_agentv.models.base import Record
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.escaping import on_one_line, visible
from pytest_agentv.reporting.figures import case_name, format_score
from pytest_agentv.reporting.statistics import judged_results, lowest_results, score_statistics
from pytest_agentv.reporting.totals import score_figures, total_figures

MARKDOWN_LIMIT: Final = 65_536
"""In bytes. GitHub accepts one mebibyte per step, which other reports share."""

_ERROR_COLUMNS: Final = ("Case", "Line", "Error")
_SCORE_COLUMNS: Final = ("Case", "Line", "Score", "Threshold", "Evaluators")
_MOST_ROWS: Final = 50
_MOST_LISTED: Final = 5
_LONGEST_NAME: Final = 200
_LONGEST_TEXT: Final = 500
_LONGEST_STATISTICS: Final = 16_384
"""In bytes: a quarter of the limit of a page."""
_LAST_LINES: Final = 10


@record
class Trouble(Record):
    """A problem of the run that is not a score."""

    text: str
    """Our words."""
    details: tuple[str, ...] = ()
    """Foreign texts: names of cases, messages."""


@record
class RunVerdict(Record):
    """How a run ended."""

    results: tuple[EvalResult, ...]
    earlier: tuple[EvalResult, ...] = ()
    """Results that later ones replaced. Only their cost and tokens count."""
    expected_failures: frozenset[str] = frozenset()
    """Node ids of cases whose low score was expected (`xfail`)."""
    expected_words: str = "failed as expected"
    troubles: tuple[Trouble, ...] = ()
    results_path: Path | None = None
    dry_run: bool = False
    elapsed_ms: float | None = None
    statistics: tuple[str, ...] = ()
    """The section EVALUATION STATISTICS, whose first line is its title."""
    unexpected_passes: frozenset[str] = frozenset()
    """Node ids of cases that failed because they passed (strict `xfail`)."""
    notes: tuple[str, ...] = ()
    """Lines of Markdown below the figures, such as a comparison with another run."""
    unjudged: str = ""
    """Why there is no verdict on the whole run; empty: there is one, or none was requested."""


def markdown_lines(verdict: RunVerdict, masker: Masker, limit: int = MARKDOWN_LIMIT) -> Iterator[str]:
    """Yield the lines of the verdict. With newlines they take at most `limit` bytes of UTF-8.

    A table that is cut says so. Yields nothing if the limit is too small for the figures.
    """
    errors = [result for result in verdict.results if result.status == "error"]
    failures = _failures(verdict)
    head, tail = list(_head_lines(verdict, errors, failures, masker)), list(_tail_lines(verdict, masker))
    space = limit - _size(head) - _size(tail)
    if space < 0:
        return
    rows = _error_rows(errors, masker)
    share = space // 2 if failures else space
    error_table = _table(f"Errors ({len(errors):,})", _ERROR_COLUMNS, rows, len(errors), share)
    scored = failures or lowest_results(verdict.results)
    title = f"Failed ({len(failures):,})" if failures else "Lowest scores"
    rows = _score_rows(scored)
    score_table = _table(title, _SCORE_COLUMNS, rows, len(scored), space - _size(error_table))
    yield from (*head, *error_table, *score_table, *tail)


def _failures(verdict: RunVerdict) -> list[EvalResult]:
    """Return the failed cases that were not expected to fail, worst first."""
    unexpected = (result for result in verdict.results if result.node_id not in verdict.expected_failures)
    return sorted((result for result in unexpected if result.status == "fail"), key=lambda result: result.score)


def _head_lines(
    verdict: RunVerdict, errors: Sequence[EvalResult], failures: Sequence[EvalResult], masker: Masker
) -> Iterator[str]:
    good = [result.node_id in verdict.unexpected_passes for result in verdict.results if result.status == "pass"]
    expected = len(verdict.results) - len(good) - len(errors) - len(failures)
    counts = {
        "passed": good.count(False),
        "failed": len(failures) + good.count(True),
        verdict.expected_words: expected,
        "error" if len(errors) == 1 else "errors": len(errors),
    }
    text = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "no results"
    sign = "❌" if errors or failures or verdict.troubles else "⚠️" if verdict.dry_run or verdict.unjudged else "✅"
    yield f"## {sign} Evaluations: {text}"
    yield ""
    if verdict.dry_run:
        yield from ("**Dry run**: answers and judgements were mocked, so the scores mean nothing.", "")
    for trouble in verdict.troubles:
        details = _listed(
            (code_span(masker.mask(detail), _LONGEST_NAME) for detail in trouble.details), len(trouble.details)
        )
        yield f"- {trouble.text}{f': {details}' if details else '.'}"
    if verdict.unjudged:
        yield f"- No verdict on the run as a whole: {code_span(masker.mask(verdict.unjudged), _LONGEST_TEXT)}"
    if verdict.troubles or verdict.unjudged:
        yield ""
    yield from _figure_table(verdict)
    yield from verdict.notes
    yield from _statistics_block(verdict.statistics, masker)


def _statistics_block(lines: Sequence[str], masker: Masker) -> Iterator[str]:
    """Yield the section on statistics as on the terminal. No line of it can end the block."""
    if lines:
        fence = "`" * max(3, 1 + max(len(run) for line in lines for run in re.findall("`*", line)))
        shown = _without_middle([masker.mask(line) for line in lines[1:]])
        yield from ("### Statistics", "", f"{fence}text", *shown, fence, "")


def _without_middle(lines: list[str]) -> list[str]:
    """Return lines that leave space for the tables.

    Drops lines of broken cases in the middle; the lines of gates stay.
    """
    ends = lines[-_LAST_LINES:]
    space = _LONGEST_STATISTICS - _size(ends)
    first: list[str] = []
    for line in lines[:-_LAST_LINES]:
        space -= _size([line])
        if space < 0:
            return [*first, _more(len(lines) - len(first) - len(ends)).replace("more", "more lines"), *ends]
        first.append(line)
    return lines


def _figure_table(verdict: RunVerdict) -> Iterator[str]:
    statistics = score_statistics([result.score for result in judged_results(verdict.results)])
    figures = [
        *(score_figures(statistics) if statistics else ()),
        *total_figures(verdict.results, verdict.elapsed_ms, verdict.earlier),
    ]
    if figures:
        yield table_row(figure.name for figure in figures)
        yield table_row("---:" for _ in figures)
        yield table_row(figure.value for figure in figures)
        yield ""


def _tail_lines(verdict: RunVerdict, masker: Masker) -> Iterator[str]:
    if verdict.results_path is not None:
        yield f"Results: {code_span(masker.mask(locate(verdict.results_path, None)), _LONGEST_TEXT)}"


def _table(title: str, columns: Sequence[str], rows: Iterable[str], count: int, space: int) -> list[str]:
    """Return a section with as many rows as fit and the number of rows left out; empty without rows."""
    lines = [f"### {title}", "", table_row(columns), table_row("---" for _ in columns)]
    used = _size([*lines, "", _more(count), ""])
    shown_rows: list[str] = []
    for row in itertools.islice(rows, _MOST_ROWS):
        used += _size([row])
        if used > space:
            break
        shown_rows.append(row)
    if not shown_rows:
        return []
    hidden = count - len(shown_rows)
    return [*lines, *shown_rows, "", *([_more(hidden), ""] if hidden else [])]


def _error_rows(errors: Iterable[EvalResult], masker: Masker) -> Iterator[str]:
    previous = None
    for result in errors:
        detail = f"[{result.error_detail.stage}, {result.error_detail.kind}] " if result.error_detail else ""
        text = code_span(f"{detail}{masker.mask(result.error or 'unknown error')}", _LONGEST_TEXT)
        yield table_row((*_place(result), "the same" if text == previous else text))
        previous = text


def _score_rows(results: Iterable[EvalResult]) -> Iterator[str]:
    for result in results:
        threshold = "" if result.threshold is None else format_score(result.threshold)
        yield table_row((*_place(result), format_score(result.score), threshold, _evaluators(result)))


def _evaluators(result: EvalResult) -> str:
    """Return the scores of a case's evaluators, lowest first."""
    ordered = sorted(result.evaluator_results or (), key=lambda evaluator: evaluator.score)
    scores = (f"{code_span(each.name, _LONGEST_NAME)} {format_score(each.score)}" for each in ordered)
    return _listed(scores, len(ordered))


def _listed(texts: Iterable[str], count: int) -> str:
    more = [_more(count - _MOST_LISTED)] if count > _MOST_LISTED else []
    return ", ".join([*itertools.islice(texts, _MOST_LISTED), *more])


def _more(count: int) -> str:
    return f"… and {count:,} more"


def _place(result: EvalResult) -> tuple[str, str]:
    return code_span(case_name(result), _LONGEST_NAME), str(result.line or "")


def table_row(cells: Iterable[str]) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(cells)} |"


def code_span(text: str, length: int) -> str:
    """Return text as a code span on one line. Escapes pipes, which end a table cell even in a code span."""
    cut = on_one_line(visible(text), length, "…") or "-"
    fence = "`" * (max(map(len, re.findall("`+", cut)), default=0) + 1)
    padding = " " if cut.startswith("`") or cut.endswith("`") else ""
    content = cut.replace("|", "\\|")
    return f"{fence}{padding}{content}{padding}{fence}"


def _size(lines: Iterable[str]) -> int:
    """Bytes of lines, with their newlines."""
    return sum(len(line.encode()) + 1 for line in lines)
