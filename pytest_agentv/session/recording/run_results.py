"""Reads the results of a run from its file, in the same way with and without workers."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from pytest_agentv.errors import AgentvError, locate
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import Record
from pytest_agentv.model.messages import ExecutionMetrics
from pytest_agentv.model.results import EvalResult, EvaluatorResult
from pytest_agentv.reports.figures import cost_of, duration_of, tokens_of
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.store.readers import RecordedResult, iter_recorded

_Case: TypeAlias = tuple[str | None, str]
"""Node id of the item, and id of the case."""


_LONG: Final[Mapping[str, object]] = {
    "candidate_answer": "",
    **dict.fromkeys(("agent_provider_request", "lm_provider_request", "evaluator_provider_request")),
    **dict.fromkeys(("trace", "output_messages", "retrieved_context", "answers", "workspace", "file_changes")),
    **dict.fromkeys(("expected_outcome", "reference_answer")),
}
_FINDINGS: Final[Mapping[str, object]] = {"hits": (), "misses": (), "reasoning": None, "evaluator_results": None}
"""A summary shows these only for cases that failed or broke."""
_SHARED: Final = (
    *("dataset", "target", "run_id", "eval_file", "target_hash", "grading_hash", "judge"),
    *("score", "threshold", "threshold_source"),
)
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
        """Keep the result of a line that was written."""
        if result.status == "pass":
            metrics = _metrics(result)
            self._results[hash(line)] = result.replace(
                **_LONG, **_FINDINGS, trace_summary=None, execution_metrics=metrics
            )

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
    foreign, old = _foreign(identity), _lines_before(identity)
    for entry in _entries(identity, None if with_texts else known):
        if isinstance(entry, Problem):
            problems.append(entry)
        elif reported is None or _is_counted(entry, identity, reported):
            result = entry.result if with_texts or entry.is_known else slim.without_texts(entry.result)
            key = (result.node_id, result.eval_id)
            if (before := latest.get(key)) is not None:
                if (*key, result.target) in foreign and entry.line <= old and result.node_id not in evaluated:
                    result = before
                replaced += 1
            latest[key] = result
    return RunResults(
        tuple(sorted(latest.values(), key=lambda result: (result.eval_file or "", result.line or 0))),
        replaced,
        tuple(problems),
    )


def with_texts(identity: RunIdentity, results: Sequence[EvalResult]) -> list[EvalResult]:
    """Return results as they are in the file, with their prompts, answers and findings."""
    wanted = {(result.node_id, result.eval_id, result.target): result for result in results}
    for entry in _entries(identity):
        if isinstance(entry, Problem):
            continue
        result = entry.result
        if (key := (result.node_id, result.eval_id, result.target)) in wanted:
            wanted[key] = result
    return list(wanted.values())


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
        changes |= _LONG
        if result.node_id is not None:
            changes["node_id"] = self._node_ids.get(result.node_id, result.node_id)
        if result.status == "pass":
            changes |= _FINDINGS
        elif result.evaluator_results:
            changes["evaluator_results"] = tuple(map(_without_details, result.evaluator_results))
        changes |= {"trace_summary": None, "execution_metrics": _metrics(result)}
        return result.replace(**changes)


def _metrics(result: EvalResult) -> ExecutionMetrics | None:
    """Return the metrics that a summary shows: cost and tokens, and the duration for the table of combinations."""
    cost, tokens = cost_of(result), tokens_of(result)
    duration = duration_of(result) if result.combination is not None else None
    if cost is None and tokens is None and duration is None:
        return None
    return ExecutionMetrics(tokens, cost, duration)


def _without_details(result: EvaluatorResult) -> EvaluatorResult:
    if result.details is None and result.evaluator_provider_request is None and result.raw_output is None:
        return result
    return result.replace(details=None, evaluator_provider_request=None, raw_output=None)


def _is_counted(entry: RecordedResult, identity: RunIdentity, reported: Mapping[str, str]) -> bool:
    if identity.retried is not None:
        return True
    return entry.line > _lines_before(identity) or entry.result.node_id in reported


def _lines_before(identity: RunIdentity) -> int:
    """Return how many lines the file of the run had before it."""
    return identity.resumed.last_line if identity.resumed is not None and identity.goes_on else 0


def _foreign(identity: RunIdentity) -> frozenset[tuple[str, str, str]]:
    """Return node id, id and target of the results of other targets that a run which retries errors must not count.

    A resumed run needs none: it writes the results of its own target again, after all others.
    """
    resumed = identity.resumed
    return frozenset() if resumed is None or identity.retried is None else frozenset(resumed.foreign)


def _entries(identity: RunIdentity, known: KnownLines | None = None) -> Iterator[RecordedResult | Problem]:
    if identity.results_path.is_file():
        try:
            yield from iter_recorded(identity.results_path, identity.run_id, known.find if known else None)
        except AgentvError as error:
            reason = str(error).removeprefix(f"{locate(identity.results_path, None)}: ")
            yield Problem(identity.results_path, None, "", reason)
