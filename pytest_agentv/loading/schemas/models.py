"""Turns the classes of kinds into schemas: with all spellings of keys, and variables in place of any value."""

from collections.abc import Mapping
from typing import Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from pytest_agentv.loading.schemas.shapes import MAPPING, NULL, TEMPLATE, TEXT, any_of, one_key, ref
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.kind import REFERENCE, Kind, Part, spellings

_ABOUT: Final = ("description", "examples")


class _Generator(GenerateJsonSchema):
    ignored_warning_kinds = {"non-serializable-default", "skipped-choice"}  # noqa: RUF012 - pydantic's name and type


def by_kind(models: Mapping[str, type[BaseModel]], key: str, properties: JsonObject) -> JsonObject:
    """Return the schema of a mapping whose shape depends on the word under a key. Unknown words allow any shape."""
    cases = [
        {"if": {"properties": {key: {"const": kind}}, "required": [key]}, "then": ref(model.__name__)}
        for kind, model in models.items()
    ]
    return {**MAPPING, "required": list(properties), "properties": properties, "allOf": cases}


def model_schema(model: type[BaseModel], *, texts: bool = False) -> JsonObject:
    """Return the schema of a model with all spellings of its keys. With `texts`, any value may also be a text."""
    plain = model.model_json_schema(by_alias=False, schema_generator=_Generator)
    properties: dict[str, JsonObject] = {}
    required: list[JsonObject] = []
    for field, keys in spellings(model).items():
        schema = _relinked(plain["properties"][field], texts=texts)
        about = {key: plain["properties"][field][key] for key in _ABOUT if key in plain["properties"][field]}
        schema = {key: value for key, value in schema.items() if key not in _ABOUT}
        is_required = field in plain.get("required", ())
        alternatives = [schema, *([] if "const" in schema else [TEXT if texts else TEMPLATE])]
        if texts or not is_required or len(keys) > 1:  # null counts as absent; another spelling may be there
            alternatives.append(NULL)
        properties |= {key: {**about, **any_of(*alternatives)} for key in keys}
        if is_required:
            required.append(one_key(keys))
    if issubclass(model, Kind) and not texts:
        properties["type"] = {}  # the condition has checked it
    is_open = model.model_config.get("extra") == "allow"
    about = {"description": first_line(model)} if issubclass(model, Part) else {}
    shape = {**about, **MAPPING, "properties": properties, "additionalProperties": is_open}
    return {**shape, "allOf": required} if required else shape


def first_line(model: type[BaseModel]) -> str:
    """Return the first line of a docstring."""
    return (model.__doc__ or "").strip().partition("\n")[0]


def _relinked(schema: Json, *, texts: bool) -> Json:
    """Return a pydantic schema without titles, with its definitions under our paths."""
    if isinstance(schema, list):
        return [_relinked(item, texts=texts) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if REFERENCE in schema:
        return ref(schema[REFERENCE])
    relinked = {key: _relinked(value, texts=texts) for key, value in schema.items() if key not in ("title", "default")}
    if "examples" in schema:
        relinked["examples"] = schema["examples"]
    if "$ref" in relinked:
        relinked["$ref"] = relinked["$ref"].replace("#/$defs/", "#/definitions/")
    if texts and "items" in relinked:
        relinked["items"] = any_of(relinked["items"], TEXT)
    for key in () if texts else ("items", "additionalProperties"):
        if relinked.get(key) and not _takes_texts(relinked[key]):
            relinked[key] = any_of(relinked[key], TEMPLATE)
    return relinked


def _takes_texts(schema: Json) -> bool:
    """Whether the schema of an item or a value allows a template as it is."""
    return not isinstance(schema, dict) or schema.get("type") == "string" or schema == ref("evaluator")
