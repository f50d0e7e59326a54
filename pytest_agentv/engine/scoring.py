"""Combines evaluators' scores to a case's score, and decides pass or fail."""

from collections.abc import Sequence
from typing import Final, Literal

from pytest_agentv.models.base import Record
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.options.defaults import DEFAULT_THRESHOLD
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.records import record
from pytest_agentv.models.results import Status
from pytest_agentv.models.scores import NOTHING_COUNTS, EvaluatorResult, unmet_required, weighted_mean

ROUNDING_SLACK: Final = 1e-9
"""Tolerance for means of floats: the mean of three times 0.8 may be 0.7999999999999999, which must reach 0.8."""


@record
class CombinedScore(Record):
    """The combined score of all evaluators of a case."""

    value: float
    """0 to 1."""
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str | None = None


@record
class Threshold(Record):
    """The lowest score that passes."""

    value: float
    source: str
    """Where it was set: `command line`, `case`, `file`, `ini` or `default`."""


@record
class Judgement(Record):
    """What the evaluators of a case say of its answer."""

    evaluations: tuple[EvaluatorResult, ...]
    threshold: Threshold
    is_default_judge: bool = False
    """Whether the case names no evaluators, so that one judge stands for all."""

    @property
    def combined(self) -> CombinedScore:
        if self.is_default_judge:
            only = self.evaluations[0]
            return CombinedScore(only.score, only.hits, only.misses, only.reasoning)
        return combine_scores(self.evaluations)

    @property
    def broken(self) -> EvaluatorResult | None:
        """The first evaluator that could not judge."""
        for evaluation in self.evaluations:
            if evaluation.error is not None:
                return evaluation
        return None

    @property
    def unmet_required(self) -> tuple[str, ...] | None:
        return unmet_required(self.evaluations) or None

    def status(self, combined: CombinedScore) -> Status:
        """Return the status of the case; `combined` is its score.

        An evaluator that could not judge makes the case an error: a score of 0 would look like a bad answer.

        Source: decisions 7 and 35.
        """
        if self.broken is not None:
            return "error"
        return decide_status(combined.value, self.threshold.value, self.unmet_required)


def combine_scores(results: Sequence[EvaluatorResult]) -> CombinedScore:
    """Combine the results of a case's evaluators. The value is the weighted mean, or 0 if all weights are 0.

    A result without a weight weighs 1. Source: agentv-formats 6.10.
    """
    reasons = [f"{result.name}: {result.reasoning}" for result in results if result.reasoning]
    if results and all(result.weight == 0 for result in results):
        reasons.insert(0, NOTHING_COUNTS)
    return CombinedScore(
        weighted_mean([(result.score, 1.0 if result.weight is None else result.weight) for result in results]),
        hits=tuple(hit for result in results for hit in result.hits),
        misses=tuple(miss for result in results for miss in result.misses),
        reasoning=" | ".join(reasons) or None,
    )


def decide_status(score: float, threshold: float, unmet: Sequence[str] | None = None) -> Literal["pass", "fail"]:
    """Return `pass` if the score reaches the threshold and all required rubrics are met.

    This is the only place that decides whether a score passes.
    """
    return "pass" if score + ROUNDING_SLACK >= threshold and not unmet else "fail"


def effective_threshold(options: RunOptions, case: EvalCase) -> Threshold:
    """Return the threshold of a case: that of the command line, else case, file, ini file or default."""
    if options.threshold is not None:
        return Threshold(options.threshold, "command line")
    if case.threshold is not None:
        return Threshold(case.threshold, case.threshold_source or "case")
    if options.ini_threshold is not None:
        return Threshold(options.ini_threshold, "ini")
    return Threshold(DEFAULT_THRESHOLD, "default")
