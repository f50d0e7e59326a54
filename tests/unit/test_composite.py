import asyncio
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.composite import (
    AGGREGATOR_SYSTEM_PROMPT,
    Aggregator,
    CodeAggregator,
    Composite,
    LlmAggregator,
    WeightedAverage,
    results_by_name,
    weighted_average,
)
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.judge import LlmJudge, Rubric
from pytest_agentv.evaluators.judge_reply import NO_JUDGEMENT, REPLY_CONTRACT
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
COST = Score(1.0, request={"type": "cost", "budget": 0.01, "cost_usd": 0.001}, details={"by_model": {"gpt_4": 1}})


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


def gate(tmp_path: Path, source: str) -> CodeAggregator:
    (tmp_path / "gate.py").write_text(source, encoding="utf-8")
    return CodeAggregator(path=f"'{sys.executable}' gate.py", cwd=str(tmp_path))


def result_of(name: str, score: Score) -> EvaluatorResult:
    return build_result(spec_of(name), score)


# Weighted average


def test_the_aggregators_weights_count_and_those_of_the_members_do_not() -> None:
    tokens = Score(0.0, misses=("Total tokens 17 > 5",), reasoning="too many")
    score = evaluate(composite(WeightedAverage(weights={"safety": 3}), ("safety", SAFETY), ("tok", tokens)))
    assert score.value == pytest.approx(0.525)
    assert score.hits == ("[safety] h1",)
    assert score.misses == ("[safety] m1", "[tok] Total tokens 17 > 5")
    assert score.reasoning == "safety: why; tok: too many"
    assert score.request == {"aggregator": "weighted_average", "weights": {"safety": 3}}
    assert [(member.name, member.weight) for member in score.results or ()] == [("safety", 3), ("tok", 1.0)]
    assert build_result(spec_of("comp2"), score).verdict == "fail"


@pytest.mark.parametrize(
    ("weights", "scores", "expected"),
    [
        ({}, (0.8, 0.4), 0.6),
        ({"m0": 3, "m1": 1}, (0.8, 0.4), 0.7),
        ({"m0": 0, "m1": 0}, (1.0, 1.0), 0.0),
        ({"m0": 0}, (1.0, 0.4), 0.4),
    ],
)
def test_the_weighted_mean(weights: dict[str, float], scores: Sequence[float], expected: float) -> None:
    results = [result_of(f"m{index}", Score(value)) for index, value in enumerate(scores)]
    assert weighted_average(weights, results).value == pytest.approx(expected)


def test_the_mean_of_equal_scores_is_that_score_and_keeps_its_verdict() -> None:
    results = [result_of(str(index), Score(0.8)) for index in range(10)]
    score = weighted_average({}, results)
    assert score.value == 0.8
    assert build_result(spec_of("all"), score).verdict == "pass"


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-1e6, 1e6))))
@example([(1.0, 5e-324), (1.0, -1e6)])
def test_a_weighted_average_stays_within_its_bounds(members: list[tuple[float, float]]) -> None:
    results = [result_of(str(index), Score(value)) for index, (value, _) in enumerate(members)]
    weights = {str(index): weight for index, (_, weight) in enumerate(members)}
    assert 0.0 <= weighted_average(weights, results).value <= 1.0


# Members


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
    ("aggregator", "kind"), [(WeightedAverage(), "rate_limit"), (CodeAggregator(path="exit 3", cwd="/"), "process")]
)
def test_what_members_found_is_kept_where_the_composite_cannot_judge(aggregator: Aggregator, kind: str) -> None:
    broken = EvaluatorError("429", kind="rate_limit") if kind == "rate_limit" else COST
    evaluator = composite(aggregator, ("safety", SAFETY), ("other", broken))
    result = asyncio.run(run_evaluator(evaluator.prepare(SERVICES), make_context()))
    assert (result.score, result.error_kind) == (0.0, kind)
    safety, other = result.evaluator_results or ()
    assert (safety.name, safety.score, safety.hits, safety.weight) == ("safety", SAFETY.value, SAFETY.hits, None)
    assert (other.name, other.error) == ("other", "429" if kind == "rate_limit" else None)


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


# Code aggregator


def test_a_code_aggregator_is_given_the_score_objects_with_agentvs_keys(tmp_path: Path) -> None:
    aggregator = gate(
        tmp_path,
        "import pathlib, sys; pathlib.Path('stdin.json').write_bytes(sys.stdin.buffer.read())\n"
        'print(\'{"score":0.65,"verdict":"pass","hits":["a"],"misses":["b"],"reasoning":"agg"}\')',
    )
    score = evaluate(composite(aggregator, ("safety", SAFETY), ("cost", COST)))
    assert json.loads((tmp_path / "stdin.json").read_text(encoding="utf-8")) == {
        "results": {
            "safety": {
                "score": 0.7,
                "verdict": "borderline",
                "hits": ["h1"],
                "misses": ["m1"],
                "expectedAspectCount": 2,
                "reasoning": "why",
                "evaluatorRawRequest": {"userPrompt": "U", "systemPrompt": "S", "target": "default"},
            },
            "cost": {
                "score": 1,
                "verdict": "pass",
                "hits": [],
                "misses": [],
                "expectedAspectCount": 1,
                "evaluatorRawRequest": {"type": "cost", "budget": 0.01, "costUsd": 0.001},
                "details": {"by_model": {"gpt_4": 1}},
            },
        }
    }
    assert (score.value, score.verdict, score.hits, score.misses, score.reasoning) == (
        *(0.65, "pass"),
        *(("a",), ("b",), "agg"),
    )
    assert score.request == {"aggregator": "code_judge", "script": aggregator.path}
    assert [(member.name, member.weight) for member in score.results or ()] == [("safety", 1.0), ("cost", 1.0)]


def test_the_members_of_a_member_have_agentvs_keys_too() -> None:
    inner = Score(0.5, request={"aggregator": "weighted_average", "weights": {"my_key": 1}})
    nested = inner.replace(results=(result_of("safety", SAFETY),))
    assert results_by_name([result_of("inner", nested)])["inner"]["evaluatorResults"] == [
        {
            "name": "safety",
            "type": "custom",
            "score": 0.7,
            "weight": 1,
            "verdict": "borderline",
            "hits": ["h1"],
            "misses": ["m1"],
            "reasoning": "why",
            "evaluatorProviderRequest": {"userPrompt": "U", "systemPrompt": "S", "target": "default"},
        }
    ]
    assert results_by_name([result_of("inner", nested)])["inner"]["evaluatorRawRequest"] == {
        "aggregator": "weighted_average",
        "weights": {"my_key": 1},
    }


def test_names_that_are_no_unicode_still_reach_the_aggregator(tmp_path: Path) -> None:
    aggregator = gate(tmp_path, "import json, sys; print(json.dumps({'score': len(json.load(sys.stdin)['results'])}))")
    assert evaluate(composite(aggregator, ("half \ud83d", SAFETY))).value == 1.0


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


@given(st.text() | st.builds('{{"score": {}, "verdict": {}}}'.format, st.floats(), st.integers()))
def test_whatever_an_aggregator_prints_is_a_score_within_its_bounds(stdout: str) -> None:
    assert 0.0 <= build_result(spec_of("gate"), read_aggregate(stdout)).score <= 1.0


def test_output_that_is_no_result_scores_0_and_says_what_was_expected(tmp_path: Path) -> None:
    score = evaluate(composite(gate(tmp_path, "print('looks good')"), ("safety", SAFETY)))
    assert (score.value, score.verdict, score.raw_output) == (0.0, None, "looks good\n")
    assert score.misses == (
        "Code evaluator did not print one JSON object: print exactly one JSON object such as "
        '{"score": 0.5, "hits": [], "misses": [], "reasoning": ""} on standard output, and everything else on '
        "standard error; it printed: looks good",
    )


def test_an_aggregator_that_fails_is_an_error_with_its_standard_error() -> None:
    evaluator = composite(CodeAggregator(path="echo out; echo oops >&2; exit 3", cwd="/"), ("safety", SAFETY))
    with pytest.raises(EvaluatorError) as caught:
        evaluate(evaluator)
    assert str(caught.value) == (
        "the aggregator could not judge: Code evaluator exited with code 3 "
        "(script: sh -c 'echo out; echo oops >&2; exit 3'): oops"
    )
    assert (caught.value.kind, caught.value.output) == ("process", "out\n")


def test_an_aggregator_that_cannot_start_is_a_configuration_error(tmp_path: Path) -> None:
    evaluator = composite(CodeAggregator(path="true", cwd=str(tmp_path / "gone")), ("safety", SAFETY))
    with pytest.raises(
        EvaluatorError, match=r"^the aggregator could not judge: Code evaluator could not be started .*gone"
    ) as caught:
        evaluate(evaluator)
    assert caught.value.kind == "config"


def test_an_aggregator_that_takes_too_long_is_a_timeout() -> None:
    evaluator = composite(CodeAggregator(path="exec sleep 60", cwd="/"), ("safety", SAFETY))
    with pytest.raises(EvaluatorError, match=r"timed out after 0\.05 s") as caught:
        evaluate(evaluator, timeout_seconds=0.05)
    assert caught.value.kind == "timeout"


# Model as aggregator


def test_only_a_model_as_aggregator_or_as_member_needs_a_judge() -> None:
    members = (("safety", SAFETY),)
    assert composite(LlmAggregator(prompt="x"), *members, judge=ScriptedJudge("{}")).asks_judge
    assert not composite(WeightedAverage(), *members, judge=ScriptedJudge("{}")).asks_judge


def test_a_model_as_aggregator_is_shown_the_results_and_judges() -> None:
    judge = ScriptedJudge('{"score": 0.9, "hits": ["1", "2", "3", "4", "5"], "reasoning": "r"}')
    score = evaluate(
        composite(LlmAggregator(prompt="R={{EVALUATOR_RESULTS_JSON}}"), ("safety", SAFETY), judge=judge), judge
    )
    ((system_prompt, user_prompt),) = judge.asked
    shown = re.fullmatch(r"R=<(quoted-[0-9a-f]{16})>(.*)</\1>", user_prompt, re.DOTALL)
    assert shown is not None
    assert json.loads(shown[2]) == results_by_name([result_of("safety", SAFETY)])
    assert shown[2].startswith('{\n  "safety": {\n    "score": 0.7,\n')
    assert system_prompt.startswith(f"{AGGREGATOR_SYSTEM_PROMPT} The text between <{shown[1]}> and ")
    assert system_prompt.endswith(REPLY_CONTRACT)
    assert (score.value, score.hits, score.reasoning) == (0.9, ("1", "2", "3", "4"), "r")
    assert [(member.name, member.weight) for member in score.results or ()] == [("safety", None)]
    assert score.request == {
        "aggregator": "llm_judge",
        "user_prompt": user_prompt,
        "system_prompt": system_prompt,
        "target": "grader",
    }


def test_the_default_prompt_of_a_model_shows_the_results() -> None:
    judge = ScriptedJudge("bad")
    score = evaluate(composite(LlmAggregator(), ("safety", SAFETY), judge=judge), judge)
    assert re.search(r'\[\[ ## evaluator_results ## \]\]\n<quoted-.{16}>{\n  "safety": {', judge.asked[0][1])
    assert (score.value, score.hits, score.misses, score.raw_output) == (0.0, (), (), "bad")
    assert score.error == f"the judge 'grader' gave no judgement in 3 replies: {NO_JUDGEMENT}"


# Configuration


def test_a_model_as_aggregator_needs_a_judge() -> None:
    with pytest.raises(EvaluatorError) as caught:
        composite(LlmAggregator(), ("safety", SAFETY))
    assert caught.value.kind == "config"
    assert str(caught.value) == (
        "a composite's `llm_judge` aggregator has no judge to ask: write `judge_target: <name>` in the target's "
        "entry of targets.yaml, where <name> is a target with a model"
    )


def test_members_that_are_handed_on_by_name_need_names_of_their_own() -> None:
    with pytest.raises(EvaluatorError) as caught:
        composite(CodeAggregator(path="true", cwd="/"), ("a", SAFETY), ("a", COST))
    assert caught.value.kind == "config"
    assert str(caught.value) == (
        "the aggregator is given the members' results by name, but 'a' names more than one: "
        "give each member of the composite a name of its own"
    )


def test_members_of_a_weighted_average_may_share_a_name() -> None:
    score = evaluate(composite(WeightedAverage(weights={"a": 2}), ("a", SAFETY), ("a", COST)))
    assert score.value == pytest.approx(0.85)


def test_what_a_model_makes_of_something_unknown_rests_on_it() -> None:
    judge = ScriptedJudge('{"score": 0}')
    members = (("safety", SAFETY), ("cheap", Score(0.0, unknown="no cost")))
    assert evaluate(composite(LlmAggregator(), *members, judge=judge), judge).unknown == "cheap: no cost"
    assert evaluate(composite(LlmAggregator(), members[0], judge=judge), judge).unknown is None
