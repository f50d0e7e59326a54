"""`agentv report`: tells others of a run that is over."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.cli.arguments import ArgumentParser
from pytest_agentv.cli.console import note, say
from pytest_agentv.errors import locate
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.ci.stored import read_stored
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.runtime.files import write_atomically

_Results = Sequence[EvalResult]
_EPILOG: Final = """\
exit codes:
  0 the report was written, 2 it was not. The report itself says how the run went."""


def run(arguments: Sequence[str]) -> int:
    """Write a report of a run, compared with another one. Raises `FileError`."""
    options = _create_parser().parse_args(arguments)
    runs = [read_stored(path) for path in (options.run, options.base) if path is not None]
    for remark in [remark for each in runs for remark in each.remarks]:
        note(visible(remark))
    masker = Masker()
    masker.add_environment(os.environ)
    base = runs[1].results if len(runs) > 1 else None
    text = _WRITERS[options.format](runs[0].results, base, masker)
    if options.out is None:
        say(text.rstrip("\n"))
    else:
        write_atomically(options.out, text)
        say(f"Report written to {locate(options.out.absolute(), None)}")
    return 0


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv report",
        description="Write a report of a results file: a comment for a pull request, or what a CI service shows.",
        epilog=_EPILOG,
    )
    parser.add_argument("run", type=Path, help="Results file of the run (JSONL or YAML).")
    parser.add_argument("base", type=Path, nargs="?", help="Results file of the run to compare with.")
    parser.add_argument(
        "--format",
        choices=tuple(_WRITERS),
        default="markdown",
        help="markdown (a comment for a pull request), gitlab-codequality or junit (default: markdown).",
    )
    parser.add_argument("-o", "--out", type=Path, metavar="PATH", help="File to write (default: standard output).")
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
