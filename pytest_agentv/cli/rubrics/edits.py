"""Writes rubrics into the text of an eval file; every other byte of it stays as it is."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from pytest_agentv.errors import AgentvError, SourceError
from pytest_agentv.loading.files.yaml_values import build_yaml
from pytest_agentv.loading.keys import OUTCOME_KEYS
from pytest_agentv.models.base import Json, Record
from pytest_agentv.reporting.yaml_documents import yaml_document

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BLOCK_STYLES: Final = ("|", ">")
_Node: TypeAlias = Any
"""A node of PyYAML, whose type stubs do not tell scalars from mappings."""


@dataclass(frozen=True, slots=True)
class WrittenRubric(Record):
    """A rubric to write into an eval file."""

    id: str
    description: str
    weight: float = 1.0
    required: bool = True


class LayoutError(AgentvError):
    """Rubrics cannot be written into this layout; the text is what to write by hand."""


@dataclass(frozen=True, slots=True)
class _Insertion(Record):
    """A text and the character that it goes before."""

    position: int
    text: str


def insert_rubrics(text: str, cases_key: str, index: int, rubrics: Sequence[WrittenRubric]) -> str:
    """Return the text of an eval file with rubrics in one of its cases: below its expected outcome, where possible.

    What is written is read back: where anything else than the case's rubrics would change, nothing is written.

    Args:
        text: A YAML text that can be read, its line breaks as they are.
        cases_key: The key of the case list.
        index: The place of the case in the list, which has no rubrics.
        rubrics: What to write.

    Raises `LayoutError` for a case that is an alias, or has no key of its own to put the rubrics below.
    """
    plain = [rubric.to_plain() for rubric in rubrics]
    wanted = _with_rubrics(_read(text), cases_key, index, plain)
    for insertion in _insertions(text, cases_key, index, plain):
        changed = text[: insertion.position] + insertion.text + text[insertion.position :]
        try:
            if _read(changed) == wanted:
                return changed
        except SourceError:
            continue
    raise LayoutError(rubrics_block(plain))


def rubrics_block(plain: Json) -> str:
    """Return the key `rubrics` in block style."""
    return yaml_document({"rubrics": plain}).removeprefix("---\n")


def _read(text: str) -> Json:
    return build_yaml(Path(), text, 0)[0]


def _with_rubrics(value: Json, cases_key: str, index: int, plain: Json) -> Json:
    cases = list(value[cases_key])
    cases[index] = {**cases[index], "rubrics": plain}
    return {**value, cases_key: cases}


def _insertions(text: str, cases_key: str, index: int, plain: Json) -> Iterator[_Insertion]:
    """Yield where the rubrics could go, best first."""
    root: _Node = yaml.compose(text, Loader=_LOADER)
    cases = next(value for key, value in root.value if key.value == cases_key)
    case = cases.value[index]
    entries = [(key, value) for key, value in case.value if isinstance(value, yaml.ScalarNode)]
    for key, value in sorted(entries, key=lambda entry: entry[0].value not in OUTCOME_KEYS):
        if case.flow_style:
            yield _Insertion(value.end_mark.index, f", rubrics: {json.dumps(plain, ensure_ascii=False)}")
        else:
            yield _block_insertion(text, key, value, plain)


def _block_insertion(text: str, key: _Node, value: _Node, plain: Json) -> _Insertion:
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = " " * key.start_mark.column
    lines = [f"{indent}{line}" if line else "" for line in rubrics_block(plain).rstrip("\n").split("\n")]
    position = _line_end(text, _value_end(text, value))
    block = newline.join(lines)
    is_last = position == len(text) and not text.endswith("\n")
    return _Insertion(position, f"{newline}{block}" if is_last else f"{block}{newline}")


def _value_end(text: str, value: _Node) -> int:
    """Return the end of a value's text; that of a block literal without the blank lines that are not part of it."""
    start: int = value.start_mark.index
    end: int = value.end_mark.index
    if value.style not in _BLOCK_STYLES:
        return end
    written = text[start:end]
    keeps_blank_lines = "+" in written.partition("\n")[0].partition("#")[0]
    return end - 1 if keeps_blank_lines else start + len(written.rstrip())


def _line_end(text: str, position: int) -> int:
    """Return the start of the line after the one that a position is on."""
    newline = text.find("\n", position)
    return len(text) if newline < 0 else newline + 1
