"""JSON Schemas of eval, targets and config files, for editors: generated from the models that loading uses.

What loads without a complaint is valid here, and unknown keys are not; what files refer to is no matter of a schema.
Imports pydantic: import this lazily.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from pytest_agentv.loading.config import CONFIG_SCHEMA
from pytest_agentv.loading.edge_models import EdgeModel
from pytest_agentv.loading.evaluator_models import ExpectedCallModel, FieldCheckModel
from pytest_agentv.loading.evaluators import AGGREGATORS
from pytest_agentv.loading.evaluators import MODELS as EVALUATORS
from pytest_agentv.loading.judge_models import ProxyModel, RubricModel
from pytest_agentv.loading.keys import (
    CASE_KEYS,
    CASE_LIST_KEYS,
    EVALUATOR_LIST_KEYS,
    EXECUTION_KEYS,
    EXPECTED_KEYS,
    HEADER_KEYS,
    INPUT_KEYS,
    OUTCOME_KEYS,
)
from pytest_agentv.loading.target_kinds import TargetKinds
from pytest_agentv.loading.target_validation import common_keys
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.kind import parts_of, spellings
from pytest_agentv.models.messages import ROLES

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
    return {"anyOf": list(schemas)}


def _one_key(keys: Iterable[str]) -> JsonObject:
    """Require one of some synonyms."""
    return {"anyOf": [{"required": [key]} for key in keys]}


def _closed(properties: Mapping[str, JsonObject], known: Iterable[str]) -> JsonObject:
    """Return the schema of a mapping whose keys are known; null counts as absent everywhere."""
    values = {key: _any_of(properties[key], _NULL) if key in properties else {} for key in sorted(known)}
    return {"type": "object", "properties": values, "additionalProperties": False}


_NUMBER_TO_ONE: Final = {"type": "number", "minimum": 0, "maximum": 1}
_RUBRIC: Final = _any_of(_FILLED_TEXT, _ref("RubricModel"))
_TOOL_CALL: Final = _MAPPING
"""AgentV hands tool calls on as they are written, those in the shape of a model's API as well."""
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
    **dict.fromkeys(EVALUATOR_LIST_KEYS, _list_of(_ref("evaluator"))),
}
_CASE: Final = {
    **_closed(
        {
            **_SHARED,
            "id": _FILLED_TEXT,
            "conversation_id": _TEXT,
            "rubrics": _list_of(_RUBRIC),
            **dict.fromkeys(OUTCOME_KEYS, _FILLED_TEXT),
            **dict.fromkeys(INPUT_KEYS, _any_of(_list_of(_ref("message")), _TEXT)),
            **dict.fromkeys(EXPECTED_KEYS, _any_of(_list_of(_ref("message")), _MAPPING, _TEXT)),
        },
        CASE_KEYS,
    ),
    "required": ["id"],
    "allOf": [_one_key(OUTCOME_KEYS), _one_key(INPUT_KEYS)],
}

_OVERRIDES: Final[Mapping[str, JsonObject]] = {
    "HeuristicModel.hits": _any_of(_list_of(_FILLED_TEXT), _FILLED_TEXT),
    "HeuristicModel.misses": _any_of(_list_of(_FILLED_TEXT), _FILLED_TEXT),
    "ExpectedCallModel.args": _any_of({"const": "any"}, _MAPPING),
    "CodeJudgeModel.script": _any_of(_FILLED_TEXT, {**_list_of(_FILLED_TEXT), "minItems": 1}),
    "CodeJudgeModel.target": _any_of({"type": "boolean"}, _ref("ProxyModel")),
    "LlmJudgeModel.rubrics": _list_of(_RUBRIC),
    "RubricJudgeModel.rubrics": {**_list_of(_RUBRIC), "minItems": 1},
    "CompositeModel.evaluators": {**_list_of(_ref("evaluator")), "minItems": 1},
    "CompositeModel.aggregator": _ref("aggregator"),
}
"""Fields that take more shapes than their models say, because a validator unifies them first."""


def eval_schema() -> JsonObject:
    """Return the schema of eval files (YAML); its `case` is that of a line of a JSONL dataset."""
    definitions: dict[str, Json] = {
        "case": _CASE,
        "content_item": _CONTENT_ITEM,
        "evaluator": _by_kind(EVALUATORS, "type", {"name": _FILLED_TEXT, "type": _TEXT}),
        "aggregator": _by_kind(AGGREGATORS, "type", {"type": {"enum": list(AGGREGATORS)}}),
        "execution": _closed(_SHARED, EXECUTION_KEYS),
        "message": _MESSAGE,
        "tool_call": _TOOL_CALL,
    }
    models: list[type[BaseModel]] = [*EVALUATORS.values(), *AGGREGATORS.values()]
    models += [ExpectedCallModel, FieldCheckModel, ProxyModel, RubricModel]
    definitions |= {model.__name__: _model_schema(model) for model in models}
    lists = dict.fromkeys(CASE_LIST_KEYS, _list_of(_ref("case")))
    root = _closed({**_SHARED, "dataset": _TEXT, **lists}, HEADER_KEYS)
    no_list = {"not": _one_key(CASE_LIST_KEYS)}  # the sidecar of a JSONL dataset
    return _document("AgentV eval file", {**root, "oneOf": [*_one_key(CASE_LIST_KEYS)["anyOf"], no_list]}, definitions)


def targets_schema(kinds: TargetKinds) -> JsonObject:
    """Return the schema of targets files. Any value may be a text: a variable may fill it in."""
    classes = {word: kinds.table[word] for word in kinds.table}
    known = {"provider": _any_of({"enum": [*classes, *kinds.unsupported]}, _FILLED_TEXT), "name": _FILLED_TEXT}
    definitions: dict[str, Json] = {"target": _by_kind(classes, "provider", known)}
    for kind in classes.values():
        definitions[kind.__name__] = _target_schema(kind)
        definitions |= {part.__name__: _model_schema(part, texts=True) for part in parts_of(kind)}
    root = _closed({"targets": _list_of(_ref("target"))}, ("$schema", "targets"))
    return _document("AgentV targets file", {**root, "required": ["targets"]}, definitions)


def _target_schema(kind: type[BaseModel]) -> JsonObject:
    """Return the schema of a kind with the keys that all targets have."""
    common, own = _model_schema(common_keys(kind), texts=True), _model_schema(kind, texts=True)
    required = [*common.get("allOf", ()), *own.get("allOf", ())]
    return {**own, "properties": {**common["properties"], **own["properties"]}, "allOf": required}


def config_schema() -> JsonObject:
    """Return the schema of `.agentv.yaml` and `.agentv/config.yaml`."""
    properties = {"$schema": {"const": CONFIG_SCHEMA}, "guideline_patterns": _list_of(_FILLED_TEXT)}
    return _document("AgentV config file", _closed(properties, properties), {})


def schemas(kinds: TargetKinds) -> Mapping[str, Callable[[], JsonObject]]:
    """Return what writes the schema of each sort of file; targets may be of the kinds."""
    return {"eval": eval_schema, "targets": lambda: targets_schema(kinds), "config": config_schema}


class _Generator(GenerateJsonSchema):
    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012 - pydantic's name and type


def _document(title: str, root: JsonObject, definitions: JsonObject) -> JsonObject:
    return {"$schema": _DRAFT, "title": title, **root, **({"definitions": definitions} if definitions else {})}


def _by_kind(models: Mapping[str, type[BaseModel]], key: str, properties: JsonObject) -> JsonObject:
    """Return the schema of a mapping whose shape depends on the word under a key; kinds of plugins are free."""
    cases = [
        {"if": {"properties": {key: {"const": kind}}, "required": [key]}, "then": _ref(model.__name__)}
        for kind, model in models.items()
    ]
    return {**_MAPPING, "required": list(properties), "properties": properties, "allOf": cases}


def _model_schema(model: type[BaseModel], *, texts: bool = False) -> JsonObject:
    """Return the schema of a model under all spellings of its keys; `texts`: any value may be a text as well."""
    plain = model.model_json_schema(by_alias=False, schema_generator=_Generator)
    properties: dict[str, JsonObject] = {}
    required: list[JsonObject] = []
    for field, keys in spellings(model).items():
        schema = _OVERRIDES.get(f"{model.__name__}.{field}") or _relinked(plain["properties"][field], texts=texts)
        alternatives = (schema, _TEXT, _NULL) if texts and "const" not in schema else (schema, _NULL)
        properties |= dict.fromkeys(keys, _any_of(*alternatives))
        if field in plain.get("required", ()):
            required.append(_one_key(keys))
    is_open = issubclass(model, EdgeModel) and model.is_open
    shape = {**_MAPPING, "properties": properties, "additionalProperties": is_open}
    return {**shape, "allOf": required} if required else shape


def _relinked(schema: Json, *, texts: bool) -> Json:
    """Return a schema of pydantic's without its titles, with its models where ours are."""
    if isinstance(schema, list):
        return [_relinked(item, texts=texts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    relinked = {key: _relinked(value, texts=texts) for key, value in schema.items() if key not in ("title", "default")}
    if "$ref" in relinked:
        relinked["$ref"] = relinked["$ref"].replace("#/$defs/", "#/definitions/")
    if texts and "items" in relinked:
        relinked["items"] = _any_of(relinked["items"], _TEXT)
    return relinked
