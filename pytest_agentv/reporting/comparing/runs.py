"""Reads any number of results files as runs of the same cases: one for each target or combination of a file."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Json, JsonObject, Record, is_amount, is_measure, text_or_none
from pytest_agentv.models.records import record
from pytest_agentv.reporting.comparing.case_scores import CaseKey, Scores, is_error, iter_scored, key_of, shortening
from pytest_agentv.reporting.comparing.runs_table import CaseOutcome, Runs, without_combination
from pytest_agentv.reporting.verdicts.case_reading import is_part

_Outcomes: TypeAlias = dict[CaseKey, CaseOutcome]

_SLACK = 1e-9


@record
class RunsFile(Record):
    """The results of a file by target or combination. The last result of a case counts."""

    path: Path
    by_target: Mapping[str, Mapping[CaseKey, CaseOutcome]]
    scores: Scores
    """The scores of the file, and what could not be read."""


@record
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
        is_priced=not is_part(value, "priced"),
        is_metered=not is_part(value, "metered"),
        is_cached=value.get("cached") is True,
    )


def _status(value: JsonObject) -> str | None:
    """Return the status of a result. AgentV's own results have none, but may have an error."""
    if is_error(value):
        return "error"
    if (status := text_or_none(value.get("status"))) is not None:
        return status
    threshold = _number(value.get("threshold"))
    return None if threshold is None else "pass" if value["score"] >= threshold - _SLACK else "fail"


def _metric(value: JsonObject, key: str) -> Json:
    sources = (value.get("execution_metrics"), value.get("trace_summary"))
    return next((each[key] for each in sources if isinstance(each, dict) and each.get(key) is not None), None)


def _number(value: Json) -> float | None:
    return float(value) if is_measure(value) else None


def _amount(value: Json) -> float | None:
    return float(value) if is_amount(value) else None
