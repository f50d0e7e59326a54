"""What to write instead of the kinds of checks that other tools have."""

from collections.abc import Mapping
from typing import Final

_SENTENCE: Final = "write the sentence by itself: `- Is polite`; a model checks it"
_PYTHON: Final = "`python` takes an expression, or file.py:function"
_MODEL: Final = "`llm_judge` takes a prompt of its own"

INSTEAD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("llm-rubric", "g-eval", "agent-rubric", "search-rubric", "model-graded-qa"), _SENTENCE),
    **dict.fromkeys(("model-graded-closedqa", "is-refusal"), _SENTENCE),
    **dict.fromkeys(("factuality", "model-graded-factuality", "model-graded-fact", "answer-relevance"), _MODEL),
    **dict.fromkeys(("context-faithfulness", "context-recall", "context-relevance", "conversation-relevance"), _MODEL),
    **dict.fromkeys(
        ("javascript", "ruby", "is-sql", "contains-sql", "contains-xml", "is-html", "contains-html"), _PYTHON
    ),
    **dict.fromkeys(("webhook", "classifier", "moderation", "guardrails"), "`code_judge` runs a script"),
    **dict.fromkeys(("is-valid-function-call", "is-valid-openai-function-call"), "`tool-called` checks arguments"),
    **dict.fromkeys(("is-valid-openai-tools-call", "trajectory:tool-args-match"), "`tool-called` checks arguments"),
    **dict.fromkeys(("trajectory:tool-used", "skill-used"), "`tool-called` takes the name of a tool"),
    **dict.fromkeys(("trajectory:tool-sequence", "trajectory:step-count", "tool-call-f1"), "see `tool_trajectory`"),
    **dict.fromkeys(("rouge-n", "meteor", "gleu"), "`rouge` and `bleu` compare words"),
    **dict.fromkeys(("similar:cosine", "similar:dot", "similar:euclidean"), "`similar` compares by the cosine"),
    **dict.fromkeys(("select-best", "max-score"), "`matrix` and --agentv-target=a,b compare targets"),
    "assert-set": "`composite` combines evaluators",
    "word-count": "`length` has min_words and max_words",
    "includes": "`icontains` ignores case as it does",
    "match": "`starts-with` and `ends-with` look at one end of the answer",
    "exact": "`equals` ignores blanks around the answer",
    "pattern": "`regex` takes a pattern",
}
"""By the words of promptfoo and inspect_ai, in kebab case."""
