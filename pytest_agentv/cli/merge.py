"""`agentv merge`: makes the results files of a run's shards one."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from pytest_agentv.cli.eval import ArgumentParser, UsageError, note, say
from pytest_agentv.errors import FileError, locate
from pytest_agentv.model.base import counted
from pytest_agentv.model.options import OutputFormat
from pytest_agentv.reports.merge import (
    Merged,
    ResultsFile,
    changed_targets,
    find_missing,
    foreign_fault,
    merge_parts,
    read_part,
)
from pytest_agentv.runtime.files import write_pieces_atomically
from pytest_agentv.store.answers import merge_stores
from pytest_agentv.store.readers import INCOMPLETE, Entry, holds_baseline, input_fault, iter_entries
from pytest_agentv.store.writers import result_text, verdict_path

_SUFFIXES: Final = (".jsonl", ".yaml", ".yml")
_SHOWN: Final = 10
"""How many problems and how many cases with several results are listed."""

_EPILOG: Final = """\
The last result of a case counts: the one that ended last. All lines get the run_id of the newest run, so that
`pytest --agentv-resume=FILE` continues that run: it runs the missing cases, and gives the summary, the reports, the
gates and the exit code of one run.

exit codes:
  0 all cases have a result, 1 some have none, or lines could not be read, 2 nothing was written."""


def run(arguments: Sequence[str]) -> int:
    """Merge results files and return the exit code: 0 complete, 1 not complete, 2 nothing written."""
    options = _create_parser().parse_args(arguments)
    out: Path = options.out
    sources = list({path.absolute(): path for path in options.files}.values())
    _check_paths(sources, out, overwrite=options.overwrite)
    parts: list[ResultsFile] = []
    for path in sources:
        if holds_baseline(path):
            raise FileError(path, "is a baseline, not a results file")
        parts.append(part := read_part(path))
        if not part.results and any(INCOMPLETE not in problem.message for problem in part.problems):
            text = "holds no results: expected lines of JSON, or YAML documents, with eval_id and score"
            raise FileError(path, text)
    fault = foreign_fault(parts)
    if fault is not None and not options.force:
        raise UsageError(f"{fault}; --force merges them all the same")
    merged = merge_parts(parts)
    if not merged.chosen:
        raise UsageError("the files hold no results")
    missing = find_missing(merged)
    for text in _remarks(parts, merged):
        note(text)
    runs = [
        (part.path, [run_id for each in part.results.values() if (run_id := each.result.run_id) is not None])
        for part in parts
    ]
    try:
        merge_stores(runs, out.absolute())
    except (OSError, sqlite3.Error) as error:
        note(f"the answers of unfinished cases could not be copied, so that a resumed run pays for them again: {error}")
    write_pieces_atomically(out, _serialized(parts, merged, "jsonl" if out.suffix == ".jsonl" else "yaml"))
    verdict_path(out).unlink(missing_ok=True)  # it judges results that the file no longer holds
    statuses = Counter(line.status for line in merged.chosen.values())
    words = {"pass": "passed", "fail": "failed", "fail as expected": "failed as expected"}
    words |= {"error": "could not be judged", "judged": "judged"}
    counts = ", ".join(f"{statuses[status]:,} {word}" for status, word in words.items() if statuses[status])
    results = f"{counted(len(merged.chosen), 'result')} of {counted(len(parts), 'file')}"
    say(f"Merged {results} into {locate(out.absolute(), None)}{f': {counts}' if counts else ''}")
    if missing is not None and missing.cases:
        verb = "has" if missing.cases == 1 else "have"
        note(f"{missing.cases:,} of {counted(missing.total, 'case')} {verb} no result: {'; '.join(missing.shards)}")
    is_whole = not missing.cases if missing is not None else not any(part.problems for part in parts)
    return 0 if is_whole or options.allow_missing else 1


def _create_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="agentv merge",
        description="Join the results files of a run's shards or attempts into one file with one result per case.",
        epilog=_EPILOG,
    )
    parser.add_path("files", "Results files, JSONL or YAML.", nargs="+")
    parser.add_path("-o", "--out", "File to write, JSONL or YAML.", required=True)
    parser.add_flag("--force", "Merge files of different evals all the same.")
    parser.add_flag("--overwrite", "Overwrite PATH if it exists; not needed if it is one of the files.")
    parser.add_flag("--allow-missing", "Exit with 0 even if cases have no result.")
    return parser


def _check_paths(sources: Sequence[Path], out: Path, *, overwrite: bool) -> None:
    if out.suffix not in _SUFFIXES:
        raise UsageError(f"{out}: expected a name that ends in {', '.join(_SUFFIXES[:-1])} or {_SUFFIXES[-1]}")
    if fault := input_fault(out):
        raise UsageError(f"{out} {fault}, which this would spoil")
    for path in sources:
        if path.exists() and not path.is_file():
            raise FileError(path, "cannot be merged: expected a regular file, not a folder, a pipe or a device")
    if out.exists() and not overwrite and not any(path.exists() and out.samefile(path) for path in sources):
        raise UsageError(f"{out} exists; --overwrite overwrites it, and given as one of the files it is merged as well")


def _remarks(parts: Sequence[ResultsFile], merged: Merged) -> Iterator[str]:
    for part in parts:
        yield from map(str, (*part.hints, *part.problems[:_SHOWN]))
        if len(part.problems) > _SHOWN:
            yield f"{locate(part.path, None)}: {counted(len(part.problems) - _SHOWN, 'more problem')}"
        if not part.results and not part.problems:
            yield f"{locate(part.path, None)}: holds no results"
    own = {name.eval_id for part in parts for name in part.results if name.eval_file is not None}
    for part in parts if own else ():
        if ids := part.foreign_ids:
            text = "without eval file and run, as AgentV's own, are cases of their own, also those whose id others have"
            yield f"{locate(part.path, None)}: {counted(len(ids), 'result')} {text}"
    for name, other in list(merged.replaced.items())[:_SHOWN]:
        last = merged.chosen[name]
        there = f"{locate(other.path, other.number)} ({other.status})"
        here = f"{locate(last.path, last.number)} ({last.status})"
        yield f"{name.label}: the result in {here} counts, the one in {there} does not"
    if len(merged.replaced) > _SHOWN:
        yield f"{counted(len(merged.replaced) - _SHOWN, 'more case')} with several results"
    for target, first, changed in islice(changed_targets(parts, merged), _SHOWN):
        files = f"{locate(first, None)} and {locate(changed, None)}"
        yield f"{files}: the target {target!r} was not defined in the same way in both runs (target_hash)"


def _serialized(parts: Sequence[ResultsFile], merged: Merged, output_format: OutputFormat) -> Iterator[bytes]:
    run_id = merged.run_id
    for part in parts:
        lines = {line.number for line in merged.chosen.values() if line.path == part.path}
        for entry in iter_entries(part.path) if lines else ():
            if isinstance(entry, Entry) and entry.line in lines:
                own = {"run_id": run_id} if "run_id" in entry.value else {}
                yield result_text({**entry.value, **own}, output_format).encode()
