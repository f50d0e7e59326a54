"""Two runs, case by case: who won, and by how much.

Source: eval-cli-2026-01, "Result Comparison Command"; decisions 23.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pytest_agentv.loading.problems import Problem, describe_value
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.text import format_fixed
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.readers import iter_results

DEFAULT_THRESHOLD: Final = 0.1

_SLACK: Final = 1e-9
"""0.9 - 0.8 is a little less than 0.1, and counts as 0.1."""
_DELTA_DIGITS: Final = 9
"""Beyond them there is but the noise of subtracting."""
_MEAN_DIGITS: Final = 3

Outcome: TypeAlias = Literal["win", "loss", "tie"]

_MARKS: Final[Mapping[Outcome, str]] = {"win": "✓ win", "loss": "✗ loss", "tie": "= tie"}
_WIDEST_ID: Final = 60
_MOST_LISTED: Final = 10


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a results file, by `eval_id`; of several results with one id the last one counts."""

    by_id: Mapping[str, float]
    duplicates: Mapping[str, int]
    """Ids that are there more than once, with their number."""
    broken: int
    """Results that are errors and have a score only because every result has one."""
    problems: tuple[Problem, ...]
    """What could not be read."""


@dataclass(frozen=True, slots=True)
class ComparedCase(Record):
    """A case that is in both files."""

    eval_id: str
    score1: float
    score2: float
    delta: float
    """score2 - score1."""
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Comparison(Record):
    """Two results files, compared."""

    matched: tuple[ComparedCase, ...]
    """In the order of the first file."""
    unmatched1: tuple[str, ...]
    """Ids of the cases that only the first file has."""
    unmatched2: tuple[str, ...]

    @property
    def mean_delta(self) -> float:
        """Of the matched cases; 0 when there are none."""
        return math.fsum(case.delta for case in self.matched) / len(self.matched) if self.matched else 0.0

    @property
    def is_worse(self) -> bool:
        """Whether the first file has the better mean score."""
        return self.mean_delta < -_SLACK

    def count(self, outcome: Outcome) -> int:
        return sum(case.outcome == outcome for case in self.matched)

    def contract(self) -> JsonObject:
        """Return the JSON that `agentv compare` prints; its keys are those of the specification."""
        return {
            "matched": [case.to_plain() for case in self.matched],
            "unmatched": {"file1": len(self.unmatched1), "file2": len(self.unmatched2)},
            "summary": {
                "total": len(self.matched) + len(self.unmatched1) + len(self.unmatched2),
                "matched": len(self.matched),
                "wins": self.count("win"),
                "losses": self.count("loss"),
                "ties": self.count("tie"),
                "meanDelta": round(self.mean_delta, _MEAN_DIGITS) + 0.0,  # -0.0 becomes 0.0
            },
        }


def read_scores(path: Path) -> Scores:
    """Read ids and scores of a results file, and keep nothing else. Raises `FileError` if it cannot be opened."""
    scores: dict[str, float] = {}
    counts: Counter[str] = Counter()
    problems: list[Problem] = []
    broken = 0
    for number, entry in enumerate(iter_results(path), start=1):
        fault = entry if isinstance(entry, Problem) else _fault(path, number, entry)
        if fault is not None:
            problems.append(fault)
        elif not isinstance(entry, Problem):
            scores[entry["eval_id"]] = float(entry["score"])
            counts[entry["eval_id"]] += 1
            broken += entry.get("error") is not None or entry.get("status") == "error"
    duplicates = {eval_id: count for eval_id, count in counts.items() if count > 1}
    return Scores(scores, duplicates, broken, tuple(problems))


def compare_scores(first: Mapping[str, float], second: Mapping[str, float], threshold: float) -> Comparison:
    """Compare two runs.

    Args:
        first: Scores of the baseline, by id.
        second: Scores of the candidate.
        threshold: The least difference that is a win or a loss; no difference at all is always a tie.
    """
    matched = tuple(
        _compare(eval_id, score, second[eval_id], threshold) for eval_id, score in first.items() if eval_id in second
    )
    only_first = tuple(eval_id for eval_id in first if eval_id not in second)
    return Comparison(matched, only_first, tuple(eval_id for eval_id in second if eval_id not in first))


def comparison_lines(comparison: Comparison, first: str, second: str) -> Iterator[str]:
    """Yield the comparison as a table for people."""
    yield f"Comparing: {visible(first)} → {visible(second)}"
    if comparison.matched:
        yield ""
        yield from _table_lines(comparison.matched)
        yield ""
    unmatched = {"baseline": comparison.unmatched1, "candidate": comparison.unmatched2}
    for name, eval_ids in unmatched.items():
        if eval_ids:
            yield f"Only in the {name} ({len(eval_ids):,}): {_listed(eval_ids)}"
    wins, losses, ties = (comparison.count(outcome) for outcome in ("win", "loss", "tie"))
    counts = f"{_counted(wins, 'win', 'wins')}, {_counted(losses, 'loss', 'losses')}, {_counted(ties, 'tie', 'ties')}"
    yield f"Summary: {counts} | Mean delta: {_signed(comparison.mean_delta, _MEAN_DIGITS)} | {_verdict(comparison)}"


def _fault(path: Path, number: int, entry: JsonObject) -> Problem | None:
    """Return why a result cannot be compared, if so."""
    eval_id, score = entry.get("eval_id"), entry.get("score")
    if not isinstance(eval_id, str):
        return _skipped(path, f"result {number} has no eval_id: expected a text, got {describe_value(eval_id)}")
    if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) <= sys.float_info.max:
        what = f"result {number} ({eval_id!r}) has no score"
        return _skipped(path, f"{what}: expected a number, got {describe_value(score)}")
    return None


def _skipped(path: Path, what: str) -> Problem:
    return Problem(path, None, "", f"{what}; it was skipped", level="warning")


def _compare(eval_id: str, score1: float, score2: float, threshold: float) -> ComparedCase:
    delta = round(score2 - score1, _DELTA_DIGITS)
    is_tie = abs(delta) <= _SLACK or abs(delta) < threshold - _SLACK
    return ComparedCase(eval_id, score1, score2, delta, "tie" if is_tie else "win" if delta > 0 else "loss")


def _table_lines(cases: tuple[ComparedCase, ...]) -> Iterator[str]:
    ids = [_one_line(case.eval_id) for case in cases]
    width = max(len("Eval ID"), *map(len, ids))
    yield f"{'Eval ID':{width}}  Baseline  Candidate   Delta  Result"
    for eval_id, case in zip(ids, cases, strict=True):
        scores = f"{format_fixed(case.score1, 2):>8}  {format_fixed(case.score2, 2):>9}"
        yield f"{eval_id:{width}}  {scores}  {_signed(case.delta, 2):>6}  {_MARKS[case.outcome]}"


def _listed(eval_ids: tuple[str, ...]) -> str:
    more = [f"… and {len(eval_ids) - _MOST_LISTED:,} more"] if len(eval_ids) > _MOST_LISTED else []
    return ", ".join([*map(_one_line, eval_ids[:_MOST_LISTED]), *more])


def _one_line(eval_id: str) -> str:
    return _short(visible(eval_id).replace("\n", " "))


def _short(text: str) -> str:
    return text if len(text) <= _WIDEST_ID else f"{text[: _WIDEST_ID - 1]}…"


def _signed(value: float, digits: int) -> str:
    text = format_fixed(value, digits)
    return text if text.startswith("-") and float(text) else f"+{text.removeprefix('-')}"


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _verdict(comparison: Comparison) -> str:
    if comparison.is_worse:
        return "worse"
    return "better" if comparison.mean_delta > _SLACK else "no difference"
