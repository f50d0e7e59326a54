"""Finds, reads and checks the targets file."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pytest_agentv.errors import TargetsError, locate
from pytest_agentv.files.places import INCLUDE, Place, included_files, misspelling, warn_of_unknown_keys
from pytest_agentv.files.problems import did_you_mean, join_problems, with_problems
from pytest_agentv.files.source import KeyPath, Source, read_yaml
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.cases import Target
from pytest_agentv.model.secrets import Masker
from pytest_agentv.targets.definitions import (
    IDENTITY,
    REFERENCE,
    Environment,
    Folders,
    TargetDefinition,
    TargetKinds,
    TargetsFile,
    has_reference,
    search_folders,
)

TARGETS_FILES: Final = ("targets.yaml", "targets.yml", ".agentv/targets.yaml", ".agentv/targets.yml")
"""Paths of a targets file within a folder, in the order of the search."""

_ROOT_KEYS: Final = ("$schema", "targets", INCLUDE)

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
    if explicit is not None:
        return _explicit_targets_file(cwd / explicit)
    folders = search_folders(eval_dir, repo_root, cwd)
    found = next((path for folder in folders if (path := _targets_file_in(folder))), None)
    if found:
        return found
    places = ", ".join(locate(folder, None) for folder in folders)
    raise TargetsError(
        eval_dir / TARGETS_FILES[0],
        f"no targets file found: tried {', '.join(TARGETS_FILES)} in {places}; name one with --agentv-targets",
    )


def _explicit_targets_file(path: Path) -> Path:
    if path.is_file():
        return path
    if not path.exists():
        raise TargetsError(path, "there is no such targets file or folder")
    found = _targets_file_in(path)
    if found is None:
        raise TargetsError(path, f"no targets file in this folder: tried {', '.join(TARGETS_FILES)}")
    return found


def _targets_file_in(folder: Path) -> Path | None:
    return next((path for name in TARGETS_FILES if (path := folder / name).is_file()), None)


def load_targets_file(path: Path, kinds: TargetKinds) -> TargetsFile:
    """Read and check a targets file. Its targets may have the given kinds.

    Raises `SourceError` for invalid YAML, and `TargetsError` with all faults and their lines.
    Source: evaluation-2025-11, "Schema validation for targets"; eval-cli-2026-01, "Targets validation with warnings".
    """
    return _Loader(read_yaml(path), kinds).load()


class _Loader:
    """Collects the definitions of one file and all their faults."""

    def __init__(self, source: Source, kinds: TargetKinds, chain: tuple[Path, ...] = ()) -> None:
        self._source = source
        self._chain = chain
        """The files that include this one, outermost first."""
        self._kinds = kinds
        self._problems = list(source.warnings)
        self._root = Place(source, (), self._problems)

    def load(self) -> TargetsFile:
        definitions = self._definitions()
        self._raise_errors()
        self._compare_names(definitions)
        own = {definition.name for definition in definitions}
        included = [each for each in self._included() if each.name not in own]
        self._check_judges(definitions, {each.name: each.line for each in (*definitions, *included)})
        self._raise_errors()
        return TargetsFile(self._source.path, (*definitions, *included), tuple(self._problems), self._kinds)

    def _definitions(self) -> tuple[TargetDefinition, ...]:
        loaded = [self._load(entry, self._root.at("targets", index)) for index, entry in enumerate(self._entries())]
        return tuple(definition for definition in loaded if definition)

    def _included(self) -> Iterator[TargetDefinition]:
        """Yield the targets of the included files. The last file with a name wins."""
        value, seen = self._source.value, set[str]()
        if not isinstance(value, dict) or value.get(INCLUDE) is None:
            return
        for source in reversed([*included_files(self._source, value, self._chain)]):
            loader = _Loader(source, self._kinds, (*self._chain, self._source.path))
            for definition in (*loader._definitions(), *loader._included()):
                if definition.name not in seen:
                    seen.add(definition.name)
                    yield definition
            self._problems += loader._problems

    def _entries(self) -> list[Json]:
        value = self._source.value
        if not isinstance(value, dict):
            self._root.expected("a mapping with the key targets", value)
            return []
        # a file that eval files include too may hold evaluators beside targets
        if not self._chain:
            warn_of_unknown_keys(value, _ROOT_KEYS, self._root)
        targets = value.get("targets")
        if isinstance(targets, list):
            return targets
        if targets is None and (self._chain or value.get(INCLUDE) is not None):
            return []
        if "targets" in value:
            self._root.at("targets").expected("a list of targets", targets)
        else:
            hint = misspelling("targets", value, _ROOT_KEYS) or "expected a list of targets"
            self._root.error("the key targets is missing", hint)
        return []

    def _load(self, entry: Json, place: Place) -> TargetDefinition | None:
        if not isinstance(entry, dict):
            place.expected("a mapping with name and provider", entry)
            return None
        kind = self._kinds.canonical(entry.get("provider"))
        values = entry
        if entry.get("settings") is not None:  # in older files it holds keys of the target
            found = self._kinds.find(kind)
            if self._kinds.is_known(kind) if found is None else found.model_config.get("extra") != "allow":
                values = merged_settings(entry, place)
        self._check_values(kind, values, place)
        self._check_fields(kind, values, entry, place)
        return self._definition(kind, values, place)

    def _check_values(self, kind: str, values: dict[str, Json], place: Place) -> None:
        """Note faults beyond types: an unknown provider, a null judge, texts that only look like references."""
        provider = values.get("provider")
        fault = self._kinds.fault(provider) if isinstance(provider, str) and provider.strip() else None
        if fault:
            place.at("provider").warn(fault)
        if "judge_target" in values and values["judge_target"] is None:
            place.at("judge_target").error("expected the name of a target, got null", "leave the key out")
        found = self._kinds.find(kind)
        is_factory = found is not None and found.model_config.get("extra") == "allow"
        is_own = is_factory or (found is not None and not found.__module__.startswith("pytest_agentv."))
        check_references(values, place, is_own=is_own)

    def _check_fields(self, kind: str, values: dict[str, Json], entry: dict[str, Json], place: Place) -> None:
        from pytest_agentv.targets import resolution as validation  # noqa: PLC0415 - imports pydantic

        found = self._kinds.find(kind)
        unknown, hidden = validation.unknown_keys(found, values), validation.unread_spellings(found, values)
        faults = [
            validation.with_slip(each, values, unknown) for each in validation.check_written(found, values).faults
        ]
        slips = {fault.slip for fault in faults}
        for fault in (*faults, *(each for each in unknown if each.where[0] not in slips), *hidden):
            is_nested = any(key not in entry and key in values for key in fault.where[:1])
            at = place.at("settings", *fault.where) if is_nested else place.at(*fault.where)
            is_error = fault in faults or (found and found.is_strict and fault not in hidden)
            note = at.error if is_error else at.warn
            note(fault.message, fault.hint)

    def _definition(self, kind: str, values: dict[str, Json], place: Place) -> TargetDefinition | None:
        from pytest_agentv.targets.resolution import check_written  # noqa: PLC0415 - imports pydantic

        known_now = {key: value for key, value in values.items() if key in IDENTITY or not has_reference(value)}
        base = check_written(None, known_now).common
        if base is None:
            return None
        return TargetDefinition(
            name=base.name,
            provider=base.provider,
            kind=kind,
            line=self._source.line_of(place.keys),
            judge_target=base.judge_target,
            workers=base.workers,
            provider_batching=base.provider_batching,
            values=values,
            path=self._source.path if self._chain else None,
        )

    def _compare_names(self, definitions: tuple[TargetDefinition, ...]) -> None:
        lines: dict[str, int] = {}
        for index, definition in enumerate(definitions):
            name = definition.name
            if name in lines:
                place = self._root.at("targets", index, "name")
                place.warn(f"{name!r} is the name of the target on line {lines[name]} already, and that one counts")
            lines.setdefault(name, definition.line)

    def _check_judges(self, definitions: tuple[TargetDefinition, ...], lines: Mapping[str, int]) -> None:
        for index, definition in enumerate(definitions):
            judge = definition.judge_target
            if judge is not None and judge not in lines:
                hint = did_you_mean(judge, lines) or f"available: {', '.join(lines)}"
                self._root.at("targets", index, "judge_target").warn(f"there is no target {judge!r}", hint)

    def _raise_errors(self) -> None:
        errors = [problem for problem in self._problems if problem.level == "error"]
        if errors:  # the first error comes first, because a summary has space for one line
            text = join_problems(errors).removeprefix(f"{locate(errors[0].path, errors[0].line)}: ")
            raise with_problems(TargetsError(errors[0].path, text, errors[0].line), self._problems)


def merged_settings(entry: dict[str, Json], place: Place) -> dict[str, Json]:
    """Return the target with the keys of its `settings:` mapping merged in. Keys beside it win."""
    flat = {key: value for key, value in entry.items() if key != "settings"}
    settings = entry["settings"]
    if not isinstance(settings, dict):
        place.at("settings").expected("a mapping", settings)
        return flat
    place.at("settings").warn("is an older form", "write its keys directly in the target")
    for key, value in settings.items():
        if key in flat and value not in (None, flat[key]):
            place.at("settings", key).warn(f"is not read, because {key!r} is there as well")
    return {**settings, **flat}


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


def resolve_target(
    file: TargetsFile, definition: TargetDefinition, environment: Environment, eval_dir: Path, secrets: Masker
) -> Target:
    """Return a target that is ready to be called. Add its secret values to `secrets`.

    `${{ VAR }}` is filled in anywhere in its texts. An optional field counts as absent if its variable is unset or
    blank. For required fields, and within lists and free mappings, this raises `TargetError` with all missing
    variables. It also raises `TargetError` for unusable providers and for filled-in values that are wrong.
    Source: delta-bbeval-migration-2025-11, "Missing provider credentials", "Environment variable validation".
    """
    from pytest_agentv.targets.resolution import resolve  # noqa: PLC0415 - imports pydantic

    folders = Folders(eval_dir=eval_dir, targets_dir=(definition.path or file.path).parent, cwd=Path.cwd())
    return resolve(file, definition, environment, folders, secrets)
