"""The table of evaluators, and running one of them whatever it does."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import EvaluatorError, ProviderError
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.composite import Composite, WeightedAverage
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.own import EvaluatorSpec, factory_class
from pytest_agentv.evaluators.run import run_evaluator
from pytest_agentv.evaluators.script import CodeJudge
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.evaluators.text import Heuristic
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.kind_table import merge_kinds
from pytest_agentv.model.results import EvaluatorResult, Score

CONTEXT = Context(EvalCase("c", "d", "/e", 1, "o", "q", (), ()), Prompt("q"), "yes")

PASSED = Score(1.0)


def judged(kind: type[Any]) -> type[Any]:
    kind.evaluate = lambda self, context: PASSED
    return kind


class Mixin:
    async def evaluate(self, context: Context) -> Score:
        return PASSED


@judged
class Decorated(Evaluator):
    kind = "decorated"


class Mixed(Mixin, Evaluator):
    kind = "mixed"


class Derived(Mixed):
    kind = "derived"


@pytest.mark.parametrize("kind", [Decorated, Mixed, Derived])
def test_a_kind_may_get_its_method_from_anywhere(kind: type[Any]) -> None:
    assert merge_kinds([[kind]]) == {kind.kind: kind}
    assert asyncio.run(run_evaluator(kind(name="x"), CONTEXT)).score == 1.0


@dataclass(frozen=True)
class Stub:
    """Returns what it was given, or raises it."""

    outcome: Any = PASSED

    async def evaluate(self, context: Context) -> Score:
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


class StubJudge:
    name = "judge"

    async def ask(self, system_prompt: str, user_prompt: str, context: Context, schema: object = None) -> str:
        return '{"score": 1}'


SERVICES = Services(judge=StubJudge(), environment={"A": "1"})


class Stubbed(CodeJudge):
    """A judge with a weight and a name that does what a stub does."""

    stub: Any = None

    async def evaluate(self, context: Context) -> Score:
        return await self.stub.evaluate(context)


def run(outcome: Any) -> EvaluatorResult:
    result = asyncio.run(run_evaluator(Stubbed(name="mine", script=("x",), weight=2.0, stub=Stub(outcome)), CONTEXT))
    return result.replace(duration_ms=None)


@pytest.mark.parametrize("word", EVALUATORS)
def test_each_word_of_the_table_names_a_class_of_that_kind(word):
    kind = EVALUATORS[word]
    assert issubclass(kind, Evaluator)
    assert kind.kind == {"code": "code_judge", "rubric": "llm_judge"}.get(word, word)
    assert kind.__doc__
    assert [name for name, field in kind.model_fields.items() if not field.description] == []


def test_members_of_a_composite_are_prepared_too():
    own = factory_class("acme", lambda spec, services: Stub(Score(0.5)))
    inner = Composite(
        name="inner", evaluators=(Heuristic(hits=("yes",)), own(name="own", level=3)), aggregator=WeightedAverage()
    )
    outer = Composite(evaluators=(inner,), aggregator=WeightedAverage())
    assert asyncio.run(outer.prepare(SERVICES).evaluate(CONTEXT)).value == 0.75


def test_a_factory_is_given_the_keys_as_written_and_the_services():
    given = []

    def create(spec: EvaluatorSpec, services: Services) -> Stub:
        given.append((spec, services))
        return Stub()

    evaluator = factory_class("acme", create)(name="mine", weight=2, level={"a": 1})
    assert asyncio.run(run_evaluator(evaluator.prepare(SERVICES), CONTEXT)).score == 1
    config = {"name": "mine", "type": "acme", "weight": 2, "level": {"a": 1}}
    assert given == [(EvaluatorSpec("mine", "acme", config, 2), SERVICES)]


def test_an_evaluator_without_a_name_is_called_by_its_kind():
    assert asyncio.run(run_evaluator(Heuristic(hits=("yes",)), CONTEXT)).name == "heuristic"


def test_a_method_that_is_not_async_may_judge_too():
    class Plain(Evaluator):
        kind = "plain"

        def evaluate(self, context: Context) -> Score:  # type: ignore[override]
            return Score(0.5)

    assert asyncio.run(run_evaluator(Plain(), CONTEXT)).score == 0.5


def test_a_score_becomes_a_result():
    member = EvaluatorResult("m", "cost", 1.0, 1.0, "pass")
    score = Score(
        0.7,
        ("h",),
        ("m",),
        "why",
        details={"a": 1},
        request={"script": ["x"]},
        raw_output="out",
        results=(member,),
    )
    assert run(score) == EvaluatorResult(
        name="mine",
        type="code_judge",
        score=0.7,
        weight=2.0,
        verdict="borderline",
        hits=("h",),
        misses=("m",),
        reasoning="why",
        evaluator_provider_request={"script": ["x"]},
        evaluator_results=(member,),
        details={"a": 1},
        raw_output="out",
    )


def test_a_verdict_of_its_own_is_kept_and_the_value_is_clamped():
    assert run(Score(0.9, verdict="fail")).verdict == "fail"
    assert [run(Score(value)).score for value in (1.5, -1)] == [1.0, 0.0]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), "0.5", None, True])
def test_a_score_that_is_no_number_is_an_error(value):
    result = run(Score(value))
    assert (result.score, result.error) == (
        0.0,
        f"evaluate() returned the score {value!r}, expected a number from 0 to 1",
    )


@pytest.mark.parametrize(
    ("details", "fault"),
    [
        ({"a": {1, 2}}, "hold a value of type set, which is no JSON"),
        ({"a": {1: 2}}, "have a key that is no text"),
    ],
)
def test_details_that_are_no_json_are_an_error(details, fault):
    error = f"evaluate() of 'mine' returned a Score that cannot be recorded: its `details` {fault}"
    assert run(Score(1.0, details=details)).error == error


def test_an_evaluator_that_could_not_judge_gives_a_failed_result_with_its_reason():
    result = run(EvaluatorError("it broke", "timeout", "half a reply"))
    assert result == EvaluatorResult(
        name="mine",
        type="code_judge",
        score=0.0,
        weight=2.0,
        verdict="fail",
        misses=("Evaluator 'mine' failed: it broke",),
        reasoning="it broke",
        raw_output="half a reply",
        error="it broke",
        error_kind="timeout",
    )


def test_an_error_without_a_text_says_what_it_was_raised_after():
    try:
        raise TimeoutError
    except TimeoutError as error:
        wordless = EvaluatorError(str(error), "timeout")
        wordless.__context__ = error
    assert run(wordless).error == "EvaluatorError without a text, raised after TimeoutError"
    assert run(EvaluatorError(" ")).error == "EvaluatorError without a text"


def test_a_provider_error_keeps_its_kind():
    result = run(ProviderError("no key", "auth"))
    assert (result.error, result.error_kind, result.raw_output) == ("no key", "auth", None)


def test_a_crash_of_an_evaluator_is_named():
    result = run(KeyError("answer"))
    (miss,) = result.misses
    assert miss.startswith("Evaluator 'mine' failed: KeyError: 'answer'\n  tests/unit/test_evaluator_kinds.py:")
    told, *places = str(result.error).split("\n")
    assert (told, result.error_kind) == ("KeyError: 'answer'", "crash")
    assert places[-1].endswith("in evaluate"), "where it crashed is what its author looks for"


@pytest.mark.parametrize(("returned", "shown"), [(0.5, "float"), (Score, "the class Score")])
def test_an_evaluator_that_returns_something_else_is_told(returned, shown):
    result = run(returned)
    assert (result.error, result.error_kind) == (f"evaluate() returned {shown}, expected a Score", "crash")


def test_cancelling_a_case_passes_through_its_evaluator():
    class Waiting(Evaluator):
        kind = "waiting"

        async def evaluate(self, context: Context) -> Score:
            await asyncio.sleep(60)
            return Score(1.0)

    async def scenario():
        task = asyncio.create_task(run_evaluator(Waiting(), CONTEXT))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())


def test_an_evaluator_that_raises_a_cancellation_has_failed():
    result = run(asyncio.CancelledError("mine"))

    assert (str(result.error).partition("\n")[0], result.error_kind) == ("CancelledError: mine", "crash")
