"""Two runs, case by case: who won, and by how much.

Source: eval-cli-2026-01, "Result Comparison Command"; decisions 23.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pytest_agentv.loading.problems import Problem, describe_value
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.text import format_fixed
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.readers import Entry, iter_entries

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
class CaseKey(Record):
    """What tells the results of a file apart; the names that a file does not tell are None."""

    eval_id: str
    eval_file: str | None = None
    target: str | None = None
    node_id: str | None = None

    @property
    def label(self) -> str:
        """The name for people; the node id already holds file and id."""
        name = self.node_id or (f"{self.eval_file}::{self.eval_id}" if self.eval_file else self.eval_id)
        return f"{name} (target {self.target})" if self.target else name


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a results file, by case; of several results of one case the last one counts."""

    by_key: Mapping[CaseKey, float | None]
    """None: the case could not be judged, so its score means nothing."""
    counts: Mapping[CaseKey, int]
    """How many results of a case the file holds."""
    problems: tuple[Problem, ...]
    """What could not be read."""


@dataclass(frozen=True, slots=True)
class ComparedCase(Record):
    """A case that both files have a score of."""

    eval_id: str
    score1: float
    score2: float
    delta: float
    """score2 - score1."""
    outcome: Outcome
    eval_file: str | None = None
    target: str | None = None
    """None: the target does not tell the cases of these files apart."""
    node_id: str | None = None
    """As the target."""

    @property
    def key(self) -> CaseKey:
        return CaseKey(self.eval_id, self.eval_file, self.target, self.node_id)


@dataclass(frozen=True, slots=True)
class Comparison(Record):
    """Two results files, compared."""

    matched: tuple[ComparedCase, ...]
    """In the order of the first file."""
    unmatched1: tuple[CaseKey, ...] = ()
    """Cases that only the first file has."""
    unmatched2: tuple[CaseKey, ...] = ()
    errors1: tuple[CaseKey, ...] = ()
    """Cases of both files that could not be judged in the first run."""
    errors2: tuple[CaseKey, ...] = ()

    @property
    def errors(self) -> int:
        """Number of cases of both files that are left out, because one run or both could not judge them."""
        return len({*self.errors1, *self.errors2})

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
        """Return the JSON that `agentv compare` prints: the keys of the specification, and ours behind them."""
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


def read_scores(path: Path) -> Scores:
    """Read names and scores of a results file, and keep nothing else. Raises `FileError` if it cannot be opened."""
    scores: dict[CaseKey, float | None] = {}
    counts: Counter[CaseKey] = Counter()
    problems: list[Problem] = []
    for entry in iter_entries(path):
        fault = entry if isinstance(entry, Problem) else _fault(path, entry)
        if fault is not None:
            problems.append(fault)
        elif isinstance(entry, Entry):
            key = _key(entry.value)
            scores.pop(key, None)  # cases stand in the order of their last results
            scores[key] = None if _is_error(entry.value) else float(entry.value["score"])
            counts[key] += 1
    return Scores(scores, counts, tuple(problems))


def align(first: Scores, second: Scores) -> tuple[Scores, Scores]:
    """Return the scores of two files under keys that can be compared.

    Files are compared by the eval file where both tell it. Targets and node ids are part of a key only where a file
    has several of them for one case: two targets can be compared with each other.
    """
    by_file = all(any(key.eval_file is not None for key in scores.by_key) for scores in (first, second))
    names = ["eval_id", *(["eval_file"] if by_file else [])]
    for name in ("target", "node_id"):
        if any(_tells_apart(scores.by_key, names, name) for scores in (first, second)):
            names.append(name)
    return _shorten(first, names), _shorten(second, names)


def compare_scores(
    first: Mapping[CaseKey, float | None], second: Mapping[CaseKey, float | None], threshold: float
) -> Comparison:
    """Compare two runs.

    Args:
        first: Scores of the baseline, by case; None for a case that could not be judged.
        second: Scores of the candidate.
        threshold: The least difference that is a win or a loss; no difference at all is always a tie.
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
    """Yield the comparison as a table for people."""
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
    counts = f"{_counted(wins, 'win', 'wins')}, {_counted(losses, 'loss', 'losses')}, {_counted(ties, 'tie', 'ties')}"
    yield f"Summary: {counts} | Mean delta: {_signed(comparison.mean_delta, _MEAN_DIGITS)} | {_verdict(comparison)}"


def listed(keys: Sequence[CaseKey]) -> str:
    """Return the names of some cases, on one line."""
    more = [f"… and {len(keys) - _MOST_LISTED:,} more"] if len(keys) > _MOST_LISTED else []
    return ", ".join([*(_one_line(key.label) for key in keys[:_MOST_LISTED]), *more])


def _key(value: JsonObject) -> CaseKey:
    names = {name: value.get(name) for name in ("eval_file", "target", "node_id")}
    return CaseKey(value["eval_id"], **{name: text if isinstance(text, str) else None for name, text in names.items()})


def _is_error(value: JsonObject) -> bool:
    return value.get("error") is not None or value.get("status") == "error"


def _fault(path: Path, entry: Entry) -> Problem | None:
    """Return why a result cannot be compared, if so."""
    eval_id, score = entry.value.get("eval_id"), entry.value.get("score")
    if not isinstance(eval_id, str):
        return _skipped(path, entry.line, f"the result has no eval_id: expected a text, got {describe_value(eval_id)}")
    if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) <= sys.float_info.max:
        what = f"the result of {eval_id!r} has no score"
        return _skipped(path, entry.line, f"{what}: expected a number, got {describe_value(score)}")
    return None


def _skipped(path: Path, line: int, what: str) -> Problem:
    return Problem(path, line, "", f"{what}; it was skipped", level="warning")


def _plain(keys: Sequence[CaseKey]) -> list[JsonObject]:
    return [key.to_plain() for key in keys]


def _tells_apart(keys: Iterable[CaseKey], names: Sequence[str], name: str) -> bool:
    """Whether some keys are equal in `names`, and differ in `name`."""
    found: dict[tuple[str | None, ...], str | None] = {}
    for key in keys:
        known = tuple(getattr(key, each) for each in names)
        if found.setdefault(known, getattr(key, name)) != getattr(key, name):
            return True
    return False


def _shorten(scores: Scores, names: Sequence[str]) -> Scores:
    """Return scores under keys that hold only some names; the last result of a case counts."""
    by_key: dict[CaseKey, float | None] = {}
    counts: Counter[CaseKey] = Counter()
    for key, score in scores.by_key.items():
        short = CaseKey(**{name: getattr(key, name) for name in names})
        by_key[short] = score
        counts[short] += scores.counts[key]
    return Scores(by_key, counts, scores.problems)


def _compare(key: CaseKey, score1: float, score2: float, threshold: float) -> ComparedCase:
    delta = round(score2 - score1, _DELTA_DIGITS)
    is_tie = abs(delta) <= _SLACK or abs(delta) < threshold - _SLACK
    outcome: Outcome = "tie" if is_tie else "win" if delta > 0 else "loss"
    return ComparedCase(key.eval_id, score1, score2, delta, outcome, key.eval_file, key.target, key.node_id)


def _table_lines(cases: tuple[ComparedCase, ...]) -> Iterator[str]:
    ids = [_one_line(case.eval_id) for case in cases]
    width = max(len("Eval ID"), *map(len, ids))
    yield f"{'Eval ID':{width}}  Baseline  Candidate   Delta  Result"
    for eval_id, case in zip(ids, cases, strict=True):
        scores = f"{format_fixed(case.score1, 2):>8}  {format_fixed(case.score2, 2):>9}"
        yield f"{eval_id:{width}}  {scores}  {_signed(case.delta, 2):>6}  {_MARKS[case.outcome]}"


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
