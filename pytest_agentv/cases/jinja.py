"""Fills templates with more than names: filters, conditions, loops. Imports Jinja2: import this lazily."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined, UndefinedError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pytest_agentv.cases.variables import (
    ALL_VARIABLES,
    Render,
    TemplateFault,
    as_text,
    unknown_name,
)
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import Json, JsonObject

_EXPRESSION: Final = re.compile(r"\{\{-?((?:(?!\{\{|\}\}).)*?)-?\}\}", re.DOTALL)


class _Unknown(StrictUndefined):
    """A missing variable, or a missing part of one, with our own messages."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        if self._undefined_hint:
            return self._undefined_hint
        owner, name = self._undefined_obj, str(self._undefined_name)
        near = did_you_mean(name, map(str, owner)) if isinstance(owner, Mapping) else None
        return f"there is no {name!r} in it" + (f" ({near})" if near else "")


class _Environment(ImmutableSandboxedEnvironment):
    """Jinja2 without files and without randomness: a template is part of a case, and only gives data."""

    def __init__(self) -> None:
        super().__init__(undefined=_Unknown, finalize=_shown, keep_trailing_newline=True)
        self.globals = {"range": self.globals["range"]}
        del self.filters["random"]  # a case must be the same each time

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return a part of a value. Keys win over methods: `order.items` is the key `items` of the order."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)


def _shown(value: Any) -> str:
    """Return a value as text. Raises `TypeError` for a function, which must be a mistake."""
    return value if isinstance(value, str) else as_text(_plain(value))


def _plain(value: Any) -> Json:
    """Return a value in a type of files. Raises `TypeError` for a function, `UndefinedError` for a missing value."""
    if isinstance(value, Undefined):
        return str(value)  # raises, unless it is that of an `if`
    if isinstance(value, str | bool | int | float | None):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, type):
        return [_plain(item) for item in value]
    raise TypeError(f"expected a text, a number, a list or a mapping, got a {type(value).__name__}")


_ENVIRONMENT: Final = _Environment()


def compile_template(text: str) -> Render:
    """Return a function that fills a template. A text that is only one `{{ … }}` gives the value itself."""
    try:
        tree = _ENVIRONMENT.parse(text)
        names = meta.find_undeclared_variables(tree)
        value_of: Callable[[JsonObject], Any]
        if only := _EXPRESSION.fullmatch(text):
            value_of = _ENVIRONMENT.compile_expression(only[1], undefined_to_none=False)
        else:
            value_of = _ENVIRONMENT.from_string(text).render
    except (TemplateSyntaxError, ValueError) as error:  # a number may be too long
        reason, line = getattr(error, "message", error), getattr(error, "lineno", 1)
        hint = "`{#` begins a comment: write {{ '{#' }} if it is none" if "comment" in str(reason) else None

        def fail(_: JsonObject) -> Json:
            raise TemplateFault(f"is no valid template: {reason}", hint, line)

        return fail

    def fill(variables: JsonObject) -> Json:
        try:
            return _plain(value_of({ALL_VARIABLES: variables, **variables}))
        except UndefinedError as error:
            raise _missing(text, names, variables, error) from None
        except (MemoryError, RecursionError):
            raise TemplateFault("cannot be filled: it takes too much memory") from None
        except (TemplateError, ArithmeticError, TypeError, ValueError, AttributeError, LookupError) as error:
            raise TemplateFault(f"cannot be filled: {error}") from None

    return fill


def _missing(text: str, names: Iterable[str], variables: JsonObject, error: UndefinedError) -> TemplateFault:
    """Return the fault of the first unknown name. Without one, a part of a variable is missing."""
    unknown = [name for name in names if name not in variables and name not in (ALL_VARIABLES, "range")]
    if not unknown:
        return TemplateFault(f"cannot be filled: {error.message}")
    name = min(unknown, key=text.find)
    return unknown_name(name, variables, text.count("\n", 0, text.find(name)) + 1)
