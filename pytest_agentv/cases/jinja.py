"""Fills templates with more than names: filters, conditions, loops. Imports Jinja2: import this lazily."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from typing import Any, Final

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, Undefined, UndefinedError, meta, nodes
from jinja2.filters import do_format
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pytest_agentv.cases.variables import (
    ALL_VARIABLES,
    Render,
    TemplateFault,
    as_text,
    unknown_name,
)
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import Json, JsonObject, require_readable

MAX_LENGTH: Final = 10 * 1024 * 1024
"""The most characters of a filled template, and of any text that an operator makes."""

_EXPRESSION: Final = re.compile(r"\{\{-?((?:(?!\{\{|\}\}).)*?)-?\}\}", re.DOTALL)
_WIDENING_METHODS: Final = frozenset(("center", "expandtabs", "ljust", "rjust", "zfill"))
_WIDENING_FILTERS: Final = ("batch", "center", "indent", "slice")
_WIDTH: Final = re.compile(r"%[^a-zA-Z%]*(?:\d{7,}|\*)|\{[^{}]*:[^{}]*(?:\d{7,}|\{)")
"""A format with a width of seven digits or more, or with a width as an argument."""
_SELF_HINT: Final = f'write {{{{ {ALL_VARIABLES}["self"] }}}}, or give the variable another name'
_HIDDEN_HINT: Final = f"a variable named {ALL_VARIABLES!r} hides the mapping of all variables: give it another name"


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
    """Jinja2 without files, without randomness, and with limits: a template is part of a case, and only gives data."""

    intercepted_binops = frozenset(("*", "**", "%"))

    def __init__(self) -> None:
        super().__init__(undefined=_Unknown, finalize=_shown, keep_trailing_newline=True)
        self.globals = {"range": self.globals["range"]}
        del self.filters["random"]  # a case must be the same each time
        self.filters |= {name: _with_small_widths(self.filters[name], name) for name in _WIDENING_FILTERS}
        self.filters["format"] = _format

    def call(self, context: Any, called: Any, /, *args: Any, **named: Any) -> Any:
        if (name := getattr(called, "__name__", "")) in _WIDENING_METHODS:
            _require_small(name, (*args, *named.values()))
        return super().call(context, called, *args, **named)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return a part of a value. Keys win over methods: `order.items` is the key `items` of the order."""
        if isinstance(obj, Mapping) and attribute in obj:
            return obj[attribute]
        if attribute in ("format", "format_map"):
            _require_small_format(attribute, obj)
        return super().getattr(obj, attribute)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "%":
            _require_small_format(operator, left)
            return super().call_binop(context, operator, left, right)
        sizes = [abs(side) if isinstance(side, int | float) else len(side) for side in (left, right)]
        is_huge = sizes[0] * sizes[1] > MAX_LENGTH if operator == "*" else sizes[1] > 64
        if is_huge and (operator == "**" or not all(isinstance(side, int | float) for side in (left, right))):
            raise OverflowError(f"the result of {operator} is too large")
        return super().call_binop(context, operator, left, right)


def _shown(value: Any) -> str:
    """Return a value as text. Raises `TypeError` for a function, which must be a mistake."""
    return value if isinstance(value, str) else as_text(_plain(value))


def _plain(value: Any) -> Json:
    """Return a value in a type of files.

    An `if` without `else` that does not hold is an empty text, as in Jinja2.
    Raises `TypeError` for a function, `UndefinedError` for a missing value, and `ValueError` for too long a number.
    """
    if isinstance(value, Undefined):
        return str(value)  # raises, unless it is that of an `if`
    if isinstance(value, int):
        require_readable(value)
    if isinstance(value, str | bool | int | float | None):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, type):
        return [_plain(item) for item in value]
    raise TypeError(f"expected a text, a number, a list or a mapping, got a {type(value).__name__}")


def _with_small_widths(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a filter that refuses to make a huge text from a small one."""

    @wraps(function)  # keeps Jinja2's own attributes
    def filtered(*args: Any, **named: Any) -> Any:
        _require_small(name, (*args, *named.values()))
        return function(*args, **named)

    return filtered


def _require_small(name: str, values: Iterable[object]) -> None:
    """Raise `OverflowError` for a width of millions."""
    if any(isinstance(each, int) and each > MAX_LENGTH for each in values):
        raise OverflowError(f"the result of {name} is too large")


def _format(text: Any, *args: Any, **named: Any) -> str:
    """Work like the `format` filter of Jinja2."""
    _require_small_format("format", str(text))
    return do_format(text, *args, **named)


def _require_small_format(name: str, text: object) -> None:
    """Raise `OverflowError` for a format with a width of millions, or with a width as an argument."""
    if isinstance(text, str) and _WIDTH.search(text):
        raise OverflowError(f"the result of {name} is too large")


_ENVIRONMENT: Final = _Environment()


def compile_template(text: str) -> Render:
    """Return a function that fills a template. A text that is only one `{{ … }}` gives the value itself."""
    try:
        tree = _ENVIRONMENT.parse(text)
        names = meta.find_undeclared_variables(tree)
        if any(name.name == "self" for name in tree.find_all(nodes.Name)) and tree.find(nodes.Block) is None:
            return _failing(TemplateFault("`self` is a word of Jinja2, and no variable here", _SELF_HINT))
        only = _EXPRESSION.fullmatch(text)
        evaluate = _expression(only[1]) if only else _text(text)
    except TemplateSyntaxError as error:
        hint = "`{#` begins a comment: write {{ '{#' }} if it is none" if "comment" in str(error.message) else None
        return _failing(TemplateFault(f"is no valid template: {error.message}", hint, error.lineno))

    def fill(variables: JsonObject) -> Json:
        try:
            return evaluate({ALL_VARIABLES: variables, **variables})
        except UndefinedError as error:
            raise _missing(text, names, variables, error) from None
        except (MemoryError, RecursionError):
            raise TemplateFault("cannot be filled: it takes too much memory") from None
        except (TemplateError, ArithmeticError, TypeError, ValueError, AttributeError, LookupError) as error:
            raise TemplateFault(f"cannot be filled: {error}") from None

    return fill


def _failing(fault: TemplateFault) -> Render:
    def fail(_: JsonObject) -> Json:
        raise TemplateFault(str(fault), fault.hint, fault.line)

    return fail


def _expression(source: str) -> Callable[[JsonObject], Json]:
    evaluate = _ENVIRONMENT.compile_expression(source, undefined_to_none=False)
    return lambda variables: _plain(evaluate(variables))


def _text(source: str) -> Callable[[JsonObject], Json]:
    template = _ENVIRONMENT.from_string(source)
    return lambda variables: "".join(_limited(template.generate(variables)))


def _limited(pieces: Iterable[str]) -> Iterator[str]:
    length = 0
    for piece in pieces:
        length += len(piece)
        if length > MAX_LENGTH:
            raise ValueError(f"the text gets longer than {MAX_LENGTH} characters")
        yield piece


def _missing(text: str, names: Iterable[str], variables: JsonObject, error: UndefinedError) -> TemplateFault:
    """Return the fault of the first unknown name. Without one, a part of a variable is missing."""
    unknown = [name for name in names if name not in variables and name not in (ALL_VARIABLES, "range")]
    if not unknown:
        hides_all = ALL_VARIABLES in names and ALL_VARIABLES in variables
        return TemplateFault(f"cannot be filled: {error.message}", _HIDDEN_HINT if hides_all else None)
    places = []
    for name in unknown:
        found = re.search(rf"\{{[{{%][^}}]*?\b{re.escape(name)}\b", text)
        places.append((found.end() if found else len(text), name))
    position, name = min(places)
    return unknown_name(name, variables, text.count("\n", 0, position) + 1)
