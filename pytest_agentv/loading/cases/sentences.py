"""Tells checks that are written as one text (`contains-any: xyz`) from sentences, which a model checks.

A model would judge in place of the check, and pass what the check fails. Import this lazily: few texts may be checks.
"""

import difflib
import re
from functools import lru_cache
from typing import Final

from pytest_agentv.loading.file_words import note_statement
from pytest_agentv.loading.foreign_kinds import INSTEAD, instead_of, near_kind, plain_spellings
from pytest_agentv.loading.labels import (
    FUNCTION,
    NAME,
    Label,
    has_humps,
    has_phrases,
    is_code,
    is_number_text,
    is_prose,
    is_python,
    read_label,
)
from pytest_agentv.loading.places import Place
from pytest_agentv.models.kind_table import NEGATION, KindTable

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

_SHORT: Final = 5
"""Names of kinds with fewer letters are near to many English words."""
_NEAR_WORD: Final = 0.85
_NEAR_NAME: Final = 0.8
_NEAR_PART: Final = 0.5
"""Parts of a misspelt name are less near: `al` and `all`. `user` and `is` are two words."""

_NO_SENTENCE: Final = "no sentence that a model could check"
_SENTENCE: Final = "a sentence has several words: `- Is polite`"


def is_no_sentence(text: str, place: Place, table: KindTable) -> bool:
    """Whether a text in a list of evaluators cannot be checked by a model. Notes an error if it cannot."""
    if note_statement(text, place):
        return True
    label = None if text.lower() in INSTEAD or FUNCTION.fullmatch(text) else read_label(text)
    return _note_name(text, place, table) if label is None else _note_label(label, place, table)


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
    return is_part or any(_is_near(each, kinds) for each in spellings)


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
    if is_prose(label.rest) or " " in label.name:
        return False
    return "_" in label.written or _is_near(label.spellings[0], kinds)


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


@lru_cache(maxsize=512)
def _is_near(name: str, kinds: tuple[str, ...]) -> bool:
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
