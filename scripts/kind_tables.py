"""The tables of keys in docs/evaluators.md, from the classes. `--write` puts them there."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_agentv.evaluators.code_judge import Proxy
from pytest_agentv.evaluators.composite import AGGREGATORS
from pytest_agentv.evaluators.field_accuracy import FieldCheck
from pytest_agentv.evaluators.rubrics import Rubric
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.evaluators.tool_trajectory import ExpectedCall
from pytest_agentv.models.kind import REFERENCE, Kind, Part, spellings

PAGE = Path(__file__).parents[1] / "docs/evaluators.md"
COMMON = ("name", "weight")
"""Keys of all evaluators; the page tells them once."""

CLASSES: Mapping[str, type[Part]] = {
    **{word: kind for word, kind in EVALUATORS.items() if word == kind.kind},
    **{f"aggregator {word}": kind for word, kind in AGGREGATORS.items()},
    "field": FieldCheck,
    "expected call": ExpectedCall,
    "rubric": Rubric,
    "proxy": Proxy,
}


def begin(name: str) -> str:
    """Return the comment that a table follows."""
    return f"<!-- keys of {name} -->"


END = "<!-- end of keys -->"


def table(part: type[Part]) -> str:
    """Return the table of a class's keys."""
    rows = ["| key | value | meaning |", "|---|---|---|", *_rows(part)]
    return "\n".join(rows)


def filled(text: str) -> str:
    """Return the page with all its tables as they have to be. Raises `ValueError` for a table that is not there."""
    for name, part in CLASSES.items():
        before, found, rest = text.partition(f"{begin(name)}\n")
        _, end, after = rest.partition(END)
        if not found or not end:
            raise ValueError(f"{PAGE.name} has no table {begin(name)} … {END}")
        text = f"{before}{found}\n{table(part)}\n\n{end}{after}"
    return text


def _rows(part: type[Part]) -> Iterator[str]:
    schema = part.model_json_schema(by_alias=False)
    required = schema.get("required", ())
    for name, (key, *others) in spellings(part).items():
        if issubclass(part, Kind) and name in COMMON:
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
    if shape.get("type") == "array":
        return f"list of {_value(shape['items'])}"
    if shape.get("type") == "number" and "maximum" in shape:
        return "0 to 1"
    reference = shape.get(REFERENCE) or shape.get("$ref", "").rpartition("/")[2]
    if reference:
        return {"Rubric": "rubric", "Proxy": "mapping", "FieldCheck": "field", "ExpectedCall": "call"}.get(
            reference, reference
        )
    words = {"string": "text", "number": "number", "integer": "number", "boolean": "true, false", "object": "mapping"}
    return words.get(shape.get("type"), "anything")


def _default(shape: Any) -> str:
    default = shape.get("default")
    if default in (None, "", "absent") or isinstance(default, list | dict) or "default:" in shape["description"]:
        return ""
    shown = (
        str(default).lower() if isinstance(default, bool) else default if isinstance(default, str) else f"{default:g}"
    )
    return f" (default: `{shown}`)"


if __name__ == "__main__":
    page = filled(PAGE.read_text("utf-8"))
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page, "utf-8")
    elif page != PAGE.read_text("utf-8"):
        sys.exit(f"{PAGE} is behind the classes: python scripts/kind_tables.py --write")
