"""Compares two runs case by case: wins, losses, ties and differences."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import JsonObject, Record
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.text import counted, format_fixed
from pytest_agentv.reports.columns import Label, short_names
from pytest_agentv.reports.figures import shortened, visible, with_id
from pytest_agentv.reports.judged_cases import is_error_of, score_fault
from pytest_agentv.store.readers import iter_foreign, skipped

_DISTINGUISHING: Final = ("target", "node_id")
"""Names that count only if a file has several of them for one case."""


@dataclass(frozen=True, slots=True)
class CaseKey(Record):
    """The names that identify a case in a results file; None: the file does not hold that name."""

    eval_id: str
    eval_file: str | None = None
    target: str | None = None
    node_id: str | None = None

    @property
    def label(self) -> str:
        """The name to show. A node id contains the file, and the id unless a Python test has several cases."""
        name = f"{self.eval_file}::{self.eval_id}" if self.eval_file else self.eval_id
        if self.node_id is not None:
            name = with_id(self.node_id, self.eval_file, self.eval_id)
        return f"{name} (target {self.target})" if self.target else name

    def only(self, names: Iterable[str]) -> "CaseKey":
        """Return the key with only some of its names."""
        return CaseKey(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a results file by case. The last of several results of one case counts."""

    by_key: Mapping[CaseKey, float | None]
    """None: the case could not be judged, so it has no score."""
    counts: Mapping[CaseKey, int]
    """The number of results that the file holds for each case."""
    problems: tuple[Problem, ...]
    """One for each result that could not be read."""


def read_scores(path: Path) -> Scores:
    """Read only names and scores of a results file. Raises `FileError` if the file cannot be opened."""
    scores: dict[CaseKey, float | None] = {}
    counts: Counter[CaseKey] = Counter()
    problems: list[Problem] = []
    for entry in iter_scored(path):
        if isinstance(entry, Problem):
            problems.append(entry)
            continue
        key = key_of(entry)
        scores.pop(key, None)  # keeps cases in the order of their last results
        scores[key] = None if is_error(entry) else float(entry["score"])
        counts[key] += 1
    return Scores(scores, counts, tuple(problems))


def iter_scored(path: Path) -> Iterator[JsonObject | Problem]:
    """Yield the results of a file that have an id and a score, and a problem for each other one."""
    for entry in iter_foreign(path):
        if isinstance(entry, Problem):
            yield entry
        else:
            fault = score_fault(entry.value)
            yield entry.value if fault is None else skipped(path, entry.line, fault)


def key_of(value: JsonObject) -> CaseKey:
    names = {name: value.get(name) for name in ("eval_file", "target", "node_id")}
    return CaseKey(value["eval_id"], **{name: text if isinstance(text, str) else None for name, text in names.items()})


def is_error(value: JsonObject) -> bool:
    """Return whether a case could not be judged, or was not: a dry run judges nothing."""
    return is_error_of(value) or value.get("dry_run") is True


def align(first: Scores, second: Scores) -> tuple[Scores, Scores]:
    """Return the scores of two files under keys that match across the files.

    The eval file is part of the keys if both files hold it. Target and node id are part of the keys only if a file
    has several of them for one case, so that a run of one target can be compared with a run of another.
    """
    shorten = shortening((first.by_key, second.by_key), _DISTINGUISHING)
    return _shorten(first, shorten), _shorten(second, shorten)


def _shorten(scores: Scores, shorten: Callable[[CaseKey], CaseKey]) -> Scores:
    """Return scores under short keys. The last result of a case counts."""
    by_key: dict[CaseKey, float | None] = {}
    counts: Counter[CaseKey] = Counter()
    for key, score in scores.by_key.items():
        short = shorten(key)
        by_key[short] = score
        counts[short] += scores.counts[key]
    return Scores(by_key, counts, scores.problems)


def matching_key(first: Sequence[EvalResult], second: Sequence[EvalResult]) -> Callable[[EvalResult], CaseKey]:
    """Return the key by which the results of two runs match, in the same way as the scores of two files."""
    shorten = shortening((list(map(_key_of_result, first)), list(map(_key_of_result, second))), _DISTINGUISHING)
    return lambda result: shorten(_key_of_result(result))


def _key_of_result(result: EvalResult) -> CaseKey:
    return CaseKey(result.eval_id, result.eval_file, result.target, result.node_id)


def shortening(runs: Iterable[Collection[CaseKey]], distinguishing: Sequence[str]) -> Callable[[CaseKey], CaseKey]:
    """Return a function that leaves out the names that do not distinguish cases, or are not known in all runs.

    If a run names no eval files, cases match by id. But cases of several files that share an id keep their files: which
    of them that run means is unknown, so they match none of its cases.

    `distinguishing` are names that are used only if a run needs them.
    """
    runs = list(runs)
    by_file = all(any(key.eval_file is not None for key in keys) for keys in runs)
    names = ["eval_id", *(["eval_file"] if by_file else [])]
    ambiguous = frozenset[str]() if by_file else frozenset(chain.from_iterable(map(_ids_of_several_files, runs)))

    def shorten(key: CaseKey) -> CaseKey:
        return key.only((*names, "eval_file") if key.eval_id in ambiguous else names)

    for name in distinguishing:
        names += [name] if any(_tells_apart(keys, shorten, name) for keys in runs) else []
    return shorten


def _ids_of_several_files(keys: Iterable[CaseKey]) -> Iterator[str]:
    """Yield the ids that cases of several eval files share."""
    files: dict[str, str | None] = {}
    for key in keys:
        if files.setdefault(key.eval_id, key.eval_file) != key.eval_file:
            yield key.eval_id


def _tells_apart(keys: Iterable[CaseKey], shorten: Callable[[CaseKey], CaseKey], name: str) -> bool:
    """Whether two keys are equal when they are short, but differ in `name`."""
    found: dict[CaseKey, str | None] = {}
    return any(found.setdefault(shorten(key), getattr(key, name)) != getattr(key, name) for key in keys)


# Compares two runs case by case. Source: eval-cli-2026-01, "Result Comparison Command"; decisions 23.

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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


def _plain(keys: Sequence[CaseKey]) -> list[JsonObject]:
    return [key.to_plain() for key in keys]


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
    matched: list[ComparedCase] = []
    for key in both:
        score1, score2 = first[key], second[key]
        if score1 is None or score2 is None:
            continue
        delta = round(score2 - score1, _DELTA_DIGITS)
        is_tie = abs(delta) <= _SLACK or abs(delta) < threshold - _SLACK
        outcome: Outcome = "tie" if is_tie else "win" if delta > 0 else "loss"
        names = (key.eval_file, key.target, key.node_id)
        matched.append(ComparedCase(key.eval_id, score1, score2, delta, outcome, *names))
    return Comparison(
        tuple(matched),
        unmatched1=tuple(key for key in first if key not in second),
        unmatched2=tuple(key for key in second if key not in first),
        errors1=tuple(key for key in both if first[key] is None),
        errors2=tuple(key for key in both if second[key] is None),
    )


def comparison_lines(comparison: Comparison, first: str, second: str) -> Iterator[str]:
    yield f"Comparing: {visible(first)} → {visible(second)}"
    if comparison.matched:
        ids = [*_names(comparison.matched)]
        width = max(len("Eval ID"), *map(len, ids))
        yield ""
        yield f"{'Eval ID':{width}}  Baseline  Candidate   Delta  Result"
        for eval_id, case in zip(ids, comparison.matched, strict=True):
            scores = f"{format_fixed(case.score1, 2):>8}  {format_fixed(case.score2, 2):>9}"
            yield f"{eval_id:{width}}  {scores}  {_signed(case.delta, 2):>6}  {_MARKS[case.outcome]}"
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
    delta = _signed(comparison.mean_delta, _MEAN_DIGITS)
    verdict = "worse" if comparison.is_worse else "better" if comparison.mean_delta > _SLACK else "no difference"
    yield f"Summary: {counts} | Mean delta: {delta} | {verdict}"


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


def listed(keys: Sequence[CaseKey]) -> str:
    """Return the names of the first cases on one line."""
    more = [f"… and {len(keys) - _MOST_LISTED:,} more"] if len(keys) > _MOST_LISTED else []
    return ", ".join([*(_one_line(key.label) for key in keys[:_MOST_LISTED]), *more])


def _one_line(eval_id: str) -> str:
    return shortened(visible(eval_id).replace("\n", " "), _WIDEST_ID, "…")


def _signed(value: float, digits: int) -> str:
    text = format_fixed(value, digits)
    return text if text.startswith("-") and float(text) else f"+{text.removeprefix('-')}"
