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
from pytest_agentv.evaluators.python import factory_class
from pytest_agentv.evaluators.run import run_evaluator
from pytest_agentv.evaluators.script import CodeJudge
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.evaluators.text import Heuristic
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.results import EvaluatorResult, Score

CONTEXT = Context(EvalCase("c", "d", "/e", 1, "o", "q", (), ()), Prompt("q"), "yes")

PASSED = Score(1.0)


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
    assert run(Score(0.9, verdict="fail")).verdict == "fail"
    assert [run(Score(value)).score for value in (1.5, -1)] == [1.0, 0.0]


UNRECORDED = "evaluate() of 'mine' returned a Score that cannot be recorded: its `details` "


@pytest.mark.parametrize(
    ("outcome", "error", "kind"),
    [
        *(
            (Score(value), f"evaluate() returned the score {value!r}, expected a number from 0 to 1", None)
            for value in (float("nan"), float("inf"), "0.5", None, True)
        ),
        (Score(1.0, details={"a": {1}}), f"{UNRECORDED}hold a value of type set, which is no JSON", None),
        (Score(1.0, details={"a": {1: 2}}), f"{UNRECORDED}have a key that is no text", None),
        (0.5, "evaluate() returned float, expected a Score", "crash"),
        (Score, "evaluate() returned the class Score, expected a Score", "crash"),
        (EvaluatorError("it broke", "timeout", "half a reply"), "it broke", "timeout"),
        (ProviderError("no key", "auth"), "no key", "auth"),
        (asyncio.CancelledError("mine"), "CancelledError: mine", "crash"),
    ],
)
def test_what_is_no_judgement_is_an_error(outcome, error, kind):
    result = run(outcome)
    assert str(result.error).startswith(error)
    assert (result.score, result.verdict) == (0.0, "fail")
    assert kind is None or result.error_kind == kind


def test_an_error_without_a_text_says_what_it_was_raised_after():
    try:
        raise TimeoutError
    except TimeoutError as error:
        wordless = EvaluatorError(str(error), "timeout")
        wordless.__context__ = error
    assert run(wordless).error == "EvaluatorError without a text, raised after TimeoutError"
    assert run(EvaluatorError(" ")).error == "EvaluatorError without a text"


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
