"""Reports of a finished run for CI services and spreadsheets: annotations, JUnit XML, code quality, CSV, Markdown."""

import csv
import difflib
import hashlib
import io
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final
from xml.etree import ElementTree

from pytest_agentv.errors import locate
from pytest_agentv.model.base import JsonObject, counted, is_amount
from pytest_agentv.model.results import RESULT_FIELDS, EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.failure import error_text, failure_headline, failure_text
from pytest_agentv.reports.figures import (
    case_name,
    cost_of,
    duration_of,
    error_with_kind,
    figures_of,
    format_cost,
    format_duration,
    format_score,
    on_one_line,
    percent,
    place_properties,
    question_of,
    result_properties,
    shown,
    visible,
    with_id,
)
from pytest_agentv.reports.judged_cases import Pair, is_same_subject, pair_cases, pairs_of, shared_key
from pytest_agentv.reports.summary import extremes, score_figures, score_statistics, total_figures
from pytest_agentv.reports.view import Outcome, RunView, Trouble, failed_as_expected

# Marks failing cases at their lines, by commands to GitHub in the log.

MOST_ANNOTATIONS: Final = 10
"""GitHub shows no more than this of a step."""

_LONGEST: Final = 500
_DATA: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})
"""The escapes of `@actions/core`."""


def annotation_lines(run: RunView, masker: Masker) -> Iterator[str]:
    """Yield `::error file=evals/a.yaml,line=12,title=…::reason` for failing cases: errors first, then lowest scores.

    The last of ten lines says how many cases are left out.
    """
    bad = [each for each in run.outcomes("error", "fail") if each.status != "pass"]
    bad.sort(key=lambda result: (result.status != "error", result.score))
    most = len(bad) if len(bad) <= MOST_ANNOTATIONS else MOST_ANNOTATIONS - 1
    for result in bad[:most]:
        properties = {"file": result.eval_file, "line": result.line, "title": case_name(result)}
        known = ((name, visible(str(value))) for name, value in properties.items() if value)
        listed = ",".join(f"{name}={text.translate(_PROPERTY)}" for name, text in known)
        yield f"::error {listed}::{reason_of(result, masker).replace('::', ': :').translate(_DATA)}"
    if len(bad) > most:
        yield f"::error title=Evaluations::{len(bad) - most} more cases failed"


def reason_of(result: EvalResult, masker: Masker) -> str:
    """Return on one line why a case failed or broke; of one that passed, that its strict mark expected a failure."""
    if result.status == "pass":
        return f"[XPASS(strict)] {shown(result.xfail or '', masker)}".rstrip()
    if result.status == "fail":
        return failure_headline(result, masker)
    return shown(error_with_kind(result), masker).strip().partition("\n")[0][:_LONGEST]


# Writes the results of a finished run as JUnit XML.

_COUNTS: Final = {"skipped": "skipped", "failures": "failure", "errors": "error"}
_KINDS: Final = {"fail": "failure", "error": "error", "expected": "skipped"}
"""The element in the test case of a result, by its outcome."""


def junit_xml(run: RunView, masker: Masker) -> str:
    """Return a test suite with a test case for each result and each gate, as pytest writes them."""
    kinds = [_KINDS.get(run.ending.outcome(result)) for result in run.results]
    gates = ["failure" if gate.is_red else "skipped" if gate.is_unenforced else None for gate in run.ending.gates]
    figures = {name: str([*kinds, *gates].count(kind)) for name, kind in _COUNTS.items()}
    seconds = sum(map(_seconds, run.results))
    root = ElementTree.Element("testsuites", name="agentv")
    attributes = {"name": "agentv", "tests": str(len(kinds) + len(gates)), **figures, "time": f"{seconds:.3f}"}
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    for result, kind in zip(run.results, kinds, strict=True):
        _add_case(suite, result, kind, masker)
    for gate in run.ending.gates:  # under the names that they have in pytest's own file
        file, _, name = visible(masker.mask(gate.name)).partition("::")
        case = ElementTree.SubElement(suite, "testcase", classname=file.replace("/", "."), name=name, time="0.000")
        reason = visible(masker.mask(gate.reason))
        if gate.is_red:
            ElementTree.SubElement(case, "failure", message=reason).text = reason
        elif gate.is_unenforced:
            ElementTree.SubElement(case, "skipped", type="pytest.xfail", message=reason)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _add_case(suite: ElementTree.Element, result: EvalResult, kind: str | None, masker: Masker) -> None:
    classname, name = map(visible, _address(result))
    file = visible(result.eval_file or result.dataset)
    attributes = {"classname": classname, "name": name, "file": file, "line": str(result.line or 1)}
    case = ElementTree.SubElement(suite, "testcase", attributes, time=f"{_seconds(result):.3f}")
    properties = ElementTree.SubElement(case, "properties")
    for key, value in [*place_properties(file, result.line or 1), *result_properties(result)]:
        ElementTree.SubElement(properties, "property", name=key, value=visible(str(value)))
    if kind is None:
        return
    if kind == "skipped":
        reason = shown(result.xfail or "", masker) if failed_as_expected(result) else "judged with the run"
        ElementTree.SubElement(case, kind, type="pytest.xfail", message=reason)
        return
    element = ElementTree.SubElement(case, kind, message=visible(reason_of(result, masker)))
    if result.status != "pass":
        element.text = _text(result, masker)


def _address(result: EvalResult) -> tuple[str, str]:
    """Return the class name and the name of a result's item in pytest's own file, which has one for each test."""
    file = result.eval_file or result.dataset
    item = result.node_id.partition("::")[2] if result.node_id is not None else ""
    head, bracket, parameters = item.partition("[")  # parameters may hold `::`
    *classes, name = head.split("::") if item else [result.eval_id]
    classname = ".".join([file.replace("/", ".").removesuffix(".py"), *classes])
    return classname, with_id(f"{name}{bracket}{parameters}", result.eval_file, result.eval_id)


def _text(result: EvalResult, masker: Masker) -> str:
    if result.status == "error":
        return error_text(result, rerun_command=None, masker=masker, limit=None)
    reference = result.reference_answer or ""
    return failure_text(result, rerun_command=None, masker=masker, reference_answer=reference, limit=None)


def _seconds(result: EvalResult) -> float:
    return result.duration_ms / 1000 if is_amount(result.duration_ms) else 0.0


def code_quality(run: RunView, masker: Masker) -> list[JsonObject]:
    """Return the code quality report of GitLab: an entry for each case that failed or broke, with a hash that stays."""
    entries: list[JsonObject] = []
    for result in run.outcomes("fail", "error"):
        identity = "\n".join((result.node_id or "", result.eval_id, result.target))
        entries.append(
            {
                "description": f"{case_name(result)}: {reason_of(result, masker)}",
                "check_name": "agentv-error" if result.status == "error" else "agentv-fail",
                "fingerprint": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest(),
                "severity": "critical" if result.status == "error" else "major",
                "location": {"path": result.eval_file or "unknown", "lines": {"begin": result.line or 1}},
            }
        )
    return entries


# Writes results as CSV: a row per case, a column per figure.

_FORMULA: Final = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
"""The beginning of a cell that a spreadsheet may run as a formula. Some drop blanks first."""
_INNER_FORMULA: Final = re.compile(r"(?<=[;\t\n])([\"']*)([=@＝＠]|[+\-＋－](?=\S))")
"""The beginning of a cell after a semicolon or a tab. These separate cells in Excel of many languages, which then does
not recognize texts with several lines. Items of a list, `- one`, stay as they are.
"""


def results_csv(run: RunView, masker: Masker) -> str:
    """Return a row for each case: the fields that have a column, the figures that any case has, and its scores.

    A text that a spreadsheet would run as a formula gets a `'` in front. So does a part of a text that would become a
    cell with another separator.
    """
    rows = [_row(result) for result in run.results]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_safe, columns))
    for row in rows:
        cells = (row.get(name) for name in columns)
        writer.writerow([_safe(masker.mask(cell)) if isinstance(cell, str) else cell for cell in cells])
    return file.getvalue()


_COLUMNS: Final = sorted((field.column, name) for name, field in RESULT_FIELDS.items() if field.column)


def _row(result: EvalResult) -> Mapping[str, object]:
    row: dict[str, object] = {}
    for _, name in _COLUMNS:
        value = getattr(result, name)
        if name == "candidate_answer":
            row["question"] = question_of(result)
        between = ", " if name == "tags" else "\n"
        row[name] = between.join(value) if isinstance(value, tuple) else value
    if result.status == "error":
        row["score"] = None
    row |= {name: value for name, value in figures_of(result).items() if value is not None}
    return row | {f"score: {each.name}": each.score for each in result.evaluator_results or () if each.error is None}


def _safe(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()  # no file can hold lone surrogates
    text = re.sub(r"\r\n?", "\n", text.replace("\0", ""))  # a lone CR would end the row, and few programs read NUL
    text = _INNER_FORMULA.sub(r"\1'\2", text)
    return f"'{text}" if _FORMULA.match(text) else text


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
_MOST_COMMENT_ROWS: Final = 20
_MOST_DIFFS: Final = 10
_LONGEST_ANSWER: Final = 2_000
_LONGEST_REASON: Final = 300
_SLACK: Final = 1e-9
_LAST_LINES: Final = 10
_OUTCOMES: Final[tuple[Outcome, ...]] = ("pass", "fail", "expected", "error")
_FOREIGN_FRAME: Final = re.compile(
    r'^ *File "[^"\n]*(?:site-packages|/lib/python)[^"\n]*", line \d+, in .*\n(?: {4,}.*\n)*', re.MULTILINE
)
"""A part of a traceback that is of an installed package."""


def markdown_lines(
    run: RunView,
    masker: Masker,
    limit: int = MARKDOWN_LIMIT,
    *,
    results_path: Path | None = None,
    statistics: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the lines of the verdict. With newlines they take at most `limit` bytes of UTF-8.

    A table that is cut says so. Yields nothing if the limit is too small for the figures. `statistics` are the lines
    of the section, the first of which is its title; `notes` are lines of Markdown below the figures.
    """
    errors, failures = run.outcomes("error"), [each for each in run.outcomes("fail") if each.status == "fail"]
    failures.sort(key=lambda result: result.score)
    head, tail = list(_head_lines(run, statistics, notes, masker)), list[str]()
    if results_path is not None:
        tail.append(f"Results: {code_span(masker.mask(locate(results_path, None)), _LONGEST_TEXT)}")
    space = limit - _size(head) - _size(tail)
    if space < 0:
        return
    share = space // 2 if failures else space
    error_table = _table(
        f"Errors ({len(errors):,})", _ERROR_COLUMNS, _error_rows(errors, masker), len(errors), space=share
    )
    scored = failures or extremes(run.results)[1]
    title = f"Failed ({len(failures):,})" if failures else "Lowest scores"
    space -= _size(error_table)
    score_table = _table(title, _SCORE_COLUMNS, _score_rows(scored), len(scored), space=space)
    answers = _answers(failures, masker, space - _size(score_table))
    yield from (*head, *error_table, *score_table, *answers, *tail)


def _head_lines(run: RunView, section: Sequence[str], notes: Sequence[str], masker: Masker) -> Iterator[str]:
    ending, counts = run.ending, {name: len(run.outcomes(name)) for name in _OUTCOMES}
    words = {"pass": "passed", "fail": "failed", "expected": run.expected_words}
    words["error"] = "error" if counts["error"] == 1 else "errors"
    text = ", ".join(f"{count:,} {words[name]}" for name, count in counts.items() if count) or "no results"
    troubles = [*(Trouble("The gate failed", (text,)) for text in ending.red), *ending.troubles]
    if ending.unexpected:
        troubles.append(Trouble("Failed because they passed (strict `xfail`)", tuple(sorted(ending.unexpected))))
    is_red = any(result.status != "pass" for result in run.outcomes("fail", "error")) or troubles
    yield f"## {'❌' if is_red else '⚠️' if run.is_mocked or ending.unjudged else '✅'} Evaluations: {text}"
    yield ""
    if run.is_mocked:
        yield from ("**Dry run**: answers and judgements were mocked, so the scores mean nothing.", "")
    for trouble in troubles:
        details = _listed(
            (code_span(masker.mask(detail), _LONGEST_NAME) for detail in trouble.details), len(trouble.details)
        )
        yield f"- {trouble.text}{f': {details}' if details else '.'}"
    if ending.unjudged:
        yield f"- No verdict on the run as a whole: {code_span(masker.mask(ending.unjudged), _LONGEST_TEXT)}"
    if troubles or ending.unjudged:
        yield ""
    statistics = score_statistics(run.results)
    mean = list(score_figures(statistics))[:1] if statistics else []
    figures = [*mean, *total_figures(run.results, run.elapsed_ms)]
    if figures:
        names, values = zip(*figures, strict=True)
        yield from (table_row(names), table_row("---:" for _ in figures), table_row(values), "")
    yield from notes
    if section:  # as on the terminal
        lines = [masker.mask(line) for line in section[1:]]
        first, last = lines[:-_LAST_LINES], lines[-_LAST_LINES:]  # the lines of gates stay
        blocks = ([line] for line in first)
        lines = _section([], blocks, len(first), end=last, space=_LONGEST_STATISTICS, what=" lines") or last
        yield from ("### Statistics", "", *_fenced(lines, "text"), "")


def _fenced(lines: Sequence[str], language: str) -> list[str]:
    """Return lines as a block of code, which none of them can end."""
    fence = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
    return [f"{fence}{language}", *lines, fence]


def _section(
    head: Sequence[str],
    blocks: Iterable[Sequence[str]],
    count: int,
    *,
    most: int | None = None,
    gap: Sequence[str] = (),
    end: Sequence[str] = (),
    space: float = math.inf,
    what: str = "",
) -> list[str]:
    """Return a section with as many of its `count` blocks as fit, and how many are left out; empty without any."""
    used = _size([*head, *gap, *end, f"{_more(count)}{what}", ""])
    lines: list[str] = []
    for block in itertools.islice(blocks, most):
        used += _size(block)
        if used > space:
            break
        lines += block
        count -= 1
    more = [f"{_more(count)}{what}", *([""] if what != " lines" else [])] if count else []
    return [*head, *lines, *gap, *more, *end] if lines else []


def _folded(summary: str, blocks: Iterable[Sequence[str]], count: int, space: float, what: str = "") -> list[str]:
    """Return a folded section with the first ten blocks, or as many as fit."""
    head = ["<details>", f"<summary>{summary}</summary>", ""]
    return _section(head, blocks, count, most=_MOST_DIFFS, end=["</details>", ""], space=space, what=what)


def _table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[str],
    count: int,
    *,
    space: float = math.inf,
    most: int = _MOST_ROWS,
) -> list[str]:
    """Return a section with a table of as many rows as fit; empty without rows."""
    numbers = ("Base", "Now")
    head = [f"### {title}", "", table_row(columns), table_row("---:" if name in numbers else "---" for name in columns)]
    return _section(head, ([row] for row in rows), count, most=most, gap=[""], space=space)


def _answers(failures: Sequence[EvalResult], masker: Masker, space: int) -> list[str]:
    """Return the folded questions and answers of failed cases, as many as fit."""
    told = [each for each in failures if question_of(each) or each.candidate_answer.strip()]
    summary = f"Questions and answers of failed cases ({len(failures):,})"
    return _folded(summary, (_said(result, masker) for result in told), len(told), space, " cases")


def _said(result: EvalResult, masker: Masker) -> list[str]:
    lines = [code_span(case_name(result), _LONGEST_NAME), ""]
    for title, text in (("Question:", question_of(result)), ("Answer:", result.candidate_answer)):
        if text.strip():
            lines += [title, "", *_fenced(shown(text, masker)[:_LONGEST_ANSWER].split("\n"), "text"), ""]
    return lines


def _error_rows(errors: Iterable[EvalResult], masker: Masker) -> Iterator[str]:
    previous = None
    for result in errors:
        error = _FOREIGN_FRAME.sub("", f"{error_with_kind(result)}\n")
        text = code_span(masker.mask(error), _LONGEST_TEXT)
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

_Pair = tuple[EvalResult, EvalResult]
"""The results of a case in the base and in this run."""


def comment_lines(run: RunView, base: RunView | None, masker: Masker) -> Iterator[str]:
    """Yield the lines of a comment. With newlines they take at most `COMMENT_LIMIT` bytes of UTF-8.

    `base` is the run to compare with; None: there is none. Texts of others cannot become links, mentions or HTML.
    """
    notes = list(_comparison(run, base, masker, COMMENT_LIMIT // 2)) if base is not None else []
    yield MARKER
    yield from markdown_lines(run, masker, COMMENT_LIMIT - len(MARKER) - 1, notes=notes)


def _comparison(run: RunView, base: RunView, masker: Masker, space: int) -> Iterator[str]:
    found = pair_cases(run.cases, base.cases, shared_key(base.cases, run.cases))
    counts = Counter(each.figures.state for each in found)
    pairs, errors = pairs_of(found), pairs_of(found, "error")
    broken = [pair for pair in errors if is_same_subject(pair.new, pair.old)]
    mocked = [pair for pair in pairs if "dry_run" in (*pair.new.flags, *pair.old.flags)]
    judged = [_results(pair) for pair in pairs if pair not in mocked]
    others = {
        "without a score": len(broken) + len(mocked),
        "changed": counts["changed"] + len(errors) - len(broken),
        "new": counts["new"],
        "gone": counts["gone"],
    }
    rest = ", ".join(f"{number:,} {what}" for what, number in others.items() if number)
    count = counted(len(judged), "case") if judged else "no case"
    yield f"Compared with the base over {count} of both{f'. Not compared: {rest}' if rest else ''}."
    yield ""
    if judged:
        yield from _delta_table(judged)
    yield from _regressions([*judged, *map(_results, broken)], masker)
    yield from _changed_answers(list(map(_results, (*pairs, *pairs_of(found, "changed")))), masker, space)


def _results(pair: Pair) -> _Pair:
    return pair.old.result, pair.new.result


def _delta_table(pairs: Sequence[_Pair]) -> Iterator[str]:
    yield table_row(("", "Base", "Now", "Change"))
    yield table_row(("---", "---:", "---:", "---:"))
    rates = [sum(pair[side].status == "pass" for pair in pairs) / len(pairs) for side in (0, 1)]
    yield table_row(
        ("Passed", *(percent(rate).replace(" ", "") for rate in rates), f"{100 * (rates[1] - rates[0]):+.1f} points")
    )
    cached = sum(any(each.cached and cost_of(each) is not None for each in pair) for pair in pairs)
    label = f"Cost, {cached:,} from the cache at the price first paid" if cached else "Cost"
    yield from _change_row(label, pairs, cost_of, math.fsum, format_cost)
    yield from _change_row("Mean latency", pairs, duration_of, fmean, format_duration)
    yield ""


def _change_row(
    name: str,
    pairs: Sequence[_Pair],
    read: Callable[[EvalResult], float | None],
    join: Callable[[Iterable[float]], float],
    form: Callable[[float], str],
) -> Iterator[str]:
    """Yield the row of a figure over the cases that have it in both runs; nothing without any."""
    figures = ((read(old), read(new)) for old, new in pairs)
    known = [(old, new) for old, new in figures if old is not None and new is not None]
    if known:
        before, now = map(join, zip(*known, strict=True))
        part = f", known for {len(known):,} of {len(pairs):,}" if len(known) < len(pairs) else ""
        yield table_row(
            (f"{name}{part}", form(before), form(now), f"{(now - before) / before:+.0%}" if before else "-")
        )


def _regressions(pairs: Sequence[_Pair], masker: Masker) -> list[str]:
    """Return the cases that passed and no longer pass, or whose score fell, worst first."""
    worse = [(old, new) for old, new in pairs if _is_worse(old, new)]
    worse.sort(key=lambda pair: (pair[1].status == "pass", pair[1].score - pair[0].score))
    rows = (_regression(old, new, masker) for old, new in worse)
    columns = ("Case", "Base", "Now", "Reason")
    return _table(f"Regressions ({len(worse):,})", columns, rows, len(worse), most=_MOST_COMMENT_ROWS)


def _regression(old: EvalResult, new: EvalResult, masker: Masker) -> str:
    figures = (
        "error" if each.status == "error" else f"{format_score(each.score)} {each.status}" for each in (old, new)
    )
    reason = "" if new.status == "pass" else code_span(reason_of(new, masker), _LONGEST_REASON)
    return table_row((code_span(case_name(new), _LONGEST_NAME), *figures, reason))


def _is_worse(old: EvalResult, new: EvalResult) -> bool:
    if old.status == "error":
        return False
    fell = new.status != "error" and new.score < old.score - _SLACK
    return (old.status == "pass" and new.status != "pass") or fell


def _changed_answers(pairs: Sequence[_Pair], masker: Masker, space: int) -> list[str]:
    changed = [(old, new) for old, new in pairs if old.candidate_answer != new.candidate_answer]
    changed.sort(key=lambda pair: (not _is_worse(*pair), pair[1].score - pair[0].score))
    blocks = (_diff(old, new, masker) for old, new in changed)
    return _folded(f"Changed answers ({len(changed):,})", blocks, len(changed), space)


def _diff(old: EvalResult, new: EvalResult, masker: Masker) -> list[str]:
    """Return the diff of two answers. No text can end its fence."""
    before, after = (shown(each.candidate_answer, masker)[:_LONGEST_ANSWER].split("\n") for each in (old, new))
    lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    same = f"They are the same in what is shown: {_LONGEST_ANSWER:,} characters, without secrets."
    return [code_span(case_name(new), _LONGEST_NAME), "", *(_fenced(lines, "diff") if lines else [same]), ""]
