"""`agentv compare`: compares two results files case by case, or shows a table of more."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.arguments import USAGE_EXIT_CODE, ArgumentParser, add_margin, parse_delta
from pytest_agentv.cli.console import note, say
from pytest_agentv.errors import FileError, locate
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.comparing.case_scores import Scores, align, read_scores
from pytest_agentv.reporting.comparing.comparison import (
    DEFAULT_THRESHOLD,
    Comparison,
    compare_scores,
    comparison_lines,
    listed,
)
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.readers import holds_baseline

_SHOWN: Final = 10
"""How many problems and how many duplicates are listed per file."""

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
        from pytest_agentv.cli.comparing.compare_statistics import compare_statistics  # noqa: PLC0415 - if asked for

        runs = [options.candidate, *options.more]
        output = options.format or "table"
        return compare_statistics(options.baseline, runs, margin=options.margin, output=output, gate=options.gate)
    for path in (options.baseline, options.candidate, *options.more):
        if holds_baseline(path):
            raise FileError(path, "is a baseline, not a results file: --statistics compares results with a baseline")
    if options.more:
        from pytest_agentv.cli.comparing.compare_runs import compare_files  # noqa: PLC0415 - for three files or more

        files = (options.baseline, options.candidate, *options.more)
        return compare_files(files, options.format or "table", _check, allow_missing=options.allow_missing)
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
        return USAGE_EXIT_CODE
    return int(comparison.is_worse)


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
    _add_statistics_options(parser)
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


def _add_statistics_options(parser: ArgumentParser) -> None:
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
        yield f"{locate(path, None)}: {counted(errors, 'case')} could not be judged and {_has(errors)} no score"


def _has(number: int) -> str:
    return "has" if number == 1 else "have"
