"""The result of a case: exactly one line of the results file."""

from dataclasses import dataclass, field
from typing import Final, Literal

from pytest_agentv.errors import ErrorKind, ErrorStage
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.scores import EvaluatorResult
from pytest_agentv.models.traces import ExecutionMetrics, TraceEvent, TraceSummary

SCHEMA_VERSION: Final = 1
"""Incremented when a key of the results file changes its meaning or is removed, but not for a new key."""

Status = Literal["pass", "fail", "error"]


@dataclass(frozen=True, slots=True)
class ErrorDetail(Record):
    """Where and why a case or an evaluator broke."""

    stage: ErrorStage
    kind: ErrorKind


@dataclass(frozen=True, slots=True)
class EvalResult(Record):
    """One line of the results file. The order of the fields is the order of the keys.

    The first sixteen keys are AgentV's, the rest are ours (agentv-formats 8.1, decisions 20).
    """

    timestamp: str
    """ISO 8601, UTC, milliseconds."""
    eval_id: str
    dataset: str
    conversation_id: str | None = field(default=None, kw_only=True)
    score: float
    hits: tuple[str, ...]
    misses: tuple[str, ...]
    candidate_answer: str
    target: str
    reasoning: str | None = None
    agent_provider_request: JsonObject | None = None
    lm_provider_request: JsonObject | None = None
    evaluator_provider_request: JsonObject | None = None
    evaluator_results: tuple[EvaluatorResult, ...] | None = None
    trace_summary: TraceSummary | None = None
    error: str | None = None
    error_detail: ErrorDetail | None = None
    schema_version: int = SCHEMA_VERSION
    status: Status = "pass"
    threshold: float | None = None
    threshold_source: str | None = None
    """Where the threshold was set: `command line`, `case`, `file`, `ini` or `default`."""
    assertion: str | None = None
    """Why a hook let the case pass or fail, overriding its score; None: the score decided."""
    unmet_required: tuple[str, ...] | None = None
    """Required rubrics that the answer does not satisfy or that were not judged. They fail the case at any score."""
    judge_retries: int | None = None
    """How often judges were asked again because a reply held no judgement; None: never."""
    attempts: int = 0
    """Number of provider calls; 0 if the case ended before the first."""
    request_attempts: int | None = None
    """Number of requests of these calls to a model's API, including retries."""
    waited_ms: float | None = None
    """Time between these requests. It does not count in the answer's latency."""
    last_error: str | None = None
    """The error of the last failed request, also if a later request succeeded."""
    log_file: str | None = None
    """Path of the log of the target's work, if the provider keeps one."""
    finish_reason: str | None = None
    """Why the model stopped, in the words of its API; None: not reported."""
    execution_metrics: ExecutionMetrics | None = None
    node_id: str | None = None
    run_id: str | None = None
    """Identifies the run among several runs in the same file."""
    eval_file: str | None = None
    """The eval file; relative to pytest's root directory if it lies below it."""
    line: int | None = None
    """The case's line in the eval file."""
    case_hash: str | None = None
    """Hash of the case's content, including its files. None: the case could not be loaded."""
    target_hash: str | None = None
    """Hash of the target's definition and code, with secrets as hashes. None: the target could not be resolved."""
    grading_hash: str | None = None
    """Hash of the evaluators, their prompts and scripts, and the judge, without the threshold."""
    duration_ms: float | None = None
    """Wall time of the whole case: set-up, all attempts, evaluators."""
    trace: tuple[TraceEvent, ...] | None = None
    dry_run: bool | None = None
    cached: bool | None = None
