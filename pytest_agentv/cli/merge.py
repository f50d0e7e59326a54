"""`agentv merge`: makes the results files of a run's shards one, and finds missing cases."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from pytest_agentv.cli.eval import ArgumentParser, UsageError, note, say
from pytest_agentv.errors import FileError, locate
from pytest_agentv.files.problems import Hint, Problem
from pytest_agentv.model.base import Record, counted
from pytest_agentv.model.options import OutputFormat
from pytest_agentv.model.results import EvalResult, ShardFigures
from pytest_agentv.reports.figures import ended_at
from pytest_agentv.reports.judged_cases import CaseKey
from pytest_agentv.reports.read import FINDINGS, TEXTS, iter_cases
from pytest_agentv.reports.view import failed_as_expected
from pytest_agentv.runtime.files import write_pieces_atomically
from pytest_agentv.store.answers import merge_stores
from pytest_agentv.store.readers import INCOMPLETE, Entry, holds_baseline, input_fault, iter_entries
from pytest_agentv.store.writers import result_text, verdict_path

_SUFFIXES: Final = (".jsonl", ".yaml", ".yml")
_SHOWN: Final = 10
"""How many problems and how many cases with several results are listed."""
_WORDS: Final = {
    "pass": "passed",
    "fail": "failed",
    "expected": "failed as expected",
    "error": "could not be judged",
    "scored": "judged",
}

_EPILOG: Final = """\
The last result of a case counts: the one that ended last. All lines get the run_id of the newest run, so that
`pytest --agentv-resume=FILE` continues that run: it runs the missing cases, and gives the summary, the reports, the
gates and the exit code of one run.

exit codes:
  0 all cases have a result, 1 some have none, or lines could not be read, 2 nothing was written."""


class Line(NamedTuple):
    """A line of a results file: the result of its case, without texts, which may be too large to keep."""

    path: Path
    number: int
    result: EvalResult
    status: str
    """A key of `_WORDS`."""

    @property
    def place(self) -> str:
        return f"{locate(self.path, self.number)} ({_WORDS[self.status]})"

    def is_of(self, other: "Line") -> bool:
        """Whether two lines are from one attempt: a resumed run rewrites some lines, and a merged file holds copies."""
        ours, theirs = ((ended_at(each.timestamp), each.duration_ms) for each in (self.result, other.result))
        return ours[0] is not None and ours == theirs

    def is_later(self, before: "Line") -> bool:
        """Whether a line that is read later is also the later result."""
        ended, earlier = ended_at(self.result.timestamp), ended_at(before.result.timestamp)
        return ended is None or earlier is None or ended >= earlier


@dataclass(frozen=True, slots=True)
class Part(Record):
    """A results file."""

    path: Path
    lines: tuple[tuple[CaseKey, Line], ...]
    problems: tuple[Problem, ...]

    @property
    def suite(self) -> str | None:
        """The hash of the evals that the last run with shards collected; None: there is no such run."""
        shards = (line.result.shard for _, line in reversed(self.lines))
        return next((shard.suite for shard in shards if shard is not None), None)

    @property
    def is_mocked(self) -> bool:
        return any(line.result.dry_run for _, line in self.lines)

    @property
    def eval_files(self) -> set[str]:
        return {key.eval_file for key, _ in self.lines if key.eval_file is not None}


def run(arguments: Sequence[str]) -> int:
    """Merge results files and return the exit code: 0 complete, 1 not complete, 2 nothing written."""
    options = _create_parser().parse_args(arguments)
    out: Path = options.out
    sources = list({path.absolute(): path for path in options.files}.values())
    _check_paths(sources, out, overwrite=options.overwrite)
    parts = [_read(path) for path in sources]
    fault = _foreign_fault(parts)
    if fault is not None and not options.force:
        raise UsageError(f"{fault}; --force merges them all the same")
    chosen, replaced = merge_lines(line for part in parts for line in part.lines)
    if not chosen:
        raise UsageError("the files hold no results")
    missing = find_missing(chosen)
    for text in _remarks(parts, chosen, replaced):
        note(text)
    runs = [(part.path, [line.result.run_id for _, line in part.lines if line.result.run_id]) for part in parts]
    try:
        merge_stores(runs, out.absolute())
    except (OSError, sqlite3.Error) as error:
        note(f"the answers of unfinished cases could not be copied, so that a resumed run pays for them again: {error}")
    write_pieces_atomically(out, _serialized(parts, chosen, "jsonl" if out.suffix == ".jsonl" else "yaml"))
    verdict_path(out).unlink(missing_ok=True)  # it judges results that the file no longer holds
    statuses = Counter(line.status for line in chosen.values())
    counts = ", ".join(f"{statuses[status]:,} {word}" for status, word in _WORDS.items() if statuses[status])
    results = f"{counted(len(chosen), 'result')} of {counted(len(parts), 'file')}"
    say(f"Merged {results} into {locate(out.absolute(), None)}: {counts}")
    if missing is not None and missing.cases:
        verb = "has" if missing.cases == 1 else "have"
        note(f"{missing.cases:,} of {counted(missing.total, 'case')} {verb} no result: {'; '.join(missing.shards)}")
    unread = (problem for part in parts for problem in part.problems if not isinstance(problem, Hint))
    is_whole = not missing.cases if missing is not None else not any(unread)
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


def _read(path: Path) -> Part:
    if holds_baseline(path):
        raise FileError(path, "is a baseline, not a results file")
    problems: list[Problem] = []
    lines: list[tuple[CaseKey, Line]] = []
    for found in iter_cases(path, without=TEXTS | FINDINGS):
        if isinstance(found, Problem):
            problems.append(found)
        else:
            number, key, case = found
            status = "expected" if failed_as_expected(case.result) else case.status
            lines.append((key, Line(path, number, case.result, status)))
    if not lines and any(INCOMPLETE not in problem.message for problem in problems):
        raise FileError(path, "holds no results: expected lines of JSON, or YAML documents, with eval_id and score")
    return Part(path, tuple(lines), tuple(problems))


def merge_lines(lines: Iterable[tuple[CaseKey, Line]]) -> tuple[dict[CaseKey, Line], dict[CaseKey, Line]]:
    """Return the last result of each case, and of cases with several the last one that does not count.

    It is the one that ended last or, if that is unknown, the later one in order.
    """
    chosen: dict[CaseKey, Line] = {}
    replaced: dict[CaseKey, Line] = {}
    for key, line in lines:
        before = chosen.setdefault(key, line)
        last, other = (line, before) if line.is_later(before) else (before, line)
        chosen[key] = last
        if not last.is_of(other) and last is not other:
            replaced[key] = other
    return chosen, replaced


def _newest(lines: Iterable[Line]) -> Line | None:
    newest: Line | None = None
    for line in lines:
        newest = line if newest is None or line.is_later(newest) else newest
    return newest


def _foreign_fault(parts: Sequence[Part]) -> str | None:
    """Return why files are not parts of one run, which has collected the same evals; None if they may be."""
    mocked = next((part for part in parts if part.is_mocked), None)
    real = next((part for part in parts if part.lines and not part.is_mocked), None)
    if mocked is not None and real is not None:
        return f"{locate(mocked.path, None)} holds results of a dry run, {locate(real.path, None)} does not"
    suites = {part.suite: part for part in parts if part.suite is not None}
    if len(suites) > 1:
        names = " and ".join(locate(part.path, None) for part in suites.values())
        return f"{names} are of different evals: their shards did not collect the same cases from the same eval files"
    for part in parts:
        others = set[str]().union(*(other.eval_files for other in parts if other is not part))
        if part.suite is None and part.eval_files and others and part.eval_files.isdisjoint(others):
            own, theirs = (", ".join(sorted(files)[:3]) for files in (part.eval_files, others))
            text = f"it holds results of {own}, the other files of {theirs}"
            return f"{locate(part.path, None)} is of different evals: {text}"
    return None


@dataclass(frozen=True, slots=True)
class Missing(Record):
    """The cases of shards without a result."""

    cases: int
    total: int
    shards: tuple[str, ...]
    """A text for each shard that lacks results."""


def find_missing(chosen: Mapping[CaseKey, Line]) -> Missing | None:
    """Return the missing cases of eval files, as far as shards tell; None: nothing is known.

    Tests that evaluate do not count, because only their run shows how many results they have.
    """
    found = [(key.node_id, line) for key, line in chosen.items() if not (key.eval_file or "").endswith(".py")]
    newest = _newest(line for _, line in found if line.result.shard is not None)
    if newest is None or newest.result.shard is None:
        return None
    suite, count = newest.result.shard.suite, newest.result.shard.count
    shards = [(name, shard) for name, line in found if (shard := line.result.shard) and shard.suite == suite]
    runs = {line.result.run_id for _, line in found if (shard := line.result.shard) and shard.suite == suite} - {None}
    # The result of a crashed worker's case does not name its shard, nor does one of a run that resumed merged shards.
    alone = [(name, line) for name, line in found if line.result.shard is None]
    others = {name for name, line in alone if line.status == "error" or line.result.run_id in runs}
    total = max(figures.total for _, figures in shards)
    missing = max(0, total - len({name for name, _ in shards} | others))
    return Missing(missing, total, tuple(_lacking(count, shards)) if missing else ())


def _lacking(count: int, found: Sequence[tuple[str | None, ShardFigures]]) -> Iterator[str]:
    for index in range(1, count + 1):
        of_shard = [(name, figures) for name, figures in found if (figures.index, figures.count) == (index, count)]
        wanted, there = max((figures.cases for _, figures in of_shard), default=0), len({name for name, _ in of_shard})
        if not of_shard:
            yield f"shard {index}/{count} has no results"
        elif there < wanted:
            yield f"shard {index}/{count} has results of {there:,} of its {wanted:,} cases"


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


def _remarks(parts: Sequence[Part], chosen: Mapping[CaseKey, Line], replaced: Mapping[CaseKey, Line]) -> Iterator[str]:
    for part in parts:
        yield from map(str, part.problems[:_SHOWN])
        if len(part.problems) > _SHOWN:
            yield f"{locate(part.path, None)}: {counted(len(part.problems) - _SHOWN, 'more problem')}"
        if not part.lines and not part.problems:
            yield f"{locate(part.path, None)}: holds no results"
    for key, other in list(replaced.items())[:_SHOWN]:
        yield f"{key.label}: the result in {chosen[key].place} counts, the one in {other.place} does not"
    if len(replaced) > _SHOWN:
        yield f"{counted(len(replaced) - _SHOWN, 'more case')} with several results"


def _serialized(parts: Sequence[Part], chosen: Mapping[CaseKey, Line], output_format: OutputFormat) -> Iterator[bytes]:
    """Yield the results that count, with the id of the newest run: a resumed run can resume only one."""
    newest = _newest(line for line in chosen.values() if line.result.run_id is not None)
    for part in parts:
        lines = {line.number for line in chosen.values() if line.path == part.path}
        for entry in iter_entries(part.path) if lines else ():
            if isinstance(entry, Entry) and entry.line in lines:
                own = {"run_id": newest.result.run_id} if newest and "run_id" in entry.value else {}
                yield result_text({**entry.value, **own}, output_format).encode()
