"""What the models of evaluators share: how a mapping is held against one, and how pydantic's findings are told.

Imports pydantic: import this lazily.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, Final, TypeAlias, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from pytest_agentv.loading.places import Place, misspelling
from pytest_agentv.loading.problems import describe_value, did_you_mean
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.text import format_number


class EdgeModel(BaseModel):
    """A mapping in a file. Types are strict: a number in quotes is a text."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    is_open: ClassVar[bool] = False
    """Whether keys of the user's own are welcome."""
    hints: ClassVar[Mapping[str, str]] = {}
    """What to write instead of some unknown keys."""

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        """Yield each written key that is not read beside the others, with the reason."""
        return iter(())


Model = TypeVar("Model", bound=EdgeModel)


def _filled(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"expected a non-empty text, got {describe_value(value)}")
    return value


FilledText: TypeAlias = Annotated[str, BeforeValidator(_filled)]
Amount: TypeAlias = Annotated[float, Field(ge=0)]

_EXPECTED: Final = {
    "string_type": "a text",
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "too_short": "at least one entry",
}
"""What pydantic's error types say was expected."""


def check(model: type[Model], value: JsonObject, place: Place) -> Model | None:
    """Hold a mapping against a model: each fault, and each key that nobody reads, is noted at its place.

    A key whose value is null counts as absent.
    """
    known = known_keys(model)
    given = {key: item for key, item in value.items() if item is not None or key not in known}
    try:
        checked = model.model_validate(given)
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            _note(fault, place, known)
        return None
    for model_place, part in _parts(checked, place):
        _note_unread_keys(part, model_place)
    return checked


def _note_unread_keys(part: EdgeModel, place: Place) -> None:
    if not part.is_open:
        for key in part.model_extra or ():
            place.at(key).unread("unknown key", part.hints.get(key) or did_you_mean(key, known_keys(type(part))))
    for key, reason in part.unread_keys():
        place.at(key).unread("nobody reads this key", reason)


@cache
def known_keys(model: type[EdgeModel]) -> tuple[str, ...]:
    """Return the keys that a model reads, synonyms included."""
    keys: list[str] = []
    for name, field in model.model_fields.items():
        alias = field.validation_alias
        keys += map(str, alias.choices) if isinstance(alias, AliasChoices) else [name]
    return tuple(keys)


def _note(fault: ErrorDetails, place: Place, known: tuple[str, ...]) -> None:
    where = place.at(*fault["loc"])
    context: dict[str, Any] = fault.get("ctx", {})
    match fault["type"]:
        case "missing":
            where.error("is missing", misspelling(str(fault["loc"][-1]), fault["input"], known))
        case "value_error":
            where.error(str(context["error"]))
        case "greater_than_equal":
            where.expected(f"a number of {format_number(context['ge'])} or more", fault["input"])
        case "literal_error":
            choices = re.findall("'([^']*)'", context["expected"])
            where.expected(f"one of {', '.join(choices)}", fault["input"], did_you_mean(str(fault["input"]), choices))
        case kind if kind in _EXPECTED:
            where.expected(_EXPECTED[kind], fault["input"])
        case _:
            where.error(fault["msg"])


def _parts(model: EdgeModel, place: Place) -> Iterator[tuple[Place, EdgeModel]]:
    """Yield a model and those within it, each with its place."""
    yield place, model
    for name in type(model).model_fields:
        value = getattr(model, name)
        for index, item in enumerate(value if isinstance(value, list) else ()):
            if isinstance(item, EdgeModel):
                yield from _parts(item, place.at(name, index))
        if isinstance(value, EdgeModel):
            yield from _parts(value, place.at(name))
