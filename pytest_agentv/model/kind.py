"""What a kind is: a class whose fields are the keys that a file may have for it.

The class says everything about its keys: names and other spellings, types, limits, defaults, descriptions. Reading a
file, the JSON Schema, did-you-mean and the tables in the docs come from it. Importing this costs pydantic: import it
lazily.
"""

import types
from collections.abc import Iterator, Mapping, Set
from functools import cache
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias, TypeVar, get_args

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    Strict,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, PydanticCustomError

from pytest_agentv.model.base import ABSENT

EXPECTED: Final = "expected"
"""The error type of `expected`."""

REFERENCE: Final = "x-definition"
"""Where `definition` keeps the name."""

T = TypeVar("T")


def expected(what: str) -> PydanticCustomError:
    """Return the error of a value of another shape; the reader of files says what was there instead."""
    return PydanticCustomError(EXPECTED, "expected {what}", {"what": what})


def filled(value: object) -> str:
    """Return a value that is a text, and not blank. Raises `expected`."""
    if not isinstance(value, str) or not value.strip():
        raise expected("a non-empty text")
    return value


FILLED_TEXT: Final = {"type": "string", "pattern": r"\S"}
"""The JSON Schema of `Text`."""

Text: TypeAlias = Annotated[str, BeforeValidator(filled), WithJsonSchema(FILLED_TEXT)]
"""A text that is not blank."""

Amount: TypeAlias = Annotated[float, Field(ge=0)]
"""A number of 0 or more."""

Items: TypeAlias = Annotated[tuple[T, ...], Strict(False)]
"""A list; kept as a tuple, because kinds are frozen."""


def _has_entries(value: object) -> object:
    if isinstance(value, list | tuple) and not value:
        raise expected("at least one entry")
    return value


class _NotEmpty(BeforeValidator):
    """A validator that adds its rule to the JSON Schema. pydantic leaves validators out."""

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), "minItems": 1}


NOT_EMPTY: Final = _NotEmpty(_has_entries)
"""For lists with at least one entry; pydantic's `min_length` counts the entries that are valid."""


class Part(BaseModel):
    """A mapping within a kind, such as a rubric. Types are strict: a number in quotes is a text."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    hints: ClassVar[Mapping[str, str]] = {}
    """What to write instead of some unknown keys."""

    @classmethod
    def hint_for(cls, key: str) -> str | None:
        """Return what to write instead of an unknown key; None: what its name is near to."""
        return cls.hints.get(key)

    @classmethod
    def level_of(cls, key: str, value: Any) -> Literal["error", "warning"] | None:  # noqa: ARG003 - for subclasses
        """Return the level of an unknown key; None: it is free."""
        return "error"

    def to_plain(self) -> dict[str, Any]:
        """Return what was given, for hashes; the values are as they are."""
        names = (name for name in type(self).model_fields if name in self.model_fields_set)
        given = {name: value for name in names if (value := getattr(self, name)) is not ABSENT}
        return {**given, **(self.model_extra or {})}

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed. Raises `pydantic.ValidationError` for a wrong value."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**given, **changes})

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        """Yield each given key that has no effect beside the others, with the reason."""
        return iter(())


class Kind(Part):
    """A kind of evaluator or provider.

    Keys of the user's own are welcome where a class says `model_config = ConfigDict(extra="allow")`.
    """

    kind: ClassVar[str]
    """The word for it in files and results."""

    def to_plain(self) -> dict[str, Any]:
        """Return the kind and what was given, for hashes."""
        return {"kind": self.kind, **super().to_plain()}


def definition(name: str) -> dict[str, Any]:
    """Return a JSON Schema that refers to a definition of the whole document; pydantic knows its own ones only."""
    return {REFERENCE: name}


def spelled(*spellings: str, **options: Any) -> Any:
    """Return a field with several spellings. The first is its name. `options` are those of `pydantic.Field`."""
    return Field(validation_alias=AliasChoices(*spellings), **options)


@cache
def spellings(part: Any) -> Mapping[str, tuple[str, ...]]:
    """Return the keys that files may use for each field of a class."""
    found: dict[str, tuple[str, ...]] = {}
    for name, field in part.model_fields.items():
        alias = field.validation_alias
        if isinstance(alias, AliasChoices):
            found[name] = tuple(map(str, alias.choices))
        else:
            found[name] = (alias if isinstance(alias, str) else name,)
    return types.MappingProxyType(found)


def needs_value(kind: Any, beside: Set[str]) -> bool:
    """Whether the short form `{kind: null}` lacks its value: none of the keys beside it could be meant as that."""
    field = kind.model_fields.get(kind.short_key or "")
    others = {key for name, keys in spellings(kind).items() for key in keys if name != kind.short_key}
    return field is not None and field.is_required() and beside <= others


def field_parts(part: type[BaseModel], key: str | int) -> Iterator[type[Part]]:
    """Yield the classes of the mappings that the value of a key holds; kinds are read apart."""
    for name, keys in spellings(part).items():
        if key in keys:
            yield from _classes(part.model_fields[name].annotation)


def _classes(annotation: Any) -> Iterator[type[Part]]:
    if isinstance(annotation, type) and not get_args(annotation):
        if issubclass(annotation, Part) and not issubclass(annotation, Kind):
            yield annotation
        return
    for argument in get_args(annotation):
        yield from _classes(argument)
