"""`length`: how long the answer is."""

from collections.abc import Iterator
from typing import Annotated, Self, TypeAlias

from pydantic import Field, model_validator

from pytest_agentv.evaluators.kinds.text.check import TextCheck
from pytest_agentv.models.kind import spelled
from pytest_agentv.models.scores import Score

Number: TypeAlias = Annotated[int, Field(ge=0)]


class Length(TextCheck):
    r"""The answer is neither too long nor too short; at least one limit is set.

    Whitespace around the answer does not count. Lines end as for `str.splitlines` of Python: with `\n`, `\r`, a form
    feed or U+2028, for example.
    """

    kind = "length"
    short_key = None
    examples = ({"answer": "It costs 120 euros.", "assert": [{"length": {"min_words": 3, "max_chars": 80}}]},)

    min_words: Number | None = spelled(
        "min_words", "minWords", default=None, description="the fewest words", examples=[20]
    )
    max_words: Number | None = spelled(
        "max_words", "maxWords", default=None, description="the most words", examples=[200]
    )
    min_chars: Number | None = spelled(
        "min_chars", "minChars", default=None, description="the fewest characters", examples=[100]
    )
    max_chars: Number | None = spelled(
        "max_chars", "maxChars", default=None, description="the most characters", examples=[1000]
    )
    max_lines: Number | None = spelled(
        "max_lines",
        "maxLines",
        default=None,
        description="the most lines, with the empty ones between them",
        examples=[10],
    )

    @model_validator(mode="after")
    def _needs_a_limit(self) -> Self:
        if not list(self._limits(0, 0, 0)):
            raise ValueError("length needs a limit: min_words, max_words, min_chars, max_chars or max_lines")
        for least, most, what in (
            (self.min_words, self.max_words, "words"),
            (self.min_chars, self.max_chars, "chars"),
        ):
            if least is not None and most is not None and least > most:
                raise ValueError(f"no answer can have min_{what}: {least} and max_{what}: {most}")
        return self

    def summary(self) -> str:
        return ", ".join(f"{name} {limit}" for name, _, limit, _ in self._limits(0, 0, 0))

    def check(self, answer: str) -> Score:
        text = answer.strip()
        hits: list[str] = []
        misses: list[str] = []
        for name, amount, limit, what in self._limits(len(text.split()), len(text), len(text.splitlines())):
            is_met = amount >= limit if name.startswith("min") else amount <= limit
            bound = "at least" if name.startswith("min") else "at most"
            (hits if is_met else misses).append(f"has {amount} {what[:-1] if amount == 1 else what} ({bound} {limit})")
        return Score(0.0 if misses else 1.0, hits=tuple(hits), misses=tuple(misses))

    def _limits(self, words: int, chars: int, lines: int) -> Iterator[tuple[str, int, int, str]]:
        """Yield each limit that is set: its name, the amount that it limits, itself, and what is counted."""
        amounts = (
            ("min_words", words, "words"),
            ("max_words", words, "words"),
            ("min_chars", chars, "characters"),
            ("max_chars", chars, "characters"),
            ("max_lines", lines, "lines"),
        )
        for name, amount, what in amounts:
            limit = getattr(self, name)
            if limit is not None:
                yield name, amount, limit, what
