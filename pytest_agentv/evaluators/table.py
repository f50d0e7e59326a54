"""The kinds of evaluators: the word after `type:` in an eval file, and where its class is."""

from typing import Any, Final

from pytest_agentv.models.kind_table import Factory, KindTable

_ROOM: Final = "pytest_agentv.evaluators.kinds"


def _from_factory(word: str, factory: Factory) -> type[Any]:
    from pytest_agentv.evaluators.own import factory_class  # noqa: PLC0415 - pydantic

    return factory_class(word, factory)


EVALUATORS: Final = KindTable(
    {
        "code": f"{_ROOM}.code_judge:CodeJudge",
        "code_judge": f"{_ROOM}.code_judge:CodeJudge",
        "composite": f"{_ROOM}.composite:Composite",
        "cost": f"{_ROOM}.cost:Cost",
        "field_accuracy": f"{_ROOM}.field_accuracy:FieldAccuracy",
        "heuristic": f"{_ROOM}.heuristic:Heuristic",
        "latency": f"{_ROOM}.latency:Latency",
        "levenshtein": f"{_ROOM}.levenshtein:Levenshtein",
        "llm_judge": f"{_ROOM}.llm_judge:LlmJudge",
        "rubric": f"{_ROOM}.llm_judge:RubricJudge",
        "token_usage": f"{_ROOM}.token_usage:TokenUsageLimit",
        "tool_trajectory": f"{_ROOM}.tool_trajectory:ToolTrajectory",
    },
    from_factory=_from_factory,
)
