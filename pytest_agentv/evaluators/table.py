"""The kinds of evaluators: the names for `type:` in an eval file, and the modules of their classes."""

from typing import Any, Final

from pytest_agentv.models.kind_table import Factory, KindTable

_ROOM: Final = "pytest_agentv.evaluators.kinds"


def _from_factory(word: str, factory: Factory) -> type[Any]:
    from pytest_agentv.evaluators.own import factory_class  # noqa: PLC0415 - imports pydantic

    return factory_class(word, factory)


EVALUATORS: Final = KindTable(
    {
        "bleu": f"{_ROOM}.likeness.bleu:Bleu",
        "code": f"{_ROOM}.code.code_judge:CodeJudge",
        "code_judge": f"{_ROOM}.code.code_judge:CodeJudge",
        "composite": f"{_ROOM}.composing.composite:Composite",
        "contains": f"{_ROOM}.text.contains:Contains",
        "contains-all": f"{_ROOM}.text.contains_all:ContainsAll",
        "contains-any": f"{_ROOM}.text.contains_any:ContainsAny",
        "contains-json": f"{_ROOM}.data.contains_json:ContainsJson",
        "cost": f"{_ROOM}.limits.cost:Cost",
        "ends-with": f"{_ROOM}.text.ends_with:EndsWith",
        "equals": f"{_ROOM}.data.equals:Equals",
        "field": f"{_ROOM}.data.field:AnswerField",
        "field_accuracy": f"{_ROOM}.data.field_accuracy:FieldAccuracy",
        "heuristic": f"{_ROOM}.text.heuristic:Heuristic",
        "icontains": f"{_ROOM}.text.icontains:IContains",
        "icontains-all": f"{_ROOM}.text.icontains_all:IContainsAll",
        "icontains-any": f"{_ROOM}.text.icontains_any:IContainsAny",
        "is-json": f"{_ROOM}.data.is_json:IsJson",
        "is-xml": f"{_ROOM}.data.is_xml:IsXml",
        "is-yaml": f"{_ROOM}.data.is_yaml:IsYaml",
        "latency": f"{_ROOM}.limits.latency:Latency",
        "length": f"{_ROOM}.text.length:Length",
        "levenshtein": f"{_ROOM}.likeness.levenshtein:Levenshtein",
        "llm_judge": f"{_ROOM}.judges.llm_judge:LlmJudge",
        "python": f"{_ROOM}.code.python:PythonCheck",
        "regex": f"{_ROOM}.text.regex:Regex",
        "rouge": f"{_ROOM}.likeness.rouge:Rouge",
        "rubric": f"{_ROOM}.judges.llm_judge:RubricJudge",
        "similar": f"{_ROOM}.likeness.similar:Similar",
        "starts-with": f"{_ROOM}.text.starts_with:StartsWith",
        "statements": f"{_ROOM}.judges.statements:Statements",
        "token_usage": f"{_ROOM}.limits.token_usage:TokenUsageLimit",
        "tool-called": f"{_ROOM}.calls.tool_called:ToolCalled",
        "tool_trajectory": f"{_ROOM}.calls.tool_trajectory:ToolTrajectory",
        "word": f"{_ROOM}.text.word:Word",
        "words": f"{_ROOM}.text.words:Words",
    },
    from_factory=_from_factory,
)
