"""Fills in a target's variables, checks the outcome and wraps its secrets.

Importing this costs pydantic: use `targets.resolve_target`.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from pytest_agentv.errors import TargetError, locate
from pytest_agentv.loading.environment import Environment, has_reference, interpolate
from pytest_agentv.loading.target_definitions import IDENTITY, Folders, TargetDefinition, TargetsFile, kind_fault
from pytest_agentv.loading.target_models import HEALTHCHECKS, MODELS, TargetModel, spellings
from pytest_agentv.loading.target_settings import build_retry_policy, build_settings
from pytest_agentv.loading.target_validation import Fault, check_resolved, show_key, written_keys
from pytest_agentv.loading.yaml_values import KeyPath
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.secret_rule import secrets_of
from pytest_agentv.models.secrets import Masker, Secret
from pytest_agentv.models.targets import ProviderSettings, Target

_NEEDED: Final[Mapping[str, Mapping[str, str]]] = {
    "azure": {
        "base_url": "AZURE_OPENAI_ENDPOINT",
        "api_key": "AZURE_OPENAI_API_KEY",
        "model": "AZURE_DEPLOYMENT_NAME",
    },
    "anthropic": {"api_key": "ANTHROPIC_API_KEY"},
    "gemini": {"api_key": "GOOGLE_API_KEY"},
    "openai": {"api_key": "OPENAI_API_KEY"},
}
"""By kind: the fields without which a target cannot be called, and the variables that stand in for those left out."""

_STAND_INS: Final[Mapping[str, Mapping[str, str]]] = {
    "gemini": {"model": "GOOGLE_GEMINI_MODEL"},
    "codex": {"log_format": "AGENTV_CODEX_LOG_FORMAT"},
    "claude-code": {"log_format": "AGENTV_CLAUDE_CODE_LOG_FORMAT"},
}
"""The same of fields that have a default."""

_AS_WRITTEN: Final = tuple((key,) for key in IDENTITY)


def resolve(
    file: TargetsFile, definition: TargetDefinition, environment: Environment, folders: Folders, secrets: Masker
) -> Target:
    """See `targets.resolve_target`."""
    where = f"target {definition.name!r} ({locate(file.path, definition.line)})"
    fault = kind_fault(definition.provider, file.extra_kinds)
    if fault:
        raise TargetError(f"{where}: {fault}")
    filler = _Filler(environment.variables)
    model = MODELS.get(definition.kind, TargetModel)
    filled = filler.fill_target(definition.kind, model, definition.values)
    added = filler.fill_added_keys(definition.values) if model is TargetModel else None
    secrets.add(filler.secrets)
    if filler.missing:
        raise TargetError(f"{where} {_missing_variables(filler.missing, environment.variables)}")
    checked = check_resolved(model, filled)
    if checked.fields is None:
        faults = "; ".join(
            f"{show_key(fault.where)}: {fault.message}{filler.source(fault)}" for fault in checked.faults
        )
        raise TargetError(secrets.mask(f"{where}: {faults}"))
    settings = build_settings(definition.kind, checked.fields, folders, filler.shield) if added is None else added
    return _target(file.path, definition, checked.fields, settings)


def _target(path: Path, definition: TargetDefinition, fields: TargetModel, settings: ProviderSettings) -> Target:
    return Target(
        name=definition.name,
        kind=definition.kind,
        settings=settings,
        judge_target=fields.judge_target,
        workers=fields.workers,
        provider_batching=fields.provider_batching,
        retry=build_retry_policy(fields),
        path=str(path),
        line=definition.line,
    )


class _Filler:
    """Fills in variables; remembers which of them are missing and which texts are secrets."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._variables = variables
        self.missing: dict[str, list[str]] = {}
        """The keys that need it, by variable."""
        self.secrets: set[str] = set()
        self._names: dict[KeyPath, tuple[str, ...]] = {}

    def fill_target(self, kind: str, model: type[TargetModel], values: JsonObject) -> dict[str, Json]:
        """Return the values by written key, those that stand in for absent ones included."""
        needed = _NEEDED.get(kind, {})
        filled = self._fill_fields(model, values, needed, ())
        written = written_keys(model, values)
        for field, variable in {**needed, **_STAND_INS.get(kind, {})}.items():
            key = written.get(field)
            is_missing = field in needed and key is not None and has_reference(values[key])
            if not is_missing and (key is None or _is_blank(filled[key])):
                first_key = spellings(model)[field][0]
                filled[first_key] = self._fill(f"${{{{ {variable} }}}}", (first_key,), is_required=field in needed)
        return filled

    def fill_added_keys(self, values: JsonObject) -> dict[str, Json]:
        """Return the keys that only the plugin of the kind knows; texts whose variables are missing are left out."""
        ours = {key for keys in spellings(TargetModel).values() for key in keys}
        added = {key: self._fill(value, (key,), is_required=False) for key, value in values.items() if key not in ours}
        return {key: value for key, value in added.items() if value is not None or values[key] is None}

    def source(self, fault: Fault) -> str:
        """Say which variables a faulty value was filled in from, if any."""
        names = self._names.get(fault.where)
        return f" (from {', '.join(names)})" if names else ""

    def shield(self, text: str) -> str | Secret:
        return Secret(text) if any(secret in text for secret in self.secrets) else text

    def _fill_fields(
        self, model: type[BaseModel], values: JsonObject, needed: Collection[str], above: KeyPath
    ) -> dict[str, Json]:
        return {
            key: self._fill(
                values[key], (*above, key), is_required=model.model_fields[field].is_required() or field in needed
            )
            for field, key in written_keys(model, values).items()
        }

    def _fill(self, value: Json, where: KeyPath, *, is_required: bool) -> Json:
        """Fill in a value; what stands in a list or a free mapping is required, because it was wanted."""
        if isinstance(value, str):
            return value if where in _AS_WRITTEN else self._fill_text(value, where, is_required=is_required)
        if isinstance(value, list):
            return [self._fill(item, (*where, index), is_required=True) for index, item in enumerate(value)]
        if where == ("healthcheck",) and isinstance(value, dict):
            return self._fill_fields(HEALTHCHECKS[value["type"]], value, (), where)
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
