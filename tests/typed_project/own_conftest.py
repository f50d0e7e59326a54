"""A conftest of a user, with types. An acceptance test runs it as `conftest.py`; `mypy` checks it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from pydantic import Field

from pytest_agentv import (
    ABSENT,
    Amount,
    Context,
    EvalCase,
    EvalResult,
    Evaluator,
    EvaluatorError,
    IContains,
    Items,
    Message,
    Part,
    PromptMode,
    Provider,
    ProviderError,
    ProviderFactory,
    ProviderRequest,
    ProviderResponse,
    RunOptions,
    Score,
    Services,
    Target,
    TargetDefinition,
    TargetEnvironment,
    Text,
    TokenUsage,
    ToolCall,
    spelled,
)


class Bound(Part):
    """A mapping within a kind."""

    least: Amount = 0


class Contains(Evaluator):
    """The answer holds a text."""

    kind = "contains"

    value: Text = Field(description="what must be there")
    other_words: Items[Text] = spelled("other_words", "otherWords", default=(), description="other texts")
    length: Bound = Field(default=Bound(), description="how long the answer must be")

    async def evaluate(self, context: Context) -> Score:
        words = (self.value, *self.other_words)
        hits = tuple(word for word in words if word in context.candidate_answer)
        if len(context.candidate_answer) < self.length.least:
            raise EvaluatorError("the answer is too short to be judged", "config")
        return Score(len(hits) / len(words), hits=hits)


class Costs(Evaluator):
    """An evaluator that is not async runs in a thread."""

    kind = "costs"

    def evaluate(self, context: Context) -> Score:
        spent = context.metrics.cost_usd if context.metrics else None
        return Score(float((spent or 0) < 1))


class Loud(IContains):
    """A built-in kind with another `evaluate`."""

    kind = "loud"

    def prepare(self, services: Services) -> None:
        if not self.value:
            raise EvaluatorError("there is nothing to look for", "config")

    async def evaluate(self, context: Context) -> Score:
        return Score(float(self.value.upper() in context.candidate_answer.upper()))


class Echo(Provider):
    """A provider whose adapter is a function of its own."""

    kind = "echo"

    word: Text = Field(description="what it says first")

    def open(self, environment: TargetEnvironment) -> "Bird":
        return Bird(f"{self.word} from {environment.name}")


class Bird:
    """What is called for each case."""

    def __init__(self, word: str) -> None:
        self.word = word

    def invoke(self, request: ProviderRequest) -> str:
        return f"{self.word}: {request.prompt.question}"


class Parrot:
    """A provider of the older form."""

    mode: PromptMode = "lm"

    def __init__(self, target: Target, environment: Mapping[str, str]) -> None:
        self.name = target.name

    async def check(self) -> None: ...

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        if not request.prompt.question:
            raise ProviderError("nothing to repeat", "no_answer")
        calls = (ToolCall("repeat", input={"text": request.prompt.question}),)
        message = Message("assistant", f"Hello {request.prompt.question}", tool_calls=calls)
        return ProviderResponse(output_messages=(message,), token_usage=TokenUsage(1, 2), cost_usd=0.5)

    async def close(self) -> None: ...


def pytest_agentv_evaluators() -> Sequence[type[Evaluator]]:
    return [Contains, Costs, Loud]


def pytest_agentv_providers() -> Mapping[str, ProviderFactory | type[Provider]]:
    return {"parrot": Parrot, "echo": Echo}


def pytest_agentv_case(case: EvalCase) -> EvalCase | None:
    return case.replace(evaluators=(Contains(value="Hello"),)) if case.evaluators is None else None


def pytest_agentv_response(case: EvalCase, response: ProviderResponse) -> ProviderResponse | None:
    contents = [message.content for message in response.output_messages or () if message.content is not ABSENT]
    return response.replace(finish_reason=case.eval_id) if contents else None


def pytest_agentv_assert(case: EvalCase, result: EvalResult) -> bool | str | None:
    metrics = result.execution_metrics
    return None if metrics is None or (metrics.cost_usd or 0) < 1 else f"{case.eval_id} is too expensive"


def pytest_agentv_result(case: EvalCase | None, result: EvalResult) -> None:
    print("told of", case.eval_id if case else "nothing", result.finish_reason)


def pytest_agentv_summary(results: Sequence[EvalResult]) -> None:
    print("mean", sum(result.score for result in results) / len(results))


@pytest.fixture
def names(agentv_options: RunOptions, agentv_targets: Mapping[str, TargetDefinition]) -> list[str]:
    return [*agentv_targets, agentv_options.output_format]


CONTAINS: Callable[..., Any] = Contains
