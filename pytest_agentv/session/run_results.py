"""The results file in the process that owns the terminal: read in the same way with and without workers."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest

from pytest_agentv.errors import AgentvError, locate
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import Record, counted
from pytest_agentv.model.messages import ExecutionMetrics
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import RESULT_FIELDS, EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.figures import cost_of, duration_of, tokens_of
from pytest_agentv.runtime.files import InUse
from pytest_agentv.session.identity import RunIdentity
from pytest_agentv.store.readers import REPORT, RESULTS, RecordedResult, foreign_fault, iter_recorded
from pytest_agentv.store.writers import ResultSink, verdict_path

if TYPE_CHECKING:
    from pytest_agentv.session.workers import CrashWatch

_Case: TypeAlias = tuple[str | None, str]


_NAMED: Final = 3
_BLANK: Final[Mapping[str, object]] = {"candidate_answer": "", "hits": (), "misses": ()}
"""What stands for fields that have no default; None for the others."""


def _fields(size: str) -> dict[str, object]:
    """Return the fields of a size, with what they are without their content."""
    return {name: _BLANK.get(name) for name, field in RESULT_FIELDS.items() if field.size == size}


_LONG: Final = _fields("text")
_FINDINGS: Final = _fields("finding")
"""A summary shows these only for cases that failed or broke."""
_SHARED: Final = tuple(_fields("shared"))
_MOST_SHARED: Final = 1000
"""How many values are shared. Most runs have few scores."""


@dataclass(frozen=True, slots=True)
class RunResults(Record):
    """The results of a run."""

    results: tuple[EvalResult, ...] = ()
    """The last result of each case, in the order of files and lines."""
    replaced: int = 0
    """How many results a later one of the same case replaced, for example after a rerun."""
    problems: tuple[Problem, ...] = ()
    """Lines that could not be read."""


class KnownLines:
    """The results of the passed cases whose lines this process wrote, without their long parts.

    The end of the run reads these lines like all others, but needs no time to parse them. A line is known by the hash
    of its bytes, so a line that somebody has changed is parsed.
    """

    def __init__(self) -> None:
        self._results: dict[int, EvalResult] = {}

    def note(self, line: bytes, result: EvalResult) -> None:
        if result.status == "pass":
            self._results[hash(line)] = result.replace(**_shortened(result))

    def find(self, line: bytes) -> EvalResult | None:
        return self._results.get(hash(line))


def read_run(
    identity: RunIdentity,
    reported: Mapping[str, str] | None = None,
    evaluated: Container[str | None] = (),
    *,
    with_texts: bool = False,
    known: KnownLines | None = None,
) -> RunResults:
    """Read the results of a run.

    Args:
        identity: Names the run and its file.
        reported: The node ids of the items that ran, mapped to themselves. A resumed run counts these and the new lines
            of its file. None: all results count.
        evaluated: The node ids of the items that have a result of this run, or one that it has taken over.
        with_texts: Whether to keep prompts, answers, traces and findings, which are the largest part of a result. A
            summary shows only the findings of cases that did not pass.
        known: The lines that this process wrote.
    """
    latest: dict[_Case, EvalResult] = {}
    replaced = 0
    problems: list[Problem] = []
    slim = _Slimmer(reported or {})
    # A resumed run needs none of these: it writes the results of its own target again, after all others.
    hidden = frozenset(identity.resumed.hidden if identity.resumed and identity.retries_only else ())
    old = _lines_before(identity)
    for entry in _entries(identity, None if with_texts else known):
        if isinstance(entry, Problem):
            problems.append(entry)
        elif reported is None or _is_counted(entry, identity, reported):
            result = entry.result if with_texts or entry.is_known else slim.without_texts(entry.result)
            key = (result.node_id, result.eval_id)
            if (before := latest.get(key)) is not None:
                if (*key, result.target) in hidden and entry.line <= old and result.node_id not in evaluated:
                    result = before
                replaced += 1
            latest[key] = result
    return RunResults(
        tuple(sorted(latest.values(), key=lambda result: (result.eval_file or "", result.line or 0))),
        replaced,
        tuple(problems),
    )


def recorded_now(identity: RunIdentity) -> Iterator[EvalResult]:
    """Yield the results that this run itself wrote, without those that it goes on with."""
    after = _lines_before(identity)
    for entry in _entries(identity):
        if not isinstance(entry, Problem) and entry.line > after:
            yield entry.result


class _Slimmer:
    """Makes results small: removes their long parts, and shares equal values."""

    def __init__(self, node_ids: Mapping[str, str]) -> None:
        self._node_ids = node_ids
        self._same: dict[object, object] = {}

    def without_texts(self, result: EvalResult) -> EvalResult:
        share = self._same.setdefault if len(self._same) < _MOST_SHARED else self._same.get
        changes: dict[str, object] = {
            name: share(value, value) for name in _SHARED if (value := getattr(result, name)) is not None
        }
        changes |= _shortened(result)
        if result.node_id is not None:
            changes["node_id"] = self._node_ids.get(result.node_id, result.node_id)
        return result.replace(**changes)


def _shortened(result: EvalResult) -> dict[str, object]:
    """Return the fields of a result without its long parts."""
    # A summary shows cost and tokens, and the duration in the table of combinations.
    figures = tokens_of(result), cost_of(result), duration_of(result) if result.combination is not None else None
    metrics = None if figures == (None, None, None) else ExecutionMetrics(*figures)
    changes = {**_LONG, "trace_summary": None, "execution_metrics": metrics}
    if result.status == "pass":
        changes |= _FINDINGS
    elif result.evaluator_results:
        details: dict[str, object] = dict.fromkeys(("details", "evaluator_provider_request", "raw_output"))
        changes["evaluator_results"] = tuple(each.replace(**details) for each in result.evaluator_results)
    return changes


def _is_counted(entry: RecordedResult, identity: RunIdentity, reported: Mapping[str, str]) -> bool:
    return identity.retries_only or entry.line > _lines_before(identity) or entry.result.node_id in reported


def _lines_before(identity: RunIdentity) -> int:
    """Return how many lines the file of the run had before it."""
    return identity.resumed.last_line if identity.resumed is not None and identity.goes_on else 0


def _entries(identity: RunIdentity, known: KnownLines | None = None) -> Iterator[RecordedResult | Problem]:
    if identity.results_path.is_file():
        try:
            yield from iter_recorded(identity.results_path, identity.run_id, known.find if known else None)
        except AgentvError as error:
            reason = str(error).removeprefix(f"{locate(identity.results_path, None)}: ")
            yield Problem(identity.results_path, None, "", reason)


# Writes and checks the results file in the process that owns the terminal.


class ResultsHome:
    """Writes the lines that workers could not write, and checks that all results are in the file."""

    def __init__(
        self, identity: RunIdentity, options: RunOptions, at_end: Callable[[Callable[[], None]], None]
    ) -> None:
        """`at_end` takes what is to be called when pytest ends."""
        self._identity = identity
        self._options = options
        self.write_errors: dict[str, None] = {}
        """Why results were lost: texts in order."""
        self._crashes: CrashWatch | None = None
        self._in_use = InUse()
        at_end(self._in_use.end)

    def check(self, ids: Iterable[str], root: Path) -> None:
        """Check that the run may resume its file and writes to none of its inputs. Raises `pytest.UsageError`."""
        resumed = self._identity.resumed
        files = {node_id.partition("::")[0] for node_id in ids}
        if resumed is not None and (fault := resumed.foreign_fault(files, root)):
            raise pytest.UsageError(fault)
        collected, out, html = {root / file for file in files}, self._options.out, self._options.html
        for flag, path, begin in (("--agentv-out", out, RESULTS), ("--agentv-html", html, REPORT)):
            if path is not None:
                fault = "is an eval file of this run" if path.absolute() in collected else foreign_fault(path, begin)
                if fault is not None:
                    raise pytest.UsageError(f"{flag}: {locate(path, None)} {fault}, which this would spoil")

    def begin(self) -> None:
        """Delete the verdict on an earlier run. Raises `pytest.UsageError` if no results can be written."""
        try:
            with closing(self._sink()) as sink:  # another process may write the results
                sink.probe()
        except AgentvError as error:
            hint = "" if self._options.out or self._options.resume else " (--agentv-out names a file)"
            raise pytest.UsageError(f"no results can be recorded: {error}{hint}") from None
        self._in_use.begin(self._identity.results_path)  # a run that resumed it now would pay for the same cases
        self.drop_verdict()  # a failure is reported at the end of the run

    def add_crashes(self, crashes: "CrashWatch | None") -> None:
        """Write an error for each case that a worker died on, because the worker could not."""
        self._crashes = crashes
        if crashes is None or not crashes.has_crashed:
            return
        try:
            if broken := list(crashes.crash_results(node_ids(recorded_now(self._identity)))):
                with closing(self._sink()) as sink:
                    sink.write(*broken)
        except AgentvError as error:
            self.write_errors[str(error)] = None

    def _sink(self) -> ResultSink:
        return ResultSink(self._identity.results_path, self._options.output_format, Masker.of_environment())

    def lost(self, run: RunResults) -> tuple[str, ...]:
        return tuple(self._crashes.lost(node_ids(run.results))) if self._crashes is not None else ()

    def find_loss(self, run: RunResults, evaluated: Collection[str]) -> None:
        """Check that the results of all cases that ran are in the file. `evaluated` are the node ids of their items."""
        path, recorded = self._identity.results_path, node_ids(run.results)
        missing = [node_id for node_id in evaluated if node_id not in recorded]
        is_readable = path.is_file() or not path.exists()  # a device cannot be read back
        if self.write_errors or not missing or not is_readable:
            return
        found = len(evaluated) - len(missing)
        text = f"{counted(len(evaluated), 'case')} ran, {counted(found, 'line')} in {locate(path, None)}"
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        self.write_errors[f"{text}; none of {', '.join(missing[:_NAMED])}{more}" if found else text] = None

    def drop_verdict(self) -> str | None:
        """Delete the verdict on an earlier run. Return why it cannot be deleted."""
        path = verdict_path(self._identity.results_path)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            return f"{locate(path, None)}: the verdict on an earlier run cannot be deleted: {error.strerror}"
        return None


def node_ids(results: Iterable[EvalResult]) -> set[str]:
    return {result.node_id for result in results if result.node_id is not None}
