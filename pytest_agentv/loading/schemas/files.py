"""Generates JSON Schemas of eval, targets and config files for editors, from the models that loading uses.

A file that loads without a problem is valid. Unknown keys are invalid. Referenced files are not checked.
Imports pydantic: import this lazily.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from pydantic import BaseModel

from pytest_agentv.loading.cases.config import CONFIG_SCHEMA
from pytest_agentv.loading.keys import (
    CASE_KEYS,
    CASE_LIST_KEYS,
    EVALUATOR_LIST_KEYS,
    EXPECTED_KEYS,
    FILE_EXECUTION_KEYS,
    HEADER_KEYS,
    INPUT_KEYS,
    NO_REASONS,
    OUTCOME_KEYS,
)
from pytest_agentv.loading.schemas.evaluators import evaluator_definitions
from pytest_agentv.loading.schemas.help import described
from pytest_agentv.loading.schemas.models import by_kind, model_schema
from pytest_agentv.loading.schemas.shapes import (
    FILLED_TEXT,
    MAPPING,
    NULL,
    TEMPLATE,
    TEXT,
    any_of,
    closed,
    list_of,
    one_key,
    one_of_words,
    ref,
)
from pytest_agentv.loading.schemas.sharing import shared
from pytest_agentv.loading.targets.kinds import TargetKinds
from pytest_agentv.loading.targets.validation import common_keys
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.kind import Part, parts_of
from pytest_agentv.models.messages import ROLES
from pytest_agentv.models.options.values import MAX_REPEAT

Kinds: TypeAlias = Mapping[str, type[Part]]

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"

_NUMBER_TO_ONE: Final = {"type": "number", "minimum": 0, "maximum": 1}
_NAMES: Final = any_of(TEXT, list_of(any_of(TEXT, NULL)))
_PATHS: Final = any_of(FILLED_TEXT, list_of(FILLED_TEXT))
_REASON: Final = any_of({"type": "boolean"}, {**TEXT, "not": {"pattern": one_of_words(NO_REASONS)}})
_RUBRIC: Final = any_of(FILLED_TEXT, ref("Rubric"))
_TOOL_CALL: Final = MAPPING
"""AgentV passes tool calls on as written, in the shape of any model's API."""
_CONTENT_ITEM: Final = any_of(
    TEXT,
    {
        **MAPPING,
        "required": ["type", "value"],
        "properties": {"type": {"enum": ["text", "file", "image"]}, "value": TEXT},
    },
    {**MAPPING, "properties": {"type": {"not": {"enum": ["text", "file", "image"]}}}},
)
_MESSAGE: Final = {
    **MAPPING,
    "required": ["role"],
    "properties": {
        "role": any_of({"enum": list(ROLES)}, TEMPLATE),
        "content": any_of(TEXT, MAPPING, list_of(ref("content_item")), NULL),
        "tool_calls": any_of(list_of(ref("tool_call")), NULL),
    },
    **one_key(("content", "tool_calls")),
}
_SHARED: Final = {
    "execution": ref("execution"),
    "target": TEXT,
    "threshold": _NUMBER_TO_ONE,
    "vars": MAPPING,
    "input_files": _PATHS,
    "repeat": {"type": "integer", "minimum": 1, "maximum": MAX_REPEAT},
    "min_pass_rate": _NUMBER_TO_ONE,
    **dict.fromkeys(EVALUATOR_LIST_KEYS, any_of(list_of(ref("evaluator")), TEMPLATE)),
    **dict.fromkeys(("marks", "fixtures", "tags"), _NAMES),
    **dict.fromkeys(("skip", "xfail"), _REASON),
}
_FILLED: Final = {key: any_of(_SHARED[key], TEMPLATE) for key in ("execution", "threshold", "repeat", "min_pass_rate")}
"""Keys that variables may fill in cases. Those of a file stand as they are."""
_PROMPT_FILE: Final = {**MAPPING, "required": ["file"], "properties": {"file": TEXT}, "additionalProperties": False}
_PARTIAL_CASE: Final = closed(
    {
        **_SHARED,
        **_FILLED,
        "id": FILLED_TEXT,
        "conversation_id": TEXT,
        "group": TEXT,
        "required": any_of({"type": "boolean"}, TEMPLATE),
        "rubrics": any_of(list_of(_RUBRIC), TEMPLATE),
        **dict.fromkeys(OUTCOME_KEYS, FILLED_TEXT),
        **dict.fromkeys(INPUT_KEYS, any_of(list_of(ref("message")), ref("message"), TEXT, _PROMPT_FILE)),
        **dict.fromkeys(EXPECTED_KEYS, any_of(list_of(ref("message")), MAPPING, TEXT)),
    },
    CASE_KEYS,
)
"""A case whose missing keys may come from `defaults`."""
_JUDGED_KEYS: Final = ("execution", "rubrics", *EVALUATOR_LIST_KEYS)
"""Keys of cases and files whose evaluators may need no expected outcome."""
_CASE: Final = {
    "required": ["id"],
    "allOf": [ref("partial_case"), one_key((*OUTCOME_KEYS, *_JUDGED_KEYS)), one_key(INPUT_KEYS)],
}
_NAMED_CASE: Final = {"required": ["id"], "allOf": [ref("partial_case")]}
_TABLE: Final = {
    **MAPPING,
    "required": ["from"],
    "properties": {
        "from": _PATHS,
        "sample": {"type": "integer", "minimum": 0},
        "seed": {"type": "integer", "minimum": 0},
    },
    "additionalProperties": False,
}
_CASE_LIST: Final = any_of(list_of(any_of(ref("named_case"), TEXT)), TEXT, _TABLE)


def eval_schema(evaluators: Kinds, aggregators: Kinds) -> JsonObject:
    """Return the schema of eval files (YAML). Its `case` is the schema of a line of a JSONL dataset.

    Args:
        evaluators: The kinds of evaluators, by the word after `type`.
        aggregators: The kinds of aggregators of composites, likewise.
    """
    targets = {**list_of(FILLED_TEXT), "minItems": 1}
    definitions: dict[str, Json] = {
        "case": _CASE,
        "named_case": _NAMED_CASE,
        "partial_case": _PARTIAL_CASE,
        "content_item": _CONTENT_ITEM,
        "aggregator": by_kind(aggregators, "type", {"type": {"enum": list(aggregators)}}),
        "execution": closed({**_SHARED, **_FILLED, "targets": targets}, FILE_EXECUTION_KEYS),
        "message": _MESSAGE,
        "tool_call": _TOOL_CALL,
    }
    kinds = (*evaluators.values(), *aggregators.values())
    models = [model for kind in kinds for model in (kind, *parts_of(kind))]
    definitions |= {model.__name__: model_schema(model) for model in models}
    definitions |= evaluator_definitions(evaluators, definitions)
    lists = dict.fromkeys(CASE_LIST_KEYS, _CASE_LIST)
    matrix = {**MAPPING, "additionalProperties": {"type": "array", "minItems": 1}}
    parts = {"matrix": matrix, "case": ref("named_case"), "defaults": ref("partial_case"), "include": _PATHS}
    root = {**closed({**_SHARED, "dataset": TEXT, **parts, **lists}, HEADER_KEYS), **_whole_cases()}
    no_list = {"not": one_key(CASE_LIST_KEYS)}  # the sidecar of a JSONL dataset
    return _document("AgentV eval file", {**root, "oneOf": [*one_key(CASE_LIST_KEYS)["anyOf"], no_list]}, definitions)


def _whole_cases() -> JsonObject:
    """Require the keys of cases, unless keys of the file may replace them."""
    without = ("defaults", "include")
    rules = ((without, one_key(INPUT_KEYS)), ((*without, *_JUDGED_KEYS), ref("case")))
    return {"allOf": [_unless(keys, case) for keys, case in rules]}


def _unless(keys: Iterable[str], case: JsonObject) -> JsonObject:
    lists = {key: {"items": any_of(case, TEXT)} for key in CASE_LIST_KEYS}
    return {"if": {"not": one_key(keys)}, "then": {"properties": lists}}


def targets_schema(kinds: TargetKinds) -> JsonObject:
    """Return the schema of targets files. Any value may be a text, because it may hold a variable."""
    classes = {word: kinds.table[word] for word in kinds.table}
    known = {"provider": any_of({"enum": [*classes, *kinds.unsupported]}, FILLED_TEXT), "name": FILLED_TEXT}
    definitions: dict[str, Json] = {"target": by_kind(classes, "provider", known)}
    for kind in classes.values():
        definitions[kind.__name__] = _target_schema(kind)
        definitions |= {part.__name__: model_schema(part, texts=True) for part in parts_of(kind)}
    root = closed({"targets": list_of(ref("target")), "include": _PATHS}, ("$schema", "targets", "include"))
    return _document("AgentV targets file", {**root, **one_key(("targets", "include"))}, definitions)


def _target_schema(kind: type[BaseModel]) -> JsonObject:
    """Return the schema of a kind with the keys that all targets have."""
    common, own = model_schema(common_keys(kind), texts=True), model_schema(kind, texts=True)
    required = [*common.get("allOf", ()), *own.get("allOf", ())]
    return {**own, "properties": {**common["properties"], **own["properties"]}, "allOf": required}


def config_schema() -> JsonObject:
    """Return the schema of `.agentv.yaml` and `.agentv/config.yaml`."""
    properties = {"$schema": {"const": CONFIG_SCHEMA}, "guideline_patterns": list_of(FILLED_TEXT)}
    return _document("AgentV config file", closed(properties, properties), {})


def _document(title: str, root: JsonObject, definitions: JsonObject) -> JsonObject:
    document = {"$schema": _DRAFT, "title": title, **root, **({"definitions": definitions} if definitions else {})}
    return shared(described(document))
