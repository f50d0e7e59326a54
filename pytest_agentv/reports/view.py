"""The one view of a run that all reports read: its results, how it ended, and its verdict against a baseline."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from pytest_agentv.model.base import JsonObject, Record
from pytest_agentv.model.options import Gate
from pytest_agentv.model.results import EvalResult

if TYPE_CHECKING:  # a plain run loads nothing that judges runs
    from pytest_agentv.reports.judged_cases import JudgedCase
    from pytest_agentv.reports.read import Baseline
    from pytest_agentv.reports.verdict import RunStatistics

# How a run ended beyond its results: the verdicts of its gates, marks, and problems beside the cases.

REPLACING: Final[frozenset[Gate]] = frozenset({"run", "strict"})
"""The gates that judge a run in the place of its cases: `--agentv-gate`."""
JUDGED_WITH_RUN: Final = "judged_with_run"
"""The key of a verdict for the node ids of the failed cases that its gates judged."""
UNENFORCED: Final = "not_enforced"
"""The key of a verdict that marks a gate: it found something, but does not fail the run."""
NO_VERDICT: Final = "no verdict"

Outcome: TypeAlias = Literal["pass", "fail", "error", "expected"]
"""`expected`: a low score that does not fail the run."""


@dataclass(frozen=True, slots=True)
class GateOutcome(Record):
    """The outcome of a gate, which becomes a report of its own."""

    name: str
    """`agentv.baseline.jsonl::regression`, `gate::booking`."""
    is_red: bool
    reason: str
    is_told: bool = False
    """Whether it found something, even if that does not fail the run: advisory, or with `--agentv-gate=off`."""
    is_plain: bool = False
    """Whether the reason is shown without a status, because nothing was judged."""
    details: tuple[str, ...] = ()

    @property
    def is_unenforced(self) -> bool:
        return self.is_told and not self.is_red

    @property
    def headline(self) -> str:
        return self.reason.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class Trouble(Record):
    """A problem of the run that is not a score."""

    text: str
    """Our words."""
    details: tuple[str, ...] = ()
    """Foreign texts: names of cases, messages."""


@dataclass(frozen=True, slots=True)
class RunEnding(Record):
    """How a run ended. Without any of these facts, each case is judged by itself."""

    red: tuple[str, ...] = ()
    """The reasons of the gates that failed."""
    replaces_cases: bool = False
    """Whether the gates judged the run instead of its cases. Errors and required cases still count."""
    judged_with_run: frozenset[str] = frozenset()
    """Node ids of the failed cases that the gates judged."""
    gates: tuple[GateOutcome, ...] = ()
    """The verdicts of all gates, failed or not."""
    unjudged: str = ""
    """Why there is no verdict on the whole run; empty: there is one, or none was requested."""
    troubles: tuple[Trouble, ...] = ()
    """Failures beside the evaluations and their gates."""
    expected: frozenset[str] = frozenset()
    """Node ids of cases that were expected to fail, or whose test decided so."""
    unexpected: frozenset[str] = frozenset()
    """Node ids of cases that failed because they passed (strict `xfail`)."""
    skipped: frozenset[tuple[str, str | None]] = frozenset()
    """Names and targets of cases of the baseline that the run skipped. They do not count as gone."""

    def judges(self, result: EvalResult) -> bool:
        """Whether the gates judged a low score of a case in its place: its item was shown as XFAIL."""
        is_failed = result.status == "fail" and not result.required
        return self.replaces_cases and is_failed and result.node_id in self.judged_with_run

    def outcome(self, result: EvalResult) -> Outcome:
        """Return the outcome that a result counts as."""
        if result.status == "pass":
            return "fail" if result.node_id in self.unexpected else "pass"
        is_expected = result.status == "fail" and (result.node_id in self.expected or self.judges(result))
        return "expected" if is_expected else result.status


AS_JUDGED: Final = RunEnding()
"""Each case is judged by itself."""


def ending_of(contract: JsonObject | None) -> RunEnding:
    """Return the ending from the JSON of a verdict; None: there is no verdict file."""
    if contract is None:
        return AS_JUDGED
    gates = tuple(
        GateOutcome(each["name"], each["failed"], each["reason"], is_told=each["failed"] or UNENFORCED in each)
        for each in contract.get("gates", ())
    )
    red = tuple(gate.reason for gate in gates if gate.is_red)
    if contract.get("verdict") == NO_VERDICT:
        return RunEnding(red, unjudged="; ".join(contract["reasons"]), gates=gates)
    cases = contract.get("cases", ())
    skipped = frozenset((case["case"], case.get("target")) for case in cases if case["state"] == "skipped")
    judged = frozenset(contract.get(JUDGED_WITH_RUN, ()))
    return RunEnding(red, contract.get("gate") in REPLACING and bool(gates), judged, gates, skipped=skipped)


# What the results tell of marks.


def failed_as_expected(result: EvalResult) -> bool:
    """Whether a mark expected the low score of a case. It expects no error."""
    return result.status == "fail" and result.xfail is not None


def expected_failures(results: Iterable[EvalResult]) -> frozenset[str]:
    """Return the node ids of the cases that failed as expected."""
    return frozenset(filter(None, (each.node_id for each in results if failed_as_expected(each))))


def unexpected_passes(results: Iterable[EvalResult]) -> frozenset[str]:
    """Return the node ids of items that failed because they passed: their mark is strict.

    A test may have several results. It failed as expected if one of them failed.
    """
    strict = [each for each in results if each.xfail_strict]
    failed = {each.node_id for each in strict if each.status != "pass"}
    return frozenset(each.node_id for each in strict if each.node_id is not None and each.node_id not in failed)


def mocked_part(results: Sequence[EvalResult]) -> str:
    """Return that some of a file's results are of a dry run; nothing where all are, or none."""
    count = sum(bool(each.dry_run) for each in results)
    if not 0 < count < len(results):
        return ""
    return f"{count:,} of {len(results):,} cases are of a dry run: their scores mean nothing"


# The view.


ChangeWord: TypeAlias = Literal["broken", "worse", "better", "same", "new", "changed", "error"]


@dataclass(frozen=True, slots=True)
class Change(Record):
    """How one case changed against the run that it is compared with."""

    word: ChangeWord
    text: str
    """`baseline 5/5, now 0/5, asked again 0/10; unlikely to be chance (q 0.03)`."""
    short: str = ""
    """`5/5 → 0/5, again 0/10`."""
    delta: float | None = None
    before: EvalResult | None = None
    """The earlier result; None: a baseline holds only scores, or the case is new."""


@dataclass(frozen=True, slots=True)
class RunView(Record):
    """A run, as the summary, the page, the comment, JUnit, CSV and the comparisons read it."""

    results: tuple[EvalResult, ...] = ()
    """The last result of each case. A baseline has none."""
    ending: RunEnding = AS_JUDGED
    name: str = ""
    """The name of its file."""
    cases: "tuple[JudgedCase, ...]" = ()
    """What statistics need of the results, in their order; empty: nobody has asked for statistics."""
    dropped: int = 0
    """Results that a later one of the same case replaced."""
    problems: tuple[str, ...] = ()
    """What could not be read."""
    elapsed_ms: float | None = None
    """How long the run took; None: unknown."""
    statistics: "RunStatistics | None" = None
    """The figures and the verdict, against the baseline if there is one."""
    baseline: "Baseline | None" = None
    """What the file holds, if it is a baseline."""
    base: "RunView | None" = None
    """The run that this one is compared with."""
    changes: dict[str, Change] = field(default_factory=dict)
    """How each case changed, by its key; empty: it is compared with nothing."""

    def outcomes(self, *outcomes: Outcome) -> list[EvalResult]:
        """Return the results with some outcomes."""
        return [each for each in self.results if self.ending.outcome(each) in outcomes]

    @property
    def is_mocked(self) -> bool:
        """Whether the whole run is a dry run, whose scores mean nothing."""
        return bool(self.results) and all(each.dry_run for each in self.results)

    @property
    def expected_words(self) -> str:
        """The words for cases whose low scores do not fail the run by themselves."""
        left = any(self.ending.outcome(each) == "expected" and each.xfail is None for each in self.results)
        return "judged with the run" if left and self.ending.replaces_cases else "failed as expected"

    @property
    def finished(self) -> str:
        """When the last case ended, in ISO 8601; empty if unknown."""
        return max((each.timestamp for each in self.results), default="")
