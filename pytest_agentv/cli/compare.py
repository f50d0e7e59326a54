"""`agentv compare`: compares two results files case by case, or shows a table of more."""

import json
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from pytest_agentv.cli.eval import USAGE_ERROR, ArgumentParser, UsageError, add_margin, note, parse_delta, say
from pytest_agentv.errors import AgentvError, FileError, locate
from pytest_agentv.model.base import counted
from pytest_agentv.model.options import DEFAULT_BASELINE
from pytest_agentv.reports.baseline import baseline_of, read_baseline
from pytest_agentv.reports.compare import (
    DEFAULT_THRESHOLD,
    CaseKey,
    Comparison,
    Scores,
    align,
    align_runs,
    compare_scores,
    comparison_lines,
    listed,
    read_runs,
    read_scores,
    table_data,
    table_lines,
)
from pytest_agentv.reports.figures import visible
from pytest_agentv.reports.gates import ending_of, read_contract
from pytest_agentv.reports.judged_cases import JudgedCase, pair_cases, read_cases, shared_key, unique_names
from pytest_agentv.reports.verdict import (
    RunStatistics,
    RunVerdict,
    compare_runs,
    compare_with_baseline,
    judge_run,
    statistics_lines,
)
from pytest_agentv.store.readers import holds_baseline

_SHOWN: Final = 10
"""How many problems and how many duplicates are listed per file."""

_Name: TypeAlias = tuple[str, str | None]
"""The name of a case, and its target."""
_REGRESSED: Final[frozenset[RunVerdict]] = frozenset({"broken", "regressed"})
_NOT_COMPARABLE: Final[frozenset[RunVerdict]] = frozenset({"stale", "judge changed", "errors"})
CANNOT_TELL, NOT_COMPARED = 2, 3

_EPILOG: Final = """\
exit codes:
  0 the candidate's mean score is as good as the baseline's, or better; 1 it is worse;
  2 the files cannot be compared: nothing is in both, or the candidate lacks cases of the baseline.
  With three files or more: 0; 2 if they do not hold the same cases.
  With --statistics: 0. With --statistics --gate: 0 not regressed, 1 regressed or broken, 2 cannot tell,
  3 could not be compared."""


def run(arguments: Sequence[str]) -> int:
    """Compare two results files and return the exit code: 0 as good or better, 1 worse, 2 not comparable."""
    options = _create_parser().parse_args(arguments)
    if options.statistics or options.gate:
        runs = [options.candidate, *options.more]
        output = options.format or "table"
        return compare_statistics(options.baseline, runs, margin=options.margin, output=output, gate=options.gate)
    for path in (options.baseline, options.candidate, *options.more):
        if holds_baseline(path):
            raise FileError(path, "is a baseline, not a results file: --statistics compares results with a baseline")
    if options.more:
        files = (options.baseline, options.candidate, *options.more)
        return compare_files(files, options.format or "table", allow_missing=options.allow_missing)
    first, second = align(read_scores(options.baseline), read_scores(options.candidate))
    for path, scores in ((options.baseline, first), (options.candidate, second)):
        _check(path, scores)
    comparison = compare_scores(first.by_key, second.by_key, options.threshold)
    lines = comparison_lines(comparison, str(options.baseline), str(options.candidate))
    if options.format in ("table", "verbose"):
        say("\n".join(lines))
    else:
        # Written in pieces, because the whole text would double the memory.
        json.dump(comparison.contract(), sys.stdout, indent=2)
        say()
        if sys.stderr.isatty():
            note("\n".join(lines))
    fault = _fault(comparison, allow_missing=options.allow_missing)
    if fault is not None:
        note(f"agentv compare: {fault}")
        return USAGE_ERROR
    return int(comparison.is_worse)


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv compare",
        description="Compare the scores of two results files (JSONL or YAML), matched by eval file, id and target. "
        "Print three files or more as a table with a row for each run.",
        epilog=_EPILOG,
    )
    parser.add_argument("baseline", type=Path, help="Results file of the run to compare with.")
    parser.add_argument("candidate", type=Path, help="Results file of the run that may be better or worse.")
    parser.add_argument(
        "more",
        type=Path,
        nargs="*",
        default=[],
        help="Further runs, each a row of a table. With --statistics: further parts of the candidate, as of shards.",
    )
    parser.add_argument(
        "--statistics",
        action="store_true",
        help="Say what the difference may claim: intervals, broken cases, a verdict (default: off).",
    )
    parser.add_argument(
        "--gate",
        action="store_true",
        help="With --statistics: exit with 1 for a regression, 2 if the data cannot tell, 3 if nothing could be "
        "compared (default: off).",
    )
    add_margin(parser)
    parser.add_argument(
        "-t",
        "--threshold",
        type=parse_delta,
        default=DEFAULT_THRESHOLD,
        metavar="DELTA",
        help=f"Smallest difference that is a win or a loss, 0 to 1 (default: {DEFAULT_THRESHOLD}).",
    )
    parser.add_argument(
        "-f",
        "--format",
        choices=("json", "table", "verbose"),
        help="Output format: json, table, or verbose, a table that leaves nothing out "
        "(default: json, on a terminal also the table, on standard error; with --statistics or more than two files: "
        "table).",
    )
    parser.add_argument(
        "--allow-missing",
        action="store_true",
        help="Compare only the cases in all files, even if some lack cases (default: off).",
    )
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="The same as --format json.")
    return parser


def _check(path: Path, scores: Scores) -> None:
    for text in _remarks(path, scores):
        note(visible(text))
    if not scores.by_key:
        raise FileError(path, "holds no results: expected lines of JSON, or YAML documents, with eval_id and score")


def _remarks(path: Path, scores: Scores) -> Iterator[str]:
    yield from map(str, scores.problems[:_SHOWN])
    if len(scores.problems) > _SHOWN:
        yield f"{locate(path, None)}: {counted(len(scores.problems) - _SHOWN, 'more problem')}"
    repeated = [key for key, number in scores.counts.items() if number > 1]
    for key in repeated[:_SHOWN]:
        yield f"{locate(path, None)}: {scores.counts[key]} results of {key.label!r}; the last one counts"
    if len(repeated) > _SHOWN:
        yield f"{locate(path, None)}: {counted(len(repeated) - _SHOWN, 'more case')} with several results"
    errors = sum(score is None for score in scores.by_key.values())
    if errors:
        has = "has" if errors == 1 else "have"
        yield f"{locate(path, None)}: {counted(errors, 'case')} could not be judged and {has} no score"


def _fault(comparison: Comparison, *, allow_missing: bool) -> str | None:
    """Return the reason why the runs cannot be compared; None if they can."""
    if not comparison.matched:
        if comparison.errors:
            return "no case has a score in both files, so there is nothing to compare"
        examples = f"the baseline has {listed(comparison.unmatched1[:1])}, "
        examples += f"the candidate {listed(comparison.unmatched2[:1])}"
        return f"no case is in both files, so there is nothing to compare: {examples}"
    if comparison.unmatched1 and not allow_missing:
        cases = counted(len(comparison.unmatched1), "case")
        return f"the candidate lacks {cases} of the baseline: {listed(comparison.unmatched1)} (or use --allow-missing)"
    return None


def compare_files(paths: Sequence[Path], output: str, *, allow_missing: bool) -> int:
    """Compare three results files or more, with a row for each run and the cases on which they disagree.

    Returns the exit code: 0, or 2 if the files do not hold the same cases.
    """
    if twice := next((path for index, path in enumerate(paths) if path in paths[:index]), None):
        raise UsageError(f"{twice} is given twice")
    files = [read_runs(path) for path in paths]
    for file in files:
        _check(file.path, file.scores)
    aligned = align_runs(files)
    has_common = any(aligned.runs.values())
    if output == "json":
        missing = [{"case": case, "runs": list(runs)} for case, runs in aligned.missing.items()]
        say(json.dumps({**table_data(aligned.runs), "missing": missing}, indent=2))
    elif has_common:
        for line in table_lines(aligned.runs, **({"listed": None} if output == "verbose" else {})):
            say(line)
    if not has_common:
        note("agentv compare: no case is in all files, so there is nothing to compare (parts of one run: --statistics)")
        return USAGE_ERROR
    if aligned.missing:
        cases = counted(len(aligned.missing), "case")
        names = listed([CaseKey(case) for case in aligned.missing])
        lacking = ", ".join(dict.fromkeys(run for runs in aligned.missing.values() for run in runs))
        text = f"agentv compare: left out {cases} that not all runs have: {names}; lacking in {lacking}"
        note(visible(text if allow_missing else f"{text} (accept that with --allow-missing)"))
    return USAGE_ERROR if aligned.missing and not allow_missing else 0


def compare_statistics(base: Path, runs: Sequence[Path], *, margin: float, output: str, gate: bool) -> int:
    """Compare the results of one run, in one or more files, with a baseline or results file, as a run's gate does.

    Return the exit code. Without `gate` it is 0 for every verdict, and an unreadable file raises `FileError`. With
    `gate`, such a file gives exit code 3, because the usual exit code 2 would mean "cannot tell".
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
    """Read the cases under their names as written."""
    if holds_baseline(path):
        raise FileError(path, "is a baseline, not a results file: name the baseline first, and the results behind it")
    cases, problems = read_cases(path)
    for problem in problems[:_SHOWN]:
        note(visible(str(problem)))
    if len(problems) > _SHOWN:
        note(visible(f"{locate(path, None)}: {len(problems) - _SHOWN} more problems"))
    if not cases:
        raise FileError(path, "holds no results: expected lines of JSON, or YAML documents, with eval_id and score")
    if any("dry_run" in case.flags for case in cases):
        raise FileError(path, "holds results of a dry run: its scores mean nothing")
    return cases


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
