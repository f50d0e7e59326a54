import asyncio
import re
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.composite import (
    Aggregator,
    Composite,
    LlmAggregator,
    WeightedAverage,
)
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.judge import LlmJudge, Rubric
from pytest_agentv.evaluators.run import build_result, run_evaluator
from pytest_agentv.evaluators.script import read_aggregate
from pytest_agentv.model.cases import EvalCase
from pytest_agentv.model.results import EvaluatorResult, Score

SAFETY = Score(
    0.7,
    ("h1",),
    ("m1",),
    "why",
    request={"user_prompt": "U", "system_prompt": "S", "target": "default"},
)


class Scored(Evaluator):
    """A member with a score known beforehand; an error is raised instead."""

    kind = "custom"

    score: Any = None

    async def evaluate(self, context: Context) -> Score:
        if isinstance(self.score, Exception):
            raise self.score
        found: Score = self.score
        return found


@dataclass
class ScriptedJudge:
    reply: str
    name: str = "grader"
    asked: list[tuple[str, str]] = field(default_factory=list)

    async def ask(self, system_prompt: str, user_prompt: str, context: Context, schema: object = None) -> str:
        self.asked.append((system_prompt, user_prompt))
        return self.reply


def spec_of(name: str, weight: float = 1.0) -> Scored:
    return Scored(name=name, weight=weight)


SERVICES = Services(environment={"PATH": "/usr/bin:/bin"})


def composite(aggregator: Aggregator, *members: tuple[str, Score | Exception], judge: Any = None) -> Evaluator:
    scored = tuple(Scored(name=name, weight=9, score=score) for name, score in members)
    return Composite(evaluators=scored, aggregator=aggregator).prepare(replace(SERVICES, judge=judge))


def make_context(**changes: Any) -> Context:
    case = EvalCase(
        eval_id="c1",
        dataset="d",
        path="/evals/d.eval.yaml",
        line=3,
        expected_outcome="Outcome",
        question="raw",
        messages=(),
        input_messages=(),
    )
    return Context(case, Prompt("Q"), "Answer", timeout_seconds=20, services=SERVICES).replace(**changes)


def evaluate(evaluator: Evaluator, judge: Any = None, **changes: Any) -> Score:
    return asyncio.run(evaluator.evaluate(make_context(services=replace(SERVICES, judge=judge), **changes)))


def result_of(name: str, score: Score) -> EvaluatorResult:
    return build_result(spec_of(name), score)


def test_the_mean_of_equal_scores_is_that_score_and_keeps_its_verdict() -> None:
    results = [result_of(str(index), Score(0.8)) for index in range(10)]
    score = asyncio.run(WeightedAverage().combine(results, None))
    assert score.value == 0.8
    assert build_result(spec_of("all"), score).verdict == "pass"


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-1e6, 1e6))))
@example([(1.0, 5e-324), (1.0, -1e6)])
def test_a_weighted_average_stays_within_its_bounds(members: list[tuple[float, float]]) -> None:
    results = [result_of(str(index), Score(value)) for index, (value, _) in enumerate(members)]
    weights = {str(index): weight for index, (_, weight) in enumerate(members)}
    assert 0.0 <= asyncio.run(WeightedAverage.model_construct(weights=weights).combine(results, None)).value <= 1.0


def test_members_run_in_parallel() -> None:
    async def run() -> Score:
        barrier = asyncio.Barrier(2)

        class Waiting(Evaluator):
            kind = "waiting"

            async def evaluate(self, context: Context) -> Score:
                await barrier.wait()
                return Score(1.0)

        both = Composite(evaluators=(Waiting(name="a"), Waiting(name="b")), aggregator=WeightedAverage())
        async with asyncio.timeout(10):
            return await both.evaluate(make_context())

    assert asyncio.run(run()).value == 1.0


def test_a_member_that_could_not_judge_makes_the_composite_an_error_that_names_it() -> None:
    broken = EvaluatorError("judge 'grader': 429", kind="rate_limit", output="slow down")
    evaluator = composite(WeightedAverage(), ("ok", SAFETY), ("net", broken), ("bug", KeyError("x")))
    with pytest.raises(EvaluatorError) as caught:
        evaluate(evaluator)
    told, *places = str(caught.value).split("\n")
    assert told == "member 'net' could not judge: judge 'grader': 429; member 'bug' could not judge: KeyError: 'x'"
    assert all(place.endswith(" in evaluate") for place in places), "where its author's code crashed"
    assert (caught.value.kind, caught.value.output) == ("rate_limit", "slow down")


@pytest.mark.parametrize(
    ("stdout", "verdict"),
    [
        ('{"score": 0.9, "verdict": "fail"}', "fail"),
        ('{"score": 0.9, "verdict": "borderline"}\n', "borderline"),
        ('{"score": 0.9, "verdict": "ok"}', None),
        ('{"score": 0.9, "verdict": ["fail"]}', None),
        ('{"score": 0.9}', None),
        ('{"verdict": "pass"}', None),
    ],
)
def test_only_a_known_verdict_of_a_valid_result_is_kept(stdout: str, verdict: str | None) -> None:
    assert read_aggregate(stdout).verdict == verdict


@pytest.mark.parametrize(
    ("score", "verdict", "warnings"),
    [
        (1, "fail", ("the aggregator prints the verdict 'fail' and the score 1: the score counts",)),
        (0.7, "fail", ()),
        (0.65, "pass", ()),
        (1, "pass", ()),
    ],
)
def test_a_verdict_that_fails_beside_a_score_that_passes_gives_a_warning(
    score: float, verdict: str, warnings: tuple[str, ...]
) -> None:
    result = build_result(spec_of("gate"), read_aggregate(f'{{"score": {score}, "verdict": "{verdict}"}}'))
    assert (result.verdict, result.warnings or ()) == (verdict, warnings)


def test_members_of_a_weighted_average_may_share_a_name() -> None:
    score = evaluate(composite(WeightedAverage(weights={"a": 2}), ("a", SAFETY), ("a", Score(1.0))))
    assert score.value == pytest.approx(0.85)


def test_what_a_model_makes_of_something_unknown_rests_on_it() -> None:
    judge = ScriptedJudge('{"score": 0}')
    members = (("safety", SAFETY), ("cheap", Score(0.0, unknown="no cost")))
    assert evaluate(composite(LlmAggregator(), *members, judge=judge), judge).unknown == "cheap: no cost"
    assert evaluate(composite(LlmAggregator(), members[0], judge=judge), judge).unknown is None


def test_members_of_members_are_kept_and_members_honour_their_prompts_and_rubrics() -> None:
    checks = '[{"id": "s", "satisfied": false, "reasoning": ""}]'
    judge = ScriptedJudge(f'{{"score": 0.5, "checks": {checks}, "overall_reasoning": "o"}}')
    free = LlmJudge(name="free", prompt="Mine: {{candidate_answer}}")
    rubric = LlmJudge(name="rubric", rubrics=(Rubric(id="r", description="R d"), Rubric(id="s", description="S d")))
    inner = Composite(name="inner", evaluators=(free, rubric), aggregator=WeightedAverage())
    outer = Composite(name="outer", evaluators=(inner,), aggregator=WeightedAverage())
    services = replace(SERVICES, judge=judge)
    result = asyncio.run(run_evaluator(outer.prepare(services), make_context(services=services)))
    assert result.score == 0.25
    assert result.misses == ("[inner] [rubric] [r] R d: not judged", "[inner] [rubric] [s] S d")
    assert result.unmet_required == ("[r] R d", "[s] S d")
    assert sorted(re.sub("<.*?>", "", user_prompt).splitlines()[0] for _, user_prompt in judge.asked) == [
        "Mine: Answer",
        "[[ ## question ## ]]",
    ]
    (inner_result,) = result.evaluator_results or ()
    assert [member.name for member in inner_result.evaluator_results or ()] == ["free", "rubric"]
