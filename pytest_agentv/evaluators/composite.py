"""The `composite` evaluator: several evaluators side by side, whose results an aggregator combines."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Annotated, ClassVar, Final, Self, TypeAlias

from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, model_validator

from pytest_agentv.cases.evaluators import NO_MODEL, adopt, load_evaluators
from pytest_agentv.cases.prompts import render_template
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import (
    REPLY_SCHEMA,
    JudgeQuestion,
    Quotes,
    ask_judge,
    off_loop,
    read_judgement,
    require_judge,
    shipped,
)
from pytest_agentv.evaluators.base import Evaluator, scope_of
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.judge import Statements, with_prompt
from pytest_agentv.evaluators.run import may_ask_models, prepare, require_judgements, run_evaluator
from pytest_agentv.evaluators.script import Folder, read_aggregate, run_judge_script
from pytest_agentv.files.kind_reader import find_kind, read_part
from pytest_agentv.files.places import EVALUATOR_LIST_KEYS, first_key
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import Json, JsonObject, pretty_json
from pytest_agentv.model.kind import NOT_EMPTY, Amount, Items, Kind, Text, definition, expected, spelled
from pytest_agentv.model.results import (
    NOTHING_COUNTS,
    EvaluatorResult,
    Score,
    explicitly_unmet,
    unmet_required,
    weighted_mean,
)

Results: TypeAlias = Sequence[EvaluatorResult]


def _resting_on(results: Results, score: Score, weight: float | None, request: JsonObject) -> Score:
    """Return the score that an aggregator gave for some results, each of the same weight."""
    members = tuple(result.replace(weight=weight) for result in results)
    return score.replace(
        request=request, results=members, unknown=_told(results, "unknown"), unchecked=_told(results, "unchecked")
    )


class Aggregator(Kind):
    """Combines the members' results into one score."""

    asks_judge: ClassVar[bool] = False

    @property
    def scripts(self) -> Sequence[tuple[str | None, tuple[str, ...]]]:
        return ()

    async def combine(self, results: Results, context: Context) -> Score:
        raise NotImplementedError


class WeightedAverage(Aggregator):
    """The weighted mean of the members."""

    kind = "weighted_average"

    weights: dict[str, Amount] = Field(
        default={},
        description="by member; a member that is not named weighs 1, and sentences weigh as much as their number",
    )

    async def combine(self, results: Results, context: Context) -> Score:  # noqa: ARG002 - it calls nobody
        """Combine by the aggregator's weights; sentences weigh as their number. Source: agentv-formats 6.6."""
        weighed = tuple(
            result.replace(
                weight=self.weights.get(result.name, (result.weight or 0.0) if result.type == Statements.kind else 1.0)
            )
            for result in results
        )
        counting = [result for result in weighed if result.weight]
        reasons = [f"{result.name}: {result.reasoning}" for result in results if result.reasoning]
        return Score(
            weighted_mean([(result.score, result.weight or 0.0) for result in weighed]),
            hits=tuple(f"[{result.name}] {hit}" for result in results for hit in result.hits),
            misses=tuple(f"[{result.name}] {miss}" for result in results for miss in result.misses),
            reasoning="; ".join(reasons if counting else [NOTHING_COUNTS, *reasons]) or None,
            request={"aggregator": self.kind, "weights": dict(self.weights)},
            results=weighed,
            unmet_required=unmet_required(weighed) or None,
            unknown=_told(counting, "unknown") if counting else NOTHING_COUNTS,
            unchecked=_told(counting, "unchecked"),
        )


class CodeAggregator(Aggregator):
    """A shell command that is given the members' results as JSON and prints a judgement."""

    kind = "code_judge"

    path: Text = Field(description="the shell command")
    cwd: Folder = None

    @property
    def scripts(self) -> Sequence[tuple[str | None, tuple[str, ...]]]:
        return ((self.cwd, ("sh", "-c", self.path)),)

    async def combine(self, results: Results, context: Context) -> Score:
        command, payload = ("sh", "-c", self.path), {"results": results_by_name(results)}
        stdout = await run_judge_script(command, payload, cwd=self.cwd, context=context)
        score = await off_loop(len(stdout), read_aggregate, stdout)
        return _resting_on(results, score, 1.0, {"aggregator": self.kind, "script": self.path})


class LlmAggregator(Aggregator):
    """A model that is shown the members' results and judges."""

    kind = "llm_judge"
    asks_judge = True
    hints: ClassVar[Mapping[str, str]] = NO_MODEL

    prompt: Text | None = Field(default=None, description="a file, or a text with `{{ EVALUATOR_RESULTS_JSON }}`")
    prompt_path: Text | None = spelled("prompt_path", "promptPath", default=None, description="the prompt's file")

    _read_prompt = model_validator(mode="after")(with_prompt)

    async def combine(self, results: Results, context: Context) -> Score:
        judge = require_judge(context.services, "a composite's `llm_judge` aggregator")
        found = pretty_json(results_by_name(results))
        quotes = Quotes([found])
        template = self.prompt or shipped("aggregator")
        question = JudgeQuestion(
            f"{shipped('aggregator-system')} {quotes.rule}\n\n{shipped('reply-score')}",
            render_template(template, {"EVALUATOR_RESULTS_JSON": quotes.around(found)}),
            material=(found, context.candidate_answer),
            schema=None if self.prompt else REPLY_SCHEMA,
        )
        score = await ask_judge(judge, question, context, read_judgement)
        return _resting_on(results, score, None, {"aggregator": self.kind, **(score.request or {})})


AGGREGATORS: Final[Mapping[str, type[Aggregator]]] = {
    each.kind: each for each in (CodeAggregator, LlmAggregator, WeightedAverage)
}


def _read_members(value: Json, info: ValidationInfo) -> Json:
    if not isinstance(value, list | tuple):
        raise expected("a list")
    scope = scope_of(info)
    if scope is None:
        return value
    written = first_key(scope.value, EVALUATOR_LIST_KEYS) if isinstance(scope.value, dict) else None
    return load_evaluators(scope.at(list(value), written or EVALUATOR_LIST_KEYS[0]))


def _read_aggregator(value: Json, info: ValidationInfo) -> Json:
    """Read an aggregator. If that fails, note the fault and return a mean instead."""
    scope = scope_of(info)
    if scope is None:
        return value
    inner = scope.at(value, "aggregator")
    if isinstance(value, Aggregator):
        return adopt(inner) or WeightedAverage()
    if not isinstance(value, dict):
        raise expected("a mapping")
    kind = find_kind(AGGREGATORS, value, "type", inner.place)
    keys = {key: item for key, item in value.items() if key != "type"}
    return (kind and read_part(kind, keys, inner.place, context=inner)) or WeightedAverage()


Members: TypeAlias = Annotated[
    Items[Evaluator],
    BeforeValidator(_read_members),
    NOT_EMPTY,
    WithJsonSchema({"type": "array", "items": definition("evaluator"), "minItems": 1}),
]


class Composite(Evaluator):
    """Several evaluators with one score. They run side by side, and an aggregator combines their results.

    If a member cannot judge, the composite cannot judge either: a score of the others would mislead.
    """

    kind = "composite"
    short_key = None
    hints: ClassVar[Mapping[str, str]] = {"judges": "a panel judges one evaluator: write it into the members"}

    evaluators: Members = spelled(*EVALUATOR_LIST_KEYS, description="the members")
    aggregator: Annotated[Aggregator, BeforeValidator(_read_aggregator), WithJsonSchema(definition("aggregator"))] = (
        Field(description="how their scores are combined")
    )
    judge: Text | None = Field(
        default=None,
        description="the target that judges, for members that name none, and for the aggregator",
        examples=["gpt"],
    )

    @model_validator(mode="after")
    def _note_weights(self, info: ValidationInfo) -> Self:
        scope = scope_of(info)
        if scope is None or not isinstance(self.aggregator, WeightedAverage):
            return self
        names = [member.label for member in self.evaluators]
        for name in self.aggregator.weights:
            if name not in names:
                hint = did_you_mean(name, names) or f"members: {', '.join(names)}"
                place = scope.place.at("aggregator", "weights", name)
                place.unread("a weight for a member that there is none of", hint)
        for member in self.evaluators:
            is_weighed = isinstance(member, Statements) or member.label in self.aggregator.weights
            if member.weight != 1 and not is_weighed:
                told = f"the member {member.label!r} has a `weight`, which is not read"
                scope.place.warn(told, "write it into `weights` of the aggregator")
        return self

    @property
    def scripts(self) -> Sequence[tuple[str | None, tuple[str, ...]]]:
        return self.aggregator.scripts

    @property
    def _held(self) -> Sequence[Evaluator]:
        return self.evaluators

    @property
    def asks_judge(self) -> bool:
        return self.aggregator.asks_judge or super().asks_judge

    @property
    def judged_by(self) -> tuple[str, ...]:
        return () if self.judge is None else (self.judge,)

    @property
    def asked_judges(self) -> tuple[str | None, ...]:
        own = (self.judge,) if self.aggregator.asks_judge else ()
        return tuple(dict.fromkeys((*super().asked_judges, *own)))

    def prepare(self, services: Services) -> Evaluator:
        names = [member.label for member in self.evaluators]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None and not isinstance(self.aggregator, WeightedAverage):
            message = f"the aggregator is given the members' results by name, but {twice!r} names more than one"
            raise EvaluatorError(f"{message}: give each member of the composite a name of its own", kind="config")
        if self.aggregator.asks_judge:
            require_judge(services, "a composite's `llm_judge` aggregator")
        return self.model_copy(update={"evaluators": tuple(prepare(member, services) for member in self.evaluators)})

    async def evaluate(self, context: Context) -> Score:
        """Judge by all members. Raises `EvaluatorError` if a member or the aggregator could not judge."""
        numbers, asked = count(), []
        for member in self.evaluators:  # those that may ask a model are numbered: their questions may be equal
            twin = (*context.twin, next(numbers)) if may_ask_models(member) else context.twin
            asked.append(run_evaluator(member, context.replace(twin=twin)))
        results = await asyncio.gather(*asked)
        try:
            require_judgements(results)
            score = await self.aggregator.combine(results, context)
        except Exception as error:  # the findings of the other members were paid for
            members = tuple(result.replace(weight=None) for result in results)
            error.results = members  # type: ignore[attr-defined]
            raise
        unmet = tuple(dict.fromkeys((*(score.unmet_required or ()), *explicitly_unmet(results))))
        return score.replace(unmet_required=unmet, verdict="fail") if unmet else score


def _told(results: Results, key: str) -> str | None:
    """Return what results say under `unknown` or `unchecked`, each with its name; None: nothing."""
    return "; ".join(f"{result.name}: {told}" for result in results if (told := getattr(result, key))) or None


def results_by_name(results: Results) -> dict[str, Json]:
    """Return the input of aggregators: AgentV's score objects by member. Source: agentv-formats 6.6, S6."""
    found: dict[str, Json] = {}
    for result in results:
        camel = _camel_case_result(result.to_plain())
        score = {key: camel[key] for key in ("score", "verdict", "hits", "misses")}
        score["expectedAspectCount"] = max(1, len(result.hits) + len(result.misses))
        camel["evaluatorRawRequest"] = camel.get("evaluatorProviderRequest")
        rest = ("reasoning", "evaluatorRawRequest", "evaluatorResults", "details")
        found[result.name] = score | {key: camel[key] for key in rest if camel.get(key) is not None}
    return found


def _camel_case_result(plain: JsonObject) -> dict[str, Json]:
    of_the_run = ("duration_ms", "judge_metrics")  # with what differs in each run, no reply would be in the cache
    camel = _camel_case_keys({key: value for key, value in plain.items() if key not in of_the_run})
    if "evaluatorProviderRequest" in camel:
        camel["evaluatorProviderRequest"] = _camel_case_keys(camel["evaluatorProviderRequest"])
    if "evaluatorResults" in camel:
        camel["evaluatorResults"] = [_camel_case_result(member) for member in camel["evaluatorResults"]]
    return camel


def _camel_case_keys(plain: JsonObject) -> dict[str, Json]:
    """Rename the keys of one level only: those below are the user's."""
    return {re.sub(r"_([a-z])", lambda match: match[1].upper(), key): value for key, value in plain.items()}
