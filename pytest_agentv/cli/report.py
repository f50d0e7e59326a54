"""`agentv report`: tells others of a run that is over, as a page to look at or as text for a CI service."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.arguments import ArgumentParser, UsageError, parse_delta
from pytest_agentv.cli.console import count, note, say
from pytest_agentv.errors import locate
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options.defaults import DEFAULT_MARGIN
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.ci.stored import read_stored
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.runtime.files import write_atomically

_Results = Sequence[EvalResult]
DEFAULT_REPORT: Final = Path("report.html")

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
    if written == "html":
        return _write_html(options.run, options.base, options.out, options.margin)
    if len(options.base) > 1:
        raise UsageError(f"only --format=html takes several runs to compare with, got {len(options.base)}")
    return _write_text(options.run, options.base, options.out, written)


def _write_text(run: Path, bases: Sequence[Path], out: Path | None, written: str) -> int:
    runs = [read_stored(path) for path in (run, *bases)]
    for remark in [remark for each in runs for remark in each.remarks]:
        note(visible(remark))
    masker = Masker()
    masker.add_environment(os.environ)
    base = runs[1].results if len(runs) > 1 else None
    text = _WRITERS[written](runs[0].results, base, masker)
    if out is None:
        say(text.rstrip("\n"))
    else:
        write_atomically(out, text)
        say(f"Report written to {locate(out.absolute(), None)}")
    return 0


def _write_html(run: Path, bases: Sequence[Path], out: Path | None, margin: float) -> int:
    from pytest_agentv.reporting.html.page import ReportInput, write_report  # noqa: PLC0415 - jinja2, for this format
    from pytest_agentv.reporting.html.reading import read_run  # noqa: PLC0415 - as above

    path = out or DEFAULT_REPORT
    result, *others = [read_run(each) for each in (run, *bases)]
    if result.baseline is not None:
        raise UsageError(f"{run} is a baseline: give the results file of a run first, the baseline second")
    for problem in [problem for each in (result, *others) for problem in each.problems][:_SHOWN]:
        note(visible(problem))
    base, earlier = (others[0], tuple(others[1:])) if others else (None, ())
    size = write_report(path, ReportInput(result, base, earlier, margin=margin))
    cases = count(len(result.results), "case")
    say(f"Report of {cases} written to {locate(path.absolute(), None)} ({size / 1e6:.2f} MB)")
    if result.dropped:
        note(f"{locate(run, None)}: {count(result.dropped, 'line')} dropped, the last line of a case counts")
    return 0


def _format_of(out: Path | None) -> str:
    return "html" if out is not None and out.suffix in (".html", ".htm") else "markdown"


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv report",
        description="Write a report of a results file: an HTML page that opens offline, a comment for a pull request,\n"
        "or what a CI service shows.",
        epilog=_EPILOG,
    )
    parser.add_argument("run", type=Path, help="Results file of the run (JSONL or YAML).")
    parser.add_argument(
        "base",
        type=Path,
        nargs="*",
        help="Results file of the run to compare with; for HTML also a baseline, and older runs behind it.",
    )
    parser.add_argument(
        "--format",
        choices=("html", *_WRITERS),
        help="html, markdown (a comment for a pull request), gitlab-codequality or junit (default: html if the name "
        "of the output ends in .html, else markdown).",
    )
    parser.add_argument(
        "-o", "--out", type=Path, metavar="PATH", help="File to write (default: standard output; for HTML report.html)."
    )
    parser.add_argument(
        "--margin",
        type=parse_delta,
        default=DEFAULT_MARGIN,
        metavar="DROP",
        help=f'Drop of the pass rate that "not worse" excludes, 0 to 1, in HTML (default: {DEFAULT_MARGIN}).',
    )
    return parser


def _markdown(results: _Results, base: _Results | None, masker: Masker) -> str:
    from pytest_agentv.reporting.ci.comment import comment_lines  # noqa: PLC0415 - each format alone

    return "".join(f"{line}\n" for line in comment_lines(results, base, masker))


def _code_quality(results: _Results, _: _Results | None, masker: Masker) -> str:
    import json  # noqa: PLC0415 - as above

    from pytest_agentv.reporting.ci.code_quality import code_quality  # noqa: PLC0415 - as above

    return json.dumps(code_quality(results, masker), indent=2) + "\n"


def _junit(results: _Results, _: _Results | None, masker: Masker) -> str:
    from pytest_agentv.reporting.ci.junit import junit_xml  # noqa: PLC0415 - as above

    return junit_xml(results, masker)


_WRITERS: Final[Mapping[str, Callable[[_Results, _Results | None, Masker], str]]] = {
    "markdown": _markdown,
    "gitlab-codequality": _code_quality,
    "junit": _junit,
}
