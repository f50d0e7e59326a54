"""The table of several runs of the same cases: a row for each, the best of each column."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import Json, JsonObject, Record, is_amount, is_measure, text_or_none
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.text import counted
from pytest_agentv.reports.compare import CaseKey, Scores, is_error, iter_scored, key_of, shortening
from pytest_agentv.reports.figures import (
    cost_of,
    duration_of,
    format_cost,
    format_duration,
    format_score,
    shortened,
    tokens_of,
    visible,
)

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

_SLACK = 1e-9


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
