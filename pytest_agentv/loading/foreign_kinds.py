"""Replacements for the check kinds of other tools, and for misspelt kinds. Import this lazily: few files need it."""

import difflib
import re
from collections.abc import Collection, Mapping, Set
from functools import lru_cache
from typing import Any, Final

from pytest_agentv.loading.kind_reader import known_keys
from pytest_agentv.loading.places import Place, misspelling
from pytest_agentv.loading.problems import near_word
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.kind_table import NEGATION, KindTable

_SENTENCE: Final = "write the sentence by itself: `- Is polite`; a model checks it"
_PYTHON: Final = "`python` takes an expression, or file.py:function"
_MODEL: Final = "`llm_judge` takes a prompt of its own"
_CONTEXT: Final = "`llm_judge` takes a prompt of its own, which may use {{ retrieved_context }}"
_SCRIPT: Final = "`code_judge` runs a script"
_ARGUMENTS: Final = "`tool-called` checks arguments"
_CALLS: Final = "see `tool_trajectory`"
_EQUALS: Final = "`equals` takes the text: `equals: yes`, or a variable: `equals: '{{ answer }}'`"
_SIMILAR: Final = "`similar` compares meanings, `levenshtein` letters, `rouge` and `bleu` words"
_LIST: Final = "`contains-any` and `contains-all` take a list of texts"
_MARK: Final = (
    "`regex` finds the letter or word at the end, after its mark: `regex: 'ANSWER: *B\\s*$'`; "
    "`python: checks.py:function` compares it with a variable"
)
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
    **dict.fromkeys(("javascript", "fn", "eval", "ruby", "is-sql", "contains-sql"), _PYTHON),
    **dict.fromkeys(("contains-xml", "is-html", "contains-html"), _PYTHON),
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
    **dict.fromkeys(("answer", "choice"), _MARK),
    **dict.fromkeys(("similarity", "semantic-similarity", "text-similarity", "string-similarity"), _SIMILAR),
    **dict.fromkeys(("embedding-similarity", "embedding-distance", "answer-similarity"), _SIMILAR),
    **dict.fromkeys(("cosine", "cosine-similarity", "string-distance", "answer-correctness"), _SIMILAR),
    **dict.fromkeys(("cot-qa", "context-qa", "qa", "closed-qa", "labeled-criteria"), _MODEL),
    **dict.fromkeys(("contains-none", "contains-none-of"), "`not-contains-any` forbids each text of a list"),
    **dict.fromkeys(("valid-json", "json-valid", "json-validity"), "`is-json` takes true, or a JSON Schema"),
    **dict.fromkeys(("rouge-l", "rouge-1", "rouge-2"), "`rouge` has the key `variant`: rougeL, rouge1, rouge2"),
    **dict.fromkeys(("tool-call-accuracy", "tool-accuracy"), _CALLS),
    **dict.fromkeys(("regex-match", "matches-regex"), "`regex` finds a pattern anywhere"),
    "file": "`python: checks.py:function` may read files",
    "list-contains": _LIST,
    "numeric-diff": "`field_accuracy` compares numbers with a `tolerance`",
    "exact": "`equals` ignores blanks around the answer; case and punctuation count",
    "finish-reason": "no check reads it: each result has `finish_reason`",
    "human": "a person judges the results file, or the report of --agentv-html",
    "includes": "`icontains` ignores case as it does",
    "match": "`starts-with` and `ends-with` look at one end of the answer; case and punctuation count",
    "max-duration": "`latency` has a threshold in milliseconds",
    "max-tool-calls": "`python: len(tool_calls) <= 3` counts them",
    "pattern": "`regex` compares no group with a target: `python: checks.py:function` may",
    "pattern-match": "`regex` finds a pattern anywhere: `regex: '^(yes|no)$'` takes the whole answer",
    "rouge-n": "`rouge` counts single words with variant: rouge1",
    "word-count": "`length` has min_words and max_words",
}
"""By the names of promptfoo, pydantic-evals, deepeval, inspect_ai and newer versions of AgentV, in kebab case."""

_CALL: Final = re.compile(r"([\w:.-]+)(?:\(.*\))?", re.DOTALL)
"""The name of a kind, perhaps called as in other tools: `IsInstance(type_name="str")`."""
_NOT: Final = re.compile(r"^!\s*")
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
DENIALS: Final = frozenset({"cannot", "doesnt", "dont", "isnt", "never", "no", "non", "none", "not", "without"})
"""Parts of a word that deny."""
_JOINED: Final = re.compile(r"(?<=^not)(?=[a-z]{4})|(?<=[a-z]{4})(?=not$)")
"""Where `not` is a part without a hyphen."""
_NO_WORD: Final = re.compile(r"[-:]|^javascript$")
"""What shows that the name of a check is no word of other data. `answer`, `file` and `word_count` may be."""
_ADDED: Final = frozenset({"negate", "path", "required", "threshold", "value", "weight"})
"""Keys beside the name of a check. All but `value` are words, numbers or paths."""
_SHORT: Final = 5
"""Names of kinds with fewer letters are near to many English words."""
_NEAR_WORD: Final = 0.85
_NEAR_NAME: Final = 0.8
_NEAR_PART: Final = 0.5
"""Parts of a misspelt name are less near: `al` and `all`. `user` and `is` are two words."""


def plain_spellings(word: str) -> tuple[str, ...]:
    """Return a name in kebab case: `StartsWith` as `starts-with`, and, where it has humps, as `startswith` as well."""
    whole = _NOT.sub(NEGATION, word.strip()).replace("_", "-")
    return tuple(dict.fromkeys((_HUMP.sub("-", whole).lower(), whole.lower())))


def instead_of(word: str, table: KindTable) -> str | None:
    """Return the replacement for a kind of another tool; None for any other text."""
    call = _CALL.fullmatch(_NOT.sub(NEGATION, word.strip()))
    for spelling in plain_spellings(call[1]) if call else ():
        plain = spelling.removesuffix("-metric").removeprefix(2 * NEGATION)
        for each in (plain, plain.removeprefix(NEGATION)):
            if each in INSTEAD:
                return INSTEAD[each]
        if plain != word.replace("_", "-") and table.find(plain):
            return f"did you mean {plain!r}?"
    return None


def note_no_kind(value: JsonObject, table: KindTable, place: Place) -> None:
    """Note that a mapping names no kind, at the key that is meant to name one, if there is such a key."""
    word = value.get("type")
    if word is not None:
        hint = kind_hint(word, table)
        place.at("type").expected("a kind of evaluator" if hint else f"one of {table.listed()}", word, hint)
        return
    kinds: Collection[Any] = table.values()
    known = frozenset(key for kind in kinds for key in known_keys(kind))
    key, hint = next(((key, hint) for key in value if (hint := kind_hint(key, table))), (None, None))
    unknown = [each for each in value if each not in known]
    slip = misspelling("type", value, known)
    is_short = len(unknown) == 1 and slip is None and near_word(unknown[0], known) is None
    if "type" not in value and key is not None:
        place.at(key).error("is no kind of evaluator", hint)
    elif "type" not in value and unknown and (is_short or len(value) == 1):
        place.at(unknown[0]).error(f"is no kind of evaluator: expected one of {table.listed()}")
    else:
        place.at("type").error(f"is missing: expected one of {table.listed()}", slip)


def kind_hint(word: Json, table: KindTable) -> str | None:
    """Return the replacement of an unknown kind: the word of another tool, or a misspelling."""
    if not isinstance(word, str):
        return None
    hint = instead_of(word, table)
    near = near_kind(word, table) if hint is None else None
    return hint if near is None else f"did you mean {near!r}?"


def near_kind(word: str, table: KindTable) -> str | None:
    """Return the kind nearest to a word. A word that denies leads to a kind that denies, and no other word does."""
    plain = _JOINED.sub("-", plain_spellings(word.replace("'", ""))[0])
    said = [part for part in plain.split("-") if part not in DENIALS]
    denies = (len(plain.split("-")) - len(said)) % 2 == 1
    kinds: dict[str, str] = {each.replace("_", "-"): each for each in reversed([*table])}
    denying = [each for each in kinds if not DENIALS.isdisjoint(each.split("-"))]
    own = near_word(plain, denying) if denies else None
    if own is not None:
        return kinds[own]
    near = near_word("-".join(said), [each for each in kinds if each not in denying])
    return None if near is None else f"{NEGATION}{kinds[near]}" if denies else kinds[near]


@lru_cache(maxsize=512)
def is_near_kind(name: str, kinds: tuple[str, ...]) -> bool:
    """Whether a name is nearly that of a kind. `Pythonic` and `Lengthy` are words."""
    said = name.removeprefix(NEGATION)
    plain = [each.replace("_", "-") for each in kinds]
    if "-" in said:
        return any(_is_misspelt(said, each) for each in difflib.get_close_matches(said, plain, cutoff=_NEAR_NAME))
    words = [each for each in plain if len(each) >= _SHORT and not said.startswith(each)]
    return bool(difflib.get_close_matches(said, words, n=1, cutoff=_NEAR_WORD))


def _is_misspelt(name: str, kind: str) -> bool:
    """Whether each part of a near name is near. `user-friendly` is a word, if `is-friendly` is a kind or not."""
    parts, own = name.split("-"), kind.split("-")
    if len(parts) != len(own):
        return difflib.SequenceMatcher(None, name, kind).ratio() >= _NEAR_WORD
    return all(difflib.SequenceMatcher(None, *pair).ratio() >= _NEAR_PART for pair in zip(parts, own, strict=True))


def sure_kind(data: Json, table: KindTable) -> str | None:
    """Return the word by which data in a rubric is surely a check, or a list of checks alone.

    None for other data, which is what an answer should hold: `{"code": 404, "message": "not found"}`.
    """
    if isinstance(data, list):
        words = [sure_kind(each, table) for each in data]
        return words[0] if words and all(words) else None
    if not isinstance(data, dict) or not data:
        return None
    kind = data.get("type")
    if isinstance(kind, str) and is_sure_kind(kind, table):
        return kind
    word = next(iter(data))
    if not isinstance(word, str) or not is_sure_kind(word, table):
        return None
    others = {key: value for key, value in data.items() if key != word}
    is_prose = any(" " in str(value) for key, value in others.items() if key in _ADDED and key != "value")
    return word if others.keys() <= _keys_beside(word, table) and not is_prose else None


def is_sure_kind(word: str, table: KindTable) -> bool:
    """Whether a word names a kind, or nearly so, and is no name of other data."""
    is_foreign = _NO_WORD.search(word) is not None and instead_of(word, table) is not None
    return table.find(word) is not None or is_foreign or is_near_kind(word, tuple(table))


def _keys_beside(word: str, table: KindTable) -> Set[str]:
    """Return the keys that a check may have beside its name."""
    found = table.find(word) or table.find(near_kind(word, table) or "")
    kind: Any = None if found is None else table[found[0]]
    return _ADDED if kind is None else _ADDED.union(known_keys(kind))


def hint_at_two(key: str, place: Place) -> None:
    """Add to the error of an unknown key that it is itself a kind."""
    for index, problem in enumerate(place.problems):
        if problem.message == "unknown key" and problem.key.endswith(f".{key}"):
            hint = "each check is an entry of the list: put `- ` before it"
            place.problems[index] = problem.replace(hint=hint)
