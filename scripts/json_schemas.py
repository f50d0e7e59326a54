"""Write the JSON Schemas of eval, targets and config files for editors, from the classes of their keys.

python scripts/json_schemas.py  # replace pytest_agentv/schemas/*.schema.json
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from pytest_agentv.cases.keys import Case, Execution, Message, PromptFile, Suite, Table, Workspace
from pytest_agentv.cli.init import KINDS, schema_path
from pytest_agentv.evaluators.composite import AGGREGATORS
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.files.places import CASE_LIST_KEYS, EVALUATOR_LIST_KEYS, INPUT_KEYS, OUTCOME_KEYS
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.kind import FILLED_TEXT as KIND_FILLED_TEXT
from pytest_agentv.model.kind import REFERENCE, Kind, Part, field_parts, spellings
from pytest_agentv.model.kind_table import NEGATION
from pytest_agentv.providers.table import KINDS as TARGETS
from pytest_agentv.targets.definitions import TargetKinds
from pytest_agentv.targets.fields import CommonKeys, Config, Metadata, TargetsFileKeys

# Descriptions and examples for schema keys whose classes have none. Editors show them.

_CHECKS: Final = [{"contains": "30 days"}, "Names the refund period"]
_CASE_HELP: Final = {"id": "refund", "input": "May I return it?", "criteria": "Names the refund period"}

DESCRIPTIONS: Final[Mapping[str, str]] = {
    "$schema": "the schema of the file",
    "name": "what it is called",
    "targets": "what can be asked, and who judges",
    **dict.fromkeys(("evalcases", "eval_cases", "cases", "tests"), "the cases of the file"),
    "include": "files whose keys this file takes over, where it does not have them",
    "type": "the kind",
    "value": "a text, or the path of a file",
    "provider": "the kind of target",
    "guideline_patterns": "globs of the files that count as guidelines",
}

EXAMPLES: Final[Mapping[str, Json]] = {
    "$schema": "agentv-config-v2",
    "name": "support",
    "version": "1.0",
    "description": "Questions about refunds",
    "target": "default",
    "targets": [{"name": "default", "provider": "mock", "response": "Yes."}],
    "threshold": 0.8,
    **{key: [_CASE_HELP] for key in ("evalcases", "eval_cases", "cases", "tests")},
    **dict.fromkeys(("evaluators", "assertions", "assert"), _CHECKS),
    "id": "refund-period",
    "rubrics": ["Names the refund period"],
    "include": "common.yaml",
    "seed": 1,
    "session": True,
    "messages": True,
    "tool_calls": [{"tool": "search", "input": {"query": "refund"}}],
    "type": "contains",
    "value": "policies/refund.md",
    "aggregation": "all_or_nothing",
    "aggregator": {"type": "weighted_average"},
    "api_key": "${{ OPENAI_API_KEY }}",
    "api_version": "2024-10-01-preview",
    "args": ["--verbose"],
    "arguments": {"temperature": 0.2},
    **dict.fromkeys(("attachments_format", "files_format"), "--file {path}"),
    **dict.fromkeys(("base_url", "endpoint", "resource", "resource_name"), "https://my-resource.openai.azure.com"),
    **dict.fromkeys(("binary", "command", "executable"), "codex"),
    "budget": 0.05,
    "callable": "agent.py:answer",
    **dict.fromkeys(("cli_verbose", "verbose"), True),
    "client": "litellm",
    "command_template": "python agent.py {PROMPT}",
    "cwd": "agents",
    **dict.fromkeys(("deployment", "deployment_name", "model", "variant"), "gpt-6-luna"),
    "delay_ms": 100,
    "delay_min_ms": 100,
    "delay_max_ms": 500,
    "dry_run": True,
    "env": {"LOG_LEVEL": "debug"},
    "expected": [{"tool": "search"}],
    "fields": [{"path": "items[0].price", "match": "exact"}],
    "finish_reason": "stop",
    "formats": ["DD/MM/YYYY"],
    "healthcheck": {"type": "http", "url": "http://localhost:8000/health"},
    "hits": ["refund", "30 days"],
    "include_trace": True,
    "judge_target": "judge",
    **dict.fromkeys(("keep_output_files", "keep_temp_files"), True),
    **dict.fromkeys(("llm_provider", "pi_provider"), "anthropic"),
    **dict.fromkeys(("log_dir", "log_directory"), "logs"),
    **dict.fromkeys(("log_format", "log_output_format"), "json"),
    "match": "exact",
    "max_calls": 10,
    "max_duration_ms": 2000,
    "max_input": 2000,
    "max_output": 500,
    "max_total": 3000,
    **dict.fromkeys(("max_output_tokens", "max_tokens"), 1000),
    "max_retries": 3,
    "misses": ["sorry"],
    "output": {"price": 120},
    "output_messages": [{"role": "assistant", "content": "Yes."}],
    "path": "items[0].price",
    "pi_model": "claude-sonnet-5-5",
    **dict.fromkeys(("pi_thinking", "thinking"), "low"),
    **dict.fromkeys(("pi_tools", "tools"), "read,grep"),
    "prompt": "prompts/judge.md",
    "prompt_path": "prompts/judge.md",
    "provider": "openai",
    "provider_batching": True,
    "relative": True,
    "required": False,
    "response": "Yes, within 30 days.",
    "retry_backoff_factor": 2,
    "retry_initial_delay_ms": 1000,
    "retry_max_delay_ms": 60000,
    "retry_status_codes": [429, 503],
    "script": ["python", "judge.py"],
    "stdin": "{PROMPT}",
    "subagent_root": "~/.subagent/vscode-agents",
    "system_prompt": "Answer in one sentence.",
    "temperature": 0,
    "top_p": 0.9,
    "stop": ["END"],
    "reasoning": False,
    "api_format": "responses",
    "reasoning_effort": "low",
    "response_format": {"type": "json_schema", "json_schema": {"name": "place", "schema": {"type": "object"}}},
    "tools": [{"name": "price_of", "description": "Look up a price", "parameters": {"type": "object"}}],
    "organization": "org-123",
    "base_model": "gpt-6-luna",
    "headers": {"X-Team": "shop"},
    "extra_body": {"user": "evals"},
    "app": "service.main:app",
    "method": "POST",
    "body": {"question": "{{ prompt }}"},
    "answer": "$.choices[0].message.content",
    "tokens": "$.usage",
    "context": "$.sources[*].text",
    "stream": "sse",
    "thinking_budget": 2000,
    "timeout_seconds": 120,
    "tolerance": 0.01,
    "tool": "search",
    "trace": [{"type": "tool_call", "name": "search"}],
    "url": "http://localhost:8000/health",
    "vscode_cmd": "code",
    "wait": True,
    "weight": 2,
    "weights": {"price": 2},
    "workers": 4,
    "workspace_template": "agent.code-workspace",
    "guideline_patterns": ["**/*.instructions.md"],
}


def described(schema: Json) -> Json:
    """Return a schema with a description and an example for each property. Conditions stay unchanged."""
    if isinstance(schema, list):
        return [described(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: item if key in ("if", "not", "examples", "enum") else described(item) for key, item in schema.items()}
    properties = found.get("properties")
    if isinstance(properties, dict):
        found["properties"] = {key: _with_help(key, value) for key, value in properties.items()}
    return found


def _with_help(key: str, schema: Any) -> Any:
    name = re.sub("[A-Z]+", lambda upper: f"_{upper[0].lower()}", key)
    about: dict[str, Json] = {}
    if "description" not in schema and name in DESCRIPTIONS:
        about["description"] = DESCRIPTIONS[name]
    if "examples" not in schema and name in EXAMPLES:
        about["examples"] = [EXAMPLES[name]]
    return {**about, **schema}


# Generates the JSON Schemas of eval, targets and config files for editors, from the classes of kinds.
#
# A file that loads without a problem is valid. Unknown keys are invalid. Referenced files are not checked.
# Imports pydantic: import this lazily.

# The parts of schemas.

TEXT: Final = {"type": "string"}
FILLED_TEXT: Final = {"type": "string", "pattern": r"\S"}
MAPPING: Final = {"type": "object"}
NULL: Final = {"type": "null"}
TEMPLATE: Final = {"type": "string", "pattern": r"\{\{"}
"""A variable may replace a value of any type."""


def ref(name: str) -> JsonObject:
    return {"$ref": f"#/definitions/{name}"}


def list_of(item: JsonObject) -> JsonObject:
    return {"type": "array", "items": item}


def any_of(*schemas: JsonObject) -> JsonObject:
    """Return alternatives. Nested alternatives are put on the same level, without duplicates."""
    flat = [each for schema in schemas for each in (schema["anyOf"] if set(schema) == {"anyOf"} else [schema])]
    return {"anyOf": [each for index, each in enumerate(flat) if each not in flat[:index]]}


def one_key(keys: Iterable[str]) -> JsonObject:
    """Require one of some synonyms."""
    return {"anyOf": [{"required": [key]} for key in keys]}


# The classes of kinds as schemas: with all spellings of keys, and variables in place of any value.

_ABOUT: Final = ("description", "examples", "doNotSuggest")


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
        for key in keys[1:]:  # other spellings load, but editors do not offer them
            properties[key] = {**properties[key], "doNotSuggest": True}
        if is_required:
            required.append(one_key(keys))
    if issubclass(model, Kind) and not texts:
        properties["type"] = {}  # the condition has checked it
    is_open = model.model_config.get("extra") == "allow"
    about = {"description": first_line(model)} if issubclass(model, Part) else {}
    shape = {**about, **MAPPING, "properties": properties, "additionalProperties": is_open}
    return {**shape, "allOf": required} if required else shape


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
        value = relinked.get(key)
        if value and isinstance(value, dict) and value.get("type") != "string" and value != ref("evaluator"):
            relinked[key] = any_of(value, TEMPLATE)  # the others allow a template as they are
    return relinked


def first_line(model: type[BaseModel]) -> str:
    """Return the first line of a docstring."""
    return (model.__doc__ or "").strip().partition("\n")[0]


# The JSON Schema of an evaluator in an eval file: long, short, or a text.

EVALUATOR_MAPPING: Final = "evaluator_mapping"
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
        "evaluator": {"anyOf": [{**KIND_FILLED_TEXT, "description": _TEXT}, ref(EVALUATOR_MAPPING)]},
        EVALUATOR_MAPPING: _mapping(kinds, models),
        # Not what is required: the cases of a mapping say that.
        **{
            kind.__name__: {key: value for key, value in models[kind.__name__].items() if key != "allOf"}
            for kind in words
        },
        **shorts,
        **values,
        **{_words_name(kind): {"enum": written} for kind, written in words.items()},
    }


def _short_name(kind: type[Part]) -> str:
    return f"{kind.__name__}Short"


def _short(kind: Any, words: Sequence[str], models: Mapping[str, JsonObject]) -> JsonObject:
    """Return the schema of `{kind: value, weight: 2}`. It does not say which keys are required."""
    model = models[kind.__name__]
    main = spellings(kind).get(kind.short_key or "", ())
    others = {key: item for key, item in model["properties"].items() if key not in (*main, "type")}
    about = model["properties"].get(main[0] if main else "", {})
    told = {key: about[key] for key in ("description", "examples") if key in about}
    # a key of that name may be another thing in other mappings
    shown = {word: told if word in EXAMPLES else {} for word in words}
    written = {word: {**ref(_value_name(kind)), **shown[word], **_older(word)} for word in words}
    return {
        "type": "object",
        "description": model.get("description", ""),
        "properties": {**others, **written},
        "additionalProperties": model["additionalProperties"],
    }


def _older(word: str) -> JsonObject:
    """Return what keeps editors from offering a word that only loads."""
    return {"doNotSuggest": True} if word.removeprefix(NEGATION).removeprefix("not_") in EVALUATORS.older else {}


def _value_name(kind: type[Part]) -> str:
    return f"{kind.__name__}Value"


def _about(kind: Any, before: str = "") -> JsonObject:
    field = kind.model_fields.get(kind.short_key or "")
    if field is not None and field.examples:
        example = field.examples[0]
    else:
        checks = (check for each in kind.examples for check in each.get("assert", ()) if isinstance(check, Mapping))
        example = next((check[kind.kind] for check in checks if kind.kind in check), {})
    return {"description": f"{before}{first_line(kind)}", "examples": [example]}


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
    mapping = ref(kind.__name__)
    if "keys_of" in kind.__dict__:  # the short form has keys of its own, such as the `name` of a tool
        mapping = {"properties": keys, "additionalProperties": model["additionalProperties"]}
    # Not another alternative: editors would report a wrong key of a mapping as a wrong type.
    return {"if": {"type": "object"}, "then": mapping, "else": {"anyOf": shapes}}


def _mapping(kinds: Mapping[str, type[Part]], models: Mapping[str, JsonObject]) -> JsonObject:
    """Return the schema of a mapping: its kind decides which keys it may have. Unknown types allow any shape."""
    every = [word for kind in kinds for word in words_of(kind)]
    type_schema = {
        "description": "the kind; `not-` before it inverts the verdict",
        "examples": ["contains"],
        "anyOf": [{"enum": every}, KIND_FILLED_TEXT],
    }
    about = {word: {**_about(kinds[word]), **_older(word)} for word in kinds}
    negated = {f"{NEGATION}{word}": {**_about(kinds[word], "Not: "), **_older(word)} for word in kinds}
    long_cases = []
    for kind in dict.fromkeys(kinds.values()):
        required = models[kind.__name__].get("allOf", ())
        keys = {"allOf": [ref(kind.__name__), *required]} if required else ref(kind.__name__)
        long_cases.append({"if": {"properties": {"type": ref(_words_name(kind))}}, "then": keys})
    return {
        "type": "object",
        "description": "a check, such as {contains: 30 days}",
        "properties": {"type": type_schema, **about, **negated},
        "allOf": [{"if": _has_none_of(f"{EVALUATOR_MAPPING}/properties/type/anyOf/0"), "then": {"required": ["type"]}}],
        "if": {"required": ["type"]},
        "then": {"allOf": long_cases},
        "else": {"allOf": [*_short_cases(kinds, models)]},
    }


def _words_name(kind: type[Part]) -> str:
    return f"{kind.__name__}Words"


def _has_none_of(name: str) -> JsonObject:
    """Return the schema of mappings without the keys that a definition lists."""
    return {"propertyNames": {"not": ref(name)}}


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


def words_of(word: str) -> Iterator[str]:
    """Yield the spellings of a kind: with hyphens, with underscores, each also negated."""
    kebab, snake = word.replace("_", "-"), word.replace("-", "_")
    for plain in dict.fromkeys((word, kebab, snake)):
        yield plain
        yield f"{NEGATION}{plain}"
    if snake != kebab or "_" not in word:
        yield f"{NEGATION.replace('-', '_')}{snake}"


# Repeated parts become definitions.

_SHORT: Final = 60
"""The length of a schema up to which a reference would be no shorter."""


def shared(schema: JsonObject) -> JsonObject:
    """Return a schema with definitions for properties that have the same schema in several places.

    A definition has the name of the property, with a number if several have that name.
    """
    counts = Counter(_text(value) for _, value in _properties(schema))
    names: dict[str, str] = {}
    taken = set(schema.get("definitions", ()))
    for key, value in _properties(schema):
        text = _text(value)
        if counts[text] > 1 and len(text) > _SHORT and text not in names:
            number, name = 1, key
            while name in taken:
                number += 1
                name = f"{key}_{number}"
            names[text] = name
            taken.add(name)
    found = {name: json.loads(text) for text, name in names.items()}
    definitions = {**schema.get("definitions", {}), **found}
    whole: JsonObject = _replaced({**schema, **({"definitions": definitions} if definitions else {})}, names)
    return whole


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _properties(schema: Json) -> Iterator[tuple[str, Json]]:
    """Yield the name and the schema of each property, at every depth."""
    if isinstance(schema, list):
        for item in schema:
            yield from _properties(item)
    elif isinstance(schema, dict):
        for key, value in schema.items():
            if key == "properties":
                yield from value.items()
            yield from _properties(value) if key not in ("examples", "enum") else ()


def _replaced(schema: Json, names: dict[str, str]) -> Json:
    if isinstance(schema, list):
        return [_replaced(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _referred(value, names) for name, value in item.items()}
        if key == "properties"
        else item
        if key in ("examples", "enum")
        else _replaced(item, names)
        for key, item in schema.items()
    }


def _referred(value: Json, names: dict[str, str]) -> Json:
    name = names.get(_text(value))
    return _replaced(value, names) if name is None else {"$ref": f"#/definitions/{name}"}


# The schemas of whole files.

Kinds: TypeAlias = Mapping[str, type[Part]]

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"

_CONTENT_ITEM: Final = any_of(
    TEXT,
    {
        **MAPPING,
        "required": ["type", "value"],
        "properties": {"type": {"enum": ["text", "file", "image"]}, "value": TEXT},
    },
    {**MAPPING, "properties": {"type": {"not": {"enum": ["text", "file", "image"]}}}},
)
_JUDGED_KEYS: Final = ("execution", "rubrics", "turns", *EVALUATOR_LIST_KEYS)
"""Keys of cases and files whose evaluators may need no criteria."""
_ASKING_KEYS: Final = (*INPUT_KEYS, "turns", "user")
"""Keys of cases that say what is asked."""


def parts_of(part: type[BaseModel]) -> Iterator[type[Part]]:
    """Yield the classes of all mappings that a class holds, at every depth."""
    for name in part.model_fields:
        for inner in field_parts(part, spellings(part)[name][0]):
            yield inner
            yield from parts_of(inner)


def eval_schema(evaluators: Kinds, aggregators: Kinds) -> JsonObject:
    """Return the schema of eval files (YAML). Its `case` is the schema of a line of a JSONL dataset.

    Args:
        evaluators: The kinds of evaluators, by the word after `type`.
        aggregators: The kinds of aggregators of composites, likewise.
    """
    kinds = (*evaluators.values(), *aggregators.values())
    models = [*parts_of(Case), *(model for kind in kinds for model in (kind, *parts_of(kind)))]
    definitions = {model.__name__: model_schema(model) for model in models}
    # missing keys may come from `defaults`
    partial = {key: value for key, value in model_schema(Case).items() if key != "allOf"}
    message = {**model_schema(Message), "additionalProperties": True}
    message["allOf"] = [*message["allOf"], one_key(("content", "tool_calls"))]
    definitions |= {
        "case": {
            "required": ["id"],
            "allOf": [ref("partial_case"), one_key((*OUTCOME_KEYS, *_JUDGED_KEYS)), one_key(_ASKING_KEYS)],
        },
        "named_case": {"required": ["id"], "allOf": [ref("partial_case")]},
        "partial_case": partial,
        "case_list": any_of(list_of(any_of(ref("named_case"), TEXT)), TEXT, model_schema(Table)),
        "content_item": _CONTENT_ITEM,
        "aggregator": by_kind(aggregators, "type", {"type": {"enum": list(aggregators)}}),
        "Execution": model_schema(Execution),
        "Workspace": model_schema(Workspace),
        "Message": message,
        "PromptFile": model_schema(PromptFile),
        **evaluator_definitions(evaluators, definitions),
    }
    no_list = {"not": one_key(CASE_LIST_KEYS)}  # the sidecar of a JSONL dataset
    root = {**model_schema(Suite), **_whole_cases(), "oneOf": [*one_key(CASE_LIST_KEYS)["anyOf"], no_list]}
    return _document("AgentV eval file", root, definitions)


def _whole_cases() -> JsonObject:
    """Require the keys of cases, unless keys of the file may replace them."""
    without = ("defaults", "include")
    rules = ((without, one_key(_ASKING_KEYS)), ((*without, *_JUDGED_KEYS), ref("case")))
    conditions = []
    for keys, case in rules:
        lists = {key: {"items": any_of(case, TEXT)} for key in CASE_LIST_KEYS}
        conditions.append({"if": {"not": one_key(keys)}, "then": {"properties": lists}})
    return {"allOf": conditions}


def _document(title: str, root: JsonObject, definitions: JsonObject) -> JsonObject:
    document = {"$schema": _DRAFT, "title": title, **root, **({"definitions": definitions} if definitions else {})}
    return shared(described(document))


def targets_schema(kinds: TargetKinds) -> JsonObject:
    """Return the schema of targets files. Any value of a target may be a text, because it may hold a variable."""
    classes = {word: kinds.table[word] for word in kinds.table}
    known = {"provider": any_of({"enum": [*classes, *kinds.unsupported]}, FILLED_TEXT), "name": FILLED_TEXT}
    definitions: dict[str, Json] = {"target": by_kind(classes, "provider", known)}
    common, metadata = model_schema(CommonKeys, texts=True), model_schema(Metadata)["properties"]
    for kind in classes.values():
        own = model_schema(kind, texts=True)
        required = [*common.get("allOf", ()), *own.get("allOf", ())]
        properties = {**common["properties"], **metadata, **own["properties"]}
        definitions[kind.__name__] = {**own, "properties": properties, "allOf": required, **_FREE}
        definitions |= {part.__name__: model_schema(part, texts=True) for part in parts_of(kind)}
    root = {**_file_schema(TargetsFileKeys), **one_key(("targets", "include"))}
    return _document("AgentV targets file", root, definitions)


def config_schema() -> JsonObject:
    """Return the schema of `.agentv.yaml` and `.agentv/config.yaml`."""
    return _document("AgentV config file", _file_schema(Config), {})


_FREE: Final[JsonObject] = {"patternProperties": {"^x-": {}}}


def _file_schema(part: type[Metadata]) -> JsonObject:
    """Return the schema of the keys of a file, which no `{{ variable }}` replaces. Those for people come last."""
    schema = _as_it_stands(model_schema(part))
    properties = sorted(schema["properties"].items(), key=lambda each: each[0] in Metadata.model_fields)
    return {**schema, "properties": dict(properties), **_FREE}


def _as_it_stands(schema: Json) -> Any:
    if isinstance(schema, list):
        return [_as_it_stands(item) for item in schema if item != TEMPLATE]
    if isinstance(schema, dict):
        return {key: _as_it_stands(item) for key, item in schema.items()}
    return schema


def schema_text(kind: str) -> str:
    """Return the schema of a kind of file as indented JSON."""
    match kind:
        case "eval":
            schema = eval_schema(EVALUATORS, AGGREGATORS)
        case "targets":
            schema = targets_schema(TARGETS)
        case _:
            schema = config_schema()
    return json.dumps(schema, indent=1) + "\n"


if __name__ == "__main__":
    for each in KINDS:
        schema_path(each).write_text(schema_text(each), "utf-8")
