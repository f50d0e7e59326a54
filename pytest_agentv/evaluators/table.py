"""The kinds of evaluators: the word after `type:` in an eval file, and where its class is."""

from typing import Any, Final

from pytest_agentv.models.kind_table import Factory, KindTable

_HERE: Final = "pytest_agentv.evaluators"


def _from_factory(word: str, factory: Factory) -> type[Any]:
    from pytest_agentv.evaluators.own import factory_class  # noqa: PLC0415 - pydantic

    return factory_class(word, factory)


EVALUATORS: Final = KindTable(
    {
        "code": f"{_HERE}.code_judge:CodeJudge",
        "code_judge": f"{_HERE}.code_judge:CodeJudge",
        "composite": f"{_HERE}.composite:Composite",
        "cost": f"{_HERE}.cost:Cost",
        "field_accuracy": f"{_HERE}.field_accuracy:FieldAccuracy",
        "heuristic": f"{_HERE}.heuristic:Heuristic",
        "latency": f"{_HERE}.latency:Latency",
        "levenshtein": f"{_HERE}.levenshtein:Levenshtein",
        "llm_judge": f"{_HERE}.llm_judge:LlmJudge",
        "rubric": f"{_HERE}.llm_judge:RubricJudge",
        "token_usage": f"{_HERE}.token_usage:TokenUsageLimit",
        "tool_trajectory": f"{_HERE}.tool_trajectory:ToolTrajectory",
    },
    from_factory=_from_factory,
)
