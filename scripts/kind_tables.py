"""The tables of docs/reference.md and docs/coming-from.md, from the classes and the list of options.

python scripts/kind_tables.py          # tell which page is behind
python scripts/kind_tables.py --write  # put the tables there

A table stands between `<!-- NAME -->` and `<!-- end of NAME -->`.
"""

import re
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pytest_agentv.cases.keys import Case, Shared, Suite, Table
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.calls import ExpectedCall
from pytest_agentv.evaluators.composite import AGGREGATORS
from pytest_agentv.evaluators.data import FieldCheck
from pytest_agentv.evaluators.judge import ModelJudge, Recipe, Rubric
from pytest_agentv.evaluators.script import Proxy
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.model.kind import REFERENCE, spellings
from pytest_agentv.model.options import RUN_OPTIONS, RunOption
from pytest_agentv.providers.agents import CodingAgent
from pytest_agentv.providers.api.model import DirectModel
from pytest_agentv.providers.cli import CommandHealthcheck, HttpHealthcheck
from pytest_agentv.providers.http import Service
from pytest_agentv.providers.kind import RetryKeys
from pytest_agentv.providers.table import KINDS
from pytest_agentv.targets.fields import CommonKeys

DOCS = Path(__file__).parents[1] / "docs"

COMMON = ("name", "weight", "required", "negate", "path", "file", "turn")
"""Keys of all evaluators; a page tells them once."""

OLDER = {"execution", "evaluator", "evaluators", "$schema"}
"""Keys that docs/coming-from.md tells."""

OTHER_KINDS = {"heuristic", "rubric", "code"}
"""Kinds that docs/coming-from.md tells. docs/checks.md has those with examples (checks_page.py)."""

_EVALUATORS: Mapping[str, type[BaseModel]] = {
    word: kind
    for word, kind in EVALUATORS.items()
    if word == kind.kind and not kind.examples and word not in OTHER_KINDS and not issubclass(kind, Recipe)
}
GROUPS: Mapping[str, Mapping[str, type[BaseModel]]] = {
    "keys of files": {"file, case": Shared, "file": Suite, "case": Case, "table": Table},
    "keys of evaluators": {
        **_EVALUATORS,
        "models that judge": ModelJudge,
        "recipes": Recipe,
        **{f"aggregator {word}": kind for word, kind in AGGREGATORS.items()},
        "a field": FieldCheck,
        "an expected call": ExpectedCall,
        "a rubric": Rubric,
        "`target` as a mapping": Proxy,
    },
    "keys of all targets": {"all": CommonKeys},
    "keys of functions and programs": {
        **{word: KINDS.table[word] for word in ("python", "cli", "mock")},
        "healthcheck http": HttpHealthcheck,
        "healthcheck command": CommandHealthcheck,
    },
    "keys of services": {"both": Service, "http": KINDS.table["http"], "asgi": KINDS.table["asgi"]},
    "keys of retries": {"models, services": RetryKeys},
    "keys of models": {"all": DirectModel, "openai": KINDS.table["openai"], "anthropic": KINDS.table["anthropic"]},
    "keys of coding agents": {
        "codex, claude-code, pi": CodingAgent,
        "pi-coding-agent": KINDS.table["pi-coding-agent"],
        "vscode": KINDS.table["vscode"],
    },
}
INHERITED: Mapping[str, tuple[type[BaseModel], ...]] = {
    **dict.fromkeys(("llm_judge", "statements", "recipes"), (ModelJudge,)),
    "file": (Shared,),
    "case": (Shared,),
    "openai": (DirectModel,),
    "anthropic": (DirectModel,),
    "all": (RetryKeys,),
    "both": (RetryKeys,),
    "http": (Service,),
    "asgi": (Service,),
    "pi-coding-agent": (CodingAgent,),
}
"""Parts that leave out what another one tells."""

_PARTS = {
    "Rubric": "rubric",
    "Proxy": "mapping",
    "FieldCheck": "field",
    "ExpectedCall": "call",
    "Message": "message",
    "PromptFile": "`{file: PATH}`",
    "Execution": "mapping",
    "partial_case": "mapping",
    "named_case": "mapping",
    "case_list": "list of mapping, or a table",
    "evaluator": "check",
    "evaluator_mapping": "check",
}


def group(name: str) -> str:
    """Return the table of keys of some classes, with a column that says whose they are."""
    several = len(GROUPS[name]) > 1
    head = ["| of | key | value | meaning |", "|---|---|---|---|"] if several else _HEAD
    rows = [f"| {of} {row}" if several else row for of, part in GROUPS[name].items() for row in _rows_of(of, part)]
    return "\n".join([*head, *rows])


_HEAD = ["| key | value | meaning |", "|---|---|---|"]


def options() -> str:
    """Return the options of a run: those of `pytest --help`, and then the others."""
    head = ["| option | ini key | meaning |", "|---|---|---|"]
    shown = [option_row(option) for option in RUN_OPTIONS if not option.is_hidden]
    hidden = [option_row(option) for option in RUN_OPTIONS if option.is_hidden]
    return "\n".join([*head, *shown, "", "`pytest --help` leaves these out:", "", *head, *hidden])


def option_row(option: RunOption) -> str:
    """Return the row of an option."""
    value = f"={option.metavar}" if option.metavar else ""
    flag = f"--agentv-{option.name}" + (f"[{value}]" if option.optional_value is not None else value)
    ini = f"`agentv_{option.dest}`" if option.ini else ""
    return f"| `{flag}` | {ini} | {option.help.replace('<', '&lt;')} |"


def other_spellings() -> str:
    """Return the table of the keys that have other names than those of the docs."""
    parts = [Suite, Case, Table, Proxy, *EVALUATORS.values(), *(each for each in AGGREGATORS.values())]
    parts += [CommonKeys, *(KINDS.table[word] for word in KINDS.table)]
    found: dict[str, dict[str, None]] = {}
    for part in parts:
        for key, *others in spellings(part).values():
            names = {each: None for each in others if each != camel_case(key)}
            if names and key not in OLDER:
                found.setdefault(key, {}).update(names)
    rows = [f"| `{key}` | {', '.join(f'`{each}`' for each in names)} |" for key, names in sorted(found.items())]
    return "\n".join(["| here | also |", "|---|---|", *rows])


def camel_case(key: str) -> str:
    """Return `maxTokens` for `max_tokens`."""
    return re.sub(r"_(\w)", lambda found: found[1].upper(), key)


def rows(part: type[BaseModel], told: Collection[str] = ()) -> Iterator[str]:
    """Yield a row for each key of a class that `told` does not name."""
    schema = part.model_json_schema(by_alias=False)
    required = schema.get("required", ())
    for name, (key, *_) in spellings(part).items():
        is_common = issubclass(part, Evaluator) and name in COMMON and name not in part.__annotations__
        if is_common or name in told or key in OLDER:
            continue
        shape = schema["properties"][name]
        needed = ", required" if name in required else ""
        yield f"| `{key}` | {_value(shape)}{needed} | {shape['description']}{_default(shape)} |"


def _rows_of(of: str, part: type[BaseModel]) -> Iterator[str]:
    return rows(part, {name for base in INHERITED.get(of, ()) for name in base.model_fields})


def _value(shape: Any) -> str:
    """Say in words what a value is."""
    if "anyOf" in shape:
        return " or ".join(dict.fromkeys(_value(each) for each in shape["anyOf"] if each.get("type") != "null"))
    if "enum" in shape or "const" in shape:
        words = shape["enum"] if "enum" in shape else [shape["const"]]
        return ", ".join(f"`{str(word).lower() if word is True else word}`" for word in words)
    if "oneOf" in shape:
        return "mapping"
    if shape.get("type") == "array":
        return f"list of {_value(shape['items'])}"
    if shape.get("type") == "number" and "maximum" in shape:
        return "0 to 1"
    reference = shape.get(REFERENCE) or shape.get("$ref", "").rpartition("/")[2]
    if reference:
        return _PARTS.get(reference, reference)
    words = {"string": "text", "number": "number", "integer": "number", "boolean": "true, false", "object": "mapping"}
    kinds = shape.get("type") if isinstance(shape.get("type"), list) else [shape.get("type")]
    return " or ".join(words.get(kind, "anything") for kind in kinds)


def _default(shape: Any) -> str:
    default = shape.get("default")
    if default in (None, "", "absent") or isinstance(default, list | dict) or "default:" in shape["description"]:
        return ""
    shown = (
        str(default).lower() if isinstance(default, bool) else default if isinstance(default, str) else f"{default:g}"
    )
    return f" (default: `{shown}`)"


TABLES = {
    "reference.md": {"options": options, **{name: (lambda name=name: group(name)) for name in GROUPS}},
    "coming-from.md": {"other spellings": other_spellings},
}


def filled(text: str, page: str) -> str:
    """Return a page with all its tables as they have to be. Raises `ValueError` for a table that is not there."""
    for name, table in TABLES[page].items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        _, ends, after = rest.partition(end)
        if not found or not ends:
            raise ValueError(f"{page} has no table {begin.strip()} … {end}")
        text = f"{before}{begin}\n{table()}\n\n{end}{after}"
    return text


def main(arguments: Sequence[str]) -> str | None:
    """Write the tables, or return which page is behind."""
    for name in TABLES:
        path = DOCS / name
        page = filled(path.read_text("utf-8"), name)
        if list(arguments) == ["--write"]:
            path.write_text(page, "utf-8")
        elif page != path.read_text("utf-8"):
            return f"{path} is behind the classes: python scripts/kind_tables.py --write"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
