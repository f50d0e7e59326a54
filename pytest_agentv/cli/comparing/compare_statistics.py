"""`agentv compare BASE RUN... --statistics`: the comparison that a run's gate makes, of results files."""

import json
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from pytest_agentv.cli.console import note, say
from pytest_agentv.errors import AgentvError, FileError, locate
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.options.defaults import DEFAULT_BASELINE
from pytest_agentv.reporting.baselines.reading import read_baseline
from pytest_agentv.reporting.endings import ending_of, read_contract
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.readers import holds_baseline
from pytest_agentv.reporting.verdicts.baseline import baseline_of
from pytest_agentv.reporting.verdicts.case_reading import read_cases
from pytest_agentv.reporting.verdicts.cases import JudgedCase, unique_names
from pytest_agentv.reporting.verdicts.comparison import compare_runs
from pytest_agentv.reporting.verdicts.lines import statistics_lines
from pytest_agentv.reporting.verdicts.pairing import pair_cases, shared_key
from pytest_agentv.reporting.verdicts.run_statistics import RunStatistics, RunVerdict, compare_with_baseline, judge_run

_Name: TypeAlias = tuple[str, str | None]
"""The name of a case, and its target."""
_SHOWN: Final = 10
_REGRESSED: Final[frozenset[RunVerdict]] = frozenset({"broken", "regressed"})
_NOT_COMPARABLE: Final[frozenset[RunVerdict]] = frozenset({"stale", "judge changed", "errors"})
CANNOT_TELL, NOT_COMPARED = 2, 3


def compare_statistics(base: Path, runs: Sequence[Path], *, margin: float, output: str, gate: bool) -> int:
    """Compare the results of one run, in one or more files, with a baseline or results file; return the exit code.

    Without `gate` it is 0 for every verdict, and an unreadable file raises `FileError`. With `gate`, such a file gives
    exit code 3, because the usual exit code 2 would mean "cannot tell".
    """
    try:
        statistics = _compare(base, *_read_runs(runs), margin=margin)
    except (AgentvError, OSError) as error:
        if not gate:
            raise
        note(f"agentv compare: {error}")
        return NOT_COMPARED
    if output == "json":
        json.dump(statistics.contract(), sys.stdout, indent=2)
        say()
    else:
        say("\n".join(line.text for line in statistics_lines(statistics, verbose=output == "verbose")))
        for reason in statistics.reasons:
            say(visible(f"Verdict: {reason}"))
    return exit_code(statistics) if gate else 0


def exit_code(statistics: RunStatistics) -> int:
    """Return 0, 1 for a regression, 2 if the data cannot tell, 3 if the runs could not be compared."""
    found = set(statistics.verdicts)
    if statistics.comparison is None or statistics.comparison.difference is None:
        return NOT_COMPARED
    if found & _REGRESSED:
        return 1
    if found & _NOT_COMPARABLE:
        return NOT_COMPARED
    return CANNOT_TELL if "inconclusive" in found else 0


def _compare(base: Path, cases: Sequence[JudgedCase], skipped: Collection[_Name], *, margin: float) -> RunStatistics:
    """Compare cases with a file. Cases of it that the run `skipped` do not count as gone, as in the run's gate."""
    known = {case.key for case in cases}

    def left(old: Sequence[JudgedCase]) -> list[JudgedCase]:
        return [case for case in old if (case.name, case.target) in skipped and case.key not in known]

    is_confirming = any(case.confirmation is not None for case in cases)
    if is_baseline(base):
        baseline = read_baseline(base)
        return compare_with_baseline(
            cases, baseline, base.name, skipped=left(baseline.cases), margin=margin, is_confirming=is_confirming
        )
    old = read(base)
    pairing = pair_cases(cases, old, shared_key(cases, old), left(old))
    comparison = compare_runs(cases, old, margin=margin, is_confirming=is_confirming, pairing=pairing)
    return judge_run(comparison.replace(baseline=baseline_of(old), baseline_name=base.name), cases)


def is_baseline(path: Path) -> bool:
    """Whether a file is a baseline rather than a results file."""
    return path.name == DEFAULT_BASELINE.name or holds_baseline(path)


def _read_runs(paths: Sequence[Path]) -> tuple[list[JudgedCase], set[_Name]]:
    """Read the shards of one run, and the names of cases that it skipped, as the verdicts beside them tell.

    The last result of a case counts, as in `agentv merge`: the one that ended last.
    """
    cases: dict[tuple[str, str | None, str | None], JudgedCase] = {}
    by_file = [(path, _read(path)) for path in paths]
    for case in (case for _, found in by_file for case in found):
        before = cases.get((case.name, case.target, case.node_id))
        is_older = before is not None and before.ended and case.ended and case.ended < before.ended
        if not is_older:
            cases[case.name, case.target, case.node_id] = case
    skipped = (ending_of(read_contract(path, unique_names(found))).skipped for path, found in by_file)
    return unique_names(list(cases.values())), set[_Name]().union(*skipped)


def read(path: Path) -> list[JudgedCase]:
    """Read the cases of a results file, and note what cannot be read. Cases of the same name get those of their items.

    Raises `FileError` if it holds none, or those of a dry run.
    """
    return unique_names(_read(path))


def _read(path: Path) -> list[JudgedCase]:
    """Read the cases of a results file, and note what cannot be read.

    Raises `FileError` if it holds none, or those of a dry run.
    """
    if holds_baseline(path):
        raise FileError(path, "is a baseline, not a results file: name the baseline first, and the results behind it")
    cases, problems = read_cases(path)
    for text in _remarks(path, problems):
        note(visible(text))
    if not cases:
        raise FileError(path, "holds no results: expected lines of JSON, or YAML documents, with eval_id and score")
    if any("dry_run" in case.flags for case in cases):
        raise FileError(path, "holds results of a dry run: its scores mean nothing")
    return cases


def _remarks(path: Path, problems: Sequence[Problem]) -> Iterator[str]:
    yield from map(str, problems[:_SHOWN])
    if len(problems) > _SHOWN:
        yield f"{locate(path, None)}: {len(problems) - _SHOWN} more problems"
