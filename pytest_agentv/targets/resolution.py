"""Checks the keys of a target against its kind, fills in its variables and wraps its secrets.

Importing this costs pydantic: import it inside functions.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from pytest_agentv.errors import TargetError, locate
from pytest_agentv.files.kind_reader import WORDING
from pytest_agentv.files.places import misspelt_key
from pytest_agentv.files.problems import describe_value, did_you_mean
from pytest_agentv.files.source import KeyPath
from pytest_agentv.model.base import Json, JsonObject, Record, format_number
from pytest_agentv.model.cases import Target
from pytest_agentv.model.kind import EXPECTED, field_parts, spelled, spellings
from pytest_agentv.model.secrets import Masker, Secret, secrets_of
from pytest_agentv.targets.definitions import (
    IDENTITY,
    Environment,
    Folders,
    TargetDefinition,
    TargetsFile,
    has_reference,
    interpolate,
)
from pytest_agentv.targets.fields import FinalFault, Flag, OptionalText, RealFlag, Resolution, Text, Workers

_MISSING: Final = "is missing"

_AS_WRITTEN: Final = tuple((key,) for key in IDENTITY)


class CommonKeys(BaseModel):
    """The keys of every target."""

    model_config = ConfigDict(populate_by_name=True)

    name: Text = Field(description="the name that runs and cases choose the target by")
    provider: Text = Field(description="the kind of target: azure, cli, mock, …")
    judge_target: OptionalText = Field(default=None, description="the target that judges its answers")
    workers: Workers | None = Field(
        default=None, description="cases in flight at a time, if the run does not set it (default: 1)"
    )
    provider_batching: Flag = spelled(
        "provider_batching", "providerBatching", default=False, description="one call for all cases"
    )


class StrictCommonKeys(CommonKeys):
    """The same for kinds whose flags must not be quoted."""

    provider_batching: RealFlag = spelled(
        "provider_batching", "providerBatching", default=False, description="one call for all cases"
    )


@dataclass(frozen=True, slots=True)
class Fault(Record):
    """One fault of a target."""

    where: KeyPath
    """The path below the target, with keys as written."""
    message: str
    hint: str | None = None
    slip: str | None = None
    """The unknown key that seems to be a misspelling of a missing one."""


@dataclass(frozen=True, slots=True)
class Checked:
    """The keys of a target, or their faults."""

    common: CommonKeys | None
    kind: Any = None
    """An instance of the kind's class."""
    faults: tuple[Fault, ...] = ()


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
        for own, value in extra_keys(kind, values).items():
            text = self._fill(value, (own,), is_required=False)
            if text is not None or value is None:  # a text with missing variables is left out
                filled[own] = text
        for field, variable in {**needed, **stand_ins}.items():
            key = written.get(field)
            is_missing = field in needed and key is not None and has_reference(values[key])
            if not is_missing and (key is None or _is_blank(filled[key])):
                first_key = spellings(kind)[field][0]
                filled[first_key] = self._fill(f"${{{{ {variable} }}}}", (first_key,), is_required=field in needed)
        return filled

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


def common_keys(kind: type[Any] | None) -> type[CommonKeys]:
    """Return the class of the common keys for targets of a kind."""
    return StrictCommonKeys if getattr(kind, "is_strict", False) else CommonKeys


def parts_of_target(kind: type[Any] | None) -> tuple[type[BaseModel], ...]:
    """Return the classes whose fields a target of a kind may have. None means an unknown kind."""
    return (common_keys(kind),) if kind is None else (common_keys(kind), kind)


def written_keys(part: type[BaseModel], values: JsonObject) -> dict[str, str]:
    """Return the written key of each field: the first of its spellings that is not null."""
    chosen = {
        field: next((key for key in keys if values.get(key) is not None), None)
        for field, keys in spellings(part).items()
    }
    return {field: key for field, key in chosen.items() if key is not None}


def extra_keys(kind: type[Any], values: JsonObject) -> dict[str, Any]:
    """Return the user's own keys, if the kind allows them."""
    if kind.model_config.get("extra") != "allow":
        return {}
    known = {key for part in parts_of_target(kind) for keys in spellings(part).values() for key in keys}
    return {key: value for key, value in values.items() if key not in known}


def check_written(kind: type[Any] | None, values: JsonObject) -> Checked:
    """Check a target as written. Accept a text with `${{ VAR }}` everywhere, because it may become any value."""
    return _check(kind, values, None)


def check_resolved(kind: type[Any], values: JsonObject, resolution: Resolution) -> Checked:
    """Check a target with its variables filled in."""
    return _check(kind, values, resolution)


def _check(kind: type[Any] | None, values: JsonObject, resolution: Resolution | None) -> Checked:
    common, common_faults = _validate(common_keys(kind), values, resolution)
    settings, faults = (None, ()) if kind is None else _validate(kind, values, resolution)
    return Checked(common, settings, (*common_faults, *faults))


def _validate(
    part: type[BaseModel], values: JsonObject, resolution: Resolution | None
) -> tuple[Any, tuple[Fault, ...]]:
    keys = written_keys(part, values)
    given = {field: values[key] for field, key in keys.items()} | extra_keys(part, values)
    try:
        return part.model_validate(given, context=resolution), ()
    except ValidationError as error:
        return None, tuple(
            _fault(part, keys, detail)
            for detail in error.errors()
            # before variables are filled in, only a fault that no value can fix counts
            if resolution or not has_reference(detail["input"]) or isinstance(_cause(detail), FinalFault)
        )
    except RecursionError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - validators of users may raise anything
        may_pass = resolution is None and has_reference(str(given))
        fault = Fault((), f"{part.__name__} raised {type(error).__name__}: {error}")
        return None, () if may_pass else (fault,)


def _cause(error: ErrorDetails) -> Any:
    return error.get("ctx", {}).get("error")


def _fault(part: type[BaseModel], keys: Mapping[str, str], error: ErrorDetails) -> Fault:
    if not error["loc"]:  # a rule of a plugin's kind across keys
        return Fault((), _message(error))
    field, *rest = error["loc"]
    name = next((each for each, written in spellings(part).items() if str(field) in written), str(field))
    key = keys.get(name) or spellings(part).get(name, (str(field),))[0]
    owner, inner = _owner(part, key, [each for each in rest if each != "[key]"])
    where: KeyPath = (key, *inner)
    if error["type"] == "extra_forbidden":
        return Fault(where, _message(error), _known_hint(str(where[-1]), owner))
    if error["type"] == "missing":
        meaning = _description(owner, str(where[-1]))
        return Fault(where, _message(error), None if meaning is None else f"expected {meaning}")
    return Fault(where, _message(error))


def _owner(part: type[BaseModel], key: str, inner: list[Any]) -> tuple[type[BaseModel], list[Any]]:
    """Return the class of the mapping that holds a fault, and the place within it, without the tags of unions."""
    owner = part
    for nested in field_parts(part, key):
        tags = {field.default for field in nested.model_fields.values() if isinstance(field.default, str)}
        if inner and inner[0] in tags:
            return nested, inner[1:]
    return owner, inner


def _description(part: type[BaseModel], key: str) -> str | None:
    return next(
        (part.model_fields[field].description for field, keys in spellings(part).items() if key in (field, *keys)), None
    )


def _message(error: ErrorDetails) -> str:
    got = describe_value(error["input"])
    match error["type"]:
        case "missing":
            return _MISSING
        case "extra_forbidden":
            return "unknown key"
        case "value_error":
            return str(_cause(error))
        case "greater_than_equal":
            return f"expected a number of {format_number(error['ctx']['ge'])} or more, got {got}"
        case "less_than_equal":
            return f"expected a number of {format_number(error['ctx']['le'])} or less, got {got}"
        case kind if kind == EXPECTED:
            return f"expected {error['ctx']['what']}, got {got}"
        case kind if kind in WORDING:
            return f"expected {WORDING[kind]}, got {got}"
    return error["msg"]


def unknown_keys(kind: type[Any] | None, values: Iterable[str]) -> tuple[Fault, ...]:
    """Return a fault for each unknown key of a target of this kind."""
    if kind is None or kind.model_config.get("extra") == "allow":
        return ()
    parts = parts_of_target(kind)
    known = {key for part in parts for keys in spellings(part).values() for key in keys}
    return tuple(Fault((key,), "unknown key", _known_hint(key, *parts)) for key in values if key not in known)


def _known_hint(key: str, *parts: type[BaseModel]) -> str:
    rows: Iterator[tuple[str, ...]] = (keys for part in parts for keys in spellings(part).values())
    canonical, *others = zip_longest(*rows, fillvalue="")
    near = did_you_mean(key, canonical) or did_you_mean(key, (other for row in others for other in row))
    return near or f"known keys: {', '.join(canonical)}"


def unread_spellings(kind: type[Any] | None, values: JsonObject) -> tuple[Fault, ...]:
    """Return a fault for each key that another spelling of it hides, unless both say the same."""
    return tuple(
        Fault((key,), f"is not read, because {read!r} is there as well")
        for part in parts_of_target(kind)
        for field, read in written_keys(part, values).items()
        for key in spellings(part)[field]
        if values.get(key) not in (None, values[read])
    )


def with_slip(fault: Fault, values: JsonObject, unknown: Iterable[Fault]) -> Fault:
    """Return the fault of a missing key with the key that seems to be a misspelling of it, if there is one."""
    if fault.message != _MISSING or len(fault.where) > 1:
        return fault
    key = str(fault.where[0])
    # Without a provider nobody knows which keys the target may have.
    others = {str(each.where[0]): None for each in unknown} if values.get("provider") else values
    meant = (str(each.where[0]) for each in unknown if each.hint == f"did you mean {key!r}?")
    slip = misspelt_key(key, others, ("pi_provider",)) or next(meant, None)
    return fault if slip is None else Fault(fault.where, fault.message, f"is {slip!r} a misspelling of it?", slip)


def show_key(where: KeyPath) -> str:
    """Return the path of a value as text: `args[1]`, `healthcheck.url`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).removeprefix(".")
