"""The JSON Schema of an evaluator in an eval file: long, short, or a text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_agentv.loading.schemas.shapes import ref
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.kind import FILLED_TEXT, Part, spellings
from pytest_agentv.models.kind_table import NEGATION

MAPPING: Final = "evaluator_mapping"
_TEXT: Final = "a sentence that a model checks; all those of a case are checked in one call"


def evaluator_definitions(kinds: Mapping[str, type[Part]], models: Mapping[str, JsonObject]) -> JsonObject:
    """Return the definitions of evaluators.

    Args:
        kinds: The classes by the word that files write.
        models: The schemas of these classes, by the name of the class; they have the keys of the long form.
    """
    words: dict[type[Part], list[str]] = {}
    for word, kind in kinds.items():
        words.setdefault(kind, []).extend(words_of(word))
    shorts = {_short_name(kind): _short(kind, written, models) for kind, written in words.items()}
    values = {_value_name(kind): _value(kind, models) for kind in words}
    return {
        "evaluator": {"anyOf": [{**FILLED_TEXT, "description": _TEXT}, ref(MAPPING)]},
        MAPPING: _mapping(kinds),
        **shorts,
        **values,
    }


def words_of(word: str) -> Iterator[str]:
    """Yield the spellings of a kind: with hyphens, with underscores, each also negated."""
    kebab, snake = word.replace("_", "-"), word.replace("-", "_")
    for plain in dict.fromkeys((word, kebab, snake)):
        yield plain
        yield f"{NEGATION}{plain}"
    if snake != kebab or "_" not in word:
        yield f"{NEGATION.replace('-', '_')}{snake}"


def _mapping(kinds: Mapping[str, type[Part]]) -> JsonObject:
    """Return the schema of a mapping: its kind decides which keys it may have. Unknown types allow any shape."""
    every = [word for kind in kinds for word in words_of(kind)]
    kind = {
        "description": "the kind; `not-` before it turns the verdict round",
        "examples": ["contains"],
        "anyOf": [{"enum": every}, FILLED_TEXT],
    }
    about = {word: _about(kinds[word], word) for word in kinds}
    negated = {f"{NEGATION}{word}": _about(kinds[word], f"{NEGATION}{word}") for word in kinds}
    return {
        "type": "object",
        "description": "a check, such as {contains: 30 days}",
        "properties": {"type": kind, **about, **negated},
        "anyOf": [{"required": [word]} for word in ("type", *every)],
        "allOf": [*_long_cases(kinds), *_short_cases(kinds)],
    }


def _about(kind: type[Part], word: str) -> JsonObject:
    meaning = _first_line(kind)
    if word.replace("_", "-").startswith(NEGATION):
        meaning = f"Not: {meaning}"
    return {"description": meaning, "examples": [_example(kind)]}


def _example(kind: Any) -> Any:
    field = kind.model_fields.get(kind.short_key or "")
    if field is not None and field.examples:
        return field.examples[0]
    checks = (check for each in kind.examples for check in each.get("assert", ()) if isinstance(check, Mapping))
    return next((check[kind.kind] for check in checks if kind.kind in check), {})


def _long_cases(kinds: Mapping[str, type[Part]]) -> Iterator[JsonObject]:
    for word, kind in kinds.items():
        condition = {"properties": {"type": {"enum": list(words_of(word))}}, "required": ["type"]}
        yield {"if": condition, "then": ref(kind.__name__)}


def _short_cases(kinds: Mapping[str, type[Part]]) -> Iterator[JsonObject]:
    for word, kind in kinds.items():
        written = {"anyOf": [{"required": [each]} for each in words_of(word)]}
        yield {"if": {**written, "not": {"required": ["type"]}}, "then": ref(_short_name(kind))}


def _short(kind: Any, words: Sequence[str], models: Mapping[str, JsonObject]) -> JsonObject:
    """Return the schema of `{kind: value, weight: 2}`. It does not say which keys are required."""
    model = models[kind.__name__]
    main = spellings(kind).get(kind.short_key or "", ())
    others = {key: item for key, item in model["properties"].items() if key not in (*main, "type")}
    written = {word: {**_about(kind, word), "allOf": [ref(_value_name(kind))]} for word in words}
    return {
        "type": "object",
        "description": model.get("description", ""),
        "properties": {**others, **written},
        "additionalProperties": model["additionalProperties"],
    }


def _value(kind: Any, models: Mapping[str, JsonObject]) -> JsonObject:
    """Return the schema of what stands after the kind."""
    model = models[kind.__name__]
    keys = {key: value for key, value in model["properties"].items() if key != "type"}
    field = kind.model_fields.get(kind.short_key or "")
    shapes: list[Any] = []
    if field is not None:
        main = keys[spellings(kind)[kind.short_key][0]]
        shapes += [each for each in main["anyOf"] if each != {"type": "null"}]
    if field is None or not field.is_required():
        shapes += [{"type": "null"}, {"const": True}]
    if kind.takes_data:
        return {"anyOf": shapes}
    is_open = model["additionalProperties"] or _renames(kind)
    mapping = {"properties": keys, "additionalProperties": is_open}
    # Not one more alternative: editors would report a wrong key of a mapping as a wrong type.
    return {"if": {"type": "object"}, "then": mapping, "else": {"anyOf": shapes}}


def _renames(kind: Any) -> bool:
    """Whether the short form of a kind has keys of its own, such as the `name` of a tool."""
    return "keys_of" in kind.__dict__


def _value_name(kind: type[Part]) -> str:
    return f"{kind.__name__}Value"


def _short_name(kind: type[Part]) -> str:
    return f"{kind.__name__}Short"


def _first_line(kind: type[Part]) -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0]
