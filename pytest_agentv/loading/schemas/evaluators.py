"""The JSON Schema of an evaluator in an eval file: long, short, or a text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pytest_agentv.loading.schemas.models import first_line
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
    values = {_value_name(kind): {**_about(kind), **_value(kind, models)} for kind in words}
    return {
        "evaluator": {"anyOf": [{**FILLED_TEXT, "description": _TEXT}, ref(MAPPING)]},
        MAPPING: _mapping(kinds, models),
        **{kind.__name__: _keys(kind, models) for kind in words},
        **shorts,
        **values,
        **{_words_name(kind): {"enum": written} for kind, written in words.items()},
    }


def words_of(word: str) -> Iterator[str]:
    """Yield the spellings of a kind: with hyphens, with underscores, each also negated."""
    kebab, snake = word.replace("_", "-"), word.replace("-", "_")
    for plain in dict.fromkeys((word, kebab, snake)):
        yield plain
        yield f"{NEGATION}{plain}"
    if snake != kebab or "_" not in word:
        yield f"{NEGATION.replace('-', '_')}{snake}"


def _mapping(kinds: Mapping[str, type[Part]], models: Mapping[str, JsonObject]) -> JsonObject:
    """Return the schema of a mapping: its kind decides which keys it may have. Unknown types allow any shape."""
    every = [word for kind in kinds for word in words_of(kind)]
    kind = {
        "description": "the kind; `not-` before it inverts the verdict",
        "examples": ["contains"],
        "anyOf": [{"enum": every}, FILLED_TEXT],
    }
    about = {word: _about(kinds[word]) for word in kinds}
    negated = {f"{NEGATION}{word}": _about(kinds[word], "Not: ") for word in kinds}
    return {
        "type": "object",
        "description": "a check, such as {contains: 30 days}",
        "properties": {"type": kind, **about, **negated},
        "allOf": [{"if": _has_none_of(f"{MAPPING}/properties/type/anyOf/0"), "then": {"required": ["type"]}}],
        "if": {"required": ["type"]},
        "then": {"allOf": [*_long_cases(kinds, models)]},
        "else": {"allOf": [*_short_cases(kinds, models)]},
    }


def _about(kind: type[Part], before: str = "") -> JsonObject:
    return {"description": f"{before}{first_line(kind)}", "examples": [_example(kind)]}


def _example(kind: Any) -> Any:
    field = kind.model_fields.get(kind.short_key or "")
    if field is not None and field.examples:
        return field.examples[0]
    checks = (check for each in kind.examples for check in each.get("assert", ()) if isinstance(check, Mapping))
    return next((check[kind.kind] for check in checks if kind.kind in check), {})


def _keys(kind: type[Part], models: Mapping[str, JsonObject]) -> JsonObject:
    """Return the schema of the keys of a kind. It does not say which are required."""
    return {key: value for key, value in models[kind.__name__].items() if key != "allOf"}


def _has_none_of(name: str) -> JsonObject:
    """Return the schema of mappings without the keys that a definition lists."""
    return {"propertyNames": {"not": ref(name)}}


def _long_cases(kinds: Mapping[str, type[Part]], models: Mapping[str, JsonObject]) -> Iterator[JsonObject]:
    for kind in dict.fromkeys(kinds.values()):
        required = models[kind.__name__].get("allOf", ())
        condition = {"properties": {"type": ref(_words_name(kind))}}
        yield {
            "if": condition,
            "then": {"allOf": [ref(kind.__name__), *required]} if required else ref(kind.__name__),
        }


def _short_cases(kinds: Mapping[str, type[Part]], models: Mapping[str, JsonObject]) -> Iterator[JsonObject]:
    """Yield a condition for each kind. A kind with keys of its own, such as `field`, may have another kind as a key."""
    cases: dict[bool, list[JsonObject]] = {True: [], False: []}
    has_no_open: list[JsonObject] = []
    for kind in dict.fromkeys(kinds.values()):
        is_open = models[kind.__name__]["additionalProperties"]
        without = _has_none_of(_words_name(kind))
        cases[is_open].append({"if": without, "else": ref(_short_name(kind))})
        has_no_open += [without] if is_open else []
    yield from cases[True]
    yield {"if": {"allOf": has_no_open}, "then": {"allOf": cases[False]}}


def _short(kind: Any, words: Sequence[str], models: Mapping[str, JsonObject]) -> JsonObject:
    """Return the schema of `{kind: value, weight: 2}`. It does not say which keys are required."""
    model = models[kind.__name__]
    main = spellings(kind).get(kind.short_key or "", ())
    others = {key: item for key, item in model["properties"].items() if key not in (*main, "type")}
    written = {word: ref(_value_name(kind)) for word in words}
    return {
        "type": "object",
        "description": model.get("description", ""),
        "properties": {**others, **written},
        "additionalProperties": model["additionalProperties"],
    }


def _value(kind: Any, models: Mapping[str, JsonObject]) -> JsonObject:
    """Return the schema of the value after the kind."""
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
    # Not another alternative: editors would report a wrong key of a mapping as a wrong type.
    mapping = (
        {"properties": keys, "additionalProperties": model["additionalProperties"]}
        if _renames(kind)
        else ref(kind.__name__)
    )
    return {"if": {"type": "object"}, "then": mapping, "else": {"anyOf": shapes}}


def _renames(kind: Any) -> bool:
    """Whether the short form of a kind has keys of its own, such as the `name` of a tool."""
    return "keys_of" in kind.__dict__


def _value_name(kind: type[Part]) -> str:
    return f"{kind.__name__}Value"


def _words_name(kind: type[Part]) -> str:
    return f"{kind.__name__}Words"


def _short_name(kind: type[Part]) -> str:
    return f"{kind.__name__}Short"
