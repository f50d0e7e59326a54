"""Compares runs: a table of all, the cases on which they disagree, and the changes of scores between two."""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import (
    Json,
    JsonObject,
    Record,
    counted,
    format_fixed,
    is_amount,
    is_measure,
    text_or_none,
)
from pytest_agentv.model.results import EvalResult
from pytest_agentv.reports.columns import Label, short_names
from pytest_agentv.reports.figures import (
    cost_of,
    duration_of,
    format_cost,
    format_duration,
    format_score,
    shortened,
    tokens_of,
    visible,
    with_id,
)
from pytest_agentv.reports.judged_cases import is_error_of, score_fault
from pytest_agentv.store.readers import iter_foreign, skipped

# Compares two runs case by case: wins, losses, ties and differences.

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


# The table of several runs of the same cases: a row for each, the best of each column.

_LISTED: Final = 10
_LONGEST_NAME: Final = 30


@dataclass(frozen=True, slots=True)
class CaseOutcome(Record):
    """The outcome of one case in a run."""

    status: str | None
    """None: the results file has no status."""
    score: float
    cost_usd: float | None = None
    tokens: float | None = None
    duration_ms: float | None = None
    is_cached: bool = False
    """Whether the answer came from the cache, so that the cost was paid by an earlier run."""

    @property
    def shown(self) -> str:
        """The status, or the score if there is no status."""
        return self.status or format_score(self.score)


Runs: TypeAlias = Mapping[str, Mapping[str, CaseOutcome]]
"""The outcomes of the cases of each run, by the names of both."""


@dataclass(frozen=True, slots=True)
class RunFigures(Record):
    """The figures of one run. Cases that could not be judged have no score and no time."""

    cases: int
    errors: int
    passed: int | None
    """None: the results file does not tell which cases passed."""
    mean: float | None
    cost_usd: float | None
    tokens: float | None
    median_ms: float | None
    p95_ms: float | None
    cost_cases: int
    """Judged cases that know the cost of all their answers. Unknown costs are not part of the sum."""
    token_cases: int
    cached_cases: int = 0
    """Cases whose cost was paid earlier, because their answers came from the cache."""

    @property
    def judged(self) -> int:
        return self.cases - self.errors


class _Column(NamedTuple):
    """How a figure is shown, and which one is best."""

    head: str
    show: Callable[[float], str]
    best: Callable[[Sequence[float]], float]


def _whole(value: float) -> str:
    return f"{value:,.0f}"


_COLUMNS: Final[Mapping[str, _Column]] = {
    "errors": _Column("errors", _whole, min),
    "passed": _Column("passed", _whole, max),
    "mean": _Column("mean", format_score, max),
    "cost_usd": _Column("cost", format_cost, min),
    "tokens": _Column("tokens", _whole, min),
    "median_ms": _Column("median", format_duration, min),
    "p95_ms": _Column("95 %", format_duration, min),
}
_COUNTS: Final = ("errors", "passed")
"""Columns that errors do not improve."""


def table_lines(runs: Runs, *, listed: int | None = _LISTED) -> Iterator[str]:
    """Yield a row for each run, then the cases on which they disagree, `listed` of them at most (None: all).

    `*` marks the best of each column. Errors have a column if there are any. Sums that leave out cases are named.
    """
    figures = figures_of(runs)
    best = best_of(figures)
    keys = [key for key in _COLUMNS if key != "errors" or any(each.errors for each in figures.values())]
    rows = [("", "cases", *(_COLUMNS[key].head for key in keys))]
    for name, each in figures.items():
        tops = best_columns(each, best)
        marked = (f"{_cell(each, key)}{'*' if key in tops else ' '}" for key in keys)
        rows.append((_short(name), str(each.cases), *marked))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *rest in rows:
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        yield "  ".join((first.ljust(widths[0]), *cells)).rstrip()
    for name, each in figures.items():
        yield from _notes_on_sums(_short(name), each)
    split = disagreements(runs)
    if split:
        yield f"They disagree on {len(split)} of {len(set().union(*runs.values()))} cases:"
    for case, found in list(split.items())[:listed]:
        yield visible(f"  {case}: {', '.join(f'{name} {each.shown}' for name, each in found.items())}")
    if listed is not None and len(split) > listed:
        yield f"  … and {len(split) - listed} more"


def _notes_on_sums(name: str, figures: RunFigures) -> Iterator[str]:
    sums = ("cost", figures.cost_usd, figures.cost_cases), ("tokens", figures.tokens, figures.token_cases)
    for what, value, known in sums:
        if value is not None and known < figures.judged:
            yield f"{name}: {what} known for {known} of {figures.judged} cases"
    if count := figures.cached_cases:
        answers = counted(count, "answer")
        yield f"{name}: cost with {answers} from the cache at the price first paid"


def _cell(figures: RunFigures, key: str) -> str:
    value = getattr(figures, key)
    return "-" if value is None else _COLUMNS[key].show(value)


def _short(name: str) -> str:
    return shortened(visible(name), _LONGEST_NAME, "…")


def table_data(runs: Runs) -> JsonObject:
    """Return the same as data: `runs`, each with the columns in which it is `best`, and `disagreements`."""
    figures = figures_of(runs)
    best = best_of(figures)
    keys = ("cases", *_COLUMNS, "cost_cases", "token_cases", "cached_cases")
    return {
        "runs": [
            {"name": name, **{key: getattr(each, key) for key in keys}, "best": list(best_columns(each, best))}
            for name, each in figures.items()
        ],
        "disagreements": [
            {
                "case": case,
                "runs": {
                    name: {"status": outcome.status, "score": None if outcome.status == "error" else outcome.score}
                    for name, outcome in found.items()
                },
            }
            for case, found in disagreements(runs).items()
        ],
    }


def figures_of(runs: Runs) -> dict[str, RunFigures]:
    return {name: _figures(list(outcomes.values())) for name, outcomes in runs.items()}


def _figures(outcomes: Sequence[CaseOutcome]) -> RunFigures:
    judged = [each for each in outcomes if each.status != "error"]
    costs = [each.cost_usd for each in outcomes if each.cost_usd is not None]
    tokens = [each.tokens for each in outcomes if each.tokens is not None]
    times = sorted(each.duration_ms for each in judged if each.duration_ms is not None)
    return RunFigures(
        cases=len(outcomes),
        errors=len(outcomes) - len(judged),
        passed=None if any(each.status is None for each in judged) else sum(each.status == "pass" for each in judged),
        mean=statistics.fmean(each.score for each in judged) if judged else None,
        cost_usd=sum(costs) if costs else None,
        tokens=sum(tokens) if tokens else None,
        median_ms=statistics.median(times) if times else None,
        p95_ms=times[max(0, -(-95 * len(times) // 100) - 1)] if times else None,
        cost_cases=sum(each.cost_usd is not None for each in judged),
        token_cases=sum(each.tokens is not None for each in judged),
        cached_cases=sum(each.cost_usd is not None and each.is_cached for each in outcomes),
    )


def best_of(figures: Mapping[str, RunFigures]) -> dict[str, str]:
    """Return the best value of each column, as it is shown.

    A column is left out if it shows all runs alike, or if only runs with errors have its best value: they did less,
    so their mean, cost and times say little. The same holds for sums that leave out cases.
    """
    best: dict[str, str] = {}
    for key, column in _COLUMNS.items():
        known = [(value, each) for each in figures.values() if (value := getattr(each, key)) is not None]
        if len({column.show(value) for value, _ in known}) < 2:
            continue
        top = column.show(column.best([value for value, _ in known]))
        if any(_competes(each, key) for value, each in known if column.show(value) == top):
            best[key] = top
    return best


def best_columns(figures: RunFigures, best: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns in which a run is the best, or one of the best."""
    return tuple(key for key, top in best.items() if _cell(figures, key) == top and _competes(figures, key))


def _competes(figures: RunFigures, key: str) -> bool:
    known = figures.cost_cases if key == "cost_usd" else figures.token_cases if key == "tokens" else figures.judged
    return key in _COUNTS or not (figures.errors or known < figures.judged)


def disagreements(runs: Runs) -> dict[str, dict[str, CaseOutcome]]:
    """Return the cases that ended differently, with the outcome of each run."""
    cases: dict[str, dict[str, CaseOutcome]] = {}
    for name, outcomes in runs.items():
        for case, outcome in outcomes.items():
            cases.setdefault(case, {})[name] = outcome
    return {case: found for case, found in cases.items() if len({each.shown for each in found.values()}) > 1}


def combination_lines(results: Sequence[EvalResult]) -> Iterator[str]:
    """Yield a row for each combination, the best of each column marked with `*`, then the cases on which they disagree.

    Yields nothing for a run with fewer than two combinations.
    """
    groups: dict[str, dict[str, CaseOutcome]] = {}
    for result in sorted(results, key=lambda each: (each.combination or "", each.node_id or "")):
        if result.combination is not None:
            case = without_combination(result.node_id or result.eval_id, result.combination)
            cases = groups.setdefault(result.combination, {})
            name = f"{case} ({result.eval_id})" if case in cases else case  # several in a Python test
            usage = tokens_of(result)
            cases[name] = CaseOutcome(
                status=result.status,
                score=result.score,
                cost_usd=cost_of(result),
                tokens=None if usage is None else usage.total,
                duration_ms=duration_of(result),
                is_cached=bool(result.cached),
            )
    if len(groups) > 1:
        yield from table_lines(groups)


def without_combination(node_id: str, combination: str) -> str:
    """Return a node id without its combination: `x`, and `x (2)` for the second case with the id `x`.

    Items with equal names end in a number: `x@gpt-2`. It is not written as `x-2`, because a case may have that id.
    """
    base, at, end = node_id.rpartition(f"@{combination}")
    if not at:
        return node_id
    number = end.removeprefix("-")
    if not end:
        return base
    return f"{base} ({number})" if end != number and number.isdecimal() else node_id


# Reads any number of results files as runs of the same cases: one for each target or combination of a file.

_Outcomes: TypeAlias = dict[CaseKey, CaseOutcome]


@dataclass(frozen=True, slots=True)
class RunsFile(Record):
    """The results of a file by target or combination. The last result of a case counts."""

    path: Path
    by_target: Mapping[str, Mapping[CaseKey, CaseOutcome]]
    scores: Scores
    """The scores of the file, and what could not be read."""


@dataclass(frozen=True, slots=True)
class AlignedRuns(Record):
    """Runs of the same cases."""

    runs: Runs
    """The cases that all runs have."""
    missing: Mapping[str, tuple[str, ...]]
    """The other cases, with the runs that lack them."""


def read_runs(path: Path) -> RunsFile:
    """Read the outcomes of a results file. Raises `FileError` if it cannot be opened."""
    groups: dict[str, _Outcomes] = {}
    counts: Counter[CaseKey] = Counter()
    problems: list[Problem] = []
    scores: dict[CaseKey, float | None] = {}
    for value in iter_scored(path):
        if isinstance(value, Problem):
            problems.append(value)
            continue
        key, outcome = key_of(value), _outcome(value)
        scores[key] = None if outcome.status == "error" else outcome.score
        counts[key] += 1
        combination = text_or_none(value.get("combination"))
        groups.setdefault(combination or key.target or "", {})[_case_key(key, combination)] = outcome
    return RunsFile(path, groups, Scores(scores, counts, tuple(problems)))


def _case_key(key: CaseKey, combination: str | None) -> CaseKey:
    """Return the names of a case without its target and combination, which name its run."""
    eval_id, at, kind = key.eval_id.rpartition("@")
    is_combined = combination is not None and at and (combination == kind or combination.endswith(f"-{kind}"))
    node_id = without_combination(key.node_id, combination) if key.node_id and combination else key.node_id
    return CaseKey(eval_id if is_combined else key.eval_id, key.eval_file, None, node_id)


def _outcome(value: JsonObject) -> CaseOutcome:
    usage = _metric(value, "token_usage")
    counts = [usage.get(key) or 0 for key in ("input", "output", "cached")] if isinstance(usage, dict) else []
    return CaseOutcome(
        status=_status(value),
        score=float(value["score"]),
        cost_usd=_amount(_metric(value, "cost_usd")),
        tokens=sum(counts) if counts and all(map(is_amount, counts)) else None,
        duration_ms=_amount(_metric(value, "duration_ms")),
        is_cached=value.get("cached") is True,
    )


def _status(value: JsonObject) -> str | None:
    """Return the status of a result. AgentV's own results have none, but may have an error."""
    if is_error(value):
        return "error"
    if (status := text_or_none(value.get("status"))) is not None:
        return status
    threshold = value.get("threshold")
    if not is_measure(threshold):
        return None
    return "pass" if value["score"] >= float(threshold) - _SLACK else "fail"


def _metric(value: JsonObject, key: str) -> Json:
    sources = (value.get("execution_metrics"), value.get("trace_summary"))
    return next((each[key] for each in sources if isinstance(each, dict) and each.get(key) is not None), None)


def _amount(value: Json) -> float | None:
    return float(value) if is_amount(value) else None


def align_runs(files: Sequence[RunsFile]) -> AlignedRuns:
    """Return the runs of several files under names of runs and cases that match across the files.

    A run has the name of its file, and of its target if the file has several.
    """
    groups = {_run_name(file, target, files): outcomes for file in files for target, outcomes in file.by_target.items()}
    shorten = shortening(groups.values(), ("node_id",))
    runs = {run: {shorten(key).label: outcome for key, outcome in outcomes.items()} for run, outcomes in groups.items()}
    cases = dict.fromkeys(case for outcomes in runs.values() for case in outcomes)
    missing = {case: tuple(run for run, found in runs.items() if case not in found) for case in cases}
    return AlignedRuns(
        runs={run: {case: found[case] for case in cases if not missing[case]} for run, found in runs.items()},
        missing={case: without for case, without in missing.items() if without},
    )


def _run_name(file: RunsFile, target: str, files: Sequence[RunsFile]) -> str:
    is_unique = sum(each.path.name == file.path.name for each in files) == 1
    name = file.path.name if is_unique else str(file.path)
    return f"{name} {target}" if len(file.by_target) > 1 and target else name
