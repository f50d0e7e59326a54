"""The verdict on a run in a sentence, and the lines below it."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.endings import AS_JUDGED, Ending
from pytest_agentv.reporting.html.cases import SCORED, Case
from pytest_agentv.reporting.html.compared import Compared
from pytest_agentv.reporting.html.texts import listed
from pytest_agentv.reporting.html.values import mapping_of, number_of


@record
class Headline(Record):
    """The verdict on the run."""

    tone: Literal["pass", "fail", "none"]
    text: str
    more: str = ""

    @property
    def sign(self) -> str:
        return {"pass": "✓", "fail": "✕", "none": "?"}[self.tone]


def headline(cases: Sequence[Case], compared: Compared, ending: Ending = AS_JUDGED) -> Headline:
    """Return the verdict on a run with this ending."""
    total = len(cases)
    if cases and all(case.result.value.get("dry_run") is True for case in cases):
        return Headline("none", f"Dry run: {counted(total, 'case')} with mocked answers.", "The scores mean nothing.")
    facts = _facts(cases, ending)
    unjudged = f"No verdict on the run as a whole: {ending.unjudged}." if ending.unjudged else ""
    gates = [f"The gate says: {text}." for text in (ending.red if facts else ending.red[1:])]
    more = " ".join(filter(None, (*gates, unjudged, _as_a_whole(compared), _rules(cases))))
    is_broken = any(case.is_broken for case in cases) and not ending.replaces_cases
    if _is_bad(cases, ending) or is_broken:
        return Headline("fail", f"Failed: {listed(facts)}." if facts else f"Failed at a gate: {ending.red[0]}.", more)
    if ending.replaces_cases and facts:
        return Headline("pass", f"Passed its gates: {listed(facts)}.", more)
    every = _passes(cases)
    is_open = unjudged or any(case.status == SCORED for case in cases)
    return Headline("none", f"No verdict: {every}.", more) if is_open else Headline("pass", f"Passed: {every}.", more)


def _facts(cases: Sequence[Case], ending: Ending) -> list[str]:
    """Return what went wrong; with that, how many cases failed as expected."""
    counts = Counter(case.status for case in cases)
    broken = sum(case.is_broken for case in cases)
    expected = sum(case.status == "fail" and case.judged.node_id in ending.expected for case in cases)
    failed = counts["fail"] - expected
    facts = [*ending.troubles, *_strict_passes(ending)]
    facts += [f"{counted(broken, 'case')} broke against the baseline"] if broken else []
    facts += [f"{failed:,} of {len(cases):,} fail"] if failed else []
    facts += [f"{counts['error']:,} could not be judged"] if counts["error"] else []
    return facts + ([f"{expected:,} failed as expected"] if facts and expected else [])


def _passes(cases: Sequence[Case]) -> str:
    counts, total = Counter(case.status for case in cases), len(cases)
    if scored := counts[SCORED]:
        others = [f"{counts['pass']:,} of {total:,} cases pass"] if counts["pass"] else []
        others += [f"{counts['fail']:,} failed as expected"] if counts["fail"] else []
        have = f"{counted(scored, 'case')} {'has' if scored == 1 else 'have'} a score, and no threshold is known"
        return ", ".join([*others, have])
    if counts["fail"]:
        return f"{counts['pass']:,} of {total:,} cases pass, {counts['fail']:,} failed as expected"
    return f"all {total:,} cases pass" if total > 1 else "the one case passes"


def _is_bad(cases: Sequence[Case], ending: Ending) -> bool:
    """Whether anything fails the run, apart from the comparison with another run."""
    failed = any(case.status == "fail" and not ending.excuses(case.judged) for case in cases)
    return (
        bool(ending.red or ending.troubles or ending.unexpected)
        or failed
        or any(case.status == "error" for case in cases)
    )


def _strict_passes(ending: Ending) -> list[str]:
    """Return a line about cases that passed although they should not."""
    return [f"{counted(len(ending.unexpected), 'case')} passed against a strict `xfail`"] if ending.unexpected else []


def _as_a_whole(compared: Compared) -> str:
    comparison = compared.comparison
    if comparison is None:
        return ""
    said = {
        "regressed": "worse than the baseline",
        "improved": "better than the baseline",
        "not worse": f"not worse than the baseline by {comparison.margin * 100:g} points or more",
    }.get(comparison.change, "not shown to be worse or better than the baseline")
    if comparison.difference is None:
        return "No case of the baseline can be compared with this run."
    if "judge changed" in compared.statistics.verdicts:
        return "Another judge judged the baseline, so the difference says nothing about the target."
    seen = f"; {comparison.resolution}" if "shown" in said else ""
    return f"As a whole the run is {said}{seen}."


def _rules(cases: Sequence[Case]) -> str:
    """Return the threshold, and how many answers must reach it, if they are the same for all cases."""
    judged = [case for case in cases if case.judged.threshold is not None]
    thresholds = {case.judged.threshold for case in judged}
    if len(thresholds) != 1:
        return ""
    text = f"The threshold is {thresholds.pop():g}"
    (need, planned), *others = {_needed(case) for case in judged}
    if need is not None and planned is not None and not others:
        text += f"; {need:.0f} of {planned:.0f} answers must reach it"
    return f"{text}."


def _needed(case: Case) -> tuple[float | None, float | None]:
    """Return how many answers must pass, and of how many; None for a case that is asked once."""
    repeat = mapping_of(case.result.value, "repeat")
    return number_of(repeat, "needed"), number_of(repeat, "planned")
