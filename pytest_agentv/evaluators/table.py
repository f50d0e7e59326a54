"""The kinds of evaluators: the names for `type:` in an eval file, and the modules of their classes."""

from typing import Any, Final

from pytest_agentv.model.kind_table import Factory, KindTable


def _from_factory(word: str, factory: Factory) -> type[Any]:
    from pytest_agentv.evaluators.own import factory_class  # noqa: PLC0415 - imports pydantic

    return factory_class(word, factory)


EVALUATORS: Final = KindTable(
    {
        "bleu": "pytest_agentv.evaluators.likeness:Bleu",
        "code": "pytest_agentv.evaluators.script:CodeJudge",
        "code_judge": "pytest_agentv.evaluators.script:CodeJudge",
        "composite": "pytest_agentv.evaluators.composite:Composite",
        "contains": "pytest_agentv.evaluators.text:Contains",
        "contains-all": "pytest_agentv.evaluators.text:ContainsAll",
        "contains-any": "pytest_agentv.evaluators.text:ContainsAny",
        "contains-json": "pytest_agentv.evaluators.json_checks:ContainsJson",
        "cost": "pytest_agentv.evaluators.limits:Cost",
        "ends-with": "pytest_agentv.evaluators.text:EndsWith",
        "equals": "pytest_agentv.evaluators.data:Equals",
        "field": "pytest_agentv.evaluators.data:AnswerField",
        "field_accuracy": "pytest_agentv.evaluators.field_accuracy:FieldAccuracy",
        "heuristic": "pytest_agentv.evaluators.text:Heuristic",
        "icontains": "pytest_agentv.evaluators.text:IContains",
        "icontains-all": "pytest_agentv.evaluators.text:IContainsAll",
        "icontains-any": "pytest_agentv.evaluators.text:IContainsAny",
        "is-json": "pytest_agentv.evaluators.json_checks:IsJson",
        "is-xml": "pytest_agentv.evaluators.data:IsXml",
        "is-yaml": "pytest_agentv.evaluators.data:IsYaml",
        "latency": "pytest_agentv.evaluators.limits:Latency",
        "length": "pytest_agentv.evaluators.text:Length",
        "levenshtein": "pytest_agentv.evaluators.likeness:Levenshtein",
        "llm_judge": "pytest_agentv.evaluators.judge:LlmJudge",
        "python": "pytest_agentv.evaluators.python:PythonCheck",
        "regex": "pytest_agentv.evaluators.patterns:Regex",
        "rouge": "pytest_agentv.evaluators.likeness:Rouge",
        "rubric": "pytest_agentv.evaluators.judge:RubricJudge",
        "similar": "pytest_agentv.evaluators.likeness:Similar",
        "starts-with": "pytest_agentv.evaluators.text:StartsWith",
        "statements": "pytest_agentv.evaluators.judge:Statements",
        "token_usage": "pytest_agentv.evaluators.limits:TokenUsageLimit",
        "tool-called": "pytest_agentv.evaluators.calls:ToolCalled",
        "tool_trajectory": "pytest_agentv.evaluators.calls:ToolTrajectory",
        "word": "pytest_agentv.evaluators.text:Word",
        "words": "pytest_agentv.evaluators.text:Words",
    },
    from_factory=_from_factory,
)
