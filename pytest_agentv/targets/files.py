"""Finds, reads and checks the targets file."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_agentv.errors import TargetsError, locate
from pytest_agentv.files.places import INCLUDE, Place, RenamedPlace, included_files
from pytest_agentv.files.problems import Problem, UnreadKey, UnusableTarget, join_problems, with_problems
from pytest_agentv.files.source import KeyPath, Source, read_yaml
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.options import UnknownKeys
from pytest_agentv.targets.definitions import REFERENCE, TargetDefinition, TargetKinds, TargetsFile, search_folders

TARGETS_FILES: Final = ("targets.yaml", "targets.yml", ".agentv/targets.yaml", ".agentv/targets.yml")
"""Paths of a targets file within a folder, in the order of the search."""

_FOREIGN: Final = re.compile(r"^\$([A-Z][A-Z0-9_]+)$|\$\{([A-Z][A-Z0-9_]*)\}|^\{\{\s*env\.(\w+)\s*\}\}$")
"""A variable in the syntax of shells and other tools. Here it is a text, which would be sent as it is."""
_MEANT: Final = (
    *("command_template", "commandTemplate", "command", "stdin", "response", "content"),
    *("files_format", "filesFormat", "attachments_format", "attachmentsFormat"),
)
"""Keys whose text goes to a shell, or is an answer."""


def find_targets_file(explicit: Path | None, eval_dir: Path, repo_root: Path, cwd: Path) -> Path:
    """Return the targets file of a run. Raises `TargetsError` with the searched places.

    `explicit` is a file, or a folder to search.
    Source: eval-cli-2026-01, "Targets file discovery and selection".
    """
    named = None if explicit is None else cwd / explicit
    if named is not None and not named.is_dir():
        if named.exists():
            return named
        raise TargetsError(named, "there is no such targets file or folder")
    folders = search_folders(eval_dir, repo_root, cwd) if named is None else (named,)
    found = next((path for folder in folders for name in TARGETS_FILES if (path := folder / name).is_file()), None)
    if found is not None:
        return found
    tried = ", ".join(TARGETS_FILES)
    if named is not None:
        raise TargetsError(named, f"no targets file in this folder: tried {tried}")
    places = ", ".join(locate(folder, None) for folder in folders)
    what = f"no targets file found: tried {tried} in {places}; name one with --agentv-targets-file"
    raise TargetsError(eval_dir / TARGETS_FILES[0], what)


def load_targets_file(path: Path, kinds: TargetKinds, unknown_keys: UnknownKeys = "error") -> TargetsFile:
    """Read and check a targets file. Its targets may have the given kinds.

    Raises `SourceError` for invalid YAML, and `TargetsError` with all faults and their lines.
    Source: evaluation-2025-11, "Schema validation for targets"; eval-cli-2026-01, "Targets validation with warnings".
    """
    problems: list[Problem] = []
    found: list[tuple[TargetDefinition, Place]] = []
    for source, is_included in _with_included(read_yaml(path), ()):
        names = {definition.name for definition, _ in found}
        targets = _read_file(source, kinds, problems, is_included=is_included)
        found += [each for each in targets if each[0].name not in names]
        if unknown_keys == "warn":
            problems[:] = [each.replace(level="warning") if isinstance(each, UnreadKey) else each for each in problems]
        _raise_errors(problems)  # before those of the files that it includes
    file = TargetsFile(path, tuple(definition for definition, _ in found), kinds=kinds)
    for definition, place in found:
        for key, message, hint in file.faults(definition):
            at = place.at(key)
            problems.append(UnusableTarget(at.path, at.line, at.key, message, hint, "warning"))
    return file.replace(warnings=tuple(problems))


def _with_included(source: Source, chain: tuple[Path, ...]) -> Iterator[tuple[Source, bool]]:
    """Yield a file and those that it includes, and whether it is included. What comes first wins."""
    yield source, bool(chain)
    value = source.value
    if isinstance(value, dict) and value.get(INCLUDE) is not None:
        for included in reversed([*included_files(source, value, chain)]):
            yield from _with_included(included, (*chain, source.path))


def _read_file(
    source: Source, kinds: TargetKinds, problems: list[Problem], *, is_included: bool
) -> list[tuple[TargetDefinition, Place]]:
    """Return the targets of one file with their places. Notes faults."""
    from pytest_agentv.files.kind_reader import read_part  # noqa: PLC0415 - imports pydantic
    from pytest_agentv.targets import keys  # noqa: PLC0415 - imports pydantic

    problems += source.warnings
    value, root = source.value, Place(source, (), problems)
    if not isinstance(value, dict):
        root.expected("a mapping with the key targets", value)
        return []
    if is_included:  # eval files may include it too, and read its other keys
        value = {key: value[key] for key in value.keys() & {"targets", INCLUDE}}
    may_lack = is_included or value.get(INCLUDE) is not None
    file = read_part(keys.TargetsFileKeys if may_lack else keys.WholeTargetsFile, value, root)
    found: dict[str, TargetDefinition] = {}
    targets = []
    for index, entry in enumerate(file.targets if file else ()):
        place = root.at("targets", index)
        definition = _read_target(entry, kinds, place)
        if definition is None:
            continue
        first = found.setdefault(definition.name, definition)
        if first is not definition:
            what = f"{definition.name!r} is the name of the target on line {first.line} already, and that one counts"
            place.at("name").warn(what)
        targets.append((definition.replace(path=source.path) if is_included else definition, place))
    return targets


def _read_target(entry: Json, kinds: TargetKinds, place: Place) -> TargetDefinition | None:
    from pytest_agentv.targets.keys import read_target  # noqa: PLC0415 - imports pydantic

    if not isinstance(entry, dict):
        place.expected("a mapping with name and provider", entry)
        return None
    word = kinds.canonical(entry.get("provider"))
    kind = kinds.find(word)
    is_factory = kind is not None and kind.model_config.get("extra") == "allow"
    values, at = entry, place
    if entry.get("settings") is not None and kind is not None and not is_factory:
        values, at = _merged_settings(entry, place)  # in older files it holds keys of the target
    is_own = is_factory or (kind is not None and not kind.__module__.startswith("pytest_agentv."))
    check_references(values, at, is_own=is_own)
    common, _ = read_target(kind, values, at)
    if common is None:
        return None
    return TargetDefinition(
        name=common.name,
        provider=common.provider,
        kind=word,
        line=place.source.line_of(place.keys),
        judge_target=common.judge_target,
        workers=common.workers,
        provider_batching=common.provider_batching,
        values=values,
    )


def _merged_settings(entry: dict[str, Json], place: Place) -> tuple[dict[str, Json], Place]:
    """Return the target with the keys of its `settings:` mapping merged in, and its place. Keys beside it win."""
    flat = {key: value for key, value in entry.items() if key != "settings"}
    settings = entry["settings"]
    if not isinstance(settings, dict):
        place.at("settings").expected("a mapping", settings)
        return flat, place
    place.at("settings").warn("is an older form", "write its keys directly in the target")
    for key, value in settings.items():
        if key in flat and value not in (None, flat[key]):
            place.at("settings", key).warn(f"is not read, because {key!r} is there as well")
    homes: dict[str, KeyPath] = {key: ("settings", key) for key in settings if key not in flat}
    return {**settings, **flat}, RenamedPlace(place.source, place.keys, place.problems, homes)


def _raise_errors(problems: list[Problem]) -> None:
    errors = [problem for problem in problems if problem.level == "error"]
    if errors:  # the first error comes first, because a summary has space for one line
        text = join_problems(errors).removeprefix(f"{locate(errors[0].path, errors[0].line)}: ")
        raise with_problems(TargetsError(errors[0].path, text, errors[0].line), problems)


def check_references(values: JsonObject, place: Place, *, is_own: bool) -> None:
    """Warn of an invalid `${{ … }}`. Refuse variables of other tools, unless the project's own code may read them."""
    for keys, text in _texts(values, ()):
        foreign = None if keys[-1] in _MEANT else _FOREIGN.search(text)
        if "${{" in REFERENCE.sub("", text):
            place.at(*keys).warn("holds '${{', but no variable", "write ${{ NAME }}: letters, digits and _")
        elif foreign:
            note = place.at(*keys).warn if is_own else place.at(*keys).error
            name = foreign[1] or foreign[2] or foreign[3]
            note(f"{foreign[0]!r} is no variable here and stays as it is", f"write ${{{{ {name} }}}}")


def _texts(value: Json, keys: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield all texts within a value, with their places."""
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(item, (*keys, key))
