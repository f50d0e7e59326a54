"""Holds the keys of a target against the model of its kind.

Importing this costs pydantic: import it inside functions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from pytest_agentv.loading.environment import has_reference
from pytest_agentv.loading.problems import describe_value, did_you_mean
from pytest_agentv.loading.target_fields import RESOLVED, PlaceholderError
from pytest_agentv.loading.target_models import HEALTHCHECKS, TargetModel, spellings
from pytest_agentv.loading.yaml_values import KeyPath
from pytest_agentv.models.base import JsonObject, Record


@dataclass(frozen=True, slots=True)
class Fault(Record):
    """One fault of a target."""

    where: KeyPath
    """Below the target, keys as written."""
    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """The fields of a target, or what is wrong with them."""

    fields: TargetModel | None
    faults: tuple[Fault, ...] = ()


def written_keys(model: type[BaseModel], values: JsonObject) -> dict[str, str]:
    """Return the key that each field is written under: of several spellings the first that is not null."""
    chosen = {
        field: next((key for key in keys if values.get(key) is not None), None)
        for field, keys in spellings(model).items()
    }
    return {field: key for field, key in chosen.items() if key is not None}


def check_written(model: type[TargetModel], values: JsonObject) -> Checked:
    """Check a target as written; a text with `${{ VAR }}` may become anything, so it is accepted everywhere."""
    return _check(model, values, None)


def check_resolved(model: type[TargetModel], values: JsonObject) -> Checked:
    """Check a target whose variables are filled in."""
    return _check(model, values, RESOLVED)


def unknown_keys(model: type[BaseModel], values: Iterable[str]) -> tuple[Fault, ...]:
    """Return a fault for each key that a target of this kind has no use for."""
    known = [key for keys in spellings(model).values() for key in keys]
    return tuple(Fault((key,), "unknown key", _known_hint(key, model)) for key in values if key not in known)


def show_key(where: KeyPath) -> str:
    """Show where a value stands: `args[1]`, `healthcheck.url`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where).removeprefix(".")


def _check(model: type[TargetModel], values: JsonObject, context: Mapping[str, bool] | None) -> Checked:
    keys = written_keys(model, values)
    try:
        fields = model.model_validate({field: values[key] for field, key in keys.items()}, context=context)
    except ValidationError as error:
        errors = (detail for detail in error.errors() if context or not _may_be_filled_in(detail))
        return Checked(None, tuple(_fault(model, keys, detail) for detail in errors))
    return Checked(fields)


def _may_be_filled_in(error: ErrorDetails) -> bool:
    return has_reference(error["input"]) and not isinstance(_cause(error), PlaceholderError)


def _cause(error: ErrorDetails) -> Any:
    return error.get("ctx", {}).get("error")


def _fault(model: type[TargetModel], keys: Mapping[str, str], error: ErrorDetails) -> Fault:
    field, *inner = error["loc"]
    owner: type[BaseModel] = model
    where: KeyPath = (
        keys.get(str(field), spellings(model)[str(field)][0]),
        *(part for part in inner if part != "[key]"),
    )
    if field == "healthcheck" and inner:
        owner = HEALTHCHECKS[str(inner.pop(0))]
        where = (where[0], *inner)
    hint = None
    if error["type"] == "extra_forbidden":
        hint = _known_hint(str(where[-1]), owner)
    elif error["type"] == "missing":
        hint = f"expected {_description(owner, str(where[-1]))}"
    return Fault(where, _message(error), hint)


def _description(model: type[BaseModel], key: str) -> str | None:
    return next(model.model_fields[field].description for field, keys in spellings(model).items() if key in keys)


def _message(error: ErrorDetails) -> str:
    got = describe_value(error["input"])
    match error["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            return "unknown key"
        case "value_error":
            return str(_cause(error))
        case "list_type":
            return f"expected a list, got {got}"
        case "dict_type":
            return f"expected a mapping, got {got}"
    return error["msg"]


def _known_hint(key: str, model: type[BaseModel]) -> str:
    canonical, *others = zip_longest(*spellings(model).values(), fillvalue="")
    near = did_you_mean(key, canonical) or did_you_mean(key, (other for row in others for other in row))
    return near or f"known keys: {', '.join(canonical)}"
