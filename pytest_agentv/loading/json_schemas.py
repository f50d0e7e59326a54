"""Generates JSON Schemas of eval, targets and config files for editors, from the models that loading uses.

A file that loads without a problem is valid. Unknown keys are invalid. Referenced files are not checked.
Imports pydantic: import this lazily.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from pytest_agentv.loading.cases.config import CONFIG_SCHEMA
from pytest_agentv.loading.evaluator_schemas import evaluator_definitions
from pytest_agentv.loading.keys import (
    CASE_KEYS,
    CASE_LIST_KEYS,
    EVALUATOR_LIST_KEYS,
    EXPECTED_KEYS,
    FILE_EXECUTION_KEYS,
    HEADER_KEYS,
    INPUT_KEYS,
    OUTCOME_KEYS,
)
from pytest_agentv.loading.schema_help import described
from pytest_agentv.loading.targets.kinds import TargetKinds
from pytest_agentv.loading.targets.validation import common_keys
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.kind import REFERENCE, Kind, Part, parts_of, spellings
from pytest_agentv.models.messages import ROLES
from pytest_agentv.models.options.values import MAX_REPEAT

Kinds: TypeAlias = Mapping[str, type[Part]]

_ABOUT: Final = ("description", "examples")
_DRAFT: Final = "http://json-schema.org/draft-07/schema#"

_TEXT: Final = {"type": "string"}
_FILLED_TEXT: Final = {"type": "string", "pattern": r"\S"}
_MAPPING: Final = {"type": "object"}
_NULL: Final = {"type": "null"}


def _ref(name: str) -> JsonObject:
    return {"$ref": f"#/definitions/{name}"}


def _list_of(item: JsonObject) -> JsonObject:
    return {"type": "array", "items": item}


def _any_of(*schemas: JsonObject) -> JsonObject:
    """Return alternatives; those within an alternative that is nothing else are told once, at the same level."""
    flat = [each for schema in schemas for each in (schema["anyOf"] if set(schema) == {"anyOf"} else [schema])]
    return {"anyOf": [each for index, each in enumerate(flat) if each not in flat[:index]]}


def _one_key(keys: Iterable[str]) -> JsonObject:
    """Require one of some synonyms."""
    return {"anyOf": [{"required": [key]} for key in keys]}


def _closed(properties: Mapping[str, JsonObject], known: Iterable[str]) -> JsonObject:
    """Return the schema of a mapping with known keys. Null counts as absent everywhere."""
    values = {key: _any_of(properties[key], _NULL) if key in properties else {} for key in sorted(known)}
    return {"type": "object", "properties": values, "additionalProperties": False}


_TEMPLATE: Final = {"type": "string", "pattern": r"\{\{"}
"""Variables may stand for a value of any type."""
_NUMBER_TO_ONE: Final = _any_of({"type": "number", "minimum": 0, "maximum": 1}, _TEMPLATE)
_TEXTS: Final = _any_of(_TEXT, _list_of(_TEXT))
_RUBRIC: Final = _any_of(_FILLED_TEXT, _ref("Rubric"))
_TOOL_CALL: Final = _MAPPING
"""AgentV passes tool calls on as written, also those in the shape of a model's API."""
_CONTENT_ITEM: Final = _any_of(
    _TEXT,
    {
        **_MAPPING,
        "required": ["type", "value"],
        "properties": {"type": {"enum": ["text", "file"]}, "value": _TEXT},
    },
    {**_MAPPING, "properties": {"type": {"not": {"enum": ["text", "file"]}}}},
)
_MESSAGE: Final = {
    **_MAPPING,
    "required": ["role"],
    "properties": {
        "role": {"enum": list(ROLES)},
        "content": _any_of(_TEXT, _MAPPING, _list_of(_ref("content_item")), _NULL),
        "tool_calls": _any_of(_list_of(_ref("tool_call")), _NULL),
    },
    **_one_key(("content", "tool_calls")),
}
_SHARED: Final = {
    "execution": _ref("execution"),
    "target": _TEXT,
    "threshold": _NUMBER_TO_ONE,
    "vars": _MAPPING,
    "input_files": _TEXTS,
    "repeat": {"type": "integer", "minimum": 1, "maximum": MAX_REPEAT},
    "min_pass_rate": _NUMBER_TO_ONE,
    **dict.fromkeys(EVALUATOR_LIST_KEYS, _list_of(_ref("evaluator"))),
}
_PROMPT_FILE: Final = {**_MAPPING, "required": ["file"], "properties": {"file": _TEXT}, "additionalProperties": False}
_PARTIAL_CASE: Final = _closed(
    {
        **_SHARED,
        "id": _FILLED_TEXT,
        "conversation_id": _TEXT,
        "group": _TEXT,
        "required": {"type": "boolean"},
        "rubrics": _any_of(_list_of(_RUBRIC), _TEMPLATE),
        **dict.fromkeys(OUTCOME_KEYS, _FILLED_TEXT),
        **dict.fromkeys(INPUT_KEYS, _any_of(_list_of(_ref("message")), _TEXT, _PROMPT_FILE)),
        **dict.fromkeys(EXPECTED_KEYS, _any_of(_list_of(_ref("message")), _MAPPING, _TEXT)),
    },
    CASE_KEYS,
)
"""A case that may have its other keys from `defaults`."""
_JUDGED_KEYS: Final = ("execution", "rubrics", *EVALUATOR_LIST_KEYS)
"""Keys of cases, and most of them of files, whose evaluators may need no expected outcome."""
_CASE: Final = {
    "required": ["id"],
    "allOf": [_ref("partial_case"), _one_key((*OUTCOME_KEYS, *_JUDGED_KEYS)), _one_key(INPUT_KEYS)],
}
_NAMED_CASE: Final = {"required": ["id"], "allOf": [_ref("partial_case")]}
_TABLE: Final = {
    **_MAPPING,
    "required": ["from"],
    "properties": {
        "from": _TEXTS,
        "sample": {"type": "integer", "minimum": 0},
        "seed": {"type": "integer", "minimum": 0},
    },
    "additionalProperties": False,
}
_CASE_LIST: Final = _any_of(_list_of(_any_of(_ref("named_case"), _TEXT)), _TEXT, _TABLE)

_OVERRIDES: Final[Mapping[str, JsonObject]] = {}
"""Fields that accept more shapes than their models say, because a validator converts them first."""


def eval_schema(evaluators: Kinds, aggregators: Kinds) -> JsonObject:
    """Return the schema of eval files (YAML). Its `case` is the schema of a line of a JSONL dataset.

    Args:
        evaluators: The kinds of evaluators, by the word after `type`.
        aggregators: The kinds of aggregators of composites, likewise.
    """
    definitions: dict[str, Json] = {
        "case": _CASE,
        "named_case": _NAMED_CASE,
        "partial_case": _PARTIAL_CASE,
        "content_item": _CONTENT_ITEM,
        "aggregator": _by_kind(aggregators, "type", {"type": {"enum": list(aggregators)}}),
        "execution": _closed({**_SHARED, "targets": _list_of(_FILLED_TEXT)}, FILE_EXECUTION_KEYS),
        "message": _MESSAGE,
        "tool_call": _TOOL_CALL,
    }
    kinds = (*evaluators.values(), *aggregators.values())
    models = [model for kind in kinds for model in (kind, *parts_of(kind))]
    definitions |= {model.__name__: _model_schema(model) for model in models}
    definitions |= evaluator_definitions(evaluators, definitions)
    lists = dict.fromkeys(CASE_LIST_KEYS, _CASE_LIST)
    matrix = {**_MAPPING, "additionalProperties": {"type": "array", "minItems": 1}}
    parts = {"matrix": matrix, "case": _ref("named_case"), "defaults": _ref("partial_case"), "include": _TEXTS}
    root = {**_closed({**_SHARED, "dataset": _TEXT, **parts, **lists}, HEADER_KEYS), **_whole_cases()}
    no_list = {"not": _one_key(CASE_LIST_KEYS)}  # the sidecar of a JSONL dataset
    return _document("AgentV eval file", {**root, "oneOf": [*_one_key(CASE_LIST_KEYS)["anyOf"], no_list]}, definitions)


def _whole_cases() -> JsonObject:
    """Require the keys of cases where the file itself says nothing that may stand in for them."""
    without = ("defaults", "include")
    rules = ((without, _one_key(INPUT_KEYS)), ((*without, *_JUDGED_KEYS), _ref("case")))
    return {"allOf": [_unless(keys, case) for keys, case in rules]}


def _unless(keys: Iterable[str], case: JsonObject) -> JsonObject:
    lists = {key: {"items": _any_of(case, _TEXT)} for key in CASE_LIST_KEYS}
    return {"if": {"not": _one_key(keys)}, "then": {"properties": lists}}


def targets_schema(kinds: TargetKinds) -> JsonObject:
    """Return the schema of targets files. Any value may be a text, because it may hold a variable."""
    classes = {word: kinds.table[word] for word in kinds.table}
    known = {"provider": _any_of({"enum": [*classes, *kinds.unsupported]}, _FILLED_TEXT), "name": _FILLED_TEXT}
    definitions: dict[str, Json] = {"target": _by_kind(classes, "provider", known)}
    for kind in classes.values():
        definitions[kind.__name__] = _target_schema(kind)
        definitions |= {part.__name__: _model_schema(part, texts=True) for part in parts_of(kind)}
    root = _closed({"targets": _list_of(_ref("target")), "include": _TEXTS}, ("$schema", "targets", "include"))
    return _document("AgentV targets file", {**root, **_one_key(("targets", "include"))}, definitions)


def _target_schema(kind: type[BaseModel]) -> JsonObject:
    """Return the schema of a kind with the keys that all targets have."""
    common, own = _model_schema(common_keys(kind), texts=True), _model_schema(kind, texts=True)
    required = [*common.get("allOf", ()), *own.get("allOf", ())]
    return {**own, "properties": {**common["properties"], **own["properties"]}, "allOf": required}


def config_schema() -> JsonObject:
    """Return the schema of `.agentv.yaml` and `.agentv/config.yaml`."""
    properties = {"$schema": {"const": CONFIG_SCHEMA}, "guideline_patterns": _list_of(_FILLED_TEXT)}
    return _document("AgentV config file", _closed(properties, properties), {})


class _Generator(GenerateJsonSchema):
    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012 - pydantic's name and type


def _document(title: str, root: JsonObject, definitions: JsonObject) -> JsonObject:
    document = {"$schema": _DRAFT, "title": title, **root, **({"definitions": definitions} if definitions else {})}
    whole: JsonObject = described(document)
    return whole


def _by_kind(models: Mapping[str, type[BaseModel]], key: str, properties: JsonObject) -> JsonObject:
    """Return the schema of a mapping whose shape depends on the word under a key. Unknown words allow any shape."""
    cases = [
        {"if": {"properties": {key: {"const": kind}}, "required": [key]}, "then": _ref(model.__name__)}
        for kind, model in models.items()
    ]
    return {**_MAPPING, "required": list(properties), "properties": properties, "allOf": cases}


def _model_schema(model: type[BaseModel], *, texts: bool = False) -> JsonObject:
    """Return the schema of a model with all spellings of its keys. With `texts`, any value may also be a text."""
    plain = model.model_json_schema(by_alias=False, schema_generator=_Generator)
    properties: dict[str, JsonObject] = {}
    required: list[JsonObject] = []
    for field, keys in spellings(model).items():
        schema = _OVERRIDES.get(f"{model.__name__}.{field}") or _relinked(plain["properties"][field], texts=texts)
        about = {key: plain["properties"][field][key] for key in _ABOUT if key in plain["properties"][field]}
        schema = {key: value for key, value in schema.items() if key not in _ABOUT}
        alternatives = (schema, _TEXT if texts else _TEMPLATE, _NULL) if "const" not in schema else (schema, _NULL)
        properties |= {key: {**about, **_any_of(*alternatives)} for key in keys}
        if field in plain.get("required", ()):
            required.append(_one_key(keys))
    if issubclass(model, Kind) and not texts:
        properties["type"] = {}  # it chose the kind
    is_open = model.model_config.get("extra") == "allow"
    about = {"description": _first_line(model)} if issubclass(model, Part) else {}
    shape = {**about, **_MAPPING, "properties": properties, "additionalProperties": is_open}
    return {**shape, "allOf": required} if required else shape


def _first_line(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().partition("\n")[0]


def _relinked(schema: Json, *, texts: bool) -> Json:
    """Return a pydantic schema without titles, with its definitions under our paths."""
    if isinstance(schema, list):
        return [_relinked(item, texts=texts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if REFERENCE in schema:
        return _ref(schema[REFERENCE])
    relinked = {key: _relinked(value, texts=texts) for key, value in schema.items() if key not in ("title", "default")}
    if "examples" in schema:
        relinked["examples"] = schema["examples"]
    if "$ref" in relinked:
        relinked["$ref"] = relinked["$ref"].replace("#/$defs/", "#/definitions/")
    if texts and "items" in relinked:
        relinked["items"] = _any_of(relinked["items"], _TEXT)
    return relinked
