"""Which verdicts fail a run: gates, gates by tag, and how a run ended beyond its results."""

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import JsonObject, Record, counted
from pytest_agentv.model.options import Gate, parse_pass_rate
from pytest_agentv.reports.figures import LineStyle, SummaryLine, percent, wrap
from pytest_agentv.reports.judged_cases import (
    CaseNames,
    JudgedCase,
    pair_cases,
    values_of,
)
from pytest_agentv.reports.read import Baseline, has_other_judge
from pytest_agentv.reports.verdict import RunStatistics, RunVerdict, run_statistics
from pytest_agentv.reports.view import JUDGED_WITH_RUN, REPLACING, UNENFORCED, GateOutcome, ending_of
from pytest_agentv.stats.comparison import answers_to_confirm
from pytest_agentv.store.writers import verdict_path

Tier: TypeAlias = Literal["critical", "advisory"]
_GATE: Final = re.compile(r"(.*\S) *: +min_rate=(\S+)(?: +tier=(critical|advisory))?")
_SLACK: Final = 1e-9


@dataclass(frozen=True, slots=True)
class TagGate(Record):
    """The pass rate that the cases with a tag must reach."""

    tag: str
    min_rate: float
    tier: Tier = "critical"
    """An `advisory` gate is shown, but never fails the run."""


def rate_gate(
    name: str, min_rate: float, cases: Iterable[JudgedCase], gate: Gate, tier: Tier = "critical"
) -> GateOutcome:
    """Return whether the pass rate of cases reaches another one. Cases that could not be judged do not count."""
    values = values_of([case for case in cases if case.scores])
    if not values:
        is_reached, text = False, f"no case could be judged; {percent(min_rate)} must pass"
    else:
        rate = math.fsum(values) / len(values)
        is_reached = rate + _SLACK >= min_rate
        relation = "reaches" if is_reached else "is below"
        others = (0.0, 1.0, rate) if is_reached else (0.0, 1.0)  # "66.67 % reaches 66.7 %" would be odd
        wanted = percent(min_rate, others) + (" (advisory)" if tier == "advisory" else "")
        share = percent(rate, (0.0, 1.0, min_rate))
        text = f"the pass rate {share} of {counted(len(values), 'case')} {relation} {wanted}"
    is_red = not is_reached and tier == "critical" and gate != "off"
    return GateOutcome(name, is_red, text, is_told=not is_reached)


def parse_tag_gates(lines: Iterable[str]) -> tuple[TagGate, ...]:
    """Read lines such as `booking: min_rate=0.9 tier=critical`. Raises `ValueError` with all faults."""
    gates: dict[str, TagGate] = {}
    faults: list[str] = []
    for line in filter(None, (line.strip() for line in lines)):
        try:
            gate = _parse(line)
            if gate.tag in gates:
                raise ValueError(f"the tag {gate.tag!r} has two gates")
            gates[gate.tag] = gate
        except ValueError as error:
            faults.append(f"{line!r}: {error}")
    if faults:
        raise ValueError("; ".join(faults))
    return tuple(gates.values())


def _parse(line: str) -> TagGate:
    found = _GATE.fullmatch(line)
    if found is None:
        raise ValueError("expected `<tag>: min_rate=<0 to 1> tier=<critical or advisory>`")
    tag, rate, tier = found.groups()
    return TagGate(tag, parse_pass_rate(rate), "advisory" if tier == "advisory" else "critical")


def unmatched_tags(gates: Iterable[TagGate], tags: Collection[str]) -> str | None:
    """Return the gates without any case; None: each gate has one."""
    faults = []
    for gate in gates:
        if gate.tag not in tags:
            hint = did_you_mean(gate.tag, tags)
            faults.append(f"no case has the tag {gate.tag!r}{f' ({hint})' if hint else ''}")
    return "; ".join(faults) or None


def check_tags(gates: Iterable[TagGate], cases: Sequence[JudgedCase], gate: Gate) -> list[GateOutcome]:
    """Check the cases of each tag against its gate."""
    return [
        rate_gate(
            f"gate::{each.tag}",
            each.min_rate,
            (case for case in cases if each.tag in (case.result.tags or ())),
            gate,
            each.tier,
        )
        for each in gates
    ]


# Decides which verdicts fail a run.

REGRESSION: Final = "regression"
"""The name of the gate on a baseline, behind the baseline's."""
_WIDTH: Final = 80
_INDENT: Final = 6

_RED: Final[frozenset[RunVerdict]] = frozenset({"stale", "judge changed", "errors", "broken", "regressed"})
_RED_IF_STRICT: Final = _RED | {"inconclusive"}


def gates_contract(outcomes: Sequence[GateOutcome], gate: Gate, judged_with_run: Collection[str]) -> JsonObject:
    """Return the keys of `<results>.verdict.json` about gates; none if no gate judged.

    `judged_with_run` are the node ids of failed cases that the gates judge in their place.
    """
    if not outcomes:
        return {}
    words = [
        {"name": each.name, "failed": each.is_red, "reason": each.reason}
        | ({UNENFORCED: True} if each.is_unenforced else {})
        for each in outcomes
    ]
    return {"gate": gate, "gates": words, **({JUDGED_WITH_RUN: sorted(judged_with_run)} if gate in REPLACING else {})}


def baseline_gate(statistics: RunStatistics, gate: Gate) -> GateOutcome:
    comparison = statistics.comparison
    assert comparison is not None
    name = f"{comparison.baseline_name}::{REGRESSION}"
    red = _RED_IF_STRICT if gate == "strict" else _RED
    found = [reason for verdict, reason in zip(statistics.verdicts, statistics.reasons, strict=True) if verdict in red]
    reason = found[0] if found else statistics.reasons[0]
    names = CaseNames(statistics.known_cases)
    broken = tuple(f"broken: {names.of(each.case)} (q {each.figures.q:.2g})" for each in comparison.broken)
    gone = tuple(f"gone: {names.of(each.case)}" for each in comparison.of("gone"))
    details = (*(other for other in statistics.reasons if other != reason), *broken, *gone)
    return GateOutcome(name, bool(found) and gate != "off", reason, is_told=bool(found), details=details)


def gate_lines(outcomes: Sequence[GateOutcome], regression: str) -> Iterator[SummaryLine]:
    """Yield the lines of each gate. The line of the baseline's gate has no name of its own."""
    for outcome in outcomes:
        if outcome.is_plain:
            yield from (SummaryLine(line) for line in wrap(outcome.headline, _WIDTH))
            continue
        name = "GATE" if outcome.name == regression else f"GATE {outcome.name.removeprefix('gate::')}"
        word, style = _word(outcome)
        for number, line in enumerate(wrap(f"{name}: {word}, {outcome.headline}", _WIDTH - _INDENT)):
            yield SummaryLine(f"{'' if number == 0 else ' ' * _INDENT}{line}", style)


def _word(outcome: GateOutcome) -> tuple[str, LineStyle]:
    if outcome.is_red:
        return "FAILED", "fail"
    if outcome.is_told:
        return "not enforced", "warning"
    # A comparison that cannot tell must not look like a success.
    return ("not failed", "warning") if outcome.reason.startswith(("cannot tell", "worse")) else ("passed", "pass")


def suspects_of(
    cases: Sequence[JudgedCase], baseline: Baseline, wanted: int, *, pairs: int | None = None
) -> Iterator[tuple[JudgedCase, int]]:
    """Yield the cases that look broken and were not asked again yet, with the fresh answers that each is to get.

    Args:
        cases: Those of the run.
        baseline: What they are held against.
        wanted: Fresh answers for each, or more where so few could find nothing among so many cases.
        pairs: How many cases are compared in all; None: these.
    """
    if has_other_judge(cases, baseline):
        return  # nothing can be compared
    found = pair_cases(cases, baseline.cases).pairs
    for pair in found:
        if pair.is_suspect and pair.new.confirmation is None:
            answers = answers_to_confirm(len(found) if pairs is None else pairs, pair.old.judged, wanted)
            if answers:
                yield pair.new, answers


# Finds the verdict beside a results file.


def read_contract(results_path: Path, cases: Sequence[JudgedCase]) -> JsonObject | None:
    """Return the JSON of the verdict on these cases; None: there is no such file, or it is about other results."""
    try:
        contract = json.loads(verdict_path(results_path).read_text("utf-8"))
        return contract if _fits(contract, cases) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # no file, or none of ours
        return None


def _fits(contract: JsonObject, cases: Sequence[JudgedCase]) -> bool:
    """Whether a verdict has the figures of these cases. A later run may have written to the same file."""
    statistics = run_statistics(cases)
    rate, mean = statistics.rate, contract.get("mean")
    ending_of(contract)  # raises for a file of others
    if len(contract["errors"]) != len(statistics.errors):
        return False
    if rate is None or mean is None:
        return rate is None and mean is None
    return contract["n"] == rate.n and math.isclose(mean, rate.mean, abs_tol=1e-9)
