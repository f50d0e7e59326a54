"""Fills in a target's variables, checks the result and wraps its secrets.

Importing this costs pydantic: use `targets.resolve_target`.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from pydantic import BaseModel

from pytest_agentv.errors import TargetError, locate
from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.targets.definitions import IDENTITY, Folders, TargetDefinition, TargetsFile
from pytest_agentv.loading.targets.environment import Environment, has_reference, interpolate
from pytest_agentv.loading.targets.fields import Resolution
from pytest_agentv.loading.targets.validation import (
    Fault,
    check_resolved,
    extra_keys,
    parts_of_target,
    show_key,
    written_keys,
)
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.kind import field_parts, spellings
from pytest_agentv.models.masking.secret_rule import secrets_of
from pytest_agentv.models.masking.secrets import Masker, Secret
from pytest_agentv.models.targets import Target

_AS_WRITTEN: Final = tuple((key,) for key in IDENTITY)


def resolve(
    file: TargetsFile, definition: TargetDefinition, environment: Environment, folders: Folders, secrets: Masker
) -> Target:
    """Work as `targets.resolve_target` describes."""
    where = f"target {definition.name!r} ({locate(definition.path or file.path, definition.line)})"
    fault = file.kinds.fault(definition.provider)
    if fault:
        raise TargetError(f"{where}: {fault}")
    kind = file.kinds.table[definition.kind]
    filler = _Filler(environment.variables)
    filled = filler.fill_target(kind, definition.values)
    secrets.add(filler.secrets)
    if filler.missing:
        raise TargetError(f"{where} {_missing_variables(filler.missing, environment.variables)}")
    checked = check_resolved(kind, filled, Resolution(folders, filler.shield))
    if checked.common is None or checked.kind is None:
        faults = "; ".join(
            f"{show_key(fault.where)}: {fault.message}{filler.source(fault)}" for fault in checked.faults
        )
        raise TargetError(secrets.mask(f"{where}: {faults}"))
    return Target(
        name=definition.name,
        kind=definition.kind,
        settings=checked.kind,
        judge_target=checked.common.judge_target,
        workers=checked.common.workers,
        provider_batching=checked.common.provider_batching,
        path=str(definition.path or file.path),
        line=definition.line,
    )


class _Filler:
    """Fills in variables, and records the missing variables and the texts that are secrets."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self.missing: dict[str, list[str]] = {}
        """The keys that need each missing variable."""
        self.secrets: set[str] = set()
        self._names: dict[KeyPath, tuple[str, ...]] = {}

    def fill_target(self, kind: Any, values: JsonObject) -> dict[str, Json]:
        """Return the values by written key, including values that replace absent ones."""
        written = written_keys(kind, values)
        needed, stand_ins = kind.needed(written), kind.stand_ins
        filled: dict[str, Json] = {}
        for part in parts_of_target(kind):
            filled |= self._fill_fields(part, values, needed, ())
        filled |= self._fill_extra(extra_keys(kind, values))
        for field, variable in {**needed, **stand_ins}.items():
            key = written.get(field)
            is_missing = field in needed and key is not None and has_reference(values[key])
            if not is_missing and (key is None or _is_blank(filled[key])):
                first_key = spellings(kind)[field][0]
                filled[first_key] = self._fill(f"${{{{ {variable} }}}}", (first_key,), is_required=field in needed)
        return filled

    def _fill_extra(self, values: JsonObject) -> dict[str, Json]:
        """Return the user's own keys. Leaves out texts with missing variables."""
        filled = {key: self._fill(value, (key,), is_required=False) for key, value in values.items()}
        return {key: value for key, value in filled.items() if value is not None or values[key] is None}

    def source(self, fault: Fault) -> str:
        """Return a text that names the variables of a faulty value; empty without variables."""
        names = self._names.get(fault.where)
        return f" (from {', '.join(names)})" if names else ""

    def shield(self, text: str) -> str | Secret:
        return Secret(text) if any(secret in text for secret in self.secrets) else text

    def _fill_fields(
        self, part: type[BaseModel], values: JsonObject, needed: Collection[str], above: KeyPath
    ) -> dict[str, Json]:
        return {
            key: self._fill_field(
                part, values[key], (*above, key), is_required=part.model_fields[field].is_required() or field in needed
            )
            for field, key in written_keys(part, values).items()
        }

    def _fill_field(self, part: type[BaseModel], value: Json, where: KeyPath, *, is_required: bool) -> Json:
        """Fill in the value of a field. A mapping with its own class has required and optional keys itself."""
        if isinstance(value, dict):
            for nested in field_parts(part, where[-1]):
                kind = nested.model_fields.get("type")
                if kind is None or kind.default == value.get("type"):
                    return self._fill_fields(nested, value, (), where)
        return self._fill(value, where, is_required=is_required)

    def _fill(self, value: Json, where: KeyPath, *, is_required: bool) -> Json:
        """Fill in a value. Entries of lists and free mappings are required, because the user wrote them."""
        if isinstance(value, str):
            return value if where in _AS_WRITTEN else self._fill_text(value, where, is_required=is_required)
        if isinstance(value, list):
            return [self._fill(item, (*where, index), is_required=True) for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._fill(item, (*where, key), is_required=True) for key, item in value.items()}
        return value

    def _fill_text(self, text: str, where: KeyPath, *, is_required: bool) -> str | None:
        filled = interpolate(text, self._variables)
        self._names[where] = filled.names
        for variable in filled.missing if is_required else ():
            self.missing.setdefault(variable, []).append(show_key(where))
        for name in filled.names:
            self.secrets.update(secrets_of(name, self._variables.get(name, "")))
        if filled.text:
            self.secrets.update(secrets_of(str(where[-1]), filled.text))
        return filled.text


def _is_blank(value: Json) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _missing_variables(missing: Mapping[str, list[str]], variables: Mapping[str, str]) -> str:
    shown = ", ".join(
        f"{variable} ({', '.join(keys)}{'; set, but blank' if variable in variables else ''})"
        for variable, keys in missing.items()
    )
    if len(missing) == 1:
        return f"needs an environment variable that is not set: {shown}; set it or put it into a .env file"
    return f"needs environment variables that are not set: {shown}; set them or put them into a .env file"
