"""Finds and reads the tables that an eval file names."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.errors import AgentvError, FileError, locate
from pytest_agentv.loading.file_words import alone
from pytest_agentv.loading.files.source import within_memory
from pytest_agentv.loading.globs import find_files
from pytest_agentv.loading.places import Place
from pytest_agentv.loading.problems import near_file
from pytest_agentv.loading.tables.delimited import read_delimited
from pytest_agentv.loading.tables.generated import generated_rows
from pytest_agentv.loading.tables.names import CallFunction, is_function
from pytest_agentv.loading.tables.parquet import read_parquet_rows
from pytest_agentv.loading.tables.rows import Row
from pytest_agentv.loading.tables.structured import read_json_rows, read_jsonl_rows, read_yaml_rows

_READERS: Final[Mapping[str, Callable[[Path], list[Row]]]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".json": read_json_rows,
    ".jsonl": read_jsonl_rows,
    ".parquet": read_parquet_rows,
    ".yaml": read_yaml_rows,
    ".yml": read_yaml_rows,
}
_MAGIC: Final = frozenset("*?[{")


def read_tables(names: Sequence[tuple[str, Place]], eval_file: Path, call: CallFunction) -> list[Row]:
    """Return the rows of files, globs and functions, in order. Paths are relative to the folder of the eval file.

    Notes an error at the place of each name that names nothing. Raises `FileError` for a file that cannot be read.
    """
    rows: list[Row] = []
    for name, place in names:
        if is_function(name):
            rows += _call(name, place, eval_file.parent, call)
        else:
            for path in find_table(name, place, eval_file):
                with within_memory(path):
                    found = _READERS[path.suffix.lower()](path)
                place.problems.extend(found[0].table.problems if found else ())
                rows += found
    return rows


def _call(name: str, place: Place, folder: Path, call: CallFunction) -> list[Row]:
    try:
        return generated_rows(name, folder, call)
    except FileError:
        raise
    except AgentvError as error:
        place.error(str(error))
        return []


def find_table(name: str, place: Place, eval_file: Path) -> Sequence[Path]:
    """Return the files that a name or a glob means. Notes an error if there is none."""
    folder = eval_file.parent
    path = folder / name
    if path.is_file():
        if path.suffix.lower() in _READERS:
            return (path,)
        place.error(f"{name!r} is no table: expected a name that ends in {', '.join(_READERS)}")
        return ()
    if _MAGIC.isdisjoint(name):
        if path.is_dir():
            place.error(f"{name!r} is a folder", f"name its files: {name}/*.csv")
            return ()
        if path.exists():
            _note_no_file(path, place)
            return ()
        hint = alone(name) or near_file(path, _READERS)
        place.error(f"there is no file {name if alone(name) else locate(path, None)}", hint)
        return ()
    found = find_files(name, folder)
    files = [file for file in found if file.suffix.lower() in _READERS and file != eval_file]
    if not files:
        place.error(f"no table matches {name!r} in {locate(folder, None)}")
    for file in files:
        if not file.is_file():
            _note_no_file(file, place)
    return [file for file in files if file.is_file()]


def _note_no_file(path: Path, place: Place) -> None:
    """Note an error for what is no regular file: reading a pipe would block."""
    place.error(f"expected a file, but {locate(path, None)} is a pipe, a socket or a device")
