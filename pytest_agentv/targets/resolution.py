"""Fills in the variables of a target, wraps its secrets and reads its keys. Importing this costs pydantic."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pytest_agentv.errors import TargetError, locate
from pytest_agentv.files.places import Place, first_key
from pytest_agentv.files.problems import UnreadKey
from pytest_agentv.files.source import Source
from pytest_agentv.model.base import Json, JsonObject
from pytest_agentv.model.cases import Target
from pytest_agentv.model.kind import field_parts, spellings
from pytest_agentv.model.secrets import Masker, Secret, secrets_of
from pytest_agentv.targets.definitions import (
    IDENTITY,
    REFERENCE,
    Environment,
    TargetDefinition,
    TargetsFile,
    has_reference,
    interpolate,
    missing_variables,
)
from pytest_agentv.targets.fields import Resolution
from pytest_agentv.targets.keys import CommonKeys, read_target


def resolve_target(
    file: TargetsFile, definition: TargetDefinition, environment: Environment, eval_dir: Path, secrets: Masker
) -> Target:
    """Return a target that is ready to be called. Add its secret values to `secrets`.

    `${{ VAR }}` is filled in anywhere in its texts. An optional field counts as absent if its variable is unset or
    blank. For required fields, and within lists and free mappings, this raises `TargetError` with all missing
    variables. It also raises `TargetError` for targets that cannot be used and for filled-in values that are wrong.
    Source: delta-bbeval-migration-2025-11, "Missing provider credentials", "Environment variable validation".
    """
    path = definition.path or file.path
    where = f"target {definition.name!r} ({locate(path, definition.line)})"
    _refuse_unusable(file, definition, where)
    kind = file.kinds.table[definition.kind]
    place = Place(Source(path, {}, "", {}), (), [])
    filler = _Filler(environment.variables, place)
    filled = filler.fill_target(kind, definition.values)
    secrets.add(filler.secrets)
    if filler.missing:
        raise TargetError(f"{where} {_missing_variables(filler.missing, environment.variables)}")
    resolution = Resolution(eval_dir, targets_dir=path.parent, cwd=Path.cwd(), shield=filler.shield)
    common, settings = read_target(kind, filled, place, resolution)
    if common is None or settings is None:
        faults = [each for each in place.problems if not isinstance(each, UnreadKey)]
        told = "; ".join(f"{each.key}: {each.message}{filler.source(each.key)}" for each in faults)
        raise TargetError(secrets.mask(f"{where}: {told}"))
    _refuse_unusable(file, definition.replace(judge_target=common.judge_target), where)
    return Target(
        name=definition.name,
        kind=definition.kind,
        settings=settings,
        judge_target=common.judge_target,
        workers=common.workers,
        provider_batching=common.provider_batching,
        path=str(path),
        line=definition.line,
    )


def _refuse_unusable(file: TargetsFile, definition: TargetDefinition, where: str) -> None:
    for _, message, hint in file.faults(definition):
        raise TargetError(f"{where}: {message}{f' ({hint})' if hint else ''}")


def _missing_variables(missing: Mapping[str, list[str]], variables: Mapping[str, str]) -> str:
    shown = ", ".join(
        f"{variable} ({', '.join(keys)}{'; set, but blank' if variable in variables else ''})"
        for variable, keys in missing.items()
    )
    if len(missing) == 1:
        return f"needs an environment variable that is not set: {shown}; set it or put it into a .env file"
    return f"needs environment variables that are not set: {shown}; set them or put them into a .env file"


class _Filler:
    """Fills in variables, and records the missing variables and the texts that are secrets."""

    def __init__(self, variables: Mapping[str, str], place: Place) -> None:
        self.missing: dict[str, list[str]] = {}
        """The keys that need each missing variable."""
        self.secrets: set[str] = set()
        self._variables = variables
        self._place = place
        self._names: dict[str, list[str]] = {}
        """The variables of each key."""

    def source(self, key: str) -> str:
        """Return a text that names the variables of a faulty value; empty without variables."""
        names = self._names.get(key)
        return f" (from {', '.join(names)})" if names else ""

    def shield(self, text: str) -> str | Secret:
        return Secret(text) if any(secret in text for secret in self.secrets) else text

    def fill_target(self, kind: Any, values: JsonObject) -> dict[str, Json]:
        """Return the values by written key, including values that replace absent ones."""
        written = _written_keys(kind, values)
        needed = kind.needed(written)
        filled = {key: values[key] for key in IDENTITY}
        rest = {key: value for key, value in values.items() if key not in IDENTITY}
        for part in (CommonKeys, kind):
            filled |= self._fill_fields(part, rest, needed, self._place)
        if kind.model_config.get("extra") == "allow":
            for own in rest.keys() - filled.keys():
                item = self._fill(rest[own], self._place.at(own), is_required=False)
                if item is not None or rest[own] is None:  # a text with missing variables is left out
                    filled[own] = item
        for field, variable in {**needed, **kind.stand_ins}.items():
            key = written.get(field)
            is_missing = field in needed and key is not None and has_reference(values[key])
            if not is_missing and (key is None or _is_blank(filled[key])):
                place = self._place.at(spellings(kind)[field][0])
                text = f"${{{{ {variable} }}}}"
                filled[key or place.key] = self._fill_text(text, place, is_required=field in needed)
        return filled

    def _fill_fields(
        self, part: type[BaseModel], values: JsonObject, needed: Collection[str], place: Place
    ) -> dict[str, Json]:
        """Fill in the values of the keys of a class. A mapping with a class has required and optional keys itself."""
        filled: dict[str, Json] = {}
        for field, key in _written_keys(part, values).items():
            value, at = values[key], place.at(key)
            inner = _class_of(part, key, value)
            if inner is not None:
                filled[key] = self._fill_fields(inner, value, (), at)
            else:
                is_required = part.model_fields[field].is_required() or field in needed
                filled[key] = self._fill(value, at, is_required=is_required)
        return filled

    def _fill(self, value: Json, place: Place, *, is_required: bool) -> Json:
        """Fill in a value. Entries of lists and free mappings are required, because the user wrote them."""
        if isinstance(value, str):
            return self._fill_text(value, place, is_required=is_required)
        if isinstance(value, list):
            return [self._fill(item, place.at(index), is_required=True) for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._fill(item, place.at(key), is_required=True) for key, item in value.items()}
        return value

    def _fill_text(self, text: str, place: Place, *, is_required: bool) -> str | None:
        names, missing = REFERENCE.findall(text), missing_variables(text, self._variables)
        self._names[place.key] = names
        for name in missing if is_required else ():
            self.missing.setdefault(name, []).append(place.key)
        for name in names:
            self.secrets.update(secrets_of(name, self._variables.get(name, "")))
        if missing:
            return None
        filled = interpolate(text, self._variables)
        self.secrets.update(secrets_of(str(place.keys[-1]), filled))
        return filled


def _class_of(part: type[BaseModel], key: str, value: Json) -> type[BaseModel] | None:
    """Return the class of a mapping within a target, by its `type` if there are several; None for other values."""
    for inner in field_parts(part, key) if isinstance(value, dict) else ():
        kind = inner.model_fields.get("type")
        if kind is None or kind.default == value.get("type"):
            return inner
    return None


def _written_keys(part: Any, values: JsonObject) -> dict[str, str]:
    """Return the written key of each field: the first of its spellings that is not null."""
    return {field: key for field, keys in spellings(part).items() if (key := first_key(values, keys)) is not None}


def _is_blank(value: Json) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())
