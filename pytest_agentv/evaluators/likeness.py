"""How alike the answer and a text are: in meaning, in characters, in words."""

import math
import operator
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import off_loop
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.run import SLACK
from pytest_agentv.model.base import digits_apart, format_fixed, format_number, trim
from pytest_agentv.model.kind import Text
from pytest_agentv.model.results import Score, clamp_score
from pytest_agentv.runtime.user_code import run_in_thread


class Likeness(Evaluator):
    """A measure of how alike the answer and a text are: 1 for equal texts."""

    package: ClassVar[str | None] = None
    """The package of the extra `text` that it needs."""

    value: Text = Field(
        description="the text that the answer is compared with; whitespace around both is ignored",
        examples=["The tent costs 120 euros."],
    )
    threshold: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description="from this similarity the score is 1, below it 0; default: the similarity is the score",
        examples=[0.8],
    )

    def required_score(self, threshold: float) -> float:
        return threshold if self.threshold is None else 1.0

    def prepare(self, services: Services) -> Evaluator:  # noqa: ARG002 - it calls nobody
        if self.package is not None and find_spec(self.package.replace("-", "_")) is None:
            message = f"`{self.kind}` needs the package {self.package}: pip install 'pytest-agentv[text]'"
            raise EvaluatorError(message, kind="config")
        return self

    async def evaluate(self, context: Context) -> Score:
        answer, text = trim(context.candidate_answer), trim(self.value)
        if self.package is None:
            return self.score(await off_loop(len(answer) + len(text), self.measure, text, answer))
        return self.score(await run_in_thread(lambda: self.measure(text, answer), f"agentv-{self.kind}"))

    def measure(self, reference: str, answer: str) -> float:
        """Return the similarity of two texts, 0 to 1; blocks."""
        raise NotImplementedError

    def score(self, similarity: float) -> Score:
        details = {"similarity": similarity}
        digits = 3 if self.threshold is None else digits_apart(similarity, self.threshold, 3)
        shown = f"similarity {format_fixed(similarity, digits)}"
        if self.threshold is None:
            return Score(similarity, reasoning=shown, details=details)
        if similarity + SLACK >= self.threshold:  # as floats, 1 - 0.9 is less than 0.1
            return Score(1.0, hits=(f"{shown} >= {format_number(self.threshold)}",), details=details)
        return Score(0.0, misses=(f"{shown} < {format_number(self.threshold)}",), details=details)


class Similar(Likeness):
    """The answer means nearly the same as a text: the cosine of their embeddings, which a model gives.

    The target is of the kind `openai`, `azure` or `gemini`, with a model for embeddings. One request fetches the
    embeddings of several cases in flight, each text once. They are kept for later runs, as answers
    are. An empty answer has no embedding: it misses, also with `not-`.
    """

    kind = "similar"
    hints: ClassVar[Mapping[str, str]] = {"provider": "did you mean 'target'?"}
    examples = (
        {
            "answer": "The tent is sold for 120 euros.",
            "assert": [{"similar": "The tent costs 120 euros.", "threshold": 0.8, "target": "embeddings"}],
        },
    )

    target: Text = Field(default="embeddings", description="the target that gives embeddings", examples=["embeddings"])

    @property
    def embeds_with(self) -> str | None:
        return self.target

    async def evaluate(self, context: Context) -> Score:
        if context.dry_run:  # the mock of a dry run has no embeddings
            return self.score(0.0)
        embedder = context.services.embedders.get(self.target)
        if embedder is None:
            raise EvaluatorError(f"there is no target {self.target!r} that could give embeddings", "config")
        answer = trim(context.candidate_answer)
        if not answer:  # APIs refuse an empty text
            miss = "the answer is empty"
            return Score(0.0, misses=(miss,), details={"similarity": 0.0}, unchecked=miss)
        found = await embedder.embed([answer, trim(self.value)])
        # The details do not say what was paid: an aggregator is shown them, and they must not differ in each run.
        return self.score(clamp_score(cosine(found[0].vector, found[1].vector)))


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """Return the cosine of two vectors, -1 to 1; 0 for one without a direction."""
    if len(left) != len(right):
        raise EvaluatorError(f"the embeddings have {len(left)} and {len(right)} dimensions", "crash")
    lengths = math.hypot(*left) * math.hypot(*right)
    return math.fsum(map(operator.mul, left, right)) / lengths if lengths else 0.0


class Levenshtein(Likeness):
    """The answer is nearly equal to a text: few characters differ."""

    kind = "levenshtein"
    examples = (
        {
            "answer": "The tent costs 120 euros.",
            "assert": [{"levenshtein": "The tent costs 120 Euro.", "threshold": 0.9}],
        },
    )

    def measure(self, reference: str, answer: str) -> float:
        from rapidfuzz.distance import Levenshtein as Distance  # noqa: PLC0415 - only for this check

        return float(Distance.normalized_similarity(reference, answer))


class Rouge(Likeness):
    """The answer shares words with a text: the F1 of ROUGE, a measure for summaries, by the package rouge-score.

    Words are of the letters a to z and of digits: other letters, as in "Größe", separate words.
    """

    kind = "rouge"
    package = "rouge-score"
    examples = (
        {
            "answer": "The tent is sold for 120 euros.",
            "assert": [{"rouge": "The tent costs 120 euros.", "threshold": 0.5}],
        },
    )

    variant: Literal["rouge1", "rouge2", "rougeL"] = Field(
        default="rougeL",
        description="what is counted: words, pairs of words, or the longest sequence of words",
        examples=["rouge1"],
    )

    @model_validator(mode="after")
    def _has_words(self) -> Self:
        """Refuse a text that would score 0 even for an equal answer: the package sees no other letters."""
        needed, counted = (2, "pairs of words") if self.variant == "rouge2" else (1, "words")
        if len(re.findall("[a-z0-9]+", self.value.lower())) < needed:
            message = f"{self.variant} counts {counted} of the letters a to z and of digits only, and the text has none"
            raise ValueError(f"{message} (write bleu, levenshtein or similar)")
        return self

    def measure(self, reference: str, answer: str) -> float:
        from rouge_score.rouge_scorer import RougeScorer  # noqa: PLC0415 - an optional package that is slow to import

        return float(RougeScorer([self.variant]).score(reference, answer)[self.variant].fmeasure)


class Bleu(Likeness):
    """The answer shares word sequences with a text: BLEU, a measure for translations, by the package sacrebleu."""

    kind = "bleu"
    package = "sacrebleu"
    examples = (
        {
            "answer": "The tent costs 120 euros today.",
            "assert": [{"bleu": "The tent costs 120 euros.", "threshold": 0.5}],
        },
    )

    def measure(self, reference: str, answer: str) -> float:
        from sacrebleu import sentence_bleu  # noqa: PLC0415 - an optional package that is slow to import

        return min(1.0, float(sentence_bleu(answer, [reference]).score) / 100)
