"""Decides which verdicts fail a run."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.options.values import Gate
from pytest_agentv.models.records import record
from pytest_agentv.reporting.escaping import wrap
from pytest_agentv.reporting.summary import LineStyle, SummaryLine
from pytest_agentv.reporting.verdicts.cases import CaseNames
from pytest_agentv.reporting.verdicts.run_statistics import RunStatistics, RunVerdict
from pytest_agentv.reporting.verdicts.tag_gates import RateCheck

REGRESSION: Final = "regression"
"""The name of the gate on a baseline, behind the baseline's."""
REPLACING: Final[frozenset[Gate]] = frozenset({"run", "strict"})
"""The gates that judge a run in the place of its cases: `--agentv-gate`."""
LEFT: Final = "judged_with_run"
"""The key of a verdict for the node ids of the failed cases that its gates judged."""
UNENFORCED: Final = "not_enforced"
"""The key of a verdict that marks a gate: it found something, but does not fail the run."""
_WIDTH: Final = 80
_INDENT: Final = 6

_RED: Final[frozenset[RunVerdict]] = frozenset({"stale", "judge changed", "errors", "broken", "regressed"})
_RED_IF_STRICT: Final = _RED | {"inconclusive"}


@record
class GateOutcome(Record):
    """The outcome of a gate, which becomes a report of its own."""

    name: str
    """`agentv.baseline.jsonl::regression`, `gate::booking`."""
    is_red: bool
    reason: str
    is_told: bool = False
    """Whether the report shows a finding, even one that does not fail the gate."""
    is_plain: bool = False
    """Whether the reason is shown without a status, because nothing was judged."""
    details: tuple[str, ...] = ()

    @property
    def is_unenforced(self) -> bool:
        return self.is_told and not self.is_red

    @property
    def headline(self) -> str:
        return self.reason.partition("\n")[0]


def gates_contract(outcomes: Sequence[GateOutcome], gate: Gate, left: Collection[str]) -> JsonObject:
    """Return the keys of `<results>.verdict.json` about gates; none if no gate judged.

    `left` are the node ids of failed cases that the gates judge in their place.
    """
    if not outcomes:
        return {}
    words = [
        {"name": each.name, "failed": each.is_red, "reason": each.reason}
        | ({UNENFORCED: True} if each.is_unenforced else {})
        for each in outcomes
    ]
    return {"gate": gate, "gates": words, **({LEFT: sorted(left)} if gate in REPLACING else {})}


def baseline_gate(statistics: RunStatistics, gate: Gate) -> GateOutcome:
    """Return the outcome of the gate on the baseline."""
    comparison = statistics.comparison
    assert comparison is not None
    name = f"{comparison.baseline_name}::{REGRESSION}"
    red = _RED_IF_STRICT if gate == "strict" else _RED
    found = [reason for verdict, reason in zip(statistics.verdicts, statistics.reasons, strict=True) if verdict in red]
    reason = found[0] if found else statistics.reasons[0]
    names = CaseNames(statistics.known_cases)
    broken = tuple(f"broken: {names.of(pair.new)} (q {case.q:.2g})" for pair, case in comparison.broken_pairs)
    gone = tuple(f"gone: {names.of(case)}" for case in comparison.pairing.gone)
    details = (*(other for other in statistics.reasons if other != reason), *broken, *gone)
    return GateOutcome(name, bool(found) and gate != "off", reason, is_told=bool(found), details=details)


def rate_gate(check: RateCheck, gate: Gate) -> GateOutcome:
    """Return the outcome of a gate on a pass rate."""
    is_red = not check.is_reached and check.tier == "critical" and gate != "off"
    return GateOutcome(check.name, is_red, check.text, is_told=not check.is_reached)


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
    return ("not failed", "warning") if outcome.reason.startswith("cannot tell") else ("passed", "pass")
