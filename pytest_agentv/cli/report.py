"""`agentv report` reports a finished run; `agentv convert` writes its results in another format."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.compare import read_run
from pytest_agentv.cli.eval import ArgumentParser, UsageError, add_margin, note, say
from pytest_agentv.errors import FileError, locate
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import counted
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.ci import code_quality, comment_lines, junit_xml, results_csv
from pytest_agentv.reports.figures import visible
from pytest_agentv.reports.verdict import compared, read_contract
from pytest_agentv.reports.view import RunView, ending_of, expected_failures, mocked_part, unexpected_passes
from pytest_agentv.runtime.files import write_atomically
from pytest_agentv.store.readers import REPORT, foreign_fault, input_fault, iter_entries
from pytest_agentv.store.writers import result_text, verdict_path

DEFAULT_REPORT: Final = Path("report.html")

_FORMATS: Final = ("html", "markdown", "gitlab-codequality", "junit")
_EPILOG: Final = """\
exit codes:
  0 the report was written, 2 it was not. The report itself says how the run went."""


def run(arguments: Sequence[str]) -> int:
    """Write a report of a run, compared with another one. Raises `FileError`."""
    options = _create_parser().parse_args(arguments)
    is_page = options.out is not None and options.out.suffix in (".html", ".htm")
    written = options.format or ("html" if is_page else "markdown")
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
    stored, *others = [read_results(path) for path in (options.run, *options.base)]
    if written == "markdown":
        base = others[0] if others else None
        lines = comment_lines(with_ending(stored, options.run), base, Masker.of_environment())
        text = "".join(f"{line}\n" for line in lines)
    else:
        text = exported(options.run, stored, written)
    if out is None:
        say(text.rstrip("\n"))
    else:
        write_atomically(out, text)
        say(f"Report written to {locate(out.absolute(), None)}")
    return 0


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv report",
        description="Write a report of a results file: an HTML page that opens offline, a comment for a pull request,\n"
        "or a file for a CI service.",
        epilog=_EPILOG,
    )
    parser.add_path("run", "Results file of the run (JSONL or YAML).")
    parser.add_path(
        "base",
        "Results file of the run to compare with, in HTML and Markdown; for HTML also a baseline, and older runs.",
        nargs="*",
        default=[],
    )
    parser.add(
        "--format",
        "html, markdown (a comment for a pull request), gitlab-codequality or junit (default: html if the name "
        "of the output ends in .html, else markdown).",
        choices=_FORMATS,
    )
    parser.add_path("-o", "--out", "File to write (default: standard output; for HTML report.html).")
    add_margin(parser, ", in HTML")
    return parser


def _write_html(run: Path, bases: Sequence[Path], out: Path | None, margin: float) -> int:
    from pytest_agentv.reports.html.page import write_report  # noqa: PLC0415 - jinja2, for this format

    path = out or DEFAULT_REPORT
    masker = Masker.of_environment()
    view, *others = [read_run(each, (), masker, or_baseline=True) for each in (run, *bases)]
    if view.baseline is not None:
        raise UsageError(f"{run} is a baseline: give the results file of a run first, the baseline second")
    base, earlier = (others[0], others[1:]) if others else (None, [])
    # Nothing can be compared with a dry run.
    is_dry = any("dry_run" in case.flags for each in (view, base) if each is not None for case in each.cases)
    view = compared(with_ending(view, run), None if is_dry else base, margin=margin)
    size = write_report(path, view, earlier)
    cases = counted(len(view.results), "case")
    say(f"Report of {cases} written to {locate(path.absolute(), None)} ({size / 1e6:.2f} MB)")
    return 0


def exported(run: Path, stored: RunView, kind: str) -> str:
    """Return the text of a file with the results of a run, as csv, gitlab-codequality or junit."""
    masker = Masker.of_environment()
    if kind == "csv":
        return results_csv(stored, masker)
    stored = with_ending(stored, run)
    if kind == "junit":
        return junit_xml(stored, masker)
    return json.dumps(code_quality(stored, masker), indent=2) + "\n"


def read_results(path: Path) -> RunView:
    """Read a run, masked once more. Raises `FileError` for a baseline, and for results of other programs."""
    view = read_run(path, (), Masker.of_environment())
    if not any(result.timestamp for result in view.results):
        raise FileError(path, "holds no results of a run, only scores of another program: -o report.html shows these")
    return view


def with_ending(view: RunView, path: Path) -> RunView:
    """Return a run with what its results tell of marks, and the file beside them of the verdict on them."""
    contract = read_contract(path, view.cases)
    if contract is None and verdict_path(path).is_file():
        note(f"{locate(verdict_path(path), None)}: left out, it is no verdict on these results")
    ending = ending_of(contract)
    ending = ending.replace(
        unjudged=mocked_part(view.results) or ending.unjudged,
        expected=expected_failures(view.results),
        unexpected=unexpected_passes(view.results),
    )
    return view.replace(ending=ending)


# `agentv convert`: converts results files from JSONL to YAML documents, or back; and to CSV and JUnit XML.

_OTHER_SUFFIX: Final = {".jsonl": ".yaml", ".yaml": ".jsonl", ".yml": ".jsonl"}
_SUFFIXES: Final = {".jsonl": "jsonl", ".yaml": "yaml", ".yml": "yaml", ".csv": "csv", ".xml": "junit"}
_ONE_WAY: Final = {"csv": ".csv", "junit": ".xml"}
_CONVERT_EPILOG: Final = """\
exit codes:
  0 everything was converted, 1 some records could not be read and were left out, 2 nothing was written."""


def run_convert(arguments: Sequence[str]) -> int:
    """Convert a file. Records that cannot be read are reported and left out."""
    options = _convert_parser().parse_args(arguments)
    source: Path = options.source
    kind: str | None = options.format
    target: Path | None = options.out
    if target is None:
        suffix = _ONE_WAY.get(kind or "") or (f".{kind}" if kind else _OTHER_SUFFIX.get(source.suffix))
        if suffix is None:
            raise UsageError(f"{source}: expected a file that ends in .jsonl, .yaml or .yml")
        target = source.with_suffix(suffix)
    kind = kind or _SUFFIXES.get(target.suffix)
    if kind is None:
        raise UsageError(f"{target}: expected a name that ends in {', '.join(_SUFFIXES)}; or --format")
    if target.exists() and source.exists() and target.samefile(source):
        raise UsageError(f"{target} is the file to convert; --out names another file")
    if target.exists() and (fault := input_fault(target)):
        raise UsageError(f"{target} {fault}, which this would spoil; --out names another file")
    if target.exists() and not options.force:
        raise UsageError(f"{target} exists; --force overwrites it, --out names another file")
    if source.exists() and not source.is_file():
        raise FileError(source, "cannot be converted: expected a regular file, not a folder, a pipe or a device")
    if kind in _ONE_WAY:  # with the last result of each case
        stored = read_results(source)
        # Excel reads a CSV file without a mark in the encoding of the system. A pipe or standard output gets none.
        mark = "\ufeff" if kind == "csv" and (target.is_file() or not target.exists()) else ""
        write_atomically(target, mark + exported(source, stored, kind))
        say(f"Converted {counted(len(stored.results), 'result')} to {locate(target.absolute(), None)}")
        return int(bool(stored.problems))
    texts: list[str] = []
    is_whole = True
    for entry in iter_entries(source):
        if isinstance(entry, Problem):
            is_whole = False
            note(visible(str(entry)))
        else:
            texts.append(result_text(entry.value, "jsonl" if kind == "jsonl" else "yaml"))
    if not texts:
        raise FileError(source, "holds no records: expected lines of JSON objects, or YAML documents that are mappings")
    write_atomically(target, "".join(texts))
    say(f"Converted {counted(len(texts), 'record')} to {locate(target.absolute(), None)}")
    return int(not is_whole)


def _convert_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv convert",
        description="Convert a results file from JSONL to YAML (a document per result, texts of several lines as\n"
        "blocks), or back: keys and values stay as they are. CSV and JUnit XML hold the last result of each case.",
        epilog=_CONVERT_EPILOG,
    )
    parser.add_path("source", "A .jsonl, .yaml or .yml file.")
    parser.add_path("-o", "--out", "File to write (default: the source's path with the other suffix).")
    parser.add(
        "--format",
        "Format to write: jsonl, yaml, csv or junit (default: that of the suffix of the file to write).",
        choices=tuple(dict.fromkeys(_SUFFIXES.values())),
    )
    parser.add_flag("--force", "Overwrite an existing file.")
    return parser
