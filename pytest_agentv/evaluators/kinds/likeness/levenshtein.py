"""`levenshtein`: how alike the answer and a text are, by the changes of characters that lie between them."""

from pytest_agentv.evaluators.base import Context, or_sync
from pytest_agentv.evaluators.judging.reply import off_loop
from pytest_agentv.evaluators.kinds.likeness.likeness import Likeness
from pytest_agentv.models.scores import Score
from pytest_agentv.models.text import trim


class Levenshtein(Likeness):
    """The answer is nearly equal to a text: few characters differ."""

    kind = "levenshtein"
    examples = (
        {
            "answer": "The tent costs 120 euros.",
            "assert": [{"levenshtein": "The tent costs 120 Euro.", "threshold": 0.9}],
        },
    )

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        answer = trim(context.candidate_answer)
        return self.score(await off_loop(len(answer) + len(self.value), _similarity, answer, trim(self.value)))


def _similarity(left: str, right: str) -> float:
    from rapidfuzz.distance import Levenshtein as Distance  # noqa: PLC0415 - only for this check

    return float(Distance.normalized_similarity(left, right))
