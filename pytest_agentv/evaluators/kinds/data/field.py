"""`field`: a part of a JSON answer, checked by itself."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, ConfigDict, Field, ValidationInfo, WithJsonSchema, model_validator

from pytest_agentv.evaluators.base import AnswerPath, Context, Evaluator, Services, or_sync, scope_of
from pytest_agentv.evaluators.comparing.answer_data import is_in_one_of_several, lacking_data, locate_part
from pytest_agentv.evaluators.judging.reply import off_loop
from pytest_agentv.evaluators.run import judge, prepare
from pytest_agentv.evaluators.shared import shared_key, text_of_part
from pytest_agentv.loading.cases.evaluators import load_evaluator
from pytest_agentv.models.base import ABSENT, Json, JsonObject
from pytest_agentv.models.kind import definition
from pytest_agentv.models.scores import Score


def _read_check(value: Json, info: ValidationInfo) -> Json:
    scope = scope_of(info)
    return value if scope is None or value is None else load_evaluator(scope.at(value, "check"))


class AnswerField(Evaluator):
    """A part of a JSON answer passes a check, or, without a check, is there."""

    model_config = ConfigDict(extra="allow")

    kind = "field"
    short_key = "path"
    examples = (
        {
            "answer": '{"items": [{"price": 120}]}',
            "assert": [{"field": {"path": "items[0].price", "equals": 120}}, {"not-field": "error"}],
        },
    )

    path: AnswerPath = Field(description="where the part is", examples=["items[0].price"])
    check: Annotated[
        Evaluator | None, BeforeValidator(_read_check), WithJsonSchema(definition("evaluator_mapping"))
    ] = Field(
        default=None,
        description="what it has to pass; its keys may also stand beside `path`: `{path: price, equals: 120}`",
        examples=[{"equals": 120}],
    )

    @model_validator(mode="before")
    @classmethod
    def _gather_check(cls, value: Any, info: ValidationInfo) -> Any:
        """Read the keys beside `path` that are not those of every kind as the check."""
        scope = scope_of(info)
        if scope is None or not isinstance(value, dict):
            return value
        own = {key: item for key, item in value.items() if key in cls.model_fields}
        rest = {key: item for key, item in value.items() if key not in own}
        if not rest:
            return own
        if own.get("check") is not None:
            scope.place.at("check").error("is written twice: its keys stand beside `path` too")
            return own
        return {**own, "check": load_evaluator(scope.at(rest))}

    @model_validator(mode="after")
    def _be_required(self, info: ValidationInfo) -> Self:
        """Take over `required` from the check, which is not called if the part is missing."""
        if scope_of(info) is None or self.check is None or shared_key(self.check, "required") is not True:
            return self
        return self.model_copy(update={"required": True, "check": self.check.model_copy(update={"required": False})})

    @classmethod
    def keys_of(cls, value: Json) -> JsonObject:
        """Keys beside a `type` are the check: `{path: price, type: equals, value: 1}`."""
        keys = super().keys_of(value)
        if "type" not in keys:
            return keys
        own = {key: item for key, item in keys.items() if key in cls.model_fields and key != "check"}
        return {**own, "check": {key: item for key, item in keys.items() if key not in own}}

    def summary(self) -> str:
        return self.check.name or self.check.describe() if self.check is not None else ""

    @property
    def asks_judge(self) -> bool:
        return self.check is not None and self.check.asks_judge

    @property
    def calls_targets(self) -> bool:
        return self.check is not None and self.check.calls_targets

    @property
    def scripts(self) -> Sequence[tuple[str | None, tuple[str, ...]]]:
        return ()

    def walk(self) -> Iterator[Evaluator]:
        yield self
        if self.check is not None:
            yield from self.check.walk()

    def prepare(self, services: Services) -> Evaluator:
        return self.model_copy(update={"check": self.check and prepare(self.check, services)})

    def required_score(self, threshold: float) -> float:
        return 1.0 if self.check is None else self.check.required_score(threshold)

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Raises `EvaluatorError` when the check cannot judge."""
        answer = context.candidate_answer if context.part is ABSENT else context.part
        part, miss = await off_loop(len(context.candidate_answer), locate_part, answer, self.path)
        if self.check is None:
            if part is not ABSENT:
                return Score(1.0, hits=(f"{self.path} is there",))
            unchecked = await off_loop(len(context.candidate_answer), _unchecked, context, self.path)
            return Score(0.0, misses=(miss,), unchecked=unchecked)
        if part is ABSENT:  # without a value the check fails, even a negated one
            return Score(0.0, misses=(miss,), unchecked=miss)
        return await judge(self.check, context.replace(candidate_answer=text_of_part(part), part=part))


def _unchecked(context: Context, path: str) -> str | None:
    """Return why a missing part could not be looked for; None if the answer is data that lacks it."""
    answer = context.candidate_answer if context.part is ABSENT else context.part
    if is_in_one_of_several(answer, path):  # it is unknown which object counts, but the part is not missing
        return f"{path} is there, in one of several JSON objects"
    lacking = lacking_data(context.candidate_answer, path) if context.part is ABSENT else None
    return f"the answer holds no {lacking}, so {path} could not be checked" if lacking else None
