"""The result of a case: exactly one line of the results file."""

from dataclasses import field
from typing import Final, Literal

from pytest_agentv.errors import ErrorKind, ErrorStage
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.records import record
from pytest_agentv.models.scores import EvaluatorResult
from pytest_agentv.models.traces import ExecutionMetrics, TraceEvent, TraceSummary

SCHEMA_VERSION: Final = 1
"""Incremented when a key of the results file changes its meaning or is removed, but not for a new key."""

Status = Literal["pass", "fail", "error"]
"""`pass` or `fail`: the case was judged. `error`: it could not be judged."""


@record
class ErrorDetail(Record):
    """Where and why a case or an evaluator broke."""

    stage: ErrorStage
    """Where it broke."""
    kind: ErrorKind
    """Why it broke."""


@record
class EvalResult(Record):
    """The result of a case: one line of the results file. The order of the fields is the order of its keys."""

    # The first sixteen keys are AgentV's (agentv-formats 8.1).

    timestamp: str
    """ISO 8601, UTC, milliseconds."""
    eval_id: str
    """The id of the case."""
    dataset: str
    """The name of the group of cases."""
    conversation_id: str | None = field(default=None, kw_only=True)
    """As the case has it."""
    score: float
    """The weighted mean of the evaluators' scores, 0 to 1."""
    hits: tuple[str, ...]
    """What the answer has right."""
    misses: tuple[str, ...]
    """What the answer has wrong."""
    candidate_answer: str
    """The answer; `Error occurred: …` where there is none."""
    target: str
    """The name of the target."""
    reasoning: str | None = None
    """Why the evaluators gave this score."""
    agent_provider_request: JsonObject | None = None
    """What an agent was sent."""
    lm_provider_request: JsonObject | None = None
    """What a model was sent."""
    evaluator_provider_request: JsonObject | None = None
    """What the judge was sent."""
    evaluator_results: tuple[EvaluatorResult, ...] | None = None
    """The result of each evaluator; None: the default judge decided, or the case broke before."""
    trace_summary: TraceSummary | None = None
    """Counts over the steps to the answer."""
    error: str | None = None
    """Why the case could not be judged; None: it was judged."""
    error_detail: ErrorDetail | None = None
    """Where and why that was."""
    schema_version: int = SCHEMA_VERSION
    """The version of the results file's format."""
    status: Status = "pass"
    """`pass`, `fail` or `error`."""
    threshold: float | None = None
    """The score from which the case passes, 0 to 1."""
    threshold_source: str | None = None
    """Where the threshold was set: `command line`, `case`, `file`, `ini` or `default`."""
    assertion: str | None = None
    """Why a hook decided that the case passes or fails; None: the score decided."""
    unmet_required: tuple[str, ...] | None = None
    """Required rubrics that the answer does not satisfy or that were not judged. They fail the case at any score."""
    judge_retries: int | None = None
    """How often judges were asked again because a reply held no judgement; None: never."""
    attempts: int = 0
    """Number of provider calls; 0 if the case ended before the first."""
    request_attempts: int | None = None
    """Number of requests of these calls to a model's API, including retries."""
    waited_ms: float | None = None
    """Milliseconds of waiting between these requests; the latency of the answer does not contain them."""
    last_error: str | None = None
    """Why the last failed request failed, even if a later one brought the answer."""
    log_file: str | None = None
    """The path of the log that a coding agent's call wrote."""
    finish_reason: str | None = None
    """Why the model stopped, in the words of its API; None: not reported."""
    execution_metrics: ExecutionMetrics | None = None
    """Tokens, US dollars and milliseconds of the answer."""
    node_id: str | None = None
    """The id of the pytest item."""
    run_id: str | None = None
    """Identifies the run among several runs in the same file."""
    eval_file: str | None = None
    """The eval file: relative to pytest's root directory if it lies below it, else absolute."""
    line: int | None = None
    """The case's line in the eval file."""
    row: str | None = None
    """The row of a table that the case was made from: `evals/questions.csv:17`; None: the eval file holds the case."""
    case_hash: str | None = None
    """Hash of the case's content, including its files. None: the case could not be loaded."""
    target_hash: str | None = None
    """Hash of the target's definition and code, with secrets as hashes. None: the target could not be resolved."""
    grading_hash: str | None = None
    """Hash of the evaluators, their prompts and scripts, and the judge; the threshold does not change it."""
    duration_ms: float | None = None
    """Milliseconds that the whole case took: set-up, all attempts, evaluators."""
    trace: tuple[TraceEvent, ...] | None = None
    """The steps to the answer, with `--agentv-include-trace`."""
    dry_run: bool | None = None
    """True in a dry run, else None."""
    cached: bool | None = None
    """True if the answer comes from the cache, else None."""
