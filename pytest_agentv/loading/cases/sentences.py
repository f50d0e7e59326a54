"""Tells checks that are written as one text (`contains-any: xyz`) from sentences, which a model checks.

A model would judge in place of the check, and pass what the check fails. Import this lazily: few texts may be checks.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from pytest_agentv.loading.code_texts import FUNCTION, bare, data_in, is_python, judges_answer
from pytest_agentv.loading.file_words import note_statement
from pytest_agentv.loading.foreign_kinds import (
    DENIALS,
    INSTEAD,
    instead_of,
    is_near_kind,
    is_sure_kind,
    near_kind,
    plain_spellings,
    sure_kind,
)
from pytest_agentv.loading.labels import (
    NAME,
    Label,
    has_humps,
    has_phrases,
    is_code,
    is_number_text,
    is_prose,
    read_label,
)
from pytest_agentv.loading.places import Place
from pytest_agentv.models.base import Json, JsonObject
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
