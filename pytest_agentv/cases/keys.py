"""The keys of eval files, cases, messages and tables, as classes: spellings, types, limits, descriptions, examples.

The reader, did-you-mean and the JSON Schema for editors come from them. Imports pydantic: import this lazily.
"""

import difflib
import re
import shlex
import sys
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema

from pytest_agentv.files.kind_reader import known_keys, read_part
from pytest_agentv.files.places import (
    CASE_LIST_KEYS,
    EXPECTED_KEYS,
    INPUT_KEYS,
    LEGACY_EVALUATOR_KEYS,
    NO_REASONS,
    OUTCOME_KEYS,
    Place,
    instead_of_key,
    is_refused,
    mark_fault,
)
from pytest_agentv.files.problems import describe_value
from pytest_agentv.model.base import Json, JsonObject, is_number
from pytest_agentv.model.kind import FILLED_TEXT, NOT_EMPTY, Items, Part, Text, definition, expected, spelled
from pytest_agentv.model.messages import Role
from pytest_agentv.model.options import MAX_REPEAT

_MISSPELT: Final = 0.75
"""From this likeness to a known key on, an unknown one is an error: it is meant to be read."""

_FREE: Final = frozenset(
    (
        *("description", "metadata", "note", "question", "reference_answer"),
        *("$schema", "name", "version", "author", "license"),
    )
)
"""Keys for people."""
_RECORDED: Final = frozenset(("tool_call_id", "timestamp", "metadata", "cache_control"))
"""Keys of messages as agents report them (agentv-formats 5.0) and as APIs take them."""
_FILES: Final = re.compile(r"attach|file|image|picture|document", re.IGNORECASE)

# Types of values, each with its JSON Schema. An error says what was expected.


def _number(what: str, least: float, most: float, *, whole: bool = False) -> BeforeValidator:
    def check(value: Json) -> float:
        if not is_number(value) or not least <= value <= most or (whole and value != int(value)):
            raise expected(what)
        return int(value) if whole else float(value)

    return BeforeValidator(check)


def _names(value: Json) -> Json:
    if not all(isinstance(name, str | None) for name in (value if isinstance(value, list) else [value])):
        raise expected("a name or a list of names")
    return value


def _marks(value: Json) -> Json:
    for name in filter(None, _names(value) if isinstance(value, list) else [value]):
        if (fault := mark_fault(name)) is not None:
            raise ValueError(f"{name!r} cannot mark a case: {fault}")
    return value


def _reason(value: Json, info: ValidationInfo) -> Json:
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in NO_REASONS:
        raise ValueError(f"{describe_value(value)} is no reason: {NO_REASONS[word].format(info.field_name)}")
    if not isinstance(value, str | bool):
        raise expected("a reason (a text), or true")
    return value


def _content(value: Json) -> Json:
    if not isinstance(value, str | list | dict):
        raise expected("a text, a list or a mapping")
    return value


def _word(value: Json) -> Json:
    if value != "llm_judge":
        raise ValueError(f"expected 'llm_judge', got {describe_value(value)}: other kinds go into a list, `assert`")
    return value


def _list(of: JsonObject, **more: Json) -> JsonObject:
    return {"type": "array", "items": of, **more}


_TEXT: Final = {"type": "string"}
_MAPPING: Final = {"type": "object"}
_NAMES_SCHEMA: Final = {"anyOf": [_TEXT, _list({"anyOf": [_TEXT, {"type": "null"}]})]}
_PATHS_SCHEMA: Final = {"anyOf": [FILLED_TEXT, _list(FILLED_TEXT)]}


def _one_of_words(words: Any) -> str:
    """Return the pattern of a text that is one of some words, in small or capital letters, with blanks around it."""
    spelt = ("".join(f"[{each}{each.upper()}]" if each.isalpha() else each for each in word) for word in words)
    return rf"^\s*({'|'.join(spelt)})\s*$"


_REASON_SCHEMA: Final = {"anyOf": [{"type": "boolean"}, {**_TEXT, "not": {"pattern": _one_of_words(NO_REASONS)}}]}
_MESSAGES_SCHEMA: Final = {"anyOf": [_list(definition("Message")), definition("Message"), _TEXT]}

Share: TypeAlias = Annotated[float, Field(ge=0, le=1), _number("a number from 0 to 1", 0, 1)]
Repeat: TypeAlias = Annotated[
    int, Field(ge=1, le=MAX_REPEAT), _number(f"a whole number from 1 to {MAX_REPEAT}", 1, MAX_REPEAT, whole=True)
]
Count: TypeAlias = Annotated[int, Field(ge=0), _number("a whole number, 0 or more", 0, sys.maxsize, whole=True)]
Names: TypeAlias = Annotated[Any, BeforeValidator(_names), WithJsonSchema(_NAMES_SCHEMA)]
Marks: TypeAlias = Annotated[Any, BeforeValidator(_marks), WithJsonSchema(_NAMES_SCHEMA)]
Reason: TypeAlias = Annotated[Any, BeforeValidator(_reason), WithJsonSchema(_REASON_SCHEMA)]
Name: TypeAlias = Annotated[str | None, AfterValidator(lambda name: (name or "").strip() or None)]
"""A blank text counts as absent, such as an empty cell of a table."""
Paths: TypeAlias = Annotated[Any, WithJsonSchema(_PATHS_SCHEMA)]
Mapped: TypeAlias = Annotated[dict[str, Any], WithJsonSchema(_MAPPING)]
Checks: TypeAlias = Annotated[Any, WithJsonSchema(_list(definition("evaluator")))]
"""A list of evaluators. `cases.evaluators` reads it."""
Content: TypeAlias = Annotated[
    Any,
    BeforeValidator(_content),
    WithJsonSchema({"anyOf": [_TEXT, _MAPPING, _list(definition("content_item")), {"type": "null"}]}),
]
JudgeWord: TypeAlias = Annotated[Any, BeforeValidator(_word), WithJsonSchema({"const": "llm_judge"})]
Messages: TypeAlias = Annotated[
    Any,
    WithJsonSchema({"anyOf": [*_MESSAGES_SCHEMA["anyOf"], definition("PromptFile")]}),
]
"""`cases.cases` reads them."""
Answer: TypeAlias = Annotated[Any, WithJsonSchema({"anyOf": [*_MESSAGES_SCHEMA["anyOf"], _MAPPING]})]

_CHECK_EXAMPLE: Final = [[{"contains": "30 days"}, "Names the refund period"]]
_CASE_EXAMPLE: Final = {"id": "refund", "input": "May I return it?", "assert": _CHECK_EXAMPLE[0]}


def _field(description: str, example: Json, *spellings: str, **more: Any) -> Any:
    options = {"default": None, "description": description, "examples": [example], **more}
    return spelled(*spellings, **options) if spellings else Field(**options)


_OLDER: Final[JsonObject] = {"doNotSuggest": True}
"""The schema of keys that load, but that editors do not offer: a word of the language servers of YAML and JSON."""


_HARBOR: Final = "containers are for Harbor (harborframework.com), which runs each task in one"


def _command(value: Json) -> str:
    """Return a shell command of a text, of a list of words, or of AgentV's `{command: …, timeout_ms: …}`."""
    if isinstance(value, dict) and value.keys() <= {"command", "timeout_ms"}:
        value = value.get("command")
    if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        return shlex.join(value)
    if not isinstance(value, str) or not value.strip():
        raise expected("a shell command")
    return value


def _commands(value: Json) -> tuple[str, ...]:
    return tuple(map(_command, value if isinstance(value, list) else [value]))


def _workspace(value: Json) -> Json:
    """Return the keys of a workspace, of a text, and of AgentV's shapes."""
    if isinstance(value, str):
        return {"from": value}
    if not isinstance(value, dict):
        raise expected("the path of a folder, or a mapping")
    keys = {key: item for key, item in value.items() if key not in ("type", "mode", "isolation", "repos", "hooks")}
    kind, repos, hooks = value.get("type", "host"), value.get("repos") or [], value.get("hooks") or {}
    if kind != "host":
        raise ValueError(f"{describe_value(kind)} is no type of an environment here: {_HARBOR}")
    if repos:
        repo = repos[0] if len(repos) == 1 and isinstance(repos[0], dict) else {}
        commit = repo.get("commit") or repo.get("base_commit")
        if (
            not commit
            or repo.get("path", ".") not in (".", "./")
            or repo.keys() - {"path", "repo", "commit", "base_commit"}
        ):
            raise expected("one repository with `repo`, `commit` and no `path` in `repos`")
        keys |= {"from": repo.get("repo"), "ref": commit}
    if not isinstance(hooks, dict):
        raise expected("a mapping of hooks")
    # nothing is left to do for `after_each` and `after_all`: each copy is removed
    for key, hook in (("setup", "before_all"), ("before", "before_each")):
        if hooks.get(hook) is not None:
            keys[key] = [*_commands(keys.get(key) or []), _command(hooks[hook])]
    if isinstance(keys.get("setup"), list | dict) and kind == value.get("type"):  # AgentV 5: the words of one command
        keys["setup"] = _command(keys["setup"])
    return keys


Command: TypeAlias = Annotated[str | None, BeforeValidator(_command), WithJsonSchema(FILLED_TEXT)]
Commands: TypeAlias = Annotated[
    tuple[str, ...] | None, BeforeValidator(_commands), WithJsonSchema({"anyOf": [FILLED_TEXT, _list(FILLED_TEXT)]})
]


class Keys(Part):
    """A mapping of an eval file. A key that nobody reads is an error if it says what is asked or checked."""

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        return instead_of_key(key)

    @classmethod
    def level_of(cls, key: str, value: Json) -> Literal["error", "warning"] | None:
        """Return the level of an unknown key; None: it is free."""
        if key.startswith("x-"):
            return None
        near = difflib.get_close_matches(key, known_keys(cls), n=1, cutoff=_MISSPELT)
        return "error" if is_refused(key, value) or not _FREE.issuperset(near) else "warning"


class Workspace(Part):
    """The folder that each answer gets a fresh copy of."""

    hints: ClassVar[Mapping[str, str]] = {
        "cwd": "commands run in the workspace; AGENTV_EVAL_DIR names the folder of the eval file",
        "env": "write it into the commands, or at the target",
    }

    source: Text | None = _field(
        "a folder, relative to the eval file; with `ref`, a git repository", "../shop", "from", "template", "workdir"
    )
    ref: Text | None = _field("a commit, a branch or a tag of the repository", "v1.2")
    setup: Commands = _field("shell commands that prepare the folder, once per run", ["npm ci"])
    before: Commands = _field("shell commands that run in each copy, before the target", ["./seed.sh"])
    hidden: Paths = _field("folders whose content is copied over it after the target has ended", ["hidden_tests"])
    check: Command = _field("a shell command that has to fail before the target begins", "python -m pytest -q")
    overlay: str | None = _field("a folder whose content is copied over it before; or `none`", "{{ overlay }}")
    keep: Literal["never", "failed", "always"] | None = _field("which copies stay after they were judged", "failed")
    sandbox: Literal["none", "bwrap"] | None = _field("what keeps the target from writing elsewhere", "bwrap")

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        return _HARBOR if key in ("docker", "image", "dockerfile", "context") else super().hint_for(key)


class Checked(Keys):
    """The keys that `execution` has, too."""

    target: Name = _field("the name of the target that is asked", "default")
    judge: Name = _field("the name of the target that judges", "gpt")
    threshold: Share | None = _field("the score from which a case passes, 0 to 1", 0.8)
    checks: Checks = _field(
        "what judges the answer: checks, and sentences that a model checks", _CHECK_EXAMPLE[0], "assert", "assertions"
    )
    evaluators: Checks = _field(
        "AgentV's word; a case's list replaces that of its file", _CHECK_EXAMPLE[0], json_schema_extra=_OLDER
    )
    skip_defaults: bool | None = _field("whether the checks of the file do not apply", True)


class Execution(Checked):
    """AgentV's older place for target, threshold and checks."""

    targets: Annotated[Any, WithJsonSchema(_list(FILLED_TEXT, minItems=1))] = _field(
        "the targets that are asked, each with all cases", ["gpt", "claude"]
    )


class Shared(Checked):
    """The keys that files and cases have."""

    description: Any = _field("what it is about; nobody reads it but people", "Questions about refunds")
    metadata: Any = _field("whatever else is to be known; nobody reads it but people", {"owner": "support"})
    tags: Names = _field("words by which `-k` selects it, and which results have", ["slow"])
    marks: Marks = _field("marks of pytest, for `-m`", ["slow"])
    fixtures: Names = _field("fixtures of pytest that each case uses", ["database"])
    skip: Reason = _field("why the case is skipped, or true", "the shop is closed")
    xfail: Reason = _field("why the case is expected to fail, or true", "known to be wrong")
    vars: Mapped | None = _field("variables, which `{{ name }}` shows", {"product": "tent"})
    input_files: Paths = _field("files that go with the input of each case", ["policies/refund.md"])
    repeat: Repeat | None = _field("how often each case runs", 5)
    min_pass_rate: Share | None = _field("the share of the repeats that have to pass, 0 to 1", 0.8)
    workspace: Annotated[
        Workspace | None,
        BeforeValidator(_workspace),
        WithJsonSchema({"anyOf": [FILLED_TEXT, definition("Workspace")]}),
    ] = _field("the folder that each answer gets a fresh copy of", "../shop", "workspace", "environment")
    execution: Annotated[Execution | None, WithJsonSchema(definition("Execution"))] = _field(
        "AgentV's older place for target, threshold and checks", {"target": "default"}, json_schema_extra=_OLDER
    )
    evaluator: JudgeWord = _field(
        "the older way to choose the default judge: `llm_judge`",
        "llm_judge",
        *LEGACY_EVALUATOR_KEYS,
        json_schema_extra=_OLDER,
    )


class Turn(Part):
    """A turn of a conversation: what the user says, and what the answer to it has to be."""

    hints: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(EXPECTED_KEYS, "write what the answer has to be under `assert`"),
        **dict.fromkeys(OUTCOME_KEYS, "write it as a sentence under `assert`"),
    }

    input: Text = Field(description="what the user says", examples=["I want my money back"])
    checks: Checks = _field("what judges the answer of this turn", _CHECK_EXAMPLE[0], "assert", "assertions")


class User(Part):
    """A simulated user: a model that talks to the target in place of a person."""

    target: Text = Field(description="the name of the target that plays the user", examples=["gpt-mini"])
    goal: Text = Field(description="what the user wants", examples=["Get your money back for order 1001"])
    persona: Text | None = _field("who the user is", "An impatient person who writes short sentences")
    max_turns: Annotated[int, Field(ge=1)] = Field(
        default=10, description="after how many turns the conversation ends at the latest", examples=[8]
    )
    max_cost_usd: Annotated[float, Field(gt=0)] | None = _field(
        "what target and user may cost, in US dollars, before the conversation ends", 0.5
    )
    check: bool = Field(
        default=False, description="whether the judge checks that the user kept to goal and persona", examples=[True]
    )


class Case(Shared):
    """A case: what is asked, and what the answer has to be."""

    id: Text = Field(description="what the case is called; unique within its file", examples=["refund-period"])
    input: Messages = spelled(
        *INPUT_KEYS, description="what the target is asked: a text, or messages", examples=["May I return it?"]
    )
    expected: Answer = _field("an ideal answer: a text, data, or messages", "Yes, within 30 days.", *EXPECTED_KEYS)
    criteria: Text | None = _field("what a good answer achieves", "Names the refund period", *OUTCOME_KEYS)
    rubrics: Annotated[Any, WithJsonSchema(_list({"anyOf": [FILLED_TEXT, definition("Rubric")]}))] = _field(
        "statements that a model checks one by one; a case fails without a required one", ["Names the refund period"]
    )
    turns: Annotated[Items[Turn], NOT_EMPTY] | None = _field(
        "what the user says turn by turn, each with its checks, after the messages of `input`",
        [{"input": "I want my money back", "assert": [{"contains": "order number"}]}],
    )
    user: User | None = _field(
        "a model that plays the user, after the written turns",
        {"target": "gpt-mini", "goal": "Get your money back for order 1001"},
    )
    on_turn_failure: Literal["continue", "stop"] | None = _field(
        "whether a conversation goes on after a turn whose checks fail", "stop"
    )
    mode: Literal["conversation"] | None = _field(
        "AgentV's word for a case with `turns`", "conversation", json_schema_extra=_OLDER
    )
    aggregation: Literal["mean"] | None = _field(
        "AgentV's word for how the scores of turns are combined", "mean", json_schema_extra=_OLDER
    )
    conversation_id: Name = _field("a name for cases that belong together", "refunds")
    group: Name = _field("a name for cases that statistics do not take for independent", "refunds")
    required: bool | None = _field("whether the run fails if the case does, whatever the share that has to pass", False)
    note: Any = _field("a remark; nobody reads it but people", "Asked often in May")
    question: Any = _field("the question, for people", "May I return it?")
    reference_answer: Any = _field("an ideal answer, for people", "Yes, within 30 days.")

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        return "write `id`" if key == "name" else super().hint_for(key)


class Table(Part):
    """The cases of a table."""

    source: Paths = spelled(
        "from",
        description="a table of data (csv, tsv, json, jsonl, yaml, parquet), or `file.py:function`",
        examples=["questions.csv"],
    )
    sample: Count | None = _field("how many rows are chosen", 50)
    seed: Count | None = _field("with the same seed, the same rows are chosen", 1)


def read_table(value: JsonObject, place: Place) -> Table | None:
    """Return the keys of a table beside `from`. Notes faults."""
    return read_part(Table, {**value, "from": ""}, place)


class PromptFile(Part):
    """The file of a prompt."""

    file: Text = Field(description="a file with the prompt", examples=["prompts/answer.md"])


class Message(Part):
    """A message: who says what."""

    role: Role = Field(description="who says it", examples=["user"])
    content: Content = _field("what is said: a text, or parts", "May I return it?")
    name: Any = _field("the name of who says it", "Kim")
    tool_calls: Annotated[list[dict[str, Any]] | None, WithJsonSchema(_list(_MAPPING))] = _field(
        "the tools that are called", [{"tool": "search", "input": {"query": "refund"}}]
    )

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        return "a file is an item of the `content`: {type: file, value: PATH}" if _FILES.search(key) else None

    @classmethod
    def level_of(cls, key: str, value: Json) -> Literal["error", "warning"] | None:  # noqa: ARG003 - the key says it
        return None if key in _RECORDED else "warning"


class Suite(Shared):
    """An eval file, or the sidecar of a JSONL file: the keys beside its cases."""

    schema_: Any = _field("the schema of the file", "agentv-eval-v2", "$schema")
    name: Any = _field("what it is called", "support")
    version: Any = _field("the version of the file", "1.0")
    author: Any = _field("who wrote the file", "Support team")
    license: Any = _field("under which terms the file may be used", "MIT")
    dataset: str | None = _field("the name of the group of cases; default: the name of the file", "support")
    include: Paths = _field("files whose keys this file takes over, where it does not have them", "common.yaml")
    defaults: Annotated[Any, WithJsonSchema(definition("partial_case"))] = _field(
        "keys of a case, for all cases that do not have them", {"threshold": 0.8}
    )
    case: Annotated[Any, WithJsonSchema(definition("named_case"))] = _field(
        "what each row of a table becomes; columns are variables",
        {"id": "q-{{ number }}", "input": "{{ question }}", "expected": "{{ answer }}"},
    )
    matrix: Annotated[Any, WithJsonSchema({**_MAPPING, "additionalProperties": {"type": "array", "minItems": 1}})] = (
        _field(
            "targets, variables and prompts, each combination of which is a case",
            {"target": ["gpt", "claude"], "tone": ["formal", "friendly"]},
        )
    )
    cases: Annotated[Any, WithJsonSchema(definition("case_list"))] = _field(
        "the cases of the file", [_CASE_EXAMPLE], *CASE_LIST_KEYS
    )
