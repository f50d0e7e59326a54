"""Tells checks that are written as one text from sentences, and kinds of other tools from misspelt ones."""

import ast
import difflib
import keyword
import re
import textwrap
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

import yaml

from pytest_agentv.cases.references import note_statement
from pytest_agentv.files.kind_reader import known_keys
from pytest_agentv.files.places import Place, misspelling
from pytest_agentv.files.problems import near_word
from pytest_agentv.model.base import Json, JsonObject, Record
from pytest_agentv.model.kind_table import NEGATION, KindTable

# Replacements for the check kinds of other tools, and for misspelt kinds. Import this lazily: few files need it.

_WRITE_SENTENCE: Final = "write the sentence by itself: `- Is polite`; a model checks it"
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
    **dict.fromkeys(("llm-rubric", "g-eval", "agent-rubric", "search-rubric", "model-graded-qa"), _WRITE_SENTENCE),
    **dict.fromkeys(("model-graded-closedqa", "is-refusal", "video-rubric", "pi", "llm-judge"), _WRITE_SENTENCE),
    **dict.fromkeys(("trajectory:goal-success", "task-completion", "goal-accuracy", "plan-quality"), _WRITE_SENTENCE),
    **dict.fromkeys(
        ("conversational-g-eval", "dag", "bias", "toxicity", "pii-leakage", "prompt-alignment"), _WRITE_SENTENCE
    ),
    **dict.fromkeys(("role-adherence", "role-violation", "misuse", "non-advice"), _WRITE_SENTENCE),
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
_LEADING_NOT: Final = re.compile(r"^!\s*")
_HUMP_EDGE: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
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
    whole = _LEADING_NOT.sub(NEGATION, word.strip()).replace("_", "-")
    return tuple(dict.fromkeys((_HUMP_EDGE.sub("-", whole).lower(), whole.lower())))


def instead_of(word: str, table: KindTable) -> str | None:
    """Return the replacement for a kind of another tool; None for any other text."""
    call = _CALL.fullmatch(_LEADING_NOT.sub(NEGATION, word.strip()))
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


# Texts with a name and a colon at their start: how the name is spelt, and whether prose or code follows it.

NAME: Final = r"[A-Za-z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*"
_LABELLED: Final = re.compile(
    rf"(?P<no>!\s*|[Nn][Oo][Tt][\s_-]+)?(?P<name>(?:similar|trajectory):[a-z-]+(?=\s*[(:])|{NAME}(?:[ ]{NAME}){{0,3}})"
    r"\s*(?:\((?P<given>[^()]*)\))?\s*:(?P<rest>.*)",
    re.DOTALL,
)
_HUMP: Final = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]{2,}")
_NUMBER: Final = re.compile(r"[<>=\s]*[\d.,]+\s*%?\s*")

_OPERATOR: Final = re.compile(r"=>|[=!<>]=")
_STATEMENT: Final = re.compile(r"[{};]|\w\.\w+\(|\breturn\b.*[(.=<>]", re.DOTALL)
_KEYWORDS: Final = frozenset(
    {
        *("async", "await", "const", "def", "delete", "else", "false", "function", "if", "instanceof", "let", "new"),
        *("nil", "null", "puts", "return", "then", "throw", "true", "typeof", "unless", "var", "void"),
    }
)
"""Words that stand beside another word in code."""
_QUOTED: Final = re.compile(r'"[^"]*"|(?<!\w)\'[^\']*\'(?!\w)|`[^`]*`')
_LETTER: Final = r"(?:[A-Za-z]|[^\x00-\x7f\d])"
"""By exclusion, because vowel signs and other marks of many scripts are no letters for Python."""
_WORD: Final = re.compile(rf"(?=.*[^\W\d_]){_LETTER}+(?:['-]{_LETTER}+)*")
_FIGURE: Final = re.compile(r"(?=.*\d)[<>=]*(?:[^\W_]|[$%+,./:~-]|[^\x00-\x7f])+")
"""A number with more to it: a range, a currency, a unit: `2-3`, `$20`, `≤100`, `5km`."""
_CURRENCY: Final = re.compile("[$\u00a2-\u00a5\u20a0-\u20cf]")
_UNSPACED: Final = re.compile(
    "[\u3005\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]{1,2}"
    "|[\u0e00-\u109f\u1780-\u17ff]{1,8}"
)
"""What may be a word in scripts without blanks between words: Chinese and Japanese; Thai, Lao, Burmese, Khmer."""
_DATA: Final = re.compile(r"\{.*|\[.*\]", re.DOTALL)
_LIST_ITEM: Final = "- "
_ITEMS: Final = re.compile(rf"^[ \t]*{_LIST_ITEM}", re.MULTILINE)
_COMMAS: Final = (",", "\u060c", "\u3001", "\uff0c")
"""Those of Arabic, Japanese and Chinese as well."""
_FEWEST: Final = 2
"""Words that are prose."""


@dataclass(frozen=True, slots=True)
class Label(Record):
    """What stands before the first colon of a text, and what follows."""

    no: str
    """`!`, or a `not` with what joins it to the name."""
    name: str
    given: str | None
    """What stands in brackets: a threshold."""
    rest: str

    @property
    def written(self) -> str:
        return f"{self.no}{self.name}"

    @property
    def spellings(self) -> tuple[str, ...]:
        """The name in kebab case."""
        return plain_spellings((NEGATION if self.no else "") + self.name.replace(" ", "-"))

    @property
    def words(self) -> tuple[str, ...]:
        """The name in kebab case without a `not`."""
        return tuple(each.removeprefix(NEGATION) for each in self.spellings)

    @property
    def has_mark(self) -> bool:
        """Whether it is spelt as in code: `!x`, `not-x`, `a_b`, `aB` or `x(0.8)`."""
        if self.given is not None and is_number_text(self.given):
            return True
        return bool(self.no.strip("noNOtT \t\n")) or "_" in self.name or has_humps(self.name)


def read_label(text: str) -> Label | None:
    """Return the start of a text, if it looks like a check in one text: `not-contains: sorry`, `similar(0.8): yes`."""
    found = _LABELLED.fullmatch(text)
    return found and Label(found["no"] or "", found["name"], found["given"], found["rest"].strip())


def has_humps(name: str) -> bool:
    """Whether a name has capitals within: `IsJson`. `URLs` has none."""
    return _HUMP.search(name) is not None


def is_number_text(text: str) -> bool:
    """Whether a text is a number: `0.8`, `>= 80 %`."""
    return _NUMBER.fullmatch(text) is not None


def is_prose(text: str, *, with_numbers: bool = False) -> bool:
    """Whether a text has several words, besides what it quotes, and is no list of values. A list of phrases is prose.

    With numbers, `30 days` are two words. `2-3 days` always are.
    """
    if text.startswith(_LIST_ITEM):
        return any(_has_words(item, with_numbers=with_numbers) for item in _ITEMS.split(text))
    return _DATA.fullmatch(text) is None and _has_words(text, with_numbers=with_numbers)


def has_phrases(text: str) -> bool:
    """Whether a text is a list, with hyphens before its items, of which one is prose."""
    return text.startswith(_LIST_ITEM) and is_prose(text)


def _has_words(text: str, *, with_numbers: bool) -> bool:
    written = _UNSPACED.sub(r" \g<0> ", _QUOTED.sub("", text)).split()
    tokens = [token.strip(".,;:!?()*") for token in written]
    words = sum(bool(_WORD.fullmatch(token) or _CURRENCY.fullmatch(token)) for token in tokens)
    plain = [token for token in tokens if is_number_text(token)]
    figures = sum(_FIGURE.fullmatch(token) is not None for token in tokens if token not in plain)
    numbers = len(plain) if with_numbers else 0
    is_list = all(token.endswith(_COMMAS) for token in written[:-1])
    return words > 0 and words + figures + numbers >= _FEWEST and not is_list


def is_code(text: str, *, is_likely: bool) -> bool:
    """Whether a text has signs of code in any language, and is no sentence about them: `uses === instead of ==`.

    If code is likely, whatever looks like a statement is code.
    """
    written = _QUOTED.sub("", text)
    is_statement = _STATEMENT.search(written) is not None
    if is_likely and is_statement:
        return True
    return (is_statement or _OPERATOR.search(written) is not None) and not any(map(_has_pair, written.splitlines()))


def _has_pair(line: str) -> bool:
    """Whether two words stand side by side. In code, an operator or a keyword is between them."""
    pairs = pairwise(_UNSPACED.sub(r" \g<0> ", line).split())
    return any(_is_plain(first.lstrip("(*")) and _is_plain(second.rstrip(".,;:!?)*")) for first, second in pairs)


def _is_plain(token: str) -> bool:
    return _WORD.fullmatch(token) is not None and token not in _KEYWORDS


# Texts that are data or code, and no prose. Import this lazily: few texts are.

FUNCTION: Final = re.compile(r"\S+\.py:[A-Za-z_]\w*")
_VALUES: Final = frozenset({"answer", "data", "case", "vars", "tool_calls", "metrics", "output", "context"})
"""Names that expressions read here and in promptfoo."""
_VALUE: Final = re.compile(rf"(?<!\w)(?:{'|'.join(sorted(_VALUES))})(?!\w)")
_WORDS: Final = re.compile(
    rf"\s*(?!(?:{'|'.join([*keyword.kwlist, *keyword.softkwlist])})\b)\w+[ \t]+(?!(?:and|for|if|in|is|not|or|else)\b)\w"
)
"""Two words at the start that no code has side by side. Most sentences begin so."""
_FENCE: Final = re.compile(r"```\w*\s(.*)```", re.DOTALL)
_QUOTES: Final = "`\"'"
_WHOLE_DATA: Final = re.compile(r"\{.*\}|\[.*\]", re.DOTALL)
_BLOCK: Final = re.compile(r"(?:[a-z_-]+[ ]*:[ ].*(?:\n|$)){2,}")
"""Several lines of YAML, each with a key."""
_OPTIONS: Final = frozenset({"type", "value", "weight", "required", "negate", "path", "threshold"})
"""Keys of a check. Without one, several lines may be sentences, each with a label."""
_PYTHONIC: Final = (("===", "=="), ("!==", "!="), ("&&", " and "), ("||", " or "), ("?.", "."))
"""Operators of JavaScript, in which promptfoo has expressions."""
_NOT: Final = re.compile(r"(?<!\w)!+(?=[\w(])")
"""JavaScript's `not`."""


def bare(text: str) -> str:
    """Return a text without the code fence, the backticks or the quotes around it."""
    fenced = _FENCE.fullmatch(text)
    if fenced:
        return fenced[1].strip()
    is_quoted = len(text) > 1 and text[0] in _QUOTES and text.count(text[0]) == 2 and text[-1] == text[0]
    return text[1:-1].strip() if is_quoted else text


def data_in(text: str) -> Json:
    """Return the mapping or the list that a text is in JSON or YAML; None for any other text."""
    is_block = _BLOCK.fullmatch(text) is not None
    if not is_block and not _WHOLE_DATA.fullmatch(text):
        return None
    try:
        found: Json = yaml.load(text, yaml.BaseLoader)  # noqa: S506 - it makes texts, lists and mappings only
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    is_data = isinstance(found, dict | list) and not (is_block and _OPTIONS.isdisjoint(found))
    return found if is_data else None


def is_python(text: str) -> bool:
    """Whether a text is a function of a file, or Python code that calls or compares something."""
    return FUNCTION.fullmatch(text) is not None or any(map(_judges, _nodes(text)))


def judges_answer(text: str) -> bool:
    """Whether a text is code that calls or compares something, and reads the answer: `len(answer) > 100`.

    `answer is polite` and `sources in answer` are code by the letter, and are prose.
    """
    if _VALUE.search(text) is None or _WORDS.match(text) is not None:
        return False  # parsing takes 40 times as long
    for javascript, python in _PYTHONIC:
        text = text.replace(javascript, python)
    text = _NOT.sub(" not ", text).strip()
    lines = _wrapped(text).encode("utf-8", "replace").splitlines()
    return any(_reads_answer(node, lines) for node in _nodes(text))


def _nodes(text: str) -> Iterator[ast.AST]:
    """Yield all parts of Python code, which may be statements; nothing for any other text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(_wrapped(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    yield from ast.walk(tree)


def _wrapped(text: str) -> str:
    return f"def _():\n{textwrap.indent(text, ' ')}"


def _judges(node: ast.AST) -> bool:
    """Whether code calls or compares. `snippets in fences` and `version is 3.12` do by the letter, and are prose."""
    if not isinstance(node, ast.Compare):
        return isinstance(node, ast.Call)
    operands = (node.left, *node.comparators)
    names = [each.id for each in operands if isinstance(each, ast.Name)]
    numbers = sum(isinstance(each, ast.Constant) and type(each.value) in (int, float) for each in operands)
    return not _is_wordy(node) or len(names) + numbers <= len(node.comparators) or _VALUES.issuperset(names)


def _reads_answer(node: ast.AST, lines: list[bytes]) -> bool:
    """Whether a part of code is a call or a comparison with the answer that cannot be prose."""
    if not isinstance(node, ast.Call | ast.Compare):
        return False
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    if _VALUES.isdisjoint(names):
        return False
    if isinstance(node, ast.Call):
        is_of_prose = isinstance(node.func, ast.Name) and node.func.id in _VALUES  # `answer(s)`
        end = node.func.end_col_offset or 0
        return not is_of_prose and lines[(node.func.end_lineno or 1) - 1][end : end + 1] == b"("  # `correct (answer)`
    if not _is_wordy(node):
        return True
    left, right = node.left, node.comparators[-1]
    if all(isinstance(each, ast.Is | ast.IsNot) for each in node.ops):
        return isinstance(right, ast.Constant) and right.value is None
    is_display = isinstance(right, ast.List | ast.Tuple | ast.Set)
    return is_display or not isinstance(left, ast.Name | ast.Constant) or isinstance(getattr(left, "value", None), str)


def _is_wordy(node: ast.Compare) -> bool:
    """Whether a comparison has the operators of prose only: `in`, `not in`, `is`, `is not`."""
    return all(isinstance(each, ast.In | ast.NotIn | ast.Is | ast.IsNot) for each in node.ops)


# Tells checks that are written as one text (`contains-any: xyz`) from sentences, which a model checks.
#
# A model would judge in place of the check, and pass what the check fails. Import this lazily: few texts may be checks.

_NAME: Final = re.compile(NAME)
_NO_LABELS: Final = frozenset(
    {
        *("contains", "icontains", "equals", "regex", "levenshtein", "similar", "rouge", "bleu"),
        *("meteor", "gleu", "f1", "perplexity"),
    }
)
"""Names of checks without a hyphen that start no sentence. `cost:` may start one, and so may `Contains:`."""
_LABELS: Final = frozenset(
    {
        *("argument-correctness", "conversation-completeness", "goal-accuracy", "json-correctness"),
        *("knowledge-retention", "non-advice", "pii-leakage", "plan-quality", "prompt-alignment", "role-adherence"),
        *("role-violation", "step-efficiency", "task-completion", "tool-correctness", "tool-use"),
        *("answer-correctness", "answer-similarity", "tool-accuracy", "tool-call-accuracy"),
    }
)
"""Names of metrics of deepeval and Ragas, which have no checks in texts. A sentence may start with `tool-use:`."""
_CODE: Final = frozenset({"javascript", "ruby", "fn", "eval", "webhook"})
"""What promptfoo has before code in a text."""
_ANSWERS: Final = frozenset({"answer", "choice", "exact", "file", "human", "includes", "match", "pattern", "qa"})
"""Names of inspect_ai and others that a number may follow: `Answer: 42`."""
_NO_WORDS: Final = frozenset({"regex", "regexp", "rouge", "bleu", "levenshtein", "icontains", "similarity"})
"""Parts of no English word with a hyphen, unless an ending makes one: `regex-free`."""
_ENDINGS: Final = frozenset({"based", "free", "friendly", "like", "only", "style"})
_HUMPED: Final = frozenset(
    {"check", "contains", "equals", "evaluator", "has", "is", "matches", "metric", "not", "score"}
)
"""Parts of names such as `IsPolite`. Names of products, such as `OpenAI`, have none."""

_ITEM: Final = re.compile(r"^[ \t]*[-*][ \t]+", re.MULTILINE)
_TYPED: Final = re.compile(r"type\s*:\s*([a-z][\w:-]*)\s*(?:[,\n]|$)")
_SHOWN: Final = 60
"""Characters of a text that an error shows."""
_MAPPING: Final = "write a mapping without quotes, such as {contains: …}"
_NO_SENTENCE: Final = "no sentence that a model could check"
_SENTENCE: Final = "a sentence has several words: `- Is polite`"


def is_no_sentence(text: str, place: Place, table: KindTable) -> bool:
    """Whether a text in a list of evaluators cannot be checked by a model. Notes an error if it cannot."""
    return any(_is_check_or_code(each, place, table) for each in _parts_of(text))


def note_judged(keys: JsonObject, place: Place, table: KindTable) -> bool:
    """Note an error for each text of a judge that is no sentence. Return whether there is one.

    Args:
        keys: Those of the judge. `rubrics` are texts, mappings or objects; `value` are sentences.
        place: The place of the judge.
        table: The kinds of evaluators.
    """
    noted = len(place.problems)
    for index, item in enumerate(_items(keys, "rubrics")):
        is_short = isinstance(item, str)
        text = item.get("description") if isinstance(item, dict) else getattr(item, "description", item)
        where = place.at("rubrics", index, *(() if is_short else ("description",)))
        if isinstance(text, str) and not note_statement(text, where):
            _note_code(text.strip(), where, table, is_rubric=True)
    for index, item in enumerate(_items(keys, "value")):
        if isinstance(item, str) and item.strip():
            is_no_sentence(item.strip(), place.at("value", index), table)
    return len(place.problems) > noted


def _items(keys: JsonObject, key: str) -> Sequence[Any]:
    value = keys.get(key)
    return value if isinstance(value, list | tuple) else ()


def _parts_of(text: str) -> list[str]:
    """Return the items of a text that is a list with hyphens, or a list in JSON; else the text itself."""
    if _ITEM.match(text):
        return [each.strip() for each in _ITEM.split(text) if each.strip()]
    data = data_in(bare(text))
    return data if isinstance(data, list) and data and all(isinstance(each, str) for each in data) else [text]


def _is_check_or_code(text: str, place: Place, table: KindTable) -> bool:
    if note_statement(text, place):
        return True
    written = bare(text)
    label = None if written.lower() in INSTEAD or FUNCTION.fullmatch(written) else read_label(written)
    is_named = _note_name(written, place, table) if label is None else _note_label(label, place, table)
    return is_named or _note_code(text, place, table)


def _note_code(text: str, place: Place, table: KindTable, *, is_rubric: bool = False) -> bool:
    """Whether a text is a check as data (in a rubric: surely one), or reads the answer as code. Notes an error."""
    written = bare(text)
    shown = f"'{text}'" if len(text) <= _SHOWN else f"'{text[:_SHOWN]}…'"
    found = (sure_kind if is_rubric else _kind_in)(data_in(written), table)
    word = found or _typed(written, table, is_rubric=is_rubric)
    if word is not None:
        known = table.find(word)
        near = None if known else near_kind(word, table)
        hint = f"write a mapping without quotes: {{{near or word}: …}}" if known or near else _MAPPING
        hint = hint if known else instead_of(word, table) or hint
        place.error(f"{shown} is a check in a text, and {_NO_SENTENCE}", hint)
    elif judges_answer(written):
        place.error(f"{shown} is an expression, and {_NO_SENTENCE}", "write a mapping: {python: …}")
    else:
        return False
    return True


def _kind_in(data: Json, table: KindTable) -> str | None:
    """Return the word of a mapping, or of one in a list, that makes it a check; None if it is none."""
    if isinstance(data, list):
        return next((word for each in data if (word := _kind_in(each, table)) is not None), None)
    if not isinstance(data, dict):
        return None
    kinds = tuple(table)
    word = next((key for key in data if isinstance(key, str) and _is_kind(key, kinds, table)), None)
    kind = data.get("type")
    return word or (None if kind is None else kind if isinstance(kind, str) else "type")


def _is_kind(word: str, kinds: tuple[str, ...], table: KindTable) -> bool:
    return table.find(word) is not None or instead_of(word, table) is not None or is_near_kind(word, kinds)


def _typed(text: str, table: KindTable, *, is_rubric: bool) -> str | None:
    """Return the kind of `type: contains`; None for any other text. `type: a poem` is a sentence."""
    found = _TYPED.match(text)
    word = found[1] if found else ""
    is_known = is_sure_kind(word, table) if is_rubric else table.find(word) or word in INSTEAD
    return word if word and is_known else None


def _note_name(text: str, place: Place, table: KindTable) -> bool:
    """Whether a text without a value names a check. Notes an error if it does."""
    known = table.find(text)
    hint = f"write what it checks: {{{text}: …}}" if known else instead_of(text, table)
    if hint is not None:
        place.error(f"{text!r} is the name of a check, and {_NO_SENTENCE}", hint)
    elif FUNCTION.fullmatch(text):
        place.error(f"{text!r} is the name of a function, and {_NO_SENTENCE}", f"write a mapping: {{python: {text}}}")
    elif _is_name(text, tuple(table)):
        near = near_kind(text, table)
        place.error(f"{text!r} is {_NO_SENTENCE}", _SENTENCE if near is None else f"did you mean {near!r}?")
    else:
        return False
    return True


def _is_name(text: str, kinds: tuple[str, ...]) -> bool:
    """Whether one word is spelt as no word of a language is, or nearly as a kind."""
    name = text.removeprefix("!").lstrip()
    if not _NAME.fullmatch(name):
        return False
    if name != text or "_" in name:
        return True
    is_humped = "-" not in name and has_humps(name)
    spellings = plain_spellings(name) if is_humped else (name.lower(),)
    parts = spellings[0].split("-")
    if is_humped and not _HUMPED.isdisjoint(parts):
        return True
    is_part = not _NO_WORDS.isdisjoint(parts) and parts[-1] not in _ENDINGS
    return is_part or any(is_near_kind(each, kinds) for each in spellings)


def _note_label(label: Label, place: Place, table: KindTable) -> bool:
    """Whether a text is a check and its value. Notes an error if it is."""
    known = next((found for each in label.spellings if (found := table.find(each))), None)
    if not _is_check(label, tuple(table), is_known=known is not None):
        return False
    hint: str | None
    if known is not None:
        hint = f"write a mapping: {{{NEGATION if known[1] else ''}{known[0]}: …}}"
    else:
        near = near_kind(label.written, table)
        hint = instead_of(label.spellings[0], table) or (near and f"write a mapping: {{{near}: …}}")
    place.error(f"'{label.written}: …' is a check in a text, and {_NO_SENTENCE}", hint or _SENTENCE)
    return True


def _is_check(label: Label, kinds: tuple[str, ...], *, is_known: bool) -> bool:
    if label.name.lower() in _CODE:
        return not is_prose(label.rest) or is_code(label.rest, is_likely=label.name.islower())
    if is_known or (" " not in label.name and not INSTEAD.keys().isdisjoint(label.words)):
        return _is_named_check(label, is_known=is_known)
    if label.no.startswith("!"):
        return True
    if _denies_check(label, kinds):
        return True
    if is_prose(label.rest) or " " in label.name:
        return False
    return "_" in label.written or is_near_kind(label.spellings[0], kinds)


def _denies_check(label: Label, kinds: tuple[str, ...]) -> bool:
    """Whether a name denies a check in other words than `not-`: `no-contains`, `doesnt-contain`, `is-not-json`."""
    parts = label.name.split("-")
    said = "-".join(part for part in parts if part not in DENIALS)
    if said == label.name or not label.name.islower():
        return False
    plain = {each.replace("_", "-") for each in kinds if "-" in each or "_" in each or each in _NO_LABELS}
    return said in plain or f"{said}s" in plain


def _is_named_check(label: Label, *, is_known: bool) -> bool:
    """Whether a text with the name of a check is one, and no sentence with a label: `Cost: is named in EUR`."""
    name, rest = label.name, label.rest
    if not rest:
        return True
    if _LABELS.isdisjoint(label.words):
        is_lower = name == name.lower()
        is_joined = ("-" in name or ":" in name) and (is_known or is_lower)
        is_value = is_lower and not _NO_LABELS.isdisjoint(label.words) and not has_phrases(rest)
        if label.has_mark or is_joined or is_value:
            return True
        if not is_known and "-" not in name:
            return is_number_text(rest) and _ANSWERS.isdisjoint(label.words)
    return not is_prose(rest, with_numbers=not name.islower()) or ("python" in label.words and is_python(rest))
