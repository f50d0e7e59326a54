"""What a pull request is told of a run: the verdict, what got worse, which answers changed."""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Final

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.ci.annotations import reason_of
from pytest_agentv.reporting.ci.markdown import RunVerdict, Trouble, code_span, markdown_lines, table_row
from pytest_agentv.reporting.endings import AS_JUDGED, Ending
from pytest_agentv.reporting.escaping import shown
from pytest_agentv.reporting.figures import case_name, cost_of, duration_of, format_cost, format_duration, format_score
from pytest_agentv.reporting.statistics import judged_results

MARKER: Final = "<!-- pytest-agentv: evaluations -->"
"""The first line. Whoever finds a comment with it updates that comment and adds no other."""
COMMENT_LIMIT: Final = 65_000
"""In bytes. GitHub takes 65,536 characters, GitLab a million."""

_MOST_ROWS: Final = 20
_MOST_DIFFS: Final = 10
_LONGEST_ANSWER: Final = 2_000
_LONGEST_NAME: Final = 200
_LONGEST_REASON: Final = 300
_SLACK: Final = 1e-9

_Key = tuple[str | None, str, str]


def comment_lines(
    results: Sequence[EvalResult],
    base: Sequence[EvalResult] | None,
    masker: Masker,
    limit: int = COMMENT_LIMIT,
    ending: Ending = AS_JUDGED,
) -> Iterator[str]:
    """Yield the lines of a comment. With newlines they take at most `limit` bytes of UTF-8.

    `base` are the results to compare with; None: there are none. Texts of others cannot become links, mentions or HTML.
    """
    notes = tuple(_comparison(results, base, masker)) if base is not None else ()
    room = limit - len(MARKER) - 1
    verdict = _verdict(results, ending).replace(notes=notes)
    lines = list(markdown_lines(verdict, masker, room))
    if not lines and notes:  # too long with the diffs
        lines = list(markdown_lines(verdict.replace(notes=_without_diffs(notes)), masker, room))
    yield MARKER
    yield from lines


def _verdict(results: Sequence[EvalResult], ending: Ending) -> RunVerdict:
    """Return the verdict of a run that ended like this."""
    excused = (each for each in results if ending.replaces_cases and each.status == "fail" and not each.required)
    return RunVerdict(
        tuple(results),
        expected_failures=frozenset(each.node_id for each in excused if each.node_id is not None),
        expected_words="judged with the run",
        troubles=tuple(Trouble("The gate failed", (text,)) for text in ending.red),
        unjudged=ending.unjudged,
    )


def _comparison(results: Sequence[EvalResult], base: Sequence[EvalResult], masker: Masker) -> Iterator[str]:
    before = {_key(result): result for result in base}
    pairs = [(before[_key(result)], result) for result in results if _key(result) in before]
    yield from _delta_table([old for old, _ in pairs], [new for _, new in pairs])
    yield from _regressions(pairs, masker)
    yield from _changed_answers(pairs, masker)


def _key(result: EvalResult) -> _Key:
    return (result.node_id or result.eval_file, result.eval_id, result.target)


def _delta_table(old: Sequence[EvalResult], new: Sequence[EvalResult]) -> Iterator[str]:
    yield f"Compared with the base over {len(new):,} cases that are in both:"
    yield ""
    yield table_row(("", "Base", "Now", "Change"))
    yield table_row(("---", "---:", "---:", "---:"))
    rates = [sum(each.status == "pass" for each in run) / len(run) if run else 0.0 for run in (old, new)]
    yield table_row(("Passed", *(f"{rate:.1%}" for rate in rates), f"{100 * (rates[1] - rates[0]):+.1f} points"))
    for name, figures in (("Cost", _totals(old, new, "cost")), ("Mean latency", _totals(old, new, "latency"))):
        if figures is not None:
            change = f"{(figures[1] - figures[0]) / figures[0]:+.0%}" if figures[0] else "-"
            form = format_cost if name == "Cost" else format_duration
            yield table_row((name, form(figures[0]), form(figures[1]), change))
    yield ""


def _totals(old: Sequence[EvalResult], new: Sequence[EvalResult], what: str) -> tuple[float, float] | None:
    """Return the cost, or the mean latency, of the cases for which both runs know it."""
    of = cost_of if what == "cost" else duration_of
    known = [(one, two) for a, b in zip(old, new, strict=True) if None not in (one := of(a), two := of(b))]
    if not known:
        return None
    count = 1 if what == "cost" else len(known)
    return sum(one or 0 for one, _ in known) / count, sum(two or 0 for _, two in known) / count


def _regressions(pairs: Sequence[tuple[EvalResult, EvalResult]], masker: Masker) -> Iterator[str]:
    """Yield the cases that passed and do not pass now, or whose score fell, worst first."""
    worse = [(old, new) for old, new in pairs if _is_worse(old, new)]
    if not worse:
        return
    worse.sort(key=lambda pair: (pair[1].status == "pass", pair[1].score - pair[0].score))
    yield f"### Regressions ({len(worse):,})"
    yield ""
    yield table_row(("Case", "Base", "Now", "Reason"))
    yield table_row(("---", "---:", "---:", "---"))
    for old, new in worse[:_MOST_ROWS]:
        reason = "" if new.status == "pass" else code_span(reason_of(new, masker), _LONGEST_REASON)
        yield table_row((code_span(case_name(new), _LONGEST_NAME), _figure(old), _figure(new), reason))
    yield ""
    if len(worse) > _MOST_ROWS:
        yield from (f"… and {len(worse) - _MOST_ROWS:,} more", "")


def _is_worse(old: EvalResult, new: EvalResult) -> bool:
    if old.status == "error":
        return False
    fell = bool(judged_results([new])) and new.score < old.score - _SLACK
    return (old.status == "pass" and new.status != "pass") or fell


def _figure(result: EvalResult) -> str:
    return "error" if result.status == "error" else f"{format_score(result.score)} {result.status}"


def _changed_answers(pairs: Sequence[tuple[EvalResult, EvalResult]], masker: Masker) -> Iterator[str]:
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
    """Yield a folded diff of two answers, whose fence no text can end."""
    before, after = (shown(each.candidate_answer, masker)[:_LONGEST_ANSWER].split("\n") for each in (old, new))
    lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    fence = "`" * max(3, 1 + max((len(run) for line in lines for run in re.findall("`+", line)), default=0))
    yield code_span(case_name(new), _LONGEST_NAME)
    yield from ("", f"{fence}diff", *lines, fence, "")


def _without_diffs(notes: Sequence[str]) -> tuple[str, ...]:
    end = notes.index("<details>") if "<details>" in notes else len(notes)
    return (*notes[:end], "The changed answers are left out: they are too long.", "")
