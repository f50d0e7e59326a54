"""The statistics of a run: its pass rate, its comparison with a baseline, and the verdict."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import BaselineFigures
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.verdicts.baseline import Baseline, has_other_judge
from pytest_agentv.reporting.verdicts.cases import CaseNames, JudgedCase, groups_of, is_graded, values_of
from pytest_agentv.reporting.verdicts.comparison import JUDGE_CHANGED, RunComparison, compare_runs
from pytest_agentv.reporting.verdicts.pairing import Pairing, not_compared, pair_cases
from pytest_agentv.statistics.distributions import LEVEL
from pytest_agentv.statistics.intervals import Interval, mean_interval, repeat_interval
from pytest_agentv.statistics.repeats import is_flaky, pass_all, pass_at

RunVerdict: TypeAlias = Literal[
    "stale", "judge changed", "errors", "broken", "regressed", "inconclusive", "not worse", "improved",
    "no verdict", "no baseline",
]  # fmt: skip
"""`inconclusive`: the data cannot tell. `no verdict`: the run is not whole. `no baseline`: nothing to compare with."""


@record
class PassRate(Record):
    """How often the cases of a run pass, with intervals."""

    n: int
    """Judged cases."""
    units: int
    """Independent units: groups of cases, or cases that are in no group."""
    mean: float
    low: float | None
    """Bounds for other cases of this kind."""
    high: float | None
    again_low: float | None
    """Bounds for these cases, asked again."""
    again_high: float | None
    always: int
    """Cases that passed with all answers."""
    flaky: int
    never: int
    pass_at: float | None
    """Chance that one of k answers passes, k the answers per case; None where cases differ in k or stopped early."""
    pass_all: float | None


@record
class RunStatistics(Record):
    """All figures of a run."""

    verdicts: tuple[RunVerdict, ...]
    """All verdicts on the run, the most urgent first."""
    reasons: tuple[str, ...]
    """The same in words."""
    cases: tuple[JudgedCase, ...]
    rate: PassRate | None
    """None: no case could be judged."""
    comparison: RunComparison | None = None

    @property
    def verdict(self) -> RunVerdict:
        return self.verdicts[0]

    @property
    def errors(self) -> tuple[JudgedCase, ...]:
        return tuple(case for case in self.cases if case.is_error)

    @property
    def known_cases(self) -> tuple[JudgedCase, ...]:
        """The cases of the run, and those that only its baseline has."""
        pairing = self.comparison.pairing if self.comparison is not None else Pairing()
        return (*self.cases, *pairing.gone, *pairing.skipped)

    def figures(self) -> Iterator[tuple[JudgedCase, BaselineFigures]]:
        """Yield the comparison of each case with the baseline; nothing without a comparison."""
        compared = self.comparison.cases if self.comparison is not None else ()
        found = {(each.case, each.target): each for each in compared if each.state not in ("gone", "skipped")}
        for case in self.cases:
            if (case.name, case.target) in found:
                yield case, found[case.name, case.target].figures

    def contract(self) -> JsonObject:
        """Return the JSON of `<results>.verdict.json`; keys without a value are left out."""
        rate, comparison, names = self.rate, self.comparison, CaseNames(self.known_cases)
        values: dict[str, object] = {"verdict": self.verdict, "reasons": list(self.reasons)}
        if rate is not None:
            values |= {"n": rate.n, "units": rate.units, "mean": rate.mean, "low": rate.low, "high": rate.high}
            values |= {"again_low": rate.again_low, "again_high": rate.again_high}
        values |= {"level": LEVEL, "errors": list(map(names.of, self.errors))}
        return _known(values | (_comparison_contract(comparison, names) if comparison is not None else {}))


def run_statistics(cases: Sequence[JudgedCase]) -> RunStatistics:
    """Return the figures of a run without a baseline."""
    return RunStatistics(("no baseline",), (), tuple(cases), pass_rate_of(cases))


def pass_rate_of(cases: Sequence[JudgedCase]) -> PassRate | None:
    """Return the pass rate of the judged cases; None without any. In a dry run nothing was judged."""
    judged = [case for case in cases if case.scores and "dry_run" not in case.flags]
    if not judged:
        return None
    run = mean_interval(values_of(judged), groups_of(judged), graded=is_graded(judged))
    is_whole = all(case.judged > 1 and case.stopped is None for case in judged)
    again = repeat_interval([case.outcomes for case in judged]).interval if is_whole else None
    flaky = sum(is_flaky(case.passes, case.judged) for case in judged)
    never = sum(case.passes == 0 for case in judged)
    return PassRate(
        len(judged),
        run.units,
        run.mean,
        *_bounds(run.interval),
        *_bounds(again),
        always=len(judged) - flaky - never,
        flaky=flaky,
        never=never,
        pass_at=_mean_chance(judged, "any"),
        pass_all=_mean_chance(judged, "all"),
    )


def judge_run(comparison: RunComparison, cases: Sequence[JudgedCase]) -> RunStatistics:
    """Return the verdict on a run that was compared: the first of what there is to tell, and the reasons in order."""
    found: list[tuple[RunVerdict, str]] = []
    gone, errors = comparison.pairing.gone, [case for case in cases if case.is_error]
    has_other_reason = comparison.judge_changed or (errors and comparison.pairing.errors)
    if not comparison.pairing.pairs and not has_other_reason:
        found.append(("stale", f"stale baseline: no case of it is comparable{_missing_target(gone, cases)}"))
    elif gone:
        text = f"stale baseline: {counted(len(gone), 'case')} {_are(len(gone))} gone{_missing_target(gone, cases)}"
        found.append(("stale", text))
    if comparison.judge_changed:
        found.append(("judge changed", f"{JUDGE_CHANGED} (--agentv-update-baseline)"))
    if errors:
        found.append(("errors", f"{counted(len(errors), 'case')} could not be judged"))
    if comparison.broken:
        found.append(("broken", f"{counted(len(comparison.broken), 'case')} {_are(len(comparison.broken))} broken"))
    found += _change(comparison)
    verdicts, reasons = zip(*found, strict=True)
    return RunStatistics(verdicts, reasons, tuple(cases), pass_rate_of(cases), comparison)


def _missing_target(gone: Sequence[JudgedCase], cases: Sequence[JudgedCase]) -> str:
    """Return the targets of gone cases, if the run has only other targets."""
    targets = {case.target for case in gone if case.target is not None}
    if not targets or not targets.isdisjoint({case.target for case in cases}):
        return ""
    names = visible(", ".join(sorted(targets)))
    return f": the run has no case of the {'target' if len(targets) == 1 else 'targets'} {names}"


def compare_with_baseline(
    cases: Sequence[JudgedCase],
    baseline: Baseline,
    name: str,
    *,
    skipped: Sequence[JudgedCase] = (),
    margin: float,
    is_confirming: bool,
) -> RunStatistics:
    """Return the verdict on a run against the baseline of that name. `skipped` cases of it do not count as gone."""
    pairing = pair_cases(cases, baseline.cases, skipped=skipped)
    comparison = compare_runs(cases, baseline.cases, margin=margin, is_confirming=is_confirming, pairing=pairing)
    comparison = comparison.replace(baseline=baseline, baseline_name=name)
    if has_other_judge(cases, baseline):
        comparison = comparison.replace(judge_changed=True, cases=tuple(map(not_compared, comparison.cases)))
    return judge_run(comparison, cases)


def _change(comparison: RunComparison) -> list[tuple[RunVerdict, str]]:
    if comparison.judge_changed or comparison.difference is None:
        return []
    points = f"{comparison.difference.estimate.mean * 100:+.1f} points"
    match comparison.change:
        case "regressed":
            hint = "if nothing changed, ask the baseline again (--agentv-update-baseline=add)"
            return [("regressed", f"regressed: {points}; {hint}")]
        case "improved":
            return [("improved", f"improved: {points}; update the baseline (--agentv-update-baseline)")]
        case "not worse":
            return [("not worse", f"not worse by {comparison.margin * 100:g} points or more")]
    return [("inconclusive", f"cannot tell: {comparison.resolution}")]


def _comparison_contract(comparison: RunComparison, names: CaseNames) -> dict[str, object]:
    difference, pairing = comparison.difference, comparison.pairing
    values: dict[str, object] = {}
    if difference is not None:
        low, high = _bounds(difference.estimate.interval)
        values |= {"delta": difference.estimate.mean, "delta_low": low, "delta_high": high}
        values |= {"differ": difference.differing, "p_exact": difference.p_exact, "least_drop": comparison.least_drop}
    values |= {
        "broke": [names.of(pair.new) for pair, _ in comparison.broken_pairs],
        "gone": list(map(names.of, pairing.gone)),
        "skipped": list(map(names.of, pairing.skipped)),
        "changed": list(map(names.of, pairing.changed)),
        "new": list(map(names.of, pairing.new)),
        "unconfirmed": [names.of(pair.new) for pair in comparison.unconfirmed],
    }
    if comparison.baseline is not None:
        values |= {"baseline_sha256": comparison.baseline.sha256, "rolls": comparison.baseline.rolls}
    return values | {"cases": [case.to_plain() for case in comparison.cases]}


def _known(values: Mapping[str, object]) -> JsonObject:
    return {key: value for key, value in values.items() if value is not None}


def _bounds(interval: Interval | None) -> tuple[float | None, float | None]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _mean_chance(cases: Sequence[JudgedCase], of: Literal["any", "all"]) -> float | None:
    counts = {case.judged for case in cases}
    if len(counts) > 1 or any(case.stopped is not None or case.threshold is None for case in cases):
        return None
    chance, k = (pass_at if of == "any" else pass_all), counts.pop()
    found = [value for case in cases if (value := chance(k, case.passes, case.judged)) is not None]
    return math.fsum(found) / len(cases) if len(found) == len(cases) else None


def _are(count: int) -> str:
    return "is" if count == 1 else "are"
