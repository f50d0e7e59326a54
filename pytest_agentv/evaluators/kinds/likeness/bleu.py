"""`bleu`: how alike the answer and a text are, as translations are measured."""

from pytest_agentv.evaluators.base import Context, Evaluator, Services, or_sync
from pytest_agentv.evaluators.kinds.likeness.likeness import Likeness, require_package
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import trim
from pytest_agentv.runtime.threads import run_in_thread


class Bleu(Likeness):
    """The answer shares word sequences with a text: BLEU, a measure for translations, by the package sacrebleu."""

    kind = "bleu"
    examples = (
        {
            "answer": "The tent costs 120 euros today.",
            "assert": [{"bleu": "The tent costs 120 euros.", "threshold": 0.5}],
        },
    )

    def prepare(self, services: Services) -> Evaluator:  # noqa: ARG002 - it calls nobody
        require_package(self.kind, "sacrebleu", "sacrebleu")
        return self

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Score the answer. Raises `EvaluatorError` if sacrebleu is not installed."""
        require_package(self.kind, "sacrebleu", "sacrebleu")
        answer = context.candidate_answer
        return self.score(await run_in_thread(lambda: _bleu(trim(self.value), trim(answer)), "agentv-bleu"))


def _bleu(reference: str, answer: str) -> float:
    from sacrebleu import sentence_bleu  # noqa: PLC0415 - an optional package that is slow to import

    return min(1.0, float(sentence_bleu(answer, [reference]).score) / 100)
