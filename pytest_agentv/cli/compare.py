"""`agentv compare` compares runs; `agentv plan` says how many cases it takes to see a drop."""

import argparse
import json
import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.eval import USAGE_ERROR, ArgumentParser, UsageError, add_margin, note, parse_delta, print_as, say
from pytest_agentv.errors import AgentvError, FileError, locate
from pytest_agentv.model.base import counted
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.compare import (
    DEFAULT_THRESHOLD,
    Comparison,
    align_runs,
    compare_scores,
    comparison_lines,
    listed,
    table_data,
    table_lines,
)
from pytest_agentv.reports.figures import ended_at, visible
from pytest_agentv.reports.how_sure import Plan, plan_of
from pytest_agentv.reports.judged_cases import CaseKey, JudgedCase
from pytest_agentv.reports.read import FINDINGS, TEXTS, read_baseline, read_view, view_of
from pytest_agentv.reports.verdict import RunStatistics, RunVerdict, compared, read_contract, statistics_lines
from pytest_agentv.reports.view import AS_JUDGED, RunView, ending_of
from pytest_agentv.stats.comparison import NO_DROP, chance_of_red_case
from pytest_agentv.store.readers import holds_baseline

_SHOWN: Final = 10
"""How many problems and how many duplicates are listed per file."""

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
    if options.more:
        files = (options.baseline, options.candidate, *options.more)
        return compare_files(files, options.format or "table", allow_missing=options.allow_missing)
    first, second = (_read_scores(path) for path in (options.baseline, options.candidate))
    comparison = compare_scores(first.cases, second.cases, options.threshold)
    names = str(options.baseline), str(options.candidate)
    print_as(options.format, comparison.contract, lambda: comparison_lines(comparison, *names))
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
    parser.add_path("baseline", "Results file of the run to compare with.")
    parser.add_path("candidate", "Results file of the run that may be better or worse.")
    parser.add_path(
        "more",
        "Further runs, each a row of a table. With --statistics: further parts of the candidate, as of shards.",
        nargs="*",
        default=[],
    )
    parser.add_flag("--statistics", "Say what the difference may claim: intervals, broken cases, a verdict.")
    parser.add_flag(
        "--gate",
        "With --statistics: exit with 1 for a regression, 2 if the data cannot tell, 3 if nothing could be compared.",
    )
    add_margin(parser)
    parser.add(
        "-t",
        "--threshold",
        f"Smallest difference that is a win or a loss, 0 to 1 (default: {DEFAULT_THRESHOLD}).",
        type=parse_delta,
        default=DEFAULT_THRESHOLD,
        metavar="DELTA",
    )
    parser.add(
        "-f",
        "--format",
        "Output format: json, table, or verbose, a table that leaves nothing out "
        "(default: table on a terminal, else json; with --statistics or more than two files: table).",
        choices=("json", "table", "verbose"),
    )
    parser.add_flag("--allow-missing", "Compare only the cases in all files, even if some lack cases.")
    parser.add("--json", "The same as --format json.", dest="format", action="store_const", const="json")
    return parser


def _read_scores(path: Path) -> RunView:
    """Read the results of a run without their texts, and note what is odd about them. Raises `FileError`."""
    view = read_run(path)
    if errors := sum(case.is_error or "dry_run" in case.flags for case in view.cases):
        has = "has" if errors == 1 else "have"
        note(f"{locate(path, None)}: {counted(errors, 'case')} could not be judged and {has} no score")
    return view


def read_run(
    path: Path, without: Collection[str] = TEXTS | FINDINGS, masker: Masker | None = None, *, or_baseline: bool = False
) -> RunView:
    """Read the results of a run, and note what cannot be read or is left out. Raises `FileError`."""
    view = read_view(path, masker, without=without)
    if view.baseline is not None and not or_baseline:
        how = "`agentv compare --statistics BASELINE RESULTS` and HTML reports compare with one"
        raise FileError(path, f"is a baseline, not a results file: {how}")
    for problem in view.problems[:_SHOWN]:
        note(visible(problem))
    if len(view.problems) > _SHOWN:
        note(f"{locate(path, None)}: {counted(len(view.problems) - _SHOWN, 'more problem')}")
    if view.dropped:
        note(f"{locate(path, None)}: {counted(view.dropped, 'earlier result')} of the same cases left out")
    return view


def read(path: Path, without: Collection[str] = TEXTS | FINDINGS) -> RunView:
    """Read the results of a run. Raises `FileError` if it has none, or of a dry run."""
    view = read_run(path, without)
    if any("dry_run" in case.flags for case in view.cases):
        raise FileError(path, "holds results of a dry run: its scores mean nothing")
    return view


def _fault(comparison: Comparison, *, allow_missing: bool) -> str | None:
    """Return the reason why the runs cannot be compared; None if they can."""

    def names(keys: Sequence[CaseKey]) -> str:
        return listed([key.label for key in keys])

    if not comparison.matched:
        if comparison.errors:
            return "no case has a score in both files, so there is nothing to compare"
        examples = f"the baseline has {names(comparison.unmatched[0][:1])}, "
        examples += f"the candidate {names(comparison.unmatched[1][:1])}"
        return f"no case is in both files, so there is nothing to compare: {examples}"
    if comparison.unmatched[0] and not allow_missing:
        cases = counted(len(comparison.unmatched[0]), "case")
        return f"the candidate lacks {cases} of the baseline: {names(comparison.unmatched[0])} (or use --allow-missing)"
    return None


def compare_files(paths: Sequence[Path], output: str, *, allow_missing: bool) -> int:
    """Compare three results files or more. Returns the exit code: 0, or 2 if they do not hold the same cases."""
    if twice := next((path for index, path in enumerate(paths) if path in paths[:index]), None):
        raise UsageError(f"{twice} is given twice")
    names = [path.name for path in paths]
    files = {path.name if names.count(path.name) == 1 else str(path): _read_scores(path) for path in paths}
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
        lacking = ", ".join(dict.fromkeys(run for runs in aligned.missing.values() for run in runs))
        lacked = listed(list(aligned.missing))
        text = f"agentv compare: left out {cases} that not all runs have: {lacked}; lacking in {lacking}"
        note(visible(text if allow_missing else f"{text} (accept that with --allow-missing)"))
    return USAGE_ERROR if aligned.missing and not allow_missing else 0


def compare_statistics(base: Path, runs: Sequence[Path], *, margin: float, output: str, gate: bool) -> int:
    """Compare the results of one run, in one or more files, with a baseline or results file, as a run's gate does.

    Return the exit code. With `gate` an unreadable file gives 3, because the usual 2 would mean "cannot tell".
    """
    try:
        statistics = compared(_read_runs(runs), read_view(base, without=TEXTS | FINDINGS), margin=margin).statistics
    except (AgentvError, OSError) as error:
        if not gate:
            raise
        note(f"agentv compare: {error}")
        return NOT_COMPARED
    assert statistics is not None
    lines = [line.text for line in statistics_lines(statistics, verbose=output == "verbose")]
    lines += [visible(f"Verdict: {reason}") for reason in statistics.reasons]
    print_as(output, statistics.contract, lambda: lines)
    return exit_code(statistics) if gate else 0


def _read_runs(paths: Sequence[Path]) -> RunView:
    """Read the shards of one run as one, with the cases that it skipped, as the verdicts beside them tell.

    The last result of a case counts, as in `agentv merge`: the one that ended last.
    """
    cases: dict[CaseKey, JudgedCase] = {}
    skipped = set[tuple[str, str | None]]()
    for path in paths:
        view = read(path)
        for case in view.cases:
            key = CaseKey(case.eval_id, case.eval_file, case.target, case.node_id)
            time = ended_at(case.result.timestamp)
            before = cases.get(key)
            earlier = None if before is None else ended_at(before.result.timestamp)
            if earlier is None or time is None or time >= earlier:
                cases[key] = case
        skipped |= ending_of(read_contract(path, view.cases)).skipped
    return view_of("", cases.values()).replace(ending=AS_JUDGED.replace(skipped=frozenset(skipped)))


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


# `agentv plan`: how many cases and repeats it takes to see a drop.

_REPEATS: Final = (1, 3, 5, 10)
_RELIABILITIES: Final = (0.9, 0.95, 0.99)
_RATES: Final = (1.0, 0.8)


def run_plan(arguments: Sequence[str]) -> int:
    """Print the plan and return the exit code: 0, or 2 if the results hold nothing to learn from."""
    options = _plan_parser().parse_args(arguments)
    cases = _cases_of(options.results)
    earlier = _cases_of(options.against) if options.against is not None else None
    plan = plan_of(cases, earlier, options.see / 100)
    if not plan.cases:
        note(f"agentv plan: no case of {locate(options.results, None)} was judged, so there is nothing to learn from")
        return USAGE_ERROR
    say("\n".join(_plan_lines(plan, options.see)))
    return 0


def _plan_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv plan",
        description="Say how many cases and repeats you need to see a drop of the pass rate in 4 of 5 runs.",
    )
    parser.add_path("results", "Results file or baseline to learn from.")
    parser.add(
        "--see",
        "The drop to see, in points of the pass rate (default: 5).",
        type=_points,
        default=5.0,
        metavar="POINTS",
    )
    parser.add_path(
        "--against",
        "Results file or baseline of another run of these cases: it tells how far single cases change.",
        metavar="FILE",
    )
    return parser


def _points(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 100 * NO_DROP < value <= 100:
        least = f"{100 * NO_DROP:g}" if 0 < value < 1 else "0"
        raise argparse.ArgumentTypeError(f"expected points, a number above {least} up to 100, got {text!r}")
    return value


def _cases_of(path: Path) -> Sequence[JudgedCase]:
    return read_baseline(path).cases if holds_baseline(path) else read(path).cases


def _plan_lines(plan: Plan, points: float) -> Iterator[str]:
    yield f"{counted(plan.cases, 'case')}, {counted(plan.answers, 'answer')} each; to see a drop of {points:g} points"
    yield "in 4 of 5 runs, compare two runs of"
    yield ""
    yield f"  {'repeats':>8}  {'cases':>8}  {'answers per run':>16}"
    for repeats in _REPEATS:
        needed = plan.cases_for(repeats)
        mark = "   <- as many cases as there are" if needed <= plan.cases else ""
        yield f"  {repeats:>8}  {needed:>8,}  {needed * repeats:>16,}{mark}"
    yield ""
    yield from plan.remarks
    yield ""
    # A suite without a fault may be red: with many cases, chance alone fails one of them.
    yield f"Chance that at least one of {counted(plan.cases, 'case')} is red, each answer passing with"
    yield f"  {'repeats':>8}  {'min_pass_rate':>13}" + "".join(f"  {rate:>6.0%}" for rate in _RELIABILITIES)
    for repeats in _REPEATS:
        for rate in _RATES if repeats > 1 else _RATES[:1]:
            chances = (chance_of_red_case(each, repeats, rate, plan.cases) for each in _RELIABILITIES)
            yield f"  {repeats:>8}  {rate:>13g}" + "".join(f"  {chance:>6.1%}" for chance in chances)
