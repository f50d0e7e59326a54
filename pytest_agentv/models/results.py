"""The result of a case: exactly one line of the results file."""

from dataclasses import field
from typing import Final, Literal

from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.messages import Message
from pytest_agentv.models.records import record
from pytest_agentv.models.scores import ErrorDetail, EvaluatorResult
from pytest_agentv.models.traces import ExecutionMetrics, JudgeMetrics, TraceEvent, TraceSummary

SCHEMA_VERSION: Final = 1
"""Incremented when a key of the results file changes its meaning or is removed, but not for a new key."""

Status = Literal["pass", "fail", "error"]
"""`pass` or `fail`: the case was judged. `error`: it could not be judged."""


@record
class RepeatFigures(Record):
    """What several answers of one case showed."""

    planned: int
    """The number of answers to judge the case by: its `repeat`."""
    asked: int
    """The answers that were asked: fewer than planned where the verdict was certain before."""
    judged: int
    """The answers that were judged."""
    passes: int
    """The judged answers that passed."""
    errors: int
    """The answers that are missing or could not be judged. They are neither passes nor fails."""
    needed: int
    """The answers that had to pass."""
    min_pass_rate: float
    """The share of the planned answers that had to pass, 0 to 1."""
    min_pass_rate_source: str
    """Where that was set: `command line`, `case`, `file`, `ini` or `default`."""
    scores: tuple[float, ...]
    """The scores of the judged answers, in the order of the answers."""
    stopped: Literal["certain pass", "certain fail"] | None = None
    """The verdict that the last answer made certain, if answers were asked one after another until one did."""
    pass_rate: float | None = None
    """The unbiased share of answers that pass, 0 to 1; None: no answer was judged."""
    pass_rate_low: float | None = None
    """The lower end of its 95 % interval."""
    pass_rate_high: float | None = None
    """The upper end of its 95 % interval."""
    flaky: bool = False
    """Whether some answers passed and some failed."""
    same_text: bool | None = None
    """Whether all judged answers were the same text; None: there were fewer than two."""
    tools: tuple[tuple[str, ...], ...] | None = None
    """The names of the tools that each judged answer called, in the order of `scores`; None: none was called."""
    cached: int | None = None
    """How many of the answers came from the cache; None: none."""
    carried: int | None = None
    """How many of the answers come from an earlier run that this one resumed; None: none."""
    lost: int | None = None
    """How many answers of earlier runs could not be had or judged, or were replaced by a rerun; the metrics count these
    as well. None: none."""
    priced: int | None = None
    """How many of the answers that were asked report their US dollars; None: all of them, or none of the case's."""
    metered: int | None = None
    """How many of these answers report their tokens; None as for `priced`."""
    reruns: int | None = None
    """How often all answers were asked anew before, as by `--reruns`; None: never."""
    error_numbers: tuple[int, ...] | None = None
    """Which of the answers that were asked the `errors` are, counted from 0; None: none of them."""
    beyond_scores: bool | None = None
    """True if a hook, or a required rubric that was not met, decided about an answer whatever its score; else None."""
    confirm: "RepeatFigures | None" = None
    """Fresh answers that were asked because the case looked broken; they do not count for its verdict."""

    @property
    def goes_on(self) -> bool:
        """Whether the metrics include those of the answers of an earlier run."""
        return bool(self.carried or self.lost)


@record
class BaselineFigures(Record):
    """How a case compares with the baseline of its run."""

    passes: int | None = None
    """The answers of the baseline that passed; None: it has no such case."""
    judged: int | None = None
    """The answers of the baseline; None as for `passes`."""
    delta: float | None = None
    """The change of the pass rate, -1 to 1, or of the mean score where no threshold is known; None: not compared."""
    p: float | None = None
    """How likely so few passes would be by chance, 0 to 1; None as for `delta`."""
    q: float | None = None
    """The same among all cases that were compared."""
    broke: bool = False
    """Whether the case passed before and does not now, more clearly than chance explains."""
    state: Literal["compared", "new", "changed", "error", "gone", "skipped"] = "compared"
    """`new`: the baseline has no such case. `changed`: its text, grading or threshold is another one. `error`: one of
    the two runs could not judge it. Cases that are `gone` or `skipped` stand in `verdict.json` only."""


@record
class ShardFigures(Record):
    """The shard of a result: what `agentv merge` needs to find missing cases."""

    index: int
    """The number of the shard, from 1 to `count`."""
    count: int
    """The number of shards."""
    cases: int
    """The cases of eval files in this shard that were to run: without those that are skipped."""
    total: int
    """The same for all shards."""
    suite: str
    """Hash of the names of all collected cases and of their eval files."""


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
    retrieved_context: tuple[str, ...] | None = None
    """The texts that the target looked up and answered from; None: not reported."""
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
    combination: str | None = None
    """The values of its matrix, as its node id ends with them: `claude-formal`; None: there is no matrix."""
    case_hash: str | None = None
    """Hash of the case's content, including its files. None: the case could not be loaded."""
    target_hash: str | None = None
    """Hash of the target's definition and code, with secrets as hashes. None: the target could not be resolved.
    `changed-…`: its program changed while the case ran."""
    grading_hash: str | None = None
    """Hash of the evaluators, their prompts and scripts, and the judge; the threshold does not change it.
    `changed-…`: a script changed while the case ran."""
    duration_ms: float | None = None
    """Milliseconds that the whole case took: set-up, all attempts, evaluators."""
    trace: tuple[TraceEvent, ...] | None = None
    """The steps to the answer, with `--agentv-include-trace`."""
    dry_run: bool | None = None
    """True in a dry run, else None."""
    cached: bool | None = None
    """True if the answer comes from the cache, or from an earlier result that has counted its cost; else None."""
    tags: tuple[str, ...] | None = None
    """The tags of the case and of its file; None: there are none."""
    judge: str | None = None
    """The name of the target that judges, and the start of its hash; None: no model took part."""
    required: bool | None = None
    """True if the case must pass by itself, whatever the verdict on the whole run, else None."""
    xfail: str | None = None
    """The reason of the mark `xfail` by which pytest expects a low score; may be empty. None: it expects none."""
    xfail_strict: bool | None = None
    """True if that mark is strict, so that the case fails if it passes, else None."""
    group: str | None = None
    """The group that the case names: cases of one group are not independent. None: it names none."""
    expected_outcome: str | None = None
    """What a good answer achieves; None: the case does not say, or could not be loaded."""
    reference_answer: str | None = None
    """The text of the ideal answer; None: there is none."""
    output_messages: tuple[Message, ...] | None = None
    """What the target said and which tools it called, long texts cut; None: there is nothing but the answer."""
    cost_source: str | None = None
    """Where the US dollars come from: `target`, which reported them, or the price table `genai-prices` or `litellm`."""
    judge_metrics: JudgeMetrics | None = None
    """Usage of the models that its evaluators asked, not in `execution_metrics`; None: they asked none."""
    repeat: RepeatFigures | None = None
    """The figures of its answers, if it was asked more than once. Then `score` is their mean, the metrics are their
    sums, and the other fields are those of the first failing answer, else of the first."""
    shard: ShardFigures | None = None
    """The part of the run that the case was in, with `--agentv-shard`."""
    answers: tuple[JsonObject, ...] | None = None
    """All answers in their order, each as the keys of a result of its own, with `--agentv-include-answers`."""
    baseline: BaselineFigures | None = None
    """How it did against the baseline, written when the run was judged; None: there is no verdict by a baseline."""
    in_baseline: str | None = None
    """The name of the baseline to which a run added its answers, or some of them; None: no run did."""
