"""The results of a run, read from its file: the same with workers and without."""

import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Final, TypeAlias

from pytest_agentv.errors import AgentvError
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.scores import EvaluatorResult
from pytest_agentv.reporting.checked import RecordedResult, iter_recorded
from pytest_agentv.session.recording.identity import RunIdentity

_Attempt: TypeAlias = tuple[str | None, str, str, float | None]
"""Item, id, time, duration: a line that only says anew what an earlier one said has the same ones."""


_REQUESTS: Final = ("agent_provider_request", "lm_provider_request", "evaluator_provider_request")
_SHARED: Final = ("dataset", "target", "run_id", "eval_file", "target_hash", "grading_hash")


@record
class RunResults(Record):
    """The results of a run."""

    results: tuple[EvalResult, ...] = ()
    """The last result of each case, in the order of files and lines."""
    earlier: tuple[EvalResult, ...] = ()
    """Results that a later one of the same case replaced, for example after a rerun. They were paid for."""
    problems: tuple[Problem, ...] = ()
    """Lines that could not be read."""

    @property
    def all(self) -> tuple[EvalResult, ...]:
        return self.results + self.earlier


def read_run(identity: RunIdentity, reported: Collection[str] | None = None, *, with_texts: bool = False) -> RunResults:
    """Read the results of a run.

    Args:
        identity: Names the run and its file.
        reported: Node ids of the items that ran; of a run that goes on with a file, these and what is new in the file
            are counted. None: everything is.
        with_texts: Whether to keep prompts, answers, traces and findings. They are the most of a result, and a summary
            does not show them.
    """
    latest: dict[tuple[str | None, str], EvalResult] = {}
    attempts: dict[_Attempt, EvalResult] = {}
    problems: list[Problem] = []
    for entry in _entries(identity):
        if isinstance(entry, Problem):
            problems.append(entry)
        elif reported is None or _is_counted(entry, identity, reported):
            result = entry.result if with_texts else _without_texts(entry.result)
            latest[result.node_id, result.eval_id] = result
            attempts[result.node_id, result.eval_id, result.timestamp, result.duration_ms] = result
    last = {id(result) for result in latest.values()}
    whole = {key for key, result in latest.items() if result.repeat is not None and result.repeat.carried}
    return RunResults(
        tuple(sorted(latest.values(), key=lambda result: (result.eval_file or "", result.line or 0))),
        # A case that went on with its answers has what they took in its own figures.
        tuple(
            result
            for result in attempts.values()
            if id(result) not in last and (result.node_id, result.eval_id) not in whole
        ),
        tuple(problems),
    )


def with_texts(identity: RunIdentity, results: Sequence[EvalResult]) -> list[EvalResult]:
    """Return results as they stand in the file, with their prompts, answers and findings."""
    wanted = {(result.node_id, result.eval_id): result for result in results}
    for entry in _entries(identity):
        if not isinstance(entry, Problem) and (key := (entry.result.node_id, entry.result.eval_id)) in wanted:
            wanted[key] = entry.result
    return list(wanted.values())


def _without_texts(result: EvalResult) -> EvalResult:
    """Return a result without its long parts, and with texts that many results share held once."""
    return result.replace(
        candidate_answer="",
        **dict.fromkeys(_REQUESTS),
        trace=None,
        evaluator_results=result.evaluator_results and tuple(map(_without_details, result.evaluator_results)),
        **{name: sys.intern(text) for name in _SHARED if (text := getattr(result, name)) is not None},
    )


def _without_details(result: EvaluatorResult) -> EvaluatorResult:
    if result.details is None and result.evaluator_provider_request is None and result.raw_output is None:
        return result
    return result.replace(details=None, evaluator_provider_request=None, raw_output=None)


def _is_counted(entry: RecordedResult, identity: RunIdentity, reported: Collection[str]) -> bool:
    resumed = identity.resumed
    if resumed is None or not identity.goes_on or identity.retried is not None:
        return True
    return entry.line > resumed.last_line or entry.result.node_id in reported


def _entries(identity: RunIdentity) -> Iterator[RecordedResult | Problem]:
    if identity.results_path.is_file():
        try:
            yield from iter_recorded(identity.results_path, identity.run_id)
        except AgentvError as error:
            yield Problem(identity.results_path, None, "", str(error))
