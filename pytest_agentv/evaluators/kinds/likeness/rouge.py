"""`rouge`: how many words, pairs or sequences of words the answer shares with a text."""

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from pytest_agentv.evaluators.base import Context, Evaluator, Services, or_sync
from pytest_agentv.evaluators.kinds.likeness.likeness import Likeness, require_package
from pytest_agentv.models.scores import Score
from pytest_agentv.runtime.threads import run_in_thread


class Rouge(Likeness):
    """The answer shares words with a text: the F1 of ROUGE, a measure for summaries, by the package rouge-score.

    Words are of the letters a to z and of digits: other letters, as in "Größe", separate words.
    """

    kind = "rouge"
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

    @field_validator("value")
    @classmethod
    def _has_words(cls, value: str) -> str:
        """Refuse a text that would score 0 even for an equal answer: the package sees no other letters."""
        if not re.search("[a-z0-9]", value.lower()):
            message = "rouge counts words of the letters a to z and of digits only, and the text has none"
            raise ValueError(f"{message} (write bleu, levenshtein or similar)")
        return value

    @model_validator(mode="after")
    def _has_pairs(self) -> Self:
        """Refuse a text without a pair of words for the same reason."""
        if self.variant == "rouge2" and len(re.findall("[a-z0-9]+", self.value.lower())) == 1:
            raise ValueError(f"rouge2 counts pairs of words, and {self.value!r} has one word (write variant: rouge1)")
        return self

    def prepare(self, services: Services) -> Evaluator:  # noqa: ARG002 - it calls nobody
        require_package(self.kind, "rouge_score", "rouge-score")
        return self

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Score the answer. Raises `EvaluatorError` if rouge-score is not installed."""
        require_package(self.kind, "rouge_score", "rouge-score")
        answer = context.candidate_answer
        return self.score(await run_in_thread(lambda: _f1(self.variant, self.value, answer), "agentv-rouge"))


def _f1(variant: str, reference: str, answer: str) -> float:
    if variant == "rougeL":
        return _f1_of_sequences(reference, answer)
    from rouge_score.rouge_scorer import RougeScorer  # noqa: PLC0415 - an optional package that is slow to import

    return float(RougeScorer([variant]).score(reference, answer)[variant].fmeasure)


def _f1_of_sequences(reference: str, answer: str) -> float:
    """Return what rouge-score does for `rougeL`, whose table of all pairs of words takes gigabytes for long answers."""
    from rapidfuzz.distance import LCSseq  # noqa: PLC0415 - only for this check
    from rouge_score.scoring import fmeasure  # noqa: PLC0415 - as above
    from rouge_score.tokenizers import DefaultTokenizer  # noqa: PLC0415 - as above

    wanted, found = map(DefaultTokenizer(use_stemmer=False).tokenize, (reference, answer))
    if not wanted or not found:
        return 0.0
    common = LCSseq.similarity(wanted, found)
    return float(fmeasure(common / len(found), common / len(wanted)))
