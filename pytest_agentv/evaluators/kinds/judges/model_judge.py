"""The base of evaluators that ask a model."""

from pytest_agentv.evaluators.base import Evaluator, Judge, Services
from pytest_agentv.evaluators.judging.grading import require_judge


class ModelJudge(Evaluator):
    """An evaluator that asks the judge of the target. Without one, a case ends before its answer is paid for."""

    @property
    def asks_judge(self) -> bool:
        return True

    def prepare(self, services: Services) -> Evaluator:
        self.judge_of(services)
        return self

    def judge_of(self, services: Services) -> Judge:
        """Return the judge. Raises `EvaluatorError` when there is none."""
        return require_judge(services, f"evaluator {self.label!r}")
