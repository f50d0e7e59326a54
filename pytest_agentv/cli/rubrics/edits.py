"""Writes rubrics into the text of an eval file. Every other byte stays as it is."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from pytest_agentv.errors import AgentvError, SourceError
from pytest_agentv.loading.files.yaml_scalars import hide_old_breaks
from pytest_agentv.loading.files.yaml_values import build_yaml
from pytest_agentv.loading.keys import OUTCOME_KEYS
from pytest_agentv.models.base import Json, Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.yaml_documents import yaml_document

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BLOCK_STYLES: Final = ("|", ">")
_Node: TypeAlias = Any
"""A node of PyYAML. The type stubs do not distinguish scalars from mappings."""


@record
class WrittenRubric(Record):
    """A rubric to write into an eval file."""

    id: str
    description: str
    weight: float = 1.0
    required: bool = True


class LayoutError(AgentvError):
    """Rubrics cannot be written into this layout. The text is the block to write by hand."""


@record
class _Insertion(Record):
    """A text, and the offset at which to insert it."""

    position: int
    text: str


def insert_rubrics(text: str, cases_key: str, index: int, rubrics: Sequence[WrittenRubric]) -> str:
    """Return the text of an eval file with rubrics added to a case: below its expected outcome if possible.

    It reads the new text back, and rejects it if anything but the case's rubrics would change.

    Args:
        text: A valid YAML text with its original line breaks.
        cases_key: The key of the case list.
        index: The index of the case in the list. The case has no rubrics.
        rubrics: The rubrics to write.

    Raises `LayoutError` for a case that is an alias, or that has no own key below which the rubrics could go.
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
    """Yield possible insertions of the rubrics, best first."""
    root: _Node = yaml.compose(hide_old_breaks(text), Loader=_LOADER)
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
    """Return the end of a value's text. A block literal ends before the blank lines that follow it."""
    start: int = value.start_mark.index
    end: int = value.end_mark.index
    if value.style not in _BLOCK_STYLES:
        return end
    written = text[start:end]
    keeps_blank_lines = "+" in written.partition("\n")[0].partition("#")[0]
    return end - 1 if keeps_blank_lines else start + len(written.rstrip())


def _line_end(text: str, position: int) -> int:
    """Return the start of the line after a position."""
    newline = text.find("\n", position)
    return len(text) if newline < 0 else newline + 1
