"""Asks a model for the rubrics of cases, and writes them into an eval file. Every other byte stays as it is."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from pytest_agentv.cases.entries import CaseEntry, SuiteSource, valid_id
from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.cases.variables import as_template
from pytest_agentv.cli.arguments import note
from pytest_agentv.engine.answers import invoke_with_retries
from pytest_agentv.errors import AgentvError, FileError, SourceError, locate
from pytest_agentv.evaluators.json_text import first_json_object
from pytest_agentv.evaluators.judge_reply import section, without_thoughts
from pytest_agentv.files.places import OUTCOME_KEYS
from pytest_agentv.files.source import build_yaml, hide_old_breaks
from pytest_agentv.model.base import Json, JsonObject, Record, is_number
from pytest_agentv.model.messages import candidate_answer, incomplete_reason
from pytest_agentv.model.options import DEFAULT_MAX_RETRIES, DEFAULT_TIMEOUT_SECONDS
from pytest_agentv.model.secrets import masked
from pytest_agentv.model.text import trim
from pytest_agentv.providers.base import Adapter, ProviderRequest
from pytest_agentv.runtime.files import write_atomically
from pytest_agentv.store.yaml_documents import yaml_document

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Node: TypeAlias = Any
"""A node of PyYAML. The type stubs do not distinguish scalars from mappings."""

_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class WrittenRubric(Record):
    """A rubric to write into an eval file."""

    id: str
    description: str
    weight: float = 1.0
    required: bool = True


class ChangedFileError(AgentvError):
    """Somebody else changed the file. The text holds the rubrics that were not written."""


class RubricFile:
    """An eval file as it was read or last written. It is not written again after somebody else changed it."""

    def __init__(self, path: Path) -> None:
        """Read the file. Raises `FileError` if it has no case list."""
        self._known = path.read_bytes() if path.is_file() else b""
        self.suite: SuiteSource = read_suite(path)
        if self.suite.cases_key is None:
            raise FileError(self.suite.path, "rubrics are written into .yaml and .yml files only")
        if any(entry.row is not None for entry in self.suite.entries):
            raise FileError(self.suite.path, "the cases come from a table: write `rubrics:` by hand, for all rows")
        self._cases_key = self.suite.cases_key

    def write(self, entry: CaseEntry, rubrics: Sequence[WrittenRubric]) -> bool:
        """Write the rubrics of a case. If the layout does not allow it, print them and return False.

        Raises `ChangedFileError` if the file has changed, because the case may have moved or changed.
        """
        path = self.suite.path
        if self.suite.variables_of(entry) is not None:  # only then are the texts of the case templates
            own_texts = "\n".join(_texts(entry.value))
            rubrics = [
                rubric.replace(id=as_template(rubric.id), description=as_template(rubric.description, own_texts))
                for rubric in rubrics
            ]
        if not path.is_file() or path.read_bytes() != self._known:
            block = rubrics_block([rubric.to_plain() for rubric in rubrics])
            raise ChangedFileError(
                f"{locate(path, None)} was changed by somebody else meanwhile: nothing more is written into it. "
                f"The rubrics of case {valid_id(entry.value) or entry.index + 1!r}, to write by hand:\n{block}"
            )
        text = self._known.decode()
        mark = _BOM if text.startswith(_BOM) else ""
        try:
            changed = insert_rubrics(text.removeprefix(mark), self._cases_key, entry.index, rubrics)
        except LayoutError as error:
            where = locate(path, entry.line)
            note(f"{where}: the layout of this case has no place for rubrics; write them by hand:")
            note(str(error))
            return False
        write_atomically(path, f"{mark}{changed}")
        self._known = f"{mark}{changed}".encode()
        return True


def _texts(value: Json) -> Iterator[str]:
    """Yield the texts in data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


class LayoutError(AgentvError):
    """Rubrics cannot be written into this layout. The text is the block to write by hand."""


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
    value = _read(text)
    cases = list(value[cases_key])
    cases[index] = {**cases[index], "rubrics": plain}
    for position, inserted in _insertions(text, cases_key, index, plain):
        changed = text[:position] + inserted + text[position:]
        try:
            if _read(changed) == {**value, cases_key: cases}:
                return changed
        except SourceError:
            continue
    raise LayoutError(rubrics_block(plain))


def _read(text: str) -> Json:
    return build_yaml(Path(), text, 0)[0]


def _insertions(text: str, cases_key: str, index: int, plain: Json) -> Iterator[tuple[int, str]]:
    """Yield possible insertions of the rubrics, best first: an offset, and the text to insert there."""
    root: _Node = yaml.compose(hide_old_breaks(text), Loader=_LOADER)
    cases = next(value for key, value in root.value if key.value == cases_key)
    case = cases.value[index]
    entries = [(key, value) for key, value in case.value if isinstance(value, yaml.ScalarNode)]
    for key, value in sorted(entries, key=lambda entry: entry[0].value not in OUTCOME_KEYS):
        if case.flow_style:
            yield value.end_mark.index, f", rubrics: {json.dumps(plain, ensure_ascii=False)}"
        else:
            yield _block_insertion(text, key, value, plain)


def _block_insertion(text: str, key: _Node, value: _Node, plain: Json) -> tuple[int, str]:
    newline = "\r\n" if "\r\n" in text else "\n"
    indent = " " * key.start_mark.column
    lines = [f"{indent}{line}" if line else "" for line in rubrics_block(plain).rstrip("\n").split("\n")]
    block = newline.join(lines)
    line_end = text.find("\n", _value_end(text, value))
    position = len(text) if line_end < 0 else line_end + 1
    is_last = position == len(text) and not text.endswith("\n")
    return position, f"{newline}{block}" if is_last else f"{block}{newline}"


def _value_end(text: str, value: _Node) -> int:
    """Return the end of a value's text. A block literal ends before the blank lines that follow it."""
    start: int = value.start_mark.index
    end: int = value.end_mark.index
    if value.style not in ("|", ">"):
        return end
    written = text[start:end]
    keeps_blank_lines = "+" in written.partition("\n")[0].partition("#")[0]
    return end - 1 if keeps_blank_lines else start + len(written.rstrip())


def rubrics_block(plain: Json) -> str:
    """Return the key `rubrics` in block style."""
    return yaml_document({"rubrics": plain}).removeprefix("---\n")


ATTEMPTS: Final = 3
"""How often to ask a model before giving up because no reply holds rubrics."""

SYSTEM_PROMPT: Final = """\
You write rubrics: statements that a judge later holds an answer against, one by one, without seeing anything else.

Write three to seven of them for the case that you are given.
- Each can be checked on the answer alone and is either satisfied or not.
- Each is about one thing, and no two are about the same.
- Together they cover the expected outcome, and demand nothing beyond it.

Reply with exactly one JSON object and no text before or after it:
{"rubrics": [{"id": "names-the-fee", "description": "...", "weight": 1, "required": true}]}

- id: a short name in lower case, its words joined by hyphens
- description: the statement, as one sentence
- weight: a number above 0; 1 unless the rubric counts more or less than the others
- required: whether an answer that does not satisfy it fails, whatever else is right"""


@dataclass(frozen=True, slots=True)
class RubricRequest(Record):
    """The facts of a case for which to write rubrics. Unknown ones are empty."""

    eval_id: str
    expected_outcome: str
    question: str = ""
    reference_answer: str = ""


class RubricError(AgentvError):
    """A model wrote no rubrics."""


async def write_rubrics(provider: Adapter, request: RubricRequest) -> tuple[WrittenRubric, ...]:
    """Ask for the rubrics of a case, up to three times, and mask them. Raises `RubricError`."""
    reply = ""
    for _ in range(ATTEMPTS):
        reply = await _ask(provider, request)
        if rubrics := read_rubrics(reply):
            return rubrics
    reply = masked(reply)
    shown = f"{reply[:200]}…" if len(reply) > 200 else reply
    raise RubricError(f"case {request.eval_id!r}: no rubrics in {ATTEMPTS} replies of the model; the last one: {shown}")


def build_user_prompt(request: RubricRequest) -> str:
    """Return the non-empty sections of the case."""
    texts = {
        "question": request.question,
        "expected_outcome": request.expected_outcome,
        "reference_answer": request.reference_answer,
    }
    return "\n\n".join(section(name, text) for name, text in texts.items() if trim(text))


def read_rubrics(reply: str) -> tuple[WrittenRubric, ...]:
    """Return the rubrics of a reply; empty if it holds no JSON object with a list of rubrics."""
    found = first_json_object(without_thoughts(reply), lambda found: bool(_described(found.get("rubrics"))))
    rubrics: list[WrittenRubric] = []
    for number, item in enumerate(_described(found["rubrics"]) if found else (), start=1):
        given = masked(_text(item.get("id"))) or f"rubric-{number}"
        is_taken = any(rubric.id == given for rubric in rubrics)
        weight, required = item.get("weight"), item.get("required")
        rubrics.append(
            WrittenRubric(
                f"{given}-{number}" if is_taken else given,
                masked(_text(item["description"])),
                float(weight) if is_number(weight) and 0 <= weight <= 1_000_000 else 1.0,
                required if isinstance(required, bool) else True,
            )
        )
    return tuple(rubrics)


async def _ask(provider: Adapter, request: RubricRequest) -> str:
    asked = ProviderRequest(
        Prompt(build_user_prompt(request)),
        eval_id=request.eval_id,
        system_prompt=SYSTEM_PROMPT,
        timeout_seconds=DEFAULT_TIMEOUT_SECONDS,
    )
    attempts = await invoke_with_retries(provider, asked, DEFAULT_MAX_RETRIES)
    response = attempts.response
    error = attempts.error or (response and (response.error or incomplete_reason(response.finish_reason)))
    if error or response is None:
        raise RubricError(f"case {request.eval_id!r}: the model could not be asked: {error}")
    return candidate_answer(response.output_messages)


def _described(value: Json) -> list[JsonObject]:
    """Return the items of a list that have a description."""
    items = value if isinstance(value, list) else []
    return [item for item in items if isinstance(item, dict) and _text(item.get("description"))]


def _text(value: Json) -> str:
    """Return a text on one line without characters that files cannot hold; empty for any other value."""
    return " ".join(value.split()).encode("utf-8", "replace").decode() if isinstance(value, str) else ""
