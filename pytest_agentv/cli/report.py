"""`agentv report`: reports a finished run, as an HTML page or as text for a CI service."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.arguments import ArgumentParser, UsageError, add_margin
from pytest_agentv.cli.console import note, say
from pytest_agentv.cli.exports import ending_beside, exported, read_ended
from pytest_agentv.errors import locate
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.ci.stored import StoredRun
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.readers import REPORT, foreign_fault
from pytest_agentv.reporting.verdicts.case_reading import cases_of_run
from pytest_agentv.runtime.files import write_atomically

DEFAULT_REPORT: Final = Path("report.html")

_FORMATS: Final = ("html", "markdown", "gitlab-codequality", "junit")
_SHOWN: Final = 10
_EPILOG: Final = """\
exit codes:
  0 the report was written, 2 it was not. The report itself says how the run went."""


def run(arguments: Sequence[str]) -> int:
    """Write a report of a run, compared with another one. Raises `FileError`."""
    options = _create_parser().parse_args(arguments)
    written = options.format or _format_of(options.out)
    if options.out is not None and options.out.resolve() in {each.resolve() for each in (options.run, *options.base)}:
        raise UsageError(f"--out={options.out} would overwrite the results that the report is made of")
    out = options.out or (DEFAULT_REPORT if written == "html" else None)
    if out is not None and (fault := foreign_fault(out, REPORT)):
        raise UsageError(f"--out={out} {fault}, which this would spoil")
    if written == "html":
        return _write_html(options.run, options.base, options.out, options.margin)
    if options.base and written != "markdown":
        raise UsageError(f"--format={written} compares with no other run: leave out {options.base[0]}")
    if len(options.base) > 1:
        raise UsageError(f"only --format=html takes several runs to compare with, got {len(options.base)}")
    return _write_text(options.run, options.base, options.out, written)


def _write_text(run: Path, bases: Sequence[Path], out: Path | None, written: str) -> int:
    stored, *others = [read_ended(path) for path in (run, *bases)]
    if written == "markdown":
        text = _comment(run, stored, others[0] if others else None)
    else:
        text = exported(run, stored, written)
    if out is None:
        say(text.rstrip("\n"))
    else:
        write_atomically(out, text)
        say(f"Report written to {locate(out.absolute(), None)}")
    return 0


def _comment(run: Path, stored: StoredRun, base: StoredRun | None) -> str:
    from pytest_agentv.reporting.ci.comment import comment_lines  # noqa: PLC0415 - for this format

    ending = ending_beside(run, cases_of_run(stored.results), stored.results)
    lines = comment_lines(
        stored.results,
        None if base is None else base.results,
        Masker.of_environment(),
        ending=ending,
        earlier=stored.earlier,
        base_earlier=() if base is None else base.earlier,
    )
    return "".join(f"{line}\n" for line in lines)


def _write_html(run: Path, bases: Sequence[Path], out: Path | None, margin: float) -> int:
    from pytest_agentv.reporting.html.page import ReportInput, write_report  # noqa: PLC0415 - jinja2, for this format
    from pytest_agentv.reporting.html.reading import read_run  # noqa: PLC0415 - as above

    path = out or DEFAULT_REPORT
    masker = Masker.of_environment()
    result, *others = [read_run(each, masker) for each in (run, *bases)]
    if result.baseline is not None:
        raise UsageError(f"{run} is a baseline: give the results file of a run first, the baseline second")
    for problem in [problem for each in (result, *others) for problem in each.problems][:_SHOWN]:
        note(visible(problem))
    base, earlier = (others[0], tuple(others[1:])) if others else (None, ())
    ending = ending_beside(run, result.cases, [each.value for each in result.results])
    size = write_report(path, ReportInput(result, base, earlier, margin=margin, ending=ending))
    cases = counted(len(result.results), "case")
    say(f"Report of {cases} written to {locate(path.absolute(), None)} ({size / 1e6:.2f} MB)")
    if result.dropped:
        note(f"{locate(run, None)}: {counted(result.dropped, 'line')} dropped, the last line of a case counts")
    return 0


def _format_of(out: Path | None) -> str:
    return "html" if out is not None and out.suffix in (".html", ".htm") else "markdown"


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv report",
        description="Write a report of a results file: an HTML page that opens offline, a comment for a pull request,\n"
        "or a file for a CI service.",
        epilog=_EPILOG,
    )
    parser.add_argument("run", type=Path, help="Results file of the run (JSONL or YAML).")
    parser.add_argument(
        "base",
        type=Path,
        nargs="*",
        default=[],
        help="Results file of the run to compare with, in HTML and Markdown; for HTML also a baseline, and older runs.",
    )
    parser.add_argument(
        "--format",
        choices=_FORMATS,
        help="html, markdown (a comment for a pull request), gitlab-codequality or junit (default: html if the name "
        "of the output ends in .html, else markdown).",
    )
    parser.add_argument(
        "-o", "--out", type=Path, metavar="PATH", help="File to write (default: standard output; for HTML report.html)."
    )
    add_margin(parser, ", in HTML")
    return parser
