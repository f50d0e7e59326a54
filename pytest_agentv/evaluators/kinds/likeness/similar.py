"""`similar`: how near the meaning of the answer is to that of a text."""

import math
import operator
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from pydantic import Field

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Context, or_sync
from pytest_agentv.evaluators.kinds.likeness.likeness import Likeness
from pytest_agentv.models.kind import Text
from pytest_agentv.models.scores import Score, clamp_score
from pytest_agentv.models.text import trim

DEFAULT_TARGET: Final = "embeddings"
_EMPTY: Final = "the answer is empty"


class Similar(Likeness):
    """The answer means nearly the same as a text: the cosine of their embeddings, which a model gives.

    The target is of the kind `openai`, `azure` or `gemini`, with a model for embeddings. One request fetches the
    embeddings of several cases in flight, each text once. With `--agentv-cache` they are kept for later runs. An empty
    answer has no embedding: it misses, also with `not-`.
    """

    kind = "similar"
    hints: ClassVar[Mapping[str, str]] = {"provider": "did you mean 'target'?"}
    examples = (
        {
            "answer": "The tent is sold for 120 euros.",
            "assert": [{"similar": "The tent costs 120 euros.", "threshold": 0.8, "target": "embeddings"}],
        },
    )

    target: Text = Field(
        default=DEFAULT_TARGET, description="the target that gives embeddings", examples=["embeddings"]
    )

    @property
    def embeds_with(self) -> str | None:
        return self.target

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Score the answer. Raises `EvaluatorError` if the target cannot be asked."""
        if context.dry_run:  # the mock of a dry run has no embeddings
            return self.score(0.0)
        embedder = context.services.embedders.get(self.target)
        if embedder is None:
            raise EvaluatorError(f"there is no target {self.target!r} that could give embeddings", "config")
        answer = trim(context.candidate_answer)
        if not answer:  # APIs refuse an empty text
            return Score(0.0, misses=(_EMPTY,), details={"similarity": 0.0}, unchecked=_EMPTY)
        found = await embedder.embed([answer, trim(self.value)])
        # The details do not say what was paid: an aggregator is shown them, and they must not differ in each run.
        return self.score(clamp_score(cosine(found[0].vector, found[1].vector)))


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the cosine of two vectors, -1 to 1; 0 for one without a direction.

    Raises `EvaluatorError` for vectors of different models.
    """
    if len(left) != len(right):
        raise EvaluatorError(f"the embeddings have {len(left)} and {len(right)} dimensions", "crash")
    lengths = math.hypot(*left) * math.hypot(*right)
    return math.fsum(map(operator.mul, left, right)) / lengths if lengths else 0.0
