"""Replacements for the check kinds of other tools, and for texts that are not sentences."""

import re
from collections.abc import Mapping
from typing import Final

from pytest_agentv.loading.file_words import note_statement
from pytest_agentv.loading.places import Place
from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.models.kind_table import NEGATION, KindTable

_SENTENCE: Final = "write the sentence by itself: `- Is polite`; a model checks it"
_PYTHON: Final = "`python` takes an expression, or file.py:function"
_MODEL: Final = "`llm_judge` takes a prompt of its own"
_CONTEXT: Final = "`llm_judge` takes a prompt of its own, which may use {{ retrieved_context }}"
_SCRIPT: Final = "`code_judge` runs a script"
_ARGUMENTS: Final = "`tool-called` checks arguments"
_CALLS: Final = "see `tool_trajectory`"
_EQUALS: Final = "`equals` takes the text: `equals: yes`, or a variable: `equals: '{{ answer }}'`"
_SPANS: Final = "no check reads spans: `tool_trajectory` and `tool-called` check the calls, `latency` the time"

INSTEAD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("llm-rubric", "g-eval", "agent-rubric", "search-rubric", "model-graded-qa"), _SENTENCE),
    **dict.fromkeys(("model-graded-closedqa", "is-refusal", "video-rubric", "pi", "llm-judge"), _SENTENCE),
    **dict.fromkeys(("trajectory:goal-success", "task-completion", "goal-accuracy", "plan-quality"), _SENTENCE),
    **dict.fromkeys(("conversational-g-eval", "dag", "bias", "toxicity", "pii-leakage", "prompt-alignment"), _SENTENCE),
    **dict.fromkeys(("role-adherence", "role-violation", "misuse", "non-advice"), _SENTENCE),
    **dict.fromkeys(("factuality", "model-graded-factuality", "model-graded-fact", "answer-relevance"), _MODEL),
    **dict.fromkeys(("conversation-relevance", "answer-relevancy", "conversation-completeness"), _MODEL),
    **dict.fromkeys(("knowledge-retention", "turn-relevancy", "summarization"), _MODEL),
    **dict.fromkeys(("context-faithfulness", "context-recall", "context-relevance", "context-precision"), _CONTEXT),
    **dict.fromkeys(("contextual-recall", "contextual-relevancy", "contextual-precision"), _CONTEXT),
    **dict.fromkeys(("faithfulness", "hallucination"), _CONTEXT),
    **dict.fromkeys(
        ("javascript", "ruby", "is-sql", "contains-sql", "contains-xml", "is-html", "contains-html"), _PYTHON
    ),
    **dict.fromkeys(("webhook", "classifier", "moderation", "guardrails"), _SCRIPT),
    **dict.fromkeys(("perplexity", "perplexity-score"), "no target reports log probabilities"),
    **dict.fromkeys(("is-valid-function-call", "is-valid-openai-function-call"), _ARGUMENTS),
    **dict.fromkeys(("is-valid-openai-tools-call", "trajectory:tool-args-match", "argument-correctness"), _ARGUMENTS),
    **dict.fromkeys(("trajectory:tool-used", "skill-used"), "`tool-called` takes the name of a tool"),
    **dict.fromkeys(("trajectory:tool-sequence", "trajectory:step-count", "tool-call-f1"), _CALLS),
    **dict.fromkeys(("tool-correctness", "tool-use", "step-efficiency", "trajectory-match"), _CALLS),
    **dict.fromkeys(("trace-error-spans", "trace-span-count", "trace-span-duration", "has-matching-span"), _SPANS),
    **dict.fromkeys(("meteor", "gleu", "f1"), "`rouge` and `bleu` compare words"),
    **dict.fromkeys(("similar:cosine", "similar:dot", "similar:euclidean"), "`similar` compares by the cosine"),
    **dict.fromkeys(("select-best", "max-score", "arena-g-eval"), "`matrix` and --agentv-target=a,b compare targets"),
    **dict.fromkeys(("equals-expected", "exact-match"), _EQUALS),
    **dict.fromkeys(("is-instance", "json-correctness"), "`is-json` takes a JSON Schema"),
    "code-grader": "write `code_judge`, and its command as `script`",
    "execution-metrics": "`latency`, `cost` and `token_usage` are limits",
    "llm-grader": "write `llm_judge`",
    "skill-trigger": "`tool-called` takes the name of a tool",
    "assert-set": "`composite` combines evaluators",
    **dict.fromkeys(("answer", "choice"), "`regex` finds the letter or word after its mark: `regex: 'ANSWER: *B\\b'`"),
    "exact": "`equals` ignores blanks around the answer; case and punctuation count",
    "finish-reason": "no check reads it: each result has `finish_reason`",
    "human": "a person judges the results file, or the report of --agentv-html",
    "includes": "`icontains` ignores case as it does",
    "match": "`starts-with` and `ends-with` look at one end of the answer; case and punctuation count",
    "max-duration": "`latency` has a threshold in milliseconds",
    "max-tool-calls": "`python: len(tool_calls) <= 3` counts them",
    "pattern": "`regex` compares no group with a target: write the target into the pattern",
    "pattern-match": "`regex` finds a pattern anywhere: `regex: '^(yes|no)$'` takes the whole answer",
    "rouge-n": "`rouge` counts single words with variant: rouge1",
    "word-count": "`length` has min_words and max_words",
}
"""By the names of promptfoo, pydantic-evals, deepeval, inspect_ai and newer versions of AgentV, in kebab case."""

_CALL: Final = re.compile(r"([\w:.-]+)(?:\(.*\))?", re.DOTALL)
"""The name of a kind, perhaps called as in other tools: `IsInstance(type_name="str")`."""
_WRITTEN: Final = re.compile(r"((?:not-)?([a-z]+(?:-[a-z]+)*))(?:\([^()]*\))?:\s*(?=\S)")
"""The start of a check in one text, as in cells of promptfoo: `not-contains: sorry`, `similar(0.8): yes`."""
_NO_LABELS: Final = frozenset({"contains", "icontains", "equals", "regex", "levenshtein", "similar", "javascript"})
"""Names of checks without a hyphen that start no sentence. `cost:` may start one."""
_NOT: Final = re.compile(r"^!\s*")
_LABELS: Final = frozenset(
    {
        *("argument-correctness", "conversation-completeness", "goal-accuracy", "json-correctness"),
        *("knowledge-retention", "non-advice", "pii-leakage", "plan-quality", "prompt-alignment", "role-adherence"),
        *("role-violation", "step-efficiency", "task-completion", "tool-correctness", "tool-use"),
    }
)
"""Names of metrics of deepeval, which has no checks in texts. A sentence may start with `tool-use:`."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def instead_of(word: str, table: KindTable) -> str | None:
    """Return the replacement for a kind of another tool; None for any other text."""
    written = _NOT.sub(NEGATION, word.strip())
    call = _CALL.fullmatch(written)
    if call is None:
        return None
    plain = _HUMP.sub("-", call[1]).replace("_", "-").lower().removesuffix("-metric").removeprefix(2 * NEGATION)
    for each in (plain, plain.removeprefix(NEGATION)):
        if each in INSTEAD:
            return INSTEAD[each]
    if plain != word.replace("_", "-") and table.find(plain):
        return f"did you mean {plain!r}?"
    # A slip in a negated kind must not lead to the kind that says the opposite.
    return None if written == word.strip() else did_you_mean(plain, [f"{NEGATION}{each}" for each in table])


def is_no_sentence(text: str, place: Place, table: KindTable) -> bool:
    """Whether a text in a list of evaluators cannot be checked by a model. Notes an error if it cannot."""
    if note_statement(text, place):
        return True
    written = _WRITTEN.match(text)
    if written is not None:
        return _note_written(written, place, table)
    known = table.find(text)
    hint = f"write what it checks: {{{text}: …}}" if known else instead_of(text, table)
    if hint is not None:
        place.error(f"{text!r} is the name of a check, and no sentence that a model could check", hint)
    return hint is not None


def _note_written(written: re.Match[str], place: Place, table: KindTable) -> bool:
    """Whether a text is a check and its value. Notes that as an error: a model would judge in place of the check."""
    name, kind = written[1], written[2]
    known = table.find(name) is not None
    if not (known or kind in INSTEAD) or kind in _LABELS or ("-" not in name and kind not in _NO_LABELS):
        return False
    hint = f"write a mapping: {{{name}: …}}" if known else instead_of(name, table)
    place.error(f"'{name}: …' is a check in a text, and no sentence that a model could check", hint)
    return True
