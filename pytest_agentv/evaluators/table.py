"""The kinds of evaluators: the names for `type:` in an eval file, and the modules of their classes."""

from collections.abc import Mapping
from typing import Final

from pytest_agentv.model.kind_table import KindTable

_SENTENCE: Final = "write the sentence by itself: `- Is polite`; a model checks it"

ELSEWHERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(("llm-rubric", "g-eval", "geval", "model-graded-qa", "model-graded-closedqa"), _SENTENCE),
    "answer-relevancy": "write `answer-relevance`",
    "context-faithfulness": "write `faithfulness`",
    "context-precision": "`llm_judge` takes a prompt of its own",
    "is-refusal": "write `refusal`",
    "javascript": "`python` takes an expression, or file.py:function",
    "assert-set": "`composite` combines evaluators",
    "includes": "`icontains` ignores case as it does",
    "exact": "`equals` ignores blanks around the answer",
    "match": "`starts-with` and `ends-with` look at one end of the answer",
    "tool-correctness": "see `tool_trajectory`",
    "code-grader": "write `code_judge`, and its command as `script`",
    "llm-grader": "write `llm_judge`",
}
"""The commonest words of promptfoo, deepeval, Ragas, inspect_ai and AgentV 4. docs/coming-from.md has more."""

EVALUATORS: Final = KindTable(
    {
        "answer-relevance": "pytest_agentv.evaluators.judge:AnswerRelevance",
        "bleu": "pytest_agentv.evaluators.likeness:Bleu",
        "code": "pytest_agentv.evaluators.script:CodeJudge",
        "code_judge": "pytest_agentv.evaluators.script:CodeJudge",
        "command": "pytest_agentv.evaluators.script:Command",
        "composite": "pytest_agentv.evaluators.composite:Composite",
        "contains": "pytest_agentv.evaluators.text:Contains",
        "contains-all": "pytest_agentv.evaluators.text:ContainsAll",
        "contains-any": "pytest_agentv.evaluators.text:ContainsAny",
        "contains-json": "pytest_agentv.evaluators.data:ContainsJson",
        "context-recall": "pytest_agentv.evaluators.judge:ContextRecall",
        "context-relevance": "pytest_agentv.evaluators.judge:ContextRelevance",
        "cost": "pytest_agentv.evaluators.calls:Cost",
        "ends-with": "pytest_agentv.evaluators.text:EndsWith",
        "equals": "pytest_agentv.evaluators.data:Equals",
        "factuality": "pytest_agentv.evaluators.judge:Factuality",
        "faithfulness": "pytest_agentv.evaluators.judge:Faithfulness",
        "field": "pytest_agentv.evaluators.data:AnswerField",
        "field_accuracy": "pytest_agentv.evaluators.data:FieldAccuracy",
        "heuristic": "pytest_agentv.evaluators.text:Heuristic",
        "icontains": "pytest_agentv.evaluators.text:IContains",
        "icontains-all": "pytest_agentv.evaluators.text:IContainsAll",
        "icontains-any": "pytest_agentv.evaluators.text:IContainsAny",
        "is-json": "pytest_agentv.evaluators.data:IsJson",
        "is-xml": "pytest_agentv.evaluators.data:IsXml",
        "is-yaml": "pytest_agentv.evaluators.data:IsYaml",
        "latency": "pytest_agentv.evaluators.calls:Latency",
        "length": "pytest_agentv.evaluators.text:Length",
        "levenshtein": "pytest_agentv.evaluators.likeness:Levenshtein",
        "llm_judge": "pytest_agentv.evaluators.judge:LlmJudge",
        "python": "pytest_agentv.evaluators.python:PythonCheck",
        "refusal": "pytest_agentv.evaluators.judge:Refusal",
        "regex": "pytest_agentv.evaluators.text:Regex",
        "rouge": "pytest_agentv.evaluators.likeness:Rouge",
        "rubric": "pytest_agentv.evaluators.judge:RubricJudge",
        "similar": "pytest_agentv.evaluators.likeness:Similar",
        "starts-with": "pytest_agentv.evaluators.text:StartsWith",
        "statements": "pytest_agentv.evaluators.judge:Statements",
        "token_usage": "pytest_agentv.evaluators.calls:TokenUsageLimit",
        "tool-called": "pytest_agentv.evaluators.calls:ToolCalled",
        "tool_trajectory": "pytest_agentv.evaluators.calls:ToolTrajectory",
        "word": "pytest_agentv.evaluators.text:Word",
        "words": "pytest_agentv.evaluators.text:Words",
    },
    elsewhere=ELSEWHERE,
    older=("code", "heuristic"),
)
