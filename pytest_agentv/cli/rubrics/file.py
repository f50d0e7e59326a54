"""Writes rubrics into an eval file, case by case."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pytest_agentv.cli.console import note
from pytest_agentv.cli.rubrics.edits import LayoutError, WrittenRubric, insert_rubrics, rubrics_block
from pytest_agentv.errors import AgentvError, FileError, locate
from pytest_agentv.loading.files.entries import CaseEntry, valid_id
from pytest_agentv.loading.files.suite_source import SuiteSource
from pytest_agentv.loading.files.suites import read_suite
from pytest_agentv.loading.variables.filling import as_template
from pytest_agentv.models.base import Json
from pytest_agentv.runtime.files import write_atomically

_BOM = "\ufeff"


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
            rubrics = [_as_templates(rubric, own_texts) for rubric in rubrics]
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


def _as_templates(rubric: WrittenRubric, own_texts: str) -> WrittenRubric:
    return rubric.replace(id=as_template(rubric.id), description=as_template(rubric.description, own_texts))


def _texts(value: Json) -> Iterator[str]:
    """Yield the texts in data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
