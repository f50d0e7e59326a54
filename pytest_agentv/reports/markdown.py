"""The verdict of a run as Markdown: the summary page, and the comment on a pull request.

Texts from files, targets and models go into code spans, so that they cannot become links, mentions or HTML.
"""

import difflib
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

from pytest_agentv.errors import locate
from pytest_agentv.model.base import Record, counted
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.ci import reason_of
from pytest_agentv.reports.columns import percent
from pytest_agentv.reports.compare import matching_key
from pytest_agentv.reports.failure import STRICT_PASSES
from pytest_agentv.reports.figures import (
    case_name,
    cost_of,
    duration_of,
    format_cost,
    format_duration,
    format_score,
    on_one_line,
    shown,
    visible,
)
from pytest_agentv.reports.gates import AS_JUDGED, Ending
from pytest_agentv.reports.summary import (
    judged_results,
    lowest_results,
    score_figures,
    score_statistics,
    total_figures,
)

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


@dataclass(frozen=True, slots=True)
class Trouble(Record):
    """A problem of the run that is not a score."""

    text: str
    """Our words."""
    details: tuple[str, ...] = ()
    """Foreign texts: names of cases, messages."""


@dataclass(frozen=True, slots=True)
class RunVerdict(Record):
    """How a run ended."""

    results: tuple[EvalResult, ...]
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
    unexpected = (result for result in verdict.results if result.node_id not in verdict.expected_failures)
    failures = sorted((result for result in unexpected if result.status == "fail"), key=lambda result: result.score)
    head, tail = list(_head_lines(verdict, errors, failures, masker)), list[str]()
    if verdict.results_path is not None:
        tail.append(f"Results: {code_span(masker.mask(locate(verdict.results_path, None)), _LONGEST_TEXT)}")
    space = limit - _size(head) - _size(tail)
    if space < 0:
        return
    share = space // 2 if failures else space
    rows = _error_rows(errors, masker)
    error_table = _table(f"Errors ({len(errors):,})", _ERROR_COLUMNS, rows, len(errors), share)
    scored = failures or lowest_results(verdict.results)
    title = f"Failed ({len(failures):,})" if failures else "Lowest scores"
    score_table = _table(title, _SCORE_COLUMNS, _score_rows(scored), len(scored), space - _size(error_table))
    yield from (*head, *error_table, *score_table, *tail)


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
    statistics = score_statistics([result.score for result in judged_results(verdict.results)])
    figures = [
        *(score_figures(statistics) if statistics else ()),
        *total_figures(verdict.results, verdict.elapsed_ms),
    ]
    if figures:
        yield table_row(figure.name for figure in figures)
        yield table_row("---:" for _ in figures)
        yield table_row(figure.value for figure in figures)
        yield ""
    yield from verdict.notes
    if lines := verdict.statistics:
        # As on the terminal. No line can end the block.
        fence = "`" * max(3, 1 + max(len(run) for line in lines for run in re.findall("`*", line)))
        shown_lines = _without_middle([masker.mask(line) for line in lines[1:]])
        yield from ("### Statistics", "", f"{fence}text", *shown_lines, fence, "")


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
        evaluators = sorted(result.evaluator_results or (), key=lambda evaluator: evaluator.score)  # lowest first
        scores = (f"{code_span(each.name, _LONGEST_NAME)} {format_score(each.score)}" for each in evaluators)
        yield table_row((*_place(result), format_score(result.score), threshold, _listed(scores, len(evaluators))))


def _place(result: EvalResult) -> tuple[str, str]:
    return code_span(case_name(result), _LONGEST_NAME), str(result.line or "")


def _listed(texts: Iterable[str], count: int) -> str:
    more = [_more(count - _MOST_LISTED)] if count > _MOST_LISTED else []
    return ", ".join([*itertools.islice(texts, _MOST_LISTED), *more])


def _more(count: int) -> str:
    return f"… and {count:,} more"


def table_row(cells: Iterable[str]) -> str:
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


# The comment on a pull request: the verdict, regressions, changed answers.

MARKER: Final = "<!-- pytest-agentv: evaluations -->"
"""The first line. A comment that begins with it is updated instead of adding another one."""
COMMENT_LIMIT: Final = 65_000
"""In bytes. GitHub takes 65,536 characters, GitLab a million."""

_MOST_COMMENT_ROWS: Final = 20
_MOST_DIFFS: Final = 10
_LONGEST_ANSWER: Final = 2_000
_LONGEST_REASON: Final = 300
_SLACK: Final = 1e-9

_Pair = tuple[EvalResult, EvalResult]
"""The results of a case in the base and in this run."""
_Reader = Callable[[EvalResult], float | None]
_Format = Callable[[float], str]


def comment_lines(
    results: Sequence[EvalResult],
    base: Sequence[EvalResult] | None,
    masker: Masker,
    limit: int = COMMENT_LIMIT,
    ending: Ending = AS_JUDGED,
) -> Iterator[str]:
    """Yield the lines of a comment. With newlines they take at most `limit` bytes of UTF-8.

    `base` are the results to compare with; None: there are none.
    Texts of others cannot become links, mentions or HTML.
    """
    notes = tuple(_comparison(results, base, masker)) if base is not None else ()
    space = limit - len(MARKER) - 1
    verdict = _verdict(results, ending).replace(notes=notes)
    lines = list(markdown_lines(verdict, masker, space))
    if not lines and notes:  # too long with the diffs
        end = notes.index("<details>") if "<details>" in notes else len(notes)
        notes = (*notes[:end], "The changed answers are left out: they are too long.", "")
        lines = list(markdown_lines(verdict.replace(notes=notes), masker, space))
    yield MARKER
    yield from lines


def _verdict(results: Sequence[EvalResult], ending: Ending) -> RunVerdict:
    excused = frozenset(filter(None, (each.node_id for each in results if ending.judged(each))))
    troubles = [Trouble("The gate failed", (text,)) for text in ending.red]
    if ending.unexpected:
        troubles.append(Trouble(STRICT_PASSES, tuple(sorted(ending.unexpected))))
    return RunVerdict(
        tuple(results),
        expected_failures=excused | ending.expected,
        expected_words="judged with the run" if excused - ending.expected else "failed as expected",
        unexpected_passes=ending.unexpected,
        troubles=tuple(troubles),
        unjudged=ending.unjudged,
        dry_run=bool(results) and all(each.dry_run for each in results),
    )


def _comparison(results: Sequence[EvalResult], base: Sequence[EvalResult], masker: Masker) -> Iterator[str]:
    key = matching_key(base, results)
    before = {key(result): result for result in base}
    both = [(before[key(result)], result) for result in results if key(result) in before]
    same = [(old, new) for old, new in both if _is_same_case(old, new)]
    judged = [(old, new) for old, new in same if _is_judged(old) and _is_judged(new)]
    others = {
        "without a score": len(same) - len(judged),
        "changed": len(both) - len(same),
        "new": len(results) - len(both),
        "gone": len(before) - len(both),
    }
    rest = ", ".join(f"{number:,} {what}" for what, number in others.items() if number)
    count = counted(len(judged), "case") if judged else "no case"
    yield f"Compared with the base over {count} of both{f'. Not compared: {rest}' if rest else ''}."
    yield ""
    if judged:
        yield from _delta_table(judged)
    yield from _regressions([pair for pair in same if not (pair[0].dry_run or pair[1].dry_run)], masker)
    yield from _changed_answers(both, masker)


def _is_same_case(old: EvalResult, new: EvalResult) -> bool:
    """Whether text, grading and threshold of a case are the same. Unknown values count as the same."""
    names = ("case_hash", "grading_hash", "threshold")
    values = ((getattr(old, name), getattr(new, name)) for name in names)
    return all(before is None or now is None or before == now for before, now in values)


def _is_judged(result: EvalResult) -> bool:
    return result.status != "error" and not result.dry_run


def _delta_table(pairs: Sequence[_Pair]) -> Iterator[str]:
    yield table_row(("", "Base", "Now", "Change"))
    yield table_row(("---", "---:", "---:", "---:"))
    rates = [sum(pair[side].status == "pass" for pair in pairs) / len(pairs) for side in (0, 1)]
    yield table_row(
        ("Passed", *(percent(rate).replace(" ", "") for rate in rates), f"{100 * (rates[1] - rates[0]):+.1f} points")
    )
    cached = sum(any(each.cached and cost_of(each) is not None for each in pair) for pair in pairs)
    label = f"Cost, {cached:,} from the cache at the price first paid" if cached else "Cost"
    yield from _change_row(label, pairs, (cost_of, cost_of), math.fsum, format_cost)
    yield from _change_row("Mean latency", pairs, (duration_of, duration_of), fmean, format_duration)
    yield ""


def _change_row(
    name: str,
    pairs: Sequence[_Pair],
    read: tuple[_Reader, _Reader],
    join: Callable[[Iterable[float]], float],
    form: _Format,
) -> Iterator[str]:
    """Yield the row of a figure over the cases that have it in both runs; nothing without any."""
    figures = ((read[0](old), read[1](new)) for old, new in pairs)
    known = [(old, new) for old, new in figures if old is not None and new is not None]
    if known:
        before, now = map(join, zip(*known, strict=True))
        part = f", known for {len(known):,} of {len(pairs):,}" if len(known) < len(pairs) else ""
        yield table_row(
            (f"{name}{part}", form(before), form(now), f"{(now - before) / before:+.0%}" if before else "-")
        )


def _regressions(pairs: Sequence[_Pair], masker: Masker) -> Iterator[str]:
    """Yield the cases that passed and no longer pass, or whose score fell, worst first."""
    worse = [(old, new) for old, new in pairs if _is_worse(old, new)]
    if not worse:
        return
    worse.sort(key=lambda pair: (pair[1].status == "pass", pair[1].score - pair[0].score))
    yield f"### Regressions ({len(worse):,})"
    yield ""
    yield table_row(("Case", "Base", "Now", "Reason"))
    yield table_row(("---", "---:", "---:", "---"))
    for old, new in worse[:_MOST_COMMENT_ROWS]:
        reason = "" if new.status == "pass" else code_span(reason_of(new, masker), _LONGEST_REASON)
        yield table_row((code_span(case_name(new), _LONGEST_NAME), _figure(old), _figure(new), reason))
    yield ""
    if len(worse) > _MOST_COMMENT_ROWS:
        yield from (f"… and {len(worse) - _MOST_COMMENT_ROWS:,} more", "")


def _is_worse(old: EvalResult, new: EvalResult) -> bool:
    if old.status == "error":
        return False
    fell = bool(judged_results([new])) and new.score < old.score - _SLACK
    return (old.status == "pass" and new.status != "pass") or fell


def _figure(result: EvalResult) -> str:
    return "error" if result.status == "error" else f"{format_score(result.score)} {result.status}"


def _changed_answers(pairs: Sequence[_Pair], masker: Masker) -> Iterator[str]:
    changed = [
        (old, new)
        for old, new in pairs
        if "error" not in (old.status, new.status) and old.candidate_answer != new.candidate_answer
    ]
    if not changed:
        return
    changed.sort(key=lambda pair: (not _is_worse(*pair), pair[1].score - pair[0].score))
    yield "<details>"
    yield f"<summary>Changed answers ({len(changed):,})</summary>"
    yield ""
    for old, new in changed[:_MOST_DIFFS]:
        yield from _diff(old, new, masker)
    if len(changed) > _MOST_DIFFS:
        yield from (f"… and {len(changed) - _MOST_DIFFS:,} more", "")
    yield "</details>"
    yield ""


def _diff(old: EvalResult, new: EvalResult, masker: Masker) -> Iterator[str]:
    """Yield a folded diff of two answers. No text can end its fence."""
    before, after = (shown(each.candidate_answer, masker)[:_LONGEST_ANSWER].split("\n") for each in (old, new))
    lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    fence = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
    yield code_span(case_name(new), _LONGEST_NAME)
    if lines:
        yield from ("", f"{fence}diff", *lines, fence, "")
    else:
        yield from ("", f"They are the same in what is shown: {_LONGEST_ANSWER:,} characters, without secrets.", "")
