"""What the sources say of the public names of `pytest_agentv`: docstrings, fields and methods, and their types."""

import ast
import builtins
import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest_agentv
from pytest_agentv.model.options import RUN_OPTIONS

PACKAGE: Final = "pytest_agentv"

HOOKS: Final = "pytest_agentv.session.hookspecs"
FIXTURES: Final = "pytest_agentv.session.fixtures"

KINDS: Final = "pytest_agentv.evaluators."
"""Where kinds of evaluators are. Another page describes their keys."""

_QUOTED_TYPE: Final = re.compile(r"'([A-Z][\w.\[\]|, ]*)'")

_SHOWN_BASES: Final = ("EvalResult", "Part")
"""Public classes whose fields are not shown again for their subclasses."""

_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Member:
    """A field, property or method of a class."""

    name: str
    type: str
    """The annotation of a field; the parameters and the result of a method."""
    default: str
    summary: str
    is_method: bool
    annotations: tuple[ast.expr, ...]
    module: ModuleType
    """Where the annotations are written."""


@dataclass(frozen=True)
class Entry:
    """A public name."""

    name: str
    summary: str
    signature: str
    """How it is called, what an alias stands for, or the base of a class; empty for other classes."""
    members: tuple[Member, ...]


def public_names() -> list[str]:
    """Return the names that users may import."""
    return [name for name in pytest_agentv.__all__ if not name.startswith("_")]


def entry_of(name: str) -> Entry:
    """Read what the sources say of a public name."""
    value = getattr(pytest_agentv, name)
    module = _home(name, value)
    body = _tree(module).body
    for place, node in enumerate(body):
        if isinstance(node, _Definition) and node.name == name:
            if isinstance(node, ast.ClassDef) and module.__name__.startswith(KINDS) and hasattr(value, "kind"):
                return Entry(name, f"The check [`{value.kind}`](checks.md).", _keys(value), ())
            if isinstance(node, ast.ClassDef):
                return Entry(name, _summary(node), _construction(value), tuple(_members(value)))
            return Entry(name, _summary(node), name + _parameters(node), ())
        if name in _assigned(node):
            return Entry(name, _text_below(body, place), f"{name} = {_assigned_value(node)}", ())
    raise LookupError(f"{name} is not defined in {module.__name__}")


def entry_of_module(name: str) -> Entry:
    """Read the functions of a module, such as that of the hooks."""
    module = importlib.import_module(name)
    return Entry(name, "", "", tuple(members_of(_tree(module).body, module)))


def _keys(kind: Any) -> str:
    """Return how a kind is made, with the keys that are its own."""
    common = pytest_agentv.Evaluator.model_fields
    own = {name: field for name, field in kind.model_fields.items() if name not in common or field != common[name]}
    given = (name if field.is_required() else f"{name}=…" for name, field in own.items())
    return f"{kind.__name__}({', '.join(('*', *given)) if own else ''})"


def strangers(entry: Entry) -> Iterator[str]:
    """Yield each type that an entry's fields and methods name and that users cannot import from `pytest_agentv`."""
    for member in entry.members:
        for annotation in member.annotations:
            for name in _names(annotation):
                if not _is_known(name, member.module):
                    yield f"{entry.name}.{member.name}: {name}"


def _home(name: str, value: Any) -> ModuleType:
    is_class = isinstance(value, type) and value.__module__.startswith(PACKAGE) and value.__name__ == name
    home = value.__module__ if is_class else pytest_agentv._homes()[name]
    return importlib.import_module(home)


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(Path(str(module.__file__)).read_text("utf-8"))


_OPTIONS = {option.dest: f"`--agentv-{option.name}`: {option.help}" for option in RUN_OPTIONS}
"""The texts of the fields of `RunOptions`."""


def _members(cls: type) -> Iterator[Member]:
    """Yield the members of a class, and those of its bases that are not public themselves."""
    seen: set[str] = set()
    for base in cls.__mro__:
        is_public = base is not cls and base.__name__ in pytest_agentv.__all__
        if is_public or not base.__module__.startswith(PACKAGE):
            continue
        for member in members_of(_class(base).body, sys.modules[base.__module__]):
            if member.name not in seen:
                seen.add(member.name)
                yield member


def _class(cls: type) -> ast.ClassDef:
    """Return the source of a class."""
    body = _tree(sys.modules[cls.__module__]).body
    return next(node for node in body if isinstance(node, ast.ClassDef) and node.name == cls.__name__)


def members_of(body: Sequence[ast.stmt], module: ModuleType) -> Iterator[Member]:
    """Yield the public fields, properties and functions of a class or module."""
    for place, node in enumerate(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
            summary = _text_below(body, place) or _option(node.value, "description") or _OPTIONS.get(node.target.id, "")
            default = _default(node.value, module)
            annotated = (node.annotation,)
            yield Member(node.target.id, _shown(node.annotation), default, summary, False, annotated, module)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _is_shown(node):
            is_method = not any(isinstance(word, ast.Name) and word.id == "property" for word in node.decorator_list)
            shown = _parameters(node) if is_method else _shown(node.returns)
            annotations = (*_annotations(node),)
            yield Member(node.name, shown, "", _summary(node), is_method, annotations, module)


def _is_shown(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return node.name == "__call__" or node.name[0] != "_"


def _annotations(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    arguments = (*node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
    yield from (argument.annotation for argument in arguments if argument is not None and argument.annotation)
    if node.returns is not None:
        yield node.returns


def _construction(cls: type) -> str:
    """Return how an exception is made, and what it and another class of a public base are."""
    bases = [base.__name__ for base in cls.__mro__[1:] if base.__name__ in _SHOWN_BASES]
    if not issubclass(cls, Exception):
        return f"class {cls.__name__}({bases[0]})" if bases else ""
    for base in cls.__mro__:
        if "__init__" in vars(base) and base.__module__.startswith(PACKAGE):
            start = next(node for node in _class(base).body if getattr(node, "name", "") == "__init__")
            assert isinstance(start, ast.FunctionDef)
            return cls.__name__ + _parameters(start).removesuffix(" -> None")
    return f"{cls.__name__}(message: str)"


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    arguments = _plain_types(ast.unparse(node.args)).removeprefix("self, ").removeprefix("cls, ")
    returns = f" -> {_shown(node.returns)}" if node.returns is not None else ""
    return f"({'' if arguments in ('self', 'cls') else arguments}){returns}"


def _summary(node: _Definition) -> str:
    """Return the docstring in one line, without the descriptions of the arguments."""
    paragraphs = (ast.get_docstring(node) or "").split("\n\n")
    return _line(" ".join(paragraph for paragraph in paragraphs if not paragraph.startswith("Args:")))


def _text_below(body: Sequence[ast.stmt], place: int) -> str:
    below = body[place + 1] if place + 1 < len(body) else None
    is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    return _line(str(below.value.value)) if is_text else ""  # type: ignore[union-attr]


def _line(text: str) -> str:
    return " ".join(text.split())


def _assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _assigned_value(node: ast.stmt) -> str:
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Tuple) and _shown(value.value) == "Annotated":
        return f"Annotated[{_shown(value.slice.elts[0])}, …]"
    return _shown(value)


def _shown(node: ast.expr | None) -> str:
    if node is None:
        return ""
    text = str(node.value) if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)
    return _plain_types(text)


def _plain_types(text: str) -> str:
    """Return types without the quotes that they have in the source."""
    return _QUOTED_TYPE.sub(r"\1", text)


def _default(node: ast.expr | None, module: ModuleType) -> str:
    if isinstance(node, ast.Name) and node.id not in pytest_agentv.__all__:
        return repr(getattr(module, node.id))
    if not isinstance(node, ast.Call):
        return _shown_value(node)
    options = {option.arg: option.value for option in node.keywords}
    if "default_factory" in options:
        factory = ast.unparse(options["default_factory"])
        return {"dict": "{}", "list": "[]"}.get(factory, f"{factory}()")
    is_known = isinstance(node.func, ast.Name) and node.func.id == "known"  # of a result
    return _shown_value(options.get("default", ast.Constant(None) if is_known else None))


def _shown_value(node: ast.expr | None) -> str:
    return "" if node is None else ast.unparse(node)


def _option(node: ast.expr | None, name: str) -> str:
    options = node.keywords if isinstance(node, ast.Call) else ()
    return next((_shown(option.value) for option in options if option.arg == name), "")


def _names(annotation: ast.expr) -> Iterator[str]:
    """Yield the names that an annotation refers to; texts are annotations too, but for those of a `Literal`."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Literal":
        return
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        yield from _names(ast.parse(annotation.value, mode="eval").body)
    elif isinstance(annotation, ast.Name):
        yield annotation.id
    elif isinstance(annotation, ast.Attribute):
        yield ast.unparse(annotation)
    else:
        for part in ast.iter_child_nodes(annotation):
            if isinstance(part, ast.expr):
                yield from _names(part)


@cache
def _imported_for_types(module: ModuleType) -> dict[str, str]:
    """Return the names that a module imports for type checkers only, with the modules that they come from."""
    blocks = [
        node for node in _tree(module).body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
    ]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {each.name: str(node.module) for node in imports for each in node.names}


def _is_known(name: str, module: ModuleType) -> bool:
    """Whether a name is a builtin, one of another package, or public."""
    root, _, rest = name.partition(".")
    value = getattr(module, root, None)
    if rest:
        return getattr(value, "__name__", PACKAGE) != PACKAGE
    if source := _imported_for_types(module).get(name):
        is_foreign = source.partition(".")[0] != PACKAGE
        return is_foreign or (name in pytest_agentv.__all__ and source == pytest_agentv._homes()[name])
    if hasattr(builtins, name) or (name in pytest_agentv.__all__ and getattr(pytest_agentv, name) is value):
        return True
    own_name = getattr(value, "__name__", None) or getattr(value, "_name", None)
    is_alias = own_name != name  # `JsonObject` is a name of ours for a foreign type
    return not is_alias and not str(getattr(value, "__module__", PACKAGE)).startswith(PACKAGE)
