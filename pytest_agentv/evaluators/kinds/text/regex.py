"""`regex`: the answer matches a pattern."""

import re
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, ValidationInfo, WithJsonSchema, model_validator

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Context, Evaluator, or_sync, scope_of
from pytest_agentv.evaluators.comparing.patterns import check_pattern, search
from pytest_agentv.evaluators.kinds.text.check import shown_piece, verdict
from pytest_agentv.models.kind import Text, expected
from pytest_agentv.models.scores import Score

LETTERS: Final = "aimsx"
_FLAGS: Final = {"type": "string", "pattern": f"^[{LETTERS}]+$"}
_LITERAL: Final = re.compile(r"/((?:[^/\\\[]|\\.|\[(?:[^\]\\]|\\.)*\])+)/((?:([dgimsuvy])(?!.*\3))*)", re.DOTALL)
"""A pattern as JavaScript writes it: `/yes|no/i`. No flag is there twice: `/dev/sdd` is a path."""
_SURE_FLAGS: Final = re.compile("[gim]+")
"""Flags that few paths end with, unlike `/dev/sd`, `/api/v`, `/usr/my`."""


def _letters(value: str) -> str:
    if not value or not set(value) <= set(LETTERS):
        raise expected("letters of i (ignore case), m (multiline), s (dot matches all), a (ASCII), x (verbose)")
    return value


def _pattern(value: str, info: ValidationInfo) -> str:
    fault = check_pattern(value)
    if fault:
        raise ValueError(fault)
    scope = scope_of(info)
    literal = _LITERAL.fullmatch(value)
    if scope is not None and literal is not None:
        flags = "".join(letter for letter in literal[2] if letter in LETTERS)
        place = scope.place.at("value")
        # It may be a path, for which a strict run must not fail.
        note = place.warn if _SURE_FLAGS.fullmatch(literal[2]) else place.suggest
        note(
            f"{value!r} looks for the slashes too",
            f"write the pattern without them: {literal[1]}" + (f", and flags: {flags}" if flags else ""),
        )
    return value


class Regex(Evaluator):
    r"""The answer matches a pattern of Python's `re`, anywhere.

    The package `regex` searches, because it can be stopped. It differs from `re` in details: `\w` matches combining
    marks, and does not match `²` or `½`; `\s` does not match the control characters 1C to 1F; `\B` matches an empty
    answer; with `flags: i`, `I` does not match `İ`, and `i` does not match the dotless i.
    """

    kind = "regex"
    is_graded = False
    examples = ({"answer": "Order no. 1001 was sent.", "assert": [{"regex": "order no\\. \\d{4}", "flags": "i"}]},)

    value: Annotated[Text, AfterValidator(_pattern)] = Field(
        description="the pattern, as for Python's `re.search`", examples=["\\d+ days"]
    )
    flags: Annotated[str, AfterValidator(_letters), WithJsonSchema(_FLAGS)] | None = Field(
        default=None, description="letters: `i` ignores case, and `m`, `s`, `a`, `x` as in `re`", examples=["i"]
    )

    @model_validator(mode="after")
    def _compiles_with_its_flags(self) -> Self:
        fault = check_pattern(self.value, self.flags) if self.flags else None
        if fault:
            raise ValueError(fault)
        return self

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Search without holding up other cases. Raises `EvaluatorError` when the pattern takes too long."""
        try:
            found = await search(self.value, self.flags or "", context.candidate_answer, context.timeout_seconds)
        except TimeoutError as error:
            raise EvaluatorError(str(error), kind="timeout") from None
        pattern = f"/{self.value}/{self.flags or ''}"
        if found is None:
            return verdict(False, "", f"does not match {pattern}")
        return verdict(True, f"matches {pattern}: {shown_piece(found, context.candidate_answer)}", "")
