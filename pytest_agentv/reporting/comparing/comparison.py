"""Compares two runs case by case: wins, losses, ties and differences.

Source: eval-cli-2026-01, "Result Comparison Command"; decisions 23.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.records import record
from pytest_agentv.models.text import counted, format_fixed
from pytest_agentv.reporting.comparing.case_scores import CaseKey
from pytest_agentv.reporting.escaping import shortened, visible
from pytest_agentv.reporting.verdicts.columns import Label, short_names

DEFAULT_THRESHOLD: Final = 0.1

_SLACK: Final = 1e-9
"""0.9 - 0.8 is slightly less than 0.1 in floats, but must count as 0.1."""
_DELTA_DIGITS: Final = 9
"""Further digits are only noise from the subtraction."""
_MEAN_DIGITS: Final = 3

Outcome: TypeAlias = Literal["win", "loss", "tie"]

_MARKS: Final[Mapping[Outcome, str]] = {"win": "✓ win", "loss": "✗ loss", "tie": "= tie"}
_WIDEST_ID: Final = 60
_MOST_LISTED: Final = 10


@record
class ComparedCase(Record):
    """A case with a score in both files."""

    eval_id: str
    score1: float
    score2: float
    delta: float
    """score2 - score1."""
    outcome: Outcome
    eval_file: str | None = None
    target: str | None = None
    """None: these files need no target to identify a case."""
    node_id: str | None = None
    """None: these files need no node id to identify a case."""

    @property
    def key(self) -> CaseKey:
        return CaseKey(self.eval_id, self.eval_file, self.target, self.node_id)


@record
class Comparison(Record):
    """The result of comparing two results files."""

    matched: tuple[ComparedCase, ...]
    """In the order of the first file."""
    unmatched1: tuple[CaseKey, ...] = ()
    """Cases that are only in the first file."""
    unmatched2: tuple[CaseKey, ...] = ()
    errors1: tuple[CaseKey, ...] = ()
    """Cases of both files that could not be judged in the first run."""
    errors2: tuple[CaseKey, ...] = ()

    @property
    def errors(self) -> int:
        """Number of cases in both files that at least one run could not judge. They do not count as matched."""
        return len({*self.errors1, *self.errors2})

    @property
    def mean_delta(self) -> float:
        """Mean delta of the matched cases; 0 without any."""
        return math.fsum(case.delta for case in self.matched) / len(self.matched) if self.matched else 0.0

    @property
    def is_worse(self) -> bool:
        """Whether the first file has the better mean score."""
        return self.mean_delta < -_SLACK

    def count(self, outcome: Outcome) -> int:
        return sum(case.outcome == outcome for case in self.matched)

    def contract(self) -> JsonObject:
        """Return the JSON that `agentv compare` prints: first the keys of the specification, then our own."""
        total = len(self.matched) + self.errors + len(self.unmatched1) + len(self.unmatched2)
        return {
            "matched": [case.to_plain() for case in self.matched],
            "unmatched": {"file1": len(self.unmatched1), "file2": len(self.unmatched2)},
            "summary": {
                "total": total,
                "matched": len(self.matched),
                "wins": self.count("win"),
                "losses": self.count("loss"),
                "ties": self.count("tie"),
                "meanDelta": round(self.mean_delta, _MEAN_DIGITS) + 0.0,  # -0.0 becomes 0.0
                "errors": self.errors,
            },
            "unmatched_cases": {"file1": _plain(self.unmatched1), "file2": _plain(self.unmatched2)},
            "error_cases": {"file1": _plain(self.errors1), "file2": _plain(self.errors2)},
        }


def compare_scores(
    first: Mapping[CaseKey, float | None], second: Mapping[CaseKey, float | None], threshold: float
) -> Comparison:
    """Compare two runs.

    Args:
        first: Scores of the baseline, by case; None for a case that could not be judged.
        second: Scores of the candidate.
        threshold: The smallest difference that is a win or a loss. Equal scores are always a tie.
    """
    both = [key for key in first if key in second]
    pairs = ((key, first[key], second[key]) for key in both)
    return Comparison(
        tuple(
            _compare(key, score1, score2, threshold)
            for key, score1, score2 in pairs
            if score1 is not None and score2 is not None
        ),
        unmatched1=tuple(key for key in first if key not in second),
        unmatched2=tuple(key for key in second if key not in first),
        errors1=tuple(key for key in both if first[key] is None),
        errors2=tuple(key for key in both if second[key] is None),
    )


def comparison_lines(comparison: Comparison, first: str, second: str) -> Iterator[str]:
    """Yield the lines of the comparison table."""
    yield f"Comparing: {visible(first)} → {visible(second)}"
    if comparison.matched:
        yield ""
        yield from _table_lines(comparison.matched)
        yield ""
    named = {
        "Only in the baseline": comparison.unmatched1,
        "Only in the candidate": comparison.unmatched2,
        "Not judged in the baseline, left out": comparison.errors1,
        "Not judged in the candidate, left out": comparison.errors2,
    }
    for name, keys in named.items():
        if keys:
            yield f"{name} ({len(keys):,}): {listed(keys)}"
    wins, losses, ties = (comparison.count(outcome) for outcome in ("win", "loss", "tie"))
    counts = f"{counted(wins, 'win')}, {counted(losses, 'loss', 'losses')}, {counted(ties, 'tie')}"
    yield f"Summary: {counts} | Mean delta: {_signed(comparison.mean_delta, _MEAN_DIGITS)} | {_verdict(comparison)}"


def listed(keys: Sequence[CaseKey]) -> str:
    """Return the names of the first cases on one line."""
    more = [f"… and {len(keys) - _MOST_LISTED:,} more"] if len(keys) > _MOST_LISTED else []
    return ", ".join([*(_one_line(key.label) for key in keys[:_MOST_LISTED]), *more])


def _plain(keys: Sequence[CaseKey]) -> list[JsonObject]:
    return [key.to_plain() for key in keys]


def _compare(key: CaseKey, score1: float, score2: float, threshold: float) -> ComparedCase:
    delta = round(score2 - score1, _DELTA_DIGITS)
    is_tie = abs(delta) <= _SLACK or abs(delta) < threshold - _SLACK
    outcome: Outcome = "tie" if is_tie else "win" if delta > 0 else "loss"
    return ComparedCase(key.eval_id, score1, score2, delta, outcome, key.eval_file, key.target, key.node_id)


def _table_lines(cases: tuple[ComparedCase, ...]) -> Iterator[str]:
    ids = [*_names(cases)]
    width = max(len("Eval ID"), *map(len, ids))
    yield f"{'Eval ID':{width}}  Baseline  Candidate   Delta  Result"
    for eval_id, case in zip(ids, cases, strict=True):
        scores = f"{format_fixed(case.score1, 2):>8}  {format_fixed(case.score2, 2):>9}"
        yield f"{eval_id:{width}}  {scores}  {_signed(case.delta, 2):>6}  {_MARKS[case.outcome]}"


def _names(cases: Sequence[ComparedCase]) -> Iterator[str]:
    """Yield the id of each case, with its file and its target where cases of the same id differ in these.

    Cases that only their items tell apart get the names of these.
    """
    by_id = [Label(case.eval_file, case.eval_id, case.target) for case in cases]
    counts = Counter(by_id)
    labels = [
        label if counts[label] == 1 else label._replace(name=_item(case))
        for label, case in zip(by_id, cases, strict=True)
    ]
    names = short_names(labels, _one_line)
    yield from (names[label] for label in labels)


def _item(case: ComparedCase) -> str:
    """Return the name of the item of a case, without its file."""
    item = (case.node_id or case.eval_id).removeprefix(f"{case.eval_file}::")
    return item if f"::{item}".endswith(f"::{case.eval_id}") else f"{item}::{case.eval_id}"


def _one_line(eval_id: str) -> str:
    return shortened(visible(eval_id).replace("\n", " "), _WIDEST_ID, "…")


def _signed(value: float, digits: int) -> str:
    text = format_fixed(value, digits)
    return text if text.startswith("-") and float(text) else f"+{text.removeprefix('-')}"


def _verdict(comparison: Comparison) -> str:
    if comparison.is_worse:
        return "worse"
    return "better" if comparison.mean_delta > _SLACK else "no difference"
