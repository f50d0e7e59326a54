"""Writes the comment on a pull request: the verdict, regressions, changed answers."""

import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Final

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.ci.annotations import reason_of
from pytest_agentv.reporting.ci.markdown import RunVerdict, Trouble, code_span, markdown_lines, table_row
from pytest_agentv.reporting.comparing.case_scores import matching_key
from pytest_agentv.reporting.endings import AS_JUDGED, Ending
from pytest_agentv.reporting.escaping import shown
from pytest_agentv.reporting.failing.expected import STRICT_PASSES
from pytest_agentv.reporting.figures import (
    case_name,
    cost_of,
    duration_of,
    format_cost,
    format_duration,
    format_score,
    is_part,
)
from pytest_agentv.reporting.merging.replaced import with_earlier
from pytest_agentv.reporting.statistics import judged_results
from pytest_agentv.reporting.verdicts.case_reading import name_of_result
from pytest_agentv.reporting.verdicts.columns import percent

MARKER: Final = "<!-- pytest-agentv: evaluations -->"
"""The first line. A comment that begins with it is updated instead of adding another one."""
COMMENT_LIMIT: Final = 65_000
"""In bytes. GitHub takes 65,536 characters, GitLab a million."""

_MOST_ROWS: Final = 20
_MOST_DIFFS: Final = 10
_LONGEST_ANSWER: Final = 2_000
_LONGEST_NAME: Final = 200
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
    *,
    earlier: Sequence[EvalResult] = (),
    base_earlier: Sequence[EvalResult] = (),
) -> Iterator[str]:
    """Yield the lines of a comment. With newlines they take at most `limit` bytes of UTF-8.

    `base` are the results to compare with; None: there are none. `earlier` and `base_earlier` are those that were
    replaced.
    Texts of others cannot become links, mentions or HTML.
    """
    costs = _cost_reader(base_earlier), _cost_reader(earlier)
    notes = tuple(_comparison(results, base, masker, costs)) if base is not None else ()
    space = limit - len(MARKER) - 1
    verdict = _verdict(results, ending).replace(notes=notes, earlier=tuple(earlier))
    lines = list(markdown_lines(verdict, masker, space))
    if not lines and notes:  # too long with the diffs
        lines = list(markdown_lines(verdict.replace(notes=_without_diffs(notes)), masker, space))
    yield MARKER
    yield from lines


def _verdict(results: Sequence[EvalResult], ending: Ending) -> RunVerdict:
    """Return the verdict of a run with this ending."""
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


def _comparison(
    results: Sequence[EvalResult], base: Sequence[EvalResult], masker: Masker, costs: tuple[_Reader, _Reader]
) -> Iterator[str]:
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
    yield from _scope(len(judged), others)
    if judged:
        yield from _delta_table(judged, costs)
    yield from _regressions([pair for pair in same if not (pair[0].dry_run or pair[1].dry_run)], masker)
    yield from _changed_answers(both, masker)


def _is_same_case(old: EvalResult, new: EvalResult) -> bool:
    """Whether text, grading and threshold of a case are the same. Unknown values count as the same."""
    names = ("case_hash", "grading_hash", "threshold")
    values = ((getattr(old, name), getattr(new, name)) for name in names)
    return all(before is None or now is None or before == now for before, now in values)


def _is_judged(result: EvalResult) -> bool:
    return result.status != "error" and not result.dry_run


def _scope(count: int, others: Mapping[str, int]) -> Iterator[str]:
    """Yield how many cases are compared, and what is left out."""
    rest = ", ".join(f"{number:,} {what}" for what, number in others.items() if number)
    cases = counted(count, "case") if count else "no case"
    yield f"Compared with the base over {cases} of both{f'. Not compared: {rest}' if rest else ''}."
    yield ""


def _delta_table(pairs: Sequence[_Pair], costs: tuple[_Reader, _Reader]) -> Iterator[str]:
    yield table_row(("", "Base", "Now", "Change"))
    yield table_row(("---", "---:", "---:", "---:"))
    rates = [sum(pair[side].status == "pass" for pair in pairs) / len(pairs) for side in (0, 1)]
    yield table_row(
        ("Passed", *(percent(rate).replace(" ", "") for rate in rates), f"{100 * (rates[1] - rates[0]):+.1f} points")
    )
    cached = sum(any(each.cached and _whole_cost_of(each) is not None for each in pair) for pair in pairs)
    label = f"Cost, {cached:,} from the cache at the price first paid" if cached else "Cost"
    yield from _change_row(label, pairs, costs, math.fsum, format_cost)
    yield from _change_row("Mean latency", pairs, (duration_of, duration_of), fmean, format_duration)
    yield ""


def _whole_cost_of(result: EvalResult) -> float | None:
    return None if is_part(result, "priced") else cost_of(result)


def _cost_reader(earlier: Sequence[EvalResult]) -> _Reader:
    return with_earlier([each for each in earlier if not each.cached], name_of_result, _whole_cost_of)


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


def _without_diffs(notes: Sequence[str]) -> tuple[str, ...]:
    end = notes.index("<details>") if "<details>" in notes else len(notes)
    return (*notes[:end], "The changed answers are left out: they are too long.", "")
