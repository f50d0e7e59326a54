"""The tables of keys in docs/evaluators.md and docs/targets.md, from the classes. `--write` puts them there."""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.calls import ExpectedCall
from pytest_agentv.evaluators.composite import AGGREGATORS
from pytest_agentv.evaluators.data import FieldCheck
from pytest_agentv.evaluators.judge import Rubric
from pytest_agentv.evaluators.script import Proxy
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.model.kind import REFERENCE, spellings
from pytest_agentv.providers.agents.agent import CodingAgent
from pytest_agentv.providers.api.model import DirectModel
from pytest_agentv.providers.cli import CommandHealthcheck, HttpHealthcheck
from pytest_agentv.providers.http import Service
from pytest_agentv.providers.kind import RetryKeys
from pytest_agentv.providers.table import KINDS
from pytest_agentv.targets.resolution import CommonKeys

DOCS = Path(__file__).parents[1] / "docs"
COMMON = ("name", "weight", "required", "negate", "path", "file")
"""Keys of all evaluators; the page tells them once."""

TARGETS: Mapping[str, type[BaseModel]] = {
    "all targets": CommonKeys,
    **{
        word: KINDS.table[word]
        for word in ("cli", "python", "mock", "vscode", "anthropic", "openai", "http", "asgi", "pi-coding-agent")
    },
    "healthcheck http": HttpHealthcheck,
    "healthcheck command": CommandHealthcheck,
    "models": DirectModel,
    "services": Service,
    "retries": RetryKeys,
    "coding agents": CodingAgent,
}
INHERITED = {
    "anthropic": DirectModel,
    "openai": DirectModel,
    "models": RetryKeys,
    "services": RetryKeys,
    "http": Service,
    "asgi": Service,
    "pi-coding-agent": CodingAgent,
}
"""Tables that leave out what another one tells."""

ELSEWHERE = {word for word, kind in EVALUATORS.items() if kind.examples} - {"levenshtein"}
"""Kinds that docs/checks.md tells (checks_page.py)."""
EVALUATOR_PARTS: Mapping[str, type[BaseModel]] = {
    **{word: kind for word, kind in EVALUATORS.items() if word == kind.kind and word not in ELSEWHERE},
    **{f"aggregator {word}": kind for word, kind in AGGREGATORS.items()},
    "field": FieldCheck,
    "expected call": ExpectedCall,
    "rubric": Rubric,
    "proxy": Proxy,
}


_PARTS = {
    "Rubric": "rubric",
    "Proxy": "mapping",
    "FieldCheck": "field",
    "ExpectedCall": "call",
    "evaluator": "check",
    "evaluator_mapping": "check",
}


def begin(name: str) -> str:
    """Return the comment that a table follows."""
    return f"<!-- keys of {name} -->"


END = "<!-- end of keys -->"


PAGES = {"evaluators.md": EVALUATOR_PARTS, "targets.md": TARGETS}


def table(name: str, part: type[BaseModel]) -> str:
    """Return the table of a class's keys."""
    told = INHERITED[name].model_fields if name in INHERITED else ()
    rows = ["| key | value | meaning |", "|---|---|---|", *_rows(part, told)]
    return "\n".join(rows)


def filled(text: str, page: str) -> str:
    """Return a page with all its tables as they have to be. Raises `ValueError` for a table that is not there."""
    for name, part in PAGES[page].items():
        before, found, rest = text.partition(f"{begin(name)}\n")
        _, end, after = rest.partition(END)
        if not found or not end:
            raise ValueError(f"{page} has no table {begin(name)} … {END}")
        text = f"{before}{found}\n{table(name, part)}\n\n{end}{after}"
    return text


def _rows(part: type[BaseModel], told: Collection[str]) -> Iterator[str]:
    schema = part.model_json_schema(by_alias=False)
    required = schema.get("required", ())
    for name, (key, *others) in spellings(part).items():
        is_common = issubclass(part, Evaluator) and name in COMMON and name not in part.__annotations__
        if is_common or name in told:
            continue
        shape = schema["properties"][name]
        also = f" (also {', '.join(f'`{other}`' for other in others)})" if others else ""
        needed = ", required" if name in required else ""
        yield f"| `{key}`{also} | {_value(shape)}{needed} | {shape['description']}{_default(shape)} |"


def _value(shape: Any) -> str:
    """Say in words what a value is."""
    if "anyOf" in shape:
        return " or ".join(dict.fromkeys(_value(each) for each in shape["anyOf"] if each.get("type") != "null"))
    if "enum" in shape or "const" in shape:
        words = shape["enum"] if "enum" in shape else [shape["const"]]
        return ", ".join(f"`{word}`" for word in words)
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


def main(arguments: Sequence[str]) -> str | None:
    """Write the tables, or return which page is behind."""
    for name in PAGES:
        path = DOCS / name
        page = filled(path.read_text("utf-8"), name)
        if list(arguments) == ["--write"]:
            path.write_text(page, "utf-8")
        elif page != path.read_text("utf-8"):
            return f"{path} is behind the classes: python scripts/kind_tables.py --write"
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
