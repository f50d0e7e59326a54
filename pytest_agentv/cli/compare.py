"""`agentv compare`: two results files, case by case."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.arguments import ArgumentParser, parse_delta
from pytest_agentv.cli.console import count, note, say
from pytest_agentv.errors import FileError, locate
from pytest_agentv.reporting.comparison import DEFAULT_THRESHOLD, Scores, compare_scores, comparison_lines, read_scores
from pytest_agentv.reporting.escaping import visible

_SHOWN: Final = 10
"""How many problems, and how many duplicates, of a file are named."""

_EPILOG: Final = """\
exit codes:
  0 the candidate's mean score is as good as the baseline's, or better; 1 it is worse;
  2 the files cannot be compared."""


def run(arguments: Sequence[str]) -> int:
    """Compare two results files and return the exit code that tells which is better."""
    options = _create_parser().parse_args(arguments)
    first, second = _read(options.baseline), _read(options.candidate)
    comparison = compare_scores(first.by_id, second.by_id, options.threshold)
    if not comparison.matched:
        note("agentv compare: no eval_id is in both files, so there is nothing to compare")
    lines = comparison_lines(comparison, str(options.baseline), str(options.candidate))
    if options.format == "table":
        say("\n".join(lines))
    else:
        json.dump(comparison.contract(), sys.stdout, indent=2)  # piece by piece: the whole text would double the memory
        say()
        if sys.stderr.isatty():
            note("\n".join(lines))
    return int(comparison.is_worse)


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv compare",
        description="Compare the scores of two results files (JSONL or YAML), matched by eval_id.",
        epilog=_EPILOG,
    )
    parser.add_argument("baseline", type=Path, help="Results file of the run to compare with.")
    parser.add_argument("candidate", type=Path, help="Results file of the run that may be better or worse.")
    parser.add_argument(
        "-t",
        "--threshold",
        type=parse_delta,
        default=DEFAULT_THRESHOLD,
        metavar="DELTA",
        help=f"Least difference that is a win or a loss, 0 to 1 (default: {DEFAULT_THRESHOLD}).",
    )
    parser.add_argument(
        "-f",
        "--format",
        choices=("json", "table"),
        default="json",
        help="What is printed (default: json, and the table on standard error where that is a terminal).",
    )
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="The same as --format json.")
    return parser


def _read(path: Path) -> Scores:
    scores = read_scores(path)
    for text in _remarks(path, scores):
        note(visible(text))
    if not scores.by_id:
        raise FileError(path, "holds no results: expected lines of JSON, or YAML documents, with eval_id and score")
    return scores


def _remarks(path: Path, scores: Scores) -> Iterator[str]:
    yield from map(str, scores.problems[:_SHOWN])
    if len(scores.problems) > _SHOWN:
        yield f"{locate(path, None)}: {count(len(scores.problems) - _SHOWN, 'more problem')}"
    for eval_id in list(scores.duplicates)[:_SHOWN]:
        yield f"{locate(path, None)}: {scores.duplicates[eval_id]} results of {eval_id!r}; the last one counts"
    if len(scores.duplicates) > _SHOWN:
        yield f"{locate(path, None)}: {count(len(scores.duplicates) - _SHOWN, 'more id')} with several results"
    if scores.broken:
        noun = "result is an error and counts" if scores.broken == 1 else "results are errors and count"
        yield f"{locate(path, None)}: {scores.broken:,} {noun} with the score in the file"
