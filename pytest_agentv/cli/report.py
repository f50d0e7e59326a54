"""`agentv report`: makes an HTML report of results files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.arguments import ArgumentParser, UsageError, parse_delta
from pytest_agentv.cli.console import count, note, say
from pytest_agentv.errors import locate
from pytest_agentv.models.options import DEFAULT_MARGIN
from pytest_agentv.reporting.escaping import visible

DEFAULT_REPORT: Final = Path("report.html")

_SHOWN: Final = 10
_EPILOG: Final = """\
The report is one file that opens offline. It holds what the results files hold: prompts, answers, reasons.
exit codes:
  0 the report was written, 2 it was not."""


def run(arguments: Sequence[str]) -> int:
    """Write a report of one run, compared with others. Raises `FileError`."""
    options = _create_parser().parse_args(arguments)
    from pytest_agentv.reporting.html.page import ReportInput, write_report  # noqa: PLC0415 - jinja2, not for --help
    from pytest_agentv.reporting.html.reading import read_run  # noqa: PLC0415 - as above

    result, *others = [read_run(path) for path in (options.run, *options.others)]
    if result.baseline is not None:
        raise UsageError(f"{options.run} is a baseline: give the results file of a run first, the baseline second")
    if options.out.resolve() in {path.resolve() for path in (options.run, *options.others)}:
        raise UsageError(f"--out={options.out} would overwrite the results that the report is made of")
    for problem in [problem for each in (result, *others) for problem in each.problems][:_SHOWN]:
        note(visible(problem))
    base, earlier = (others[0], tuple(others[1:])) if others else (None, ())
    size = write_report(options.out, ReportInput(result, base, earlier, margin=options.margin))
    cases = count(len(result.results), "case")
    say(f"Report of {cases} written to {locate(options.out.absolute(), None)} ({size / 1e6:.2f} MB)")
    if result.dropped:
        note(f"{locate(options.run, None)}: {count(result.dropped, 'line')} dropped, the last line of a case counts")
    return 0


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv report",
        description="Write an HTML report of a results file: one file that opens offline.",
        epilog=_EPILOG,
    )
    parser.add_argument("run", type=Path, help="Results file of the run (JSONL or YAML).")
    parser.add_argument(
        "others",
        type=Path,
        nargs="*",
        metavar="BASE",
        help="Results file or baseline to compare the run with; further ones are shown as its history.",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        default=DEFAULT_REPORT,
        metavar="PATH",
        help=f"File to write (default: {DEFAULT_REPORT}).",
    )
    parser.add_argument(
        "--margin",
        type=parse_delta,
        default=DEFAULT_MARGIN,
        metavar="DROP",
        help=f'Drop of the pass rate that "not worse" excludes, 0 to 1 (default: {DEFAULT_MARGIN}).',
    )
    return parser
