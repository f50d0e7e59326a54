"""Reads the files that eval files and targets files include."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_agentv.errors import SourceError, locate
from pytest_agentv.loading.files.layers import Layer, inherit
from pytest_agentv.loading.files.source import LayeredSource, Origins, Source, read_yaml
from pytest_agentv.loading.keys import CASE_LIST_KEYS, INCLUDE
from pytest_agentv.loading.problems import describe_value, near_file
from pytest_agentv.models.base import Json, JsonObject

_OF_ONE_FILE: Final = frozenset(
    ("$schema", "name", "version", "description", "author", "license", "metadata", "targets", INCLUDE)
)
"""Keys about the file itself, and keys of targets files. They are not included."""


def with_includes(source: Source, header: JsonObject, chain: tuple[Path, ...] = ()) -> tuple[JsonObject, Source]:
    """Return the keys of a file and its included files, with a source of their places.

    A file's own keys win, then those of the last included file. Raises `SourceError`.
    """
    if header.get(INCLUDE) is None:
        return header, source
    value: JsonObject = header
    origins: Origins = {}
    for included in reversed([*included_files(source, header, chain)]):
        inner, inner_source = _read_included(included, (*chain, source.path))
        layered = inherit(value, Layer(inner, inner_source), deep=("defaults",))
        value, origins = layered.value, {**layered.origins, **origins}
    return value, LayeredSource(source, (), origins)


def included_files(source: Source, mapping: JsonObject, chain: tuple[Path, ...]) -> Iterator[Source]:
    """Yield the files that a file includes, read. Paths are relative to its folder. Raises `SourceError`."""
    written = mapping.get(INCLUDE)
    names = written if isinstance(written, list) else [written]
    for index, name in enumerate(names):
        line = source.line_of((INCLUDE, index) if isinstance(written, list) else (INCLUDE,))
        yield _read(source, name, line, (*chain, source.path))


def _read(source: Source, name: Json, line: int, chain: tuple[Path, ...]) -> Source:
    if not isinstance(name, str) or not name.strip():
        raise SourceError(source.path, f"include: expected the path of a file, got {describe_value(name)}", line)
    path = Path(os.path.normpath(source.path.parent / name))
    if path in chain:
        circle = " → ".join(locate(each, None) for each in (*chain[chain.index(path) :], path))
        raise SourceError(source.path, f"include: the files include each other: {circle}", line)
    if path.is_dir():
        raise SourceError(source.path, f"include: expected a file, but {locate(path, None)} is a folder", line)
    if not path.is_file():
        hint = near_file(path, (".yaml", ".yml"))
        where = f"there is no file {locate(path, None)}"
        raise SourceError(source.path, f"include: {where}{f' ({hint})' if hint else ''}", line)
    included = read_yaml(path)
    if not isinstance(included.value, dict):
        raise SourceError(
            path, f"expected a mapping of keys to include, got {describe_value(included.value)}", included.line_of()
        )
    return included


def _read_included(source: Source, chain: tuple[Path, ...]) -> tuple[JsonObject, Source]:
    cases = next((key for key in (*CASE_LIST_KEYS, "case") if key in source.value), None)
    if cases is not None:
        message = f"{cases}: an included file holds no cases; name it under evalcases instead"
        raise SourceError(source.path, message, source.line_of((cases,)))
    value, origin = with_includes(source, source.value, chain)
    return {key: item for key, item in value.items() if key not in _OF_ONE_FILE}, origin
