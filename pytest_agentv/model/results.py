"""The result of a case: exactly one line of the results file, with its scores and verdicts."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, TypeAlias, TypeGuard

from pytest_agentv.errors import ErrorKind, ErrorStage
from pytest_agentv.model.base import JsonObject, Record
from pytest_agentv.model.messages import Costs, ExecutionMetrics, Message, TraceEvent, TraceSummary

Verdict = Literal["pass", "borderline", "fail"]
"""The word for a score: `pass` from 0.8, `borderline` from 0.6, else `fail`."""

NOTHING_COUNTS: Final = "all weights are 0, so that nothing counts"
"""The reason for a score of 0 if every judgement may be good."""

PASS_SCORE: Final = 0.8
BORDERLINE_SCORE: Final = 0.6


def verdict_of(score: float) -> Verdict:
    """Return AgentV's word for a score: `pass` from 0.8, `borderline` from 0.6, else `fail`."""
    if score >= PASS_SCORE:
        return "pass"
    return "borderline" if score >= BORDERLINE_SCORE else "fail"


def clamp_score(value: object) -> float:
    """Clamp a number to 0..1. Anything but a finite number counts as 0."""
    if not is_score(value):
        return 0.0
    return float(min(1.0, max(0.0, value)))  # clamped first, because an int can be too large for a float


def is_score(value: object) -> TypeGuard[float]:
    """Whether a value can be a score; NaN, infinities and true cannot."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf


def weighted_mean(scores: Sequence[tuple[float, float]]) -> float:
    """Return the mean of scores from 0 to 1, each with its weight; 0 if all weights are 0.

    The weights are scaled by a power of two, which is exact, so that those around 1e308 have a sum.
    """
    if len(scores) == 1:  # as of most cases
        score, weight = scores[0]
        return clamp_score(score) if weight else 0.0
    largest = max((abs(weight) for _, weight in scores), default=0.0)
    exponent = math.frexp(largest)[1]
    scaled = [(score, math.ldexp(weight, -exponent)) for score, weight in scores]
    total = math.fsum(weight for _, weight in scaled)
    return clamp_score(math.fsum(score * weight for score, weight in scaled) / total) if total else 0.0


@dataclass(frozen=True, slots=True)
class ErrorDetail(Record):
    """Where and why a case or an evaluator broke."""

    stage: ErrorStage
    """Where it broke."""
    kind: ErrorKind
    """Why it broke."""


@dataclass(frozen=True, slots=True)
class EvaluatorResult(Record):
    """The judgement of one evaluator, as the results file has it."""

    name: str
    """The name of the evaluator."""
    type: str
    """The kind of the evaluator."""
    score: float
    """The score, 0 to 1."""
    weight: float | None = None
    """The weight, 0 or more; None: a model combines the members, which have no weights."""
    verdict: Verdict = "fail"
    """The word for the score."""
    hits: tuple[str, ...] = ()
    """What the answer has right."""
    misses: tuple[str, ...] = ()
    """What the answer has wrong."""
    reasoning: str | None = None
    """Why it gave this score."""
    evaluator_provider_request: JsonObject | None = None
    """What a judge was sent."""
    evaluator_results: "tuple[EvaluatorResult, ...] | None" = None
    """The results of its members, of a composite."""
    details: JsonObject | None = None
    """Structured findings, as the evaluator gave them."""
    raw_output: str | None = None
    """The judge's output or reply if it was unreadable."""
    error: str | None = None
    """Why the evaluator could not judge. The case's status is then `error`."""
    error_kind: ErrorKind | None = None
    """The kind of that error."""
    judge_retries: int | None = None
    """How often the judge was asked again because a reply held no judgement; None: never."""
    unmet_required: tuple[str, ...] | None = None
    """Required checks and rubrics that the answer does not satisfy or that were not judged. They fail the case."""
    warnings: tuple[str, ...] | None = None
    """Warnings about the judgement."""
    required: bool | None = None
    """True: the case fails without it, whatever the mean and the weight."""
    judge_model: str | None = None
    """The model that judged; of a judge that names none, its target. None: no model took part."""
    duration_ms: float | None = None
    """Milliseconds that the judgement took."""
    judge_metrics: Costs | None = None
    """What the models took that it asked, without those of its members; None: it asked none."""
    unknown: str | None = None
    """The unknown value that the score depends on, as an amount that the target does not report; None: nothing."""
    unchecked: str | None = None
    """Why the check could not be made on this answer: it lacks the part that is judged; None: it was made."""
    turn: int | None = None
    """The turn of a conversation that was judged, from 1; None: the last answer, or the whole."""


def unmet_required(results: Sequence[EvaluatorResult]) -> tuple[str, ...]:
    """Return the unmet required checks and rubrics. Of a result with weight 0 only those count that say `required`.

    Rubrics are required unless they say otherwise, and a weight of 0 silences these.
    """
    unmet: list[str] = []
    for result in results:
        unmet += result.unmet_required or () if result.weight != 0 else explicitly_unmet([result])
    return tuple(unmet)


def explicitly_unmet(results: Sequence[EvaluatorResult]) -> tuple[str, ...]:
    """Return what evaluators that say `required` left unmet, members at every depth included."""
    unmet: list[str] = []
    for result in results:
        known = result.unmet_required or ()
        members = explicitly_unmet(result.evaluator_results or ())
        # a negated composite ignores the requirements of its members
        unmet += known if result.required else (each for each in members if each in known)
    return tuple(unmet)


def judge_metrics_of(results: Iterable[EvaluatorResult]) -> Iterator[Costs]:
    """Yield what the models took that evaluators asked, including members of composites."""
    for result in results:
        if result.judge_metrics is not None:
            yield result.judge_metrics
        if result.evaluator_results:
            yield from judge_metrics_of(result.evaluator_results)


@dataclass(frozen=True, slots=True)
class Score(Record):
    """The judgement of an evaluator. An evaluator that cannot judge raises `EvaluatorError` instead."""

    value: float
    """The score, 0 to 1. Another finite number counts as the nearer of the two, with a warning."""
    hits: tuple[str, ...] = ()
    """What the answer has right, in short texts."""
    misses: tuple[str, ...] = ()
    """What the answer has wrong, in short texts."""
    reasoning: str | None = None
    """Why it is this score."""
    verdict: Verdict | None = None
    """The evaluator's own verdict; None: that of the value."""
    details: JsonObject | None = None
    """Structured findings: plain JSON, at most 100 levels deep. The results file has them as they are."""
    request: JsonObject | None = None
    """The request to a judge (script or model), for the record."""
    raw_output: str | None = None
    """The output or reply of a judge if it was unreadable."""
    results: tuple[EvaluatorResult, ...] | None = None
    """The members' results if the evaluator is a composite. If one has an `error`, the composite could not judge."""
    error: str | None = None
    """Why the judge's reply is not a judgement; the status of the case is then `error`."""
    error_kind: ErrorKind = "crash"
    """The kind of that error."""
    judge_retries: int | None = None
    """How often the judge was asked again."""
    unmet_required: tuple[str, ...] | None = None
    """Required rubrics that the answer does not satisfy or that were not judged. They fail the case at any score."""
    unknown: str | None = None
    """The unknown value that the score depends on. Negating such a score is an error; None: there is none."""
    warnings: tuple[str, ...] = ()
    """What is odd about the check itself. The run warns about it."""
    unchecked: str | None = None
    """Why the check could not be made on this answer. Negating such a score gives 0; None: it was made."""


SCHEMA_VERSION: Final = 1
"""Incremented when a key of the results file changes its meaning or is removed, but not for a new key."""

Status = Literal["pass", "fail", "error"]
"""`pass` or `fail`: the case was judged. `error`: it could not be judged."""


@dataclass(frozen=True, slots=True)
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
    confirm: "RepeatFigures | None" = None
    """Fresh answers that were asked because the case looked broken; they do not count for its verdict."""


@dataclass(frozen=True, slots=True)
class ConversationFigures(Record):
    """How a conversation went."""

    turns: int
    """How often the target was asked."""
    stopped: Literal["turns", "user", "max_turns", "max_cost_usd", "failure", "error"]
    """Why it ended: no written turn was left, the simulated user said so, its `max_turns` or `max_cost_usd` were
    reached, the checks of a turn failed (`on_turn_failure: stop`), or a turn had no answer."""
    user_target: str | None = None
    """The target that played the user; None: all turns are written."""
    user_metrics: Costs | None = None
    """What the simulated user took, and the judge that checked it; None: there was none."""
    lines: tuple[int | None, ...] = ()
    """The lines of the written turns in the eval file."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class Spent(Record):
    """What was paid for a case: for all its answers, also those that failed or were asked anew, and for its judges."""

    answer: Costs = field(default_factory=Costs)
    """Calls of the target."""
    judge: Costs | None = None
    """Calls of the models that judged: judges, targets of judge scripts, embeddings; None: none was made."""

    @classmethod
    def added(cls, parts: "Iterable[Spent | None]") -> "Spent":
        """Add up what was paid. None counts as nothing."""
        known = [part for part in parts if part is not None]
        judges = [part.judge for part in known if part.judge is not None]
        return cls(Costs.added(part.answer for part in known), Costs.added(judges) if judges else None)


Whose: TypeAlias = Literal["case", "answer", "run"]


@dataclass(frozen=True, slots=True)
class About:
    """What readers and writers of results must know of a field. They iterate over `RESULT_FIELDS`, and name none."""

    of: Whose
    """`case`: the same for all answers of a case. `answer`: of each of them. `run`: of the run, or of all of them."""
    title: str
    """Its name for people."""
    masked: bool = True
    """False: a name or a fixed word. A masked one would no longer match anything."""
    size: Literal["", "text", "finding", "shared"] = ""
    """`text`: too long to keep for a summary. `finding`: also in a case that passed. `shared`: equal in many cases."""
    is_current: bool = False
    """Whether it says something of the case that may change without another answer."""
    column: int = 0
    """Its place among the columns of CSV; 0: it has none."""
    is_property: bool = False
    """Whether it is a property `agentv_<name>` of JUnit files."""
    is_compared: bool = False
    """Whether `agentv compare` says where two runs differ in it."""


def about(of: Whose, title: str, **more: Any) -> Mapping[str, About]:
    """Return the metadata of a field of `EvalResult`."""
    return {"about": About(of, title, **more)}


def known(of: Whose, title: str, default: Any = None, **more: Any) -> Any:
    """Return a field of `EvalResult` with a default."""
    return field(default=default, metadata=about(of, title, **more))


@dataclass(frozen=True, slots=True)
class EvalResult(Record):
    """The result of a case: one line of the results file. The order of the fields is the order of its keys."""

    # The first sixteen keys are AgentV's (agentv-formats 8.1).

    timestamp: str = field(metadata=about("answer", "Ended", masked=False, column=90))
    """ISO 8601, UTC, milliseconds."""
    eval_id: str = field(metadata=about("case", "Case", masked=False, column=3))
    """The id of the case."""
    dataset: str = field(metadata=about("case", "Dataset", masked=False, size="shared", column=4))
    """The name of the group of cases."""
    conversation_id: str | None = field(
        default=None, kw_only=True, metadata=about("case", "Conversation", masked=False)
    )
    """As the case has it."""
    score: float = field(metadata=about("answer", "Score", size="shared", column=8, is_property=True))
    """The weighted mean of the evaluators' scores, 0 to 1."""
    hits: tuple[str, ...] = field(metadata=about("answer", "Hits", size="finding", column=24))
    """What the answer has right."""
    misses: tuple[str, ...] = field(metadata=about("answer", "Misses", size="finding", column=25))
    """What the answer has wrong."""
    candidate_answer: str = field(metadata=about("answer", "Answer", size="text", column=21))
    """The answer; `Error occurred: …` where there is none."""
    target: str = field(metadata=about("case", "Target", masked=False, size="shared", column=5, is_property=True))
    """The name of the target."""
    reasoning: str | None = known("answer", "Reasoning", size="finding", column=26)
    """Why the evaluators gave this score."""
    agent_provider_request: JsonObject | None = known("answer", "Request to the agent", size="text")
    """What an agent was sent."""
    lm_provider_request: JsonObject | None = known("answer", "Request to the model", size="text")
    """What a model was sent."""
    evaluator_provider_request: JsonObject | None = known("answer", "Request to the judge", size="text")
    """What the judge was sent."""
    evaluator_results: tuple[EvaluatorResult, ...] | None = known("answer", "Evaluators", size="finding")
    """The result of each evaluator; None: the default judge decided, or the case broke before."""
    trace_summary: TraceSummary | None = known("answer", "Steps", size="text")
    """Counts over the steps to the answer."""
    error: str | None = known("answer", "Error", column=28)
    """Why the case could not be judged; None: it was judged."""
    error_detail: ErrorDetail | None = known("answer", "Kind of error", masked=False)
    """Where and why that was."""
    schema_version: int = known("run", "Format", default=SCHEMA_VERSION)
    """The version of the results file's format."""
    status: Status = known("answer", "Status", masked=False, column=6, is_property=True, default="pass")
    """`pass`, `fail` or `error`."""
    threshold: float | None = known("case", "Threshold", size="shared", column=9, is_property=True)
    """The score from which the case passes, 0 to 1."""
    threshold_source: str | None = known("case", "Threshold of", masked=False, size="shared")
    """Where the threshold was set: `command line`, `case`, `file`, `ini` or `default`."""
    assertion: str | None = known("answer", "Assertion", column=29)
    """Why a hook decided that the case passes or fails; None: the score decided."""
    unmet_required: tuple[str, ...] | None = known("answer", "Required, not met")
    """Required rubrics that the answer does not satisfy or that were not judged. They fail the case at any score."""
    judge_retries: int | None = known("answer", "Judges asked again")
    """How often judges were asked again because a reply held no judgement; None: never."""
    attempts: int = known("answer", "Calls", is_property=True, default=0)
    """Number of provider calls; 0 if the case ended before the first."""
    request_attempts: int | None = known("answer", "Requests")
    """Number of requests of these calls to a model's API, including retries."""
    waited_ms: float | None = known("answer", "Waited")
    """Milliseconds of waiting between these requests; the latency of the answer does not contain them."""
    last_error: str | None = known("answer", "Last error")
    """Why the last failed request failed, even if a later one brought the answer."""
    log_file: str | None = known("answer", "Log")
    """The path of the log that a coding agent's call wrote."""
    finish_reason: str | None = known("answer", "Why the model stopped")
    """Why the model stopped, in the words of its API; None: not reported."""
    model: str | None = known("answer", "Model", size="shared", column=27, is_property=True, is_compared=True)
    """The name of the model that answered, as its API reports it: `gpt-5-mini-2025-08-07`; None: not reported."""
    retrieved_context: tuple[str, ...] | None = known("answer", "Retrieved", size="text")
    """The texts that the target looked up and answered from; None: not reported."""
    execution_metrics: ExecutionMetrics | None = known("answer", "Metrics")
    """Tokens, US dollars and milliseconds of the answer."""
    node_id: str | None = known("case", "Item", masked=False, is_current=True)
    """The id of the pytest item."""
    run_id: str | None = known("run", "Run", masked=False, size="shared")
    """Identifies the run among several runs in the same file."""
    eval_file: str | None = known("case", "File", masked=False, size="shared", column=1)
    """The eval file: relative to pytest's root directory if it lies below it, else absolute."""
    line: int | None = known("case", "Line", is_current=True, column=2)
    """The case's line in the eval file."""
    row: str | None = known("case", "Row", masked=False, is_current=True)
    """The row of a table that the case was made from: `evals/questions.csv:17`; None: the eval file holds the case."""
    combination: str | None = known("case", "Combination", masked=False, is_current=True)
    """The values of its matrix, as its node id ends with them: `claude-formal`; None: there is no matrix."""
    case_hash: str | None = known("case", "Hash of the case", masked=False)
    """Hash of the case's content, including its files. None: the case could not be loaded."""
    target_hash: str | None = known("case", "Hash of the target", size="shared")
    """Hash of the target's definition and code, with secrets as hashes. None: the target could not be resolved,
    or nobody can tell whether its code has changed."""
    grading_hash: str | None = known("case", "Hash of the grading", size="shared")
    """Hash of the evaluators, their prompts and scripts, and the judge; the threshold does not change it.
    None: nobody can tell whether one of them has changed."""
    duration_ms: float | None = known("answer", "Duration", column=80, is_property=True)
    """Milliseconds that the whole case took: set-up, all attempts, evaluators."""
    trace: tuple[TraceEvent, ...] | None = known("answer", "Trace", size="text")
    """The steps to the answer, with `--agentv-include-trace`."""
    dry_run: bool | None = known("answer", "Dry run")
    """True in a dry run, else None."""
    cached: bool | None = known("answer", "From the cache", column=81, is_property=True)
    """True if the answer comes from the cache, or from an earlier result that has counted its cost; else None."""
    tags: tuple[str, ...] | None = known("case", "Tags", masked=False, is_current=True, column=10)
    """The tags of the case and of its file; None: there are none."""
    judge: str | None = known("case", "Judge", masked=False, size="shared", is_compared=True)
    """The name of the target that judges, and the start of its hash; None: no model took part."""
    required: bool | None = known("case", "Required", is_current=True)
    """True if the case must pass by itself, whatever the verdict on the whole run, else None."""
    xfail: str | None = known("case", "Expected to fail", is_current=True, column=7)
    """The reason of the mark `xfail` by which pytest expects a low score; may be empty. None: it expects none."""
    xfail_strict: bool | None = known("case", "Strictly", is_current=True)
    """True if that mark is strict, so that the case fails if it passes, else None."""
    group: str | None = known("case", "Group", masked=False, is_current=True)
    """The group that the case names: cases of one group are not independent. None: it names none."""
    expected_outcome: str | None = known("case", "Expected outcome", size="text", column=22)
    """What a good answer achieves; None: the case does not say, or could not be loaded."""
    reference_answer: str | None = known("case", "Reference answer", size="text", column=23)
    """The text of the ideal answer; None: there is none."""
    workspace: JsonObject | None = known("answer", "Workspace", size="text")
    """The folder that the target worked in: `from`, `files`, `changed` (at most 500 names), `diff_sha256`, `kept`."""
    file_changes: str | None = known("answer", "Changed files", size="text")
    """What the target changed in its workspace, as a unified diff of at most 200 kB; None: it had none."""
    output_messages: tuple[Message, ...] | None = known("answer", "Messages", size="text")
    """What the target said and which tools it called, long texts cut; None: there is nothing but the answer."""
    cost_source: str | None = known("answer", "Source of the cost")
    """Where the US dollars come from: `target`, which reported them, or the price table `genai-prices` or `litellm`."""
    spent: Spent | None = known("answer", "Spent")
    """What was paid for the case, in this run and in those that it goes on with; None: no call was made."""
    repeat: RepeatFigures | None = known("run", "Answers", masked=False)
    """The figures of its answers, if it was asked more than once. Then `score` is their mean, the metrics are their
    sums, and the other fields are those of the first failing answer, else of the first."""
    reruns: int | None = known("run", "Reruns")
    """How often a plugin such as pytest-rerunfailures had the case asked anew before; None: never."""
    shard: ShardFigures | None = known("run", "Shard", masked=False)
    """The part of the run that the case was in, with `--agentv-shard`."""
    conversation: ConversationFigures | None = known("answer", "Turns")
    """How the conversation went; None: the target was asked once."""
    answers: tuple[JsonObject, ...] | None = known("run", "Each answer", size="text")
    """All answers in their order, each as the keys of a result of its own, with `--agentv-include-answers`."""
    baseline: BaselineFigures | None = known("run", "Against the baseline")
    """How it did against the baseline, written when the run was judged; None: there is no verdict by a baseline."""


RESULT_FIELDS: Final[Mapping[str, About]] = {each.name: each.metadata["about"] for each in fields(EvalResult)}
"""The fields of a result, in the order of the keys of a line."""
