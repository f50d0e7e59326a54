"""`agentv convert`: converts results files from JSONL to YAML documents, or back; and to CSV and JUnit XML."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.eval import ArgumentParser, UsageError, note, say
from pytest_agentv.errors import FileError, locate
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import counted
from pytest_agentv.reports.figures import visible
from pytest_agentv.runtime.files import write_atomically
from pytest_agentv.store.readers import input_fault, iter_results
from pytest_agentv.store.writers import result_text

_OTHER_SUFFIX: Final = {".jsonl": ".yaml", ".yaml": ".jsonl", ".yml": ".jsonl"}
_FORMATS: Final = {".jsonl": "jsonl", ".yaml": "yaml", ".yml": "yaml", ".csv": "csv", ".xml": "junit"}
_ONE_WAY: Final = {"csv": ".csv", "junit": ".xml"}
_EPILOG: Final = """\
exit codes:
  0 everything was converted, 1 some records could not be read and were left out, 2 nothing was written."""


def run(arguments: Sequence[str]) -> int:
    """Convert a file. Records that cannot be read are reported and left out."""
    options = _create_parser().parse_args(arguments)
    source: Path = options.source
    kind: str | None = options.format
    target: Path | None = options.out
    if target is None:
        suffix = _ONE_WAY.get(kind or "") or (f".{kind}" if kind else _OTHER_SUFFIX.get(source.suffix))
        if suffix is None:
            raise UsageError(f"{source}: expected a file that ends in .jsonl, .yaml or .yml")
        target = source.with_suffix(suffix)
    kind = kind or _FORMATS.get(target.suffix)
    if kind is None:
        raise UsageError(f"{target}: expected a name that ends in {', '.join(_FORMATS)}; or --format")
    if target.exists() and source.exists() and target.samefile(source):
        raise UsageError(f"{target} is the file to convert; --out names another file")
    if target.exists() and (fault := input_fault(target)):
        raise UsageError(f"{target} {fault}, which this would spoil; --out names another file")
    if target.exists() and not options.force:
        raise UsageError(f"{target} exists; --force overwrites it, --out names another file")
    if source.exists() and not source.is_file():
        raise FileError(source, "cannot be converted: expected a regular file, not a folder, a pipe or a device")
    if kind in _ONE_WAY:
        return _export(source, target, kind)
    texts: list[str] = []
    is_whole = True
    for entry in iter_results(source):
        if isinstance(entry, Problem):
            is_whole = False
            note(visible(str(entry)))
        else:
            texts.append(result_text(entry, "jsonl" if kind == "jsonl" else "yaml"))
    if not texts:
        raise FileError(source, "holds no records: expected lines of JSON objects, or YAML documents that are mappings")
    write_atomically(target, "".join(texts))
    say(f"Converted {counted(len(texts), 'record')} to {locate(target.absolute(), None)}")
    return int(not is_whole)


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv convert",
        description="Convert a results file from JSONL to YAML (a document per result, texts of several lines as\n"
        "blocks), or back: keys and values stay as they are. CSV and JUnit XML hold the last result of each case.",
        epilog=_EPILOG,
    )
    parser.add_argument("source", type=Path, help="A .jsonl, .yaml or .yml file.")
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="PATH",
        help="File to write (default: the source's path with the other suffix).",
    )
    parser.add_argument(
        "--format",
        choices=tuple(dict.fromkeys(_FORMATS.values())),
        help="Format to write: jsonl, yaml, csv or junit (default: that of the suffix of the file to write).",
    )
    parser.add_argument("--force", action="store_true", help="Overwrite an existing file (default: off).")
    return parser


def _export(source: Path, target: Path, kind: str) -> int:
    """Write the last result of each case in a format that cannot be converted back."""
    from pytest_agentv.cli.report import exported, read_results  # noqa: PLC0415 - for these formats

    stored = read_results(source)
    # Excel reads a CSV file without a mark in the encoding of the system. A pipe or standard output gets none.
    mark = "\ufeff" if kind == "csv" and (target.is_file() or not target.exists()) else ""
    write_atomically(target, mark + exported(source, stored, kind))
    say(f"Converted {counted(len(stored.results), 'result')} to {locate(target.absolute(), None)}")
    return int(bool(stored.problems))
