"""Compares runs: a table of all, the cases on which they disagree, and the changes of scores between two."""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from pytest_agentv.model.base import Json, JsonObject, Record, counted, format_fixed
from pytest_agentv.model.results import RESULT_FIELDS, EvalResult
from pytest_agentv.reports.figures import (
    cost_of,
    duration_of,
    format_cost,
    format_duration,
    format_score,
    percentile,
    shortened,
    table,
    tokens_of,
    visible,
    whole,
)
from pytest_agentv.reports.judged_cases import CaseKey, CaseNames, JudgedCase, case_of, shared_key
from pytest_agentv.reports.view import RunView

_SLACK: Final = 1e-9
"""0.9 - 0.8 is slightly less than 0.1 in floats, but must count as 0.1."""


def status_of(case: JudgedCase) -> str | None:
    """Return `pass`, `fail` or `error`; None: nobody knows. A dry run judges nothing."""
    status = "error" if "dry_run" in case.flags else case.status
    return None if status == "scored" else status


def differing_fields(*runs: Sequence[JudgedCase]) -> dict[str, list[list[str]]]:
    """Return the values of each run, of the fields that tell runs apart, such as the model, where they differ."""
    found = {}
    for name in (name for name, about in RESULT_FIELDS.items() if about.is_compared):
        values = [sorted({str(value) for case in run if (value := getattr(case.result, name, None))}) for run in runs]
        if any(each != values[0] for each in values):
            found[name] = values
    return found


# Compares two runs case by case. Source: eval-cli-2026-01, "Result Comparison Command"; decisions 23.

DEFAULT_THRESHOLD: Final = 0.1

_DELTA_DIGITS: Final = 9
"""Further digits are only noise from the subtraction."""
_MEAN_DIGITS: Final = 3

Outcome: TypeAlias = Literal["win", "loss", "tie"]

_MARKS: Final[Mapping[Outcome, str]] = {"win": "✓ win", "loss": "✗ loss", "tie": "= tie"}
_WIDEST_ID: Final = 60
_MOST_LISTED: Final = 10


class Match(NamedTuple):
    """A case with a score in both files."""

    key: CaseKey
    name: str
    """For people."""
    score1: float
    score2: float
    delta: float
    """score2 - score1."""
    outcome: Outcome

    def contract(self) -> JsonObject:
        scores = {name: whole(getattr(self, name)) for name in ("score1", "score2", "delta")}
        return {"eval_id": self.key.eval_id, **scores, "outcome": self.outcome} | _plain([self.key])[0]


@dataclass(frozen=True, slots=True)
class Comparison(Record):
    """The result of comparing two runs."""

    matched: tuple[Match, ...]
    """In the order of the first file."""
    unmatched: tuple[Sequence[CaseKey], Sequence[CaseKey]]
    """Cases that are only in the first file, and only in the second."""
    unjudged: tuple[Sequence[CaseKey], Sequence[CaseKey]]
    """Cases of both files that could not be judged in the first run, and in the second. They are not matched."""
    differing: Mapping[str, Sequence[Sequence[str]]]
    """Other fields in which the runs differ, such as the model."""

    @property
    def errors(self) -> int:
        return len(set().union(*self.unjudged))

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
        differing = {name: _by_file(values) for name, values in self.differing.items()}
        return {
            "matched": [case.contract() for case in self.matched],
            "unmatched": _by_file(map(len, self.unmatched)),
            "summary": {
                "total": len(self.matched) + self.errors + sum(map(len, self.unmatched)),
                "matched": len(self.matched),
                "wins": self.count("win"),
                "losses": self.count("loss"),
                "ties": self.count("tie"),
                "meanDelta": round(self.mean_delta, _MEAN_DIGITS) + 0.0,  # -0.0 becomes 0.0
                "errors": self.errors,
            },
            "unmatched_cases": _by_file(map(_plain, self.unmatched)),
            "error_cases": _by_file(map(_plain, self.unjudged)),
            **({"differing": differing} if differing else {}),
        }


def _by_file(values: Iterable[Json]) -> JsonObject:
    return {f"file{number}": value for number, value in enumerate(values, start=1)}


def _plain(keys: Sequence[CaseKey]) -> list[dict[str, Json]]:
    return [{name: value for name, value in key._asdict().items() if value is not None} for key in keys]


def compare_scores(first: Sequence[JudgedCase], second: Sequence[JudgedCase], threshold: float) -> Comparison:
    """Compare a candidate, the second run, with a baseline.

    `threshold` is the smallest difference that is a win or a loss. Equal scores are always a tie.
    """
    key = shared_key(first, second)
    old, new = runs = [{key(case): case for case in run} for run in (first, second)]
    both = [name for name in old if name in new]
    errors1, errors2 = ([name for name in both if status_of(run[name]) == "error"] for run in runs)
    broken = {*errors1, *errors2}
    judged = [name for name in both if name not in broken]
    known = CaseNames(old[name] for name in judged)
    matched: list[Match] = []
    for name in judged:
        score1, score2 = old[name].result.score, new[name].result.score
        delta = round(score2 - score1, _DELTA_DIGITS)
        is_tie = abs(delta) <= _SLACK or abs(delta) < threshold - _SLACK
        outcome: Outcome = "tie" if is_tie else "win" if delta > 0 else "loss"
        matched.append(Match(name, known.short(old[name], _WIDEST_ID, "…"), score1, score2, delta, outcome))
    unmatched = [name for name in old if name not in new], [name for name in new if name not in old]
    return Comparison(tuple(matched), unmatched, (errors1, errors2), differing_fields(first, second))


def comparison_lines(comparison: Comparison, first: str, second: str) -> Iterator[str]:
    yield f"Comparing: {visible(first)} → {visible(second)}"
    for name, (before, now) in comparison.differing.items():
        yield visible(f"{RESULT_FIELDS[name].title}: {', '.join(before) or '-'} → {', '.join(now) or '-'}")
    if comparison.matched:
        width = max(len("Eval ID"), *(len(case.name) for case in comparison.matched))
        yield ""
        yield f"{'Eval ID':{width}}  Baseline  Candidate   Delta  Result"
        for case in comparison.matched:
            scores = f"{format_fixed(case.score1, 2):>8}  {format_fixed(case.score2, 2):>9}"
            yield f"{case.name:{width}}  {scores}  {_signed(case.delta, 2):>6}  {_MARKS[case.outcome]}"
        yield ""
    said = {"Only in the {}": comparison.unmatched, "Not judged in the {}, left out": comparison.unjudged}
    for text, sides in said.items():
        for side, keys in zip(("baseline", "candidate"), sides, strict=True):
            if keys:
                yield f"{text.format(side)} ({len(keys):,}): {listed([key.label for key in keys])}"
    wins, losses, ties = (comparison.count(outcome) for outcome in ("win", "loss", "tie"))
    counts = f"{counted(wins, 'win')}, {counted(losses, 'loss', 'losses')}, {counted(ties, 'tie')}"
    delta = _signed(comparison.mean_delta, _MEAN_DIGITS)
    verdict = "worse" if comparison.is_worse else "better" if comparison.mean_delta > _SLACK else "no difference"
    yield f"Summary: {counts} | Mean delta: {delta} | {verdict}"


def listed(names: Sequence[str]) -> str:
    """Return the first names on one line."""
    more = [f"… and {len(names) - _MOST_LISTED:,} more"] if len(names) > _MOST_LISTED else []
    first = (shortened(visible(name).replace("\n", " "), _WIDEST_ID, "…") for name in names[:_MOST_LISTED])
    return ", ".join([*first, *more])


def _signed(value: float, digits: int) -> str:
    text = format_fixed(value, digits)
    return text if text.startswith("-") and float(text) else f"+{text.removeprefix('-')}"


# The table of several runs of the same cases: a row for each, the best of each column.

_LISTED: Final = 10
_LONGEST_NAME: Final = 30

Runs: TypeAlias = Mapping[str, Mapping[str, JudgedCase]]
"""The cases of each run, by the names of both."""


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

    def cell(self, key: str) -> str:
        """Return a figure as it is shown."""
        value = getattr(self, key)
        return "-" if value is None else _COLUMNS[key].show(value)

    def competes(self, key: str) -> bool:
        """Whether the figure is one of all cases: a sum that leaves out some cannot be the best."""
        known = {"cost_usd": self.cost_cases, "tokens": self.token_cases}.get(key, self.judged)
        return key in ("errors", "passed") or not (self.errors or known < self.judged)


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
    "median_ms": _Column("p50", format_duration, min),
    "p95_ms": _Column("p95", format_duration, min),
}


def table_lines(runs: Runs, *, listed: int | None = _LISTED) -> Iterator[str]:
    """Yield a row for each run, then the cases on which they disagree, `listed` of them at most (None: all).

    `*` marks the best of each column. Errors have a column if there are any. Sums that leave out cases are named.
    """
    figures = figures_of(runs)
    best = best_columns(figures)
    keys = [key for key in _COLUMNS if key != "errors" or any(each.errors for each in figures.values())]
    rows = [("", "cases", *(_COLUMNS[key].head for key in keys))]
    for name, each in figures.items():
        marked = (f"{each.cell(key)}{'*' if key in best[name] else ' '}" for key in keys)
        rows.append((_short(name), str(each.cases), *marked))
    yield from table(rows, is_right=True)
    for name, each in figures.items():
        yield from _notes_on_sums(_short(name), each)
    for name, values in differing_fields(*(list(cases.values()) for cases in runs.values())).items():
        said = (f"{_short(run)} {', '.join(found) or '-'}" for run, found in zip(runs, values, strict=True))
        yield visible(f"{RESULT_FIELDS[name].title}: {'; '.join(said)}")
    split = disagreements(runs)
    if split:
        yield f"They disagree on {len(split)} of {len(set().union(*runs.values()))} cases:"
    for case, found in list(split.items())[:listed]:
        yield visible(f"  {case}: {', '.join(f'{name} {_shown(each)}' for name, each in found.items())}")
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


def _short(name: str) -> str:
    return shortened(visible(name), _LONGEST_NAME, "…")


def _shown(case: JudgedCase) -> str:
    """Return the status of a case, or its score if there is no status."""
    return status_of(case) or format_score(case.result.score)


def table_data(runs: Runs) -> JsonObject:
    """Return the same as data: `runs`, each with the columns in which it is `best`, and `disagreements`."""
    figures = figures_of(runs)
    best = best_columns(figures)
    keys = ("cases", *_COLUMNS, "cost_cases", "token_cases", "cached_cases")
    others = differing_fields(*(list(cases.values()) for cases in runs.values()))
    rows = [
        {
            "name": name,
            **{key: getattr(each, key) for key in keys},
            "best": best[name],
            **{about: values[number] for about, values in others.items()},
        }
        for number, (name, each) in enumerate(figures.items())
    ]
    split = {
        case: {name: {"status": status_of(each), "score": _told_score(each)} for name, each in found.items()}
        for case, found in disagreements(runs).items()
    }
    return {"runs": rows, "disagreements": [{"case": case, "runs": found} for case, found in split.items()]}


def _told_score(case: JudgedCase) -> float | None:
    return None if status_of(case) == "error" else case.result.score


def figures_of(runs: Runs) -> dict[str, RunFigures]:
    return {name: _figures(list(cases.values())) for name, cases in runs.items()}


def _figures(cases: Sequence[JudgedCase]) -> RunFigures:
    results = [case.result for case in cases]
    judged = [case for case in cases if status_of(case) != "error"]
    of_judged = [case.result for case in judged]
    costs = [cost for each in results if (cost := cost_of(each)) is not None]
    tokens = [usage.total for each in results if (usage := tokens_of(each)) is not None]
    times = [ms for each in of_judged if (ms := duration_of(each)) is not None]
    statuses = list(map(status_of, judged))
    return RunFigures(
        cases=len(cases),
        errors=len(cases) - len(judged),
        passed=None if None in statuses else statuses.count("pass"),
        mean=statistics.fmean(each.score for each in of_judged) if judged else None,
        cost_usd=sum(costs) if costs else None,
        tokens=whole(sum(tokens)) if tokens else None,
        median_ms=statistics.median(times) if times else None,
        p95_ms=percentile(times, 95) if times else None,
        cost_cases=sum(cost_of(each) is not None for each in of_judged),
        token_cases=sum(tokens_of(each) is not None for each in of_judged),
        cached_cases=sum(bool(each.cached) and cost_of(each) is not None for each in results),
    )


def best_columns(figures: Mapping[str, RunFigures]) -> dict[str, list[str]]:
    """Return the columns in which each run is the best, or one of the best.

    A column has no best if it shows all runs alike, or if only runs with errors have its best value: they did less,
    so their mean, cost and times say little. The same holds for sums that leave out cases.
    """
    best: dict[str, list[str]] = {name: [] for name in figures}
    for key, column in _COLUMNS.items():
        known = [value for each in figures.values() if (value := getattr(each, key)) is not None]
        if len(set(map(column.show, known))) > 1:
            top = column.show(column.best(known))
            for name, each in figures.items():
                best[name] += [key] if each.cell(key) == top and each.competes(key) else []
    return best


def disagreements(runs: Runs) -> dict[str, dict[str, JudgedCase]]:
    """Return the cases that ended differently, with what each run has of them."""
    found: dict[str, dict[str, JudgedCase]] = {}
    for name, cases in runs.items():
        for label, case in cases.items():
            found.setdefault(label, {})[name] = case
    return {label: each for label, each in found.items() if len(set(map(_shown, each.values()))) > 1}


def combination_lines(results: Sequence[EvalResult]) -> Iterator[str]:
    """Yield a row for each combination, the best of each column marked with `*`, then the cases on which they disagree.

    Yields nothing for a run with fewer than two combinations.
    """
    groups: dict[str, dict[str, JudgedCase]] = {}
    for result in sorted(results, key=lambda each: (each.combination or "", each.node_id or "")):
        if result.combination is not None:
            case = (result.node_id or result.eval_id).removesuffix(f"@{result.combination}")
            cases = groups.setdefault(result.combination, {})
            name = f"{case} ({result.eval_id})" if case in cases else case  # several in a Python test
            cases[name] = case_of(result)
    if len(groups) > 1:
        yield from table_lines(groups)


# Any number of results files as runs of the same cases: one for each target or combination of a file.


@dataclass(frozen=True, slots=True)
class AlignedRuns(Record):
    """Runs of the same cases."""

    runs: Runs
    """The cases that all runs have."""
    missing: Mapping[str, tuple[str, ...]]
    """The other cases, with the runs that lack them."""


def align_runs(files: Mapping[str, RunView]) -> AlignedRuns:
    """Return the runs of several files under names of runs and cases that match across the files.

    A run has the name of its file, and of its target if the file has several.
    """
    groups: dict[str, list[JudgedCase]] = {}
    for file, view in files.items():
        targets = {_variant(case): None for case in view.cases}
        for case in view.cases:
            name = f"{file} {_variant(case)}" if len(targets) > 1 and _variant(case) else file
            groups.setdefault(name, []).append(_bare(case))
    key = shared_key(*groups.values())
    runs = {run: {key(case).label: case for case in cases} for run, cases in groups.items()}
    labels = dict.fromkeys(label for found in runs.values() for label in found)
    missing = {label: tuple(run for run, found in runs.items() if label not in found) for label in labels}
    return AlignedRuns(
        runs={run: {label: found[label] for label in labels if not missing[label]} for run, found in runs.items()},
        missing={label: without for label, without in missing.items() if without},
    )


def _variant(case: JudgedCase) -> str:
    """Return the combination of a case, else its target: they name its run."""
    return case.combination or case.target or ""


def _bare(case: JudgedCase) -> JudgedCase:
    """Return a case without its target and combination in its names."""
    combination = case.combination
    if not combination:
        return case.replace(target=None)
    eval_id, _, kind = case.eval_id.rpartition("@")
    is_combined = combination == kind or combination.endswith(f"-{kind}")
    node_id = case.node_id and case.node_id.removesuffix(f"@{combination}")
    return case.replace(eval_id=eval_id if eval_id and is_combined else case.eval_id, target=None, node_id=node_id)
