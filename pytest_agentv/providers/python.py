"""The `python` provider: calls a function or runs an agent, and reads what it returns."""

import asyncio
import builtins
import hashlib
import importlib
import inspect
import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, Field
from pydantic.alias_generators import to_camel

from pytest_agentv.cases.prompts import PromptMode
from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.files.problems import did_you_mean
from pytest_agentv.model.base import JsonObject, json_fault
from pytest_agentv.model.kind import expected, filled, spelled
from pytest_agentv.model.messages import is_null
from pytest_agentv.providers.base import (
    Adapter,
    ProviderRequest,
    ProviderResponse,
    TargetEnvironment,
    shortest,
    total_seconds,
)
from pytest_agentv.providers.kind import (
    EXPECTED_KEYS,
    Provider,
    Sources,
    WireError,
    answer_message,
    checked,
    parse_response,
    plain,
)
from pytest_agentv.providers.python_calls import (
    SIZE_LIMIT,
    TOO_LARGE,
    Chunks,
    Function,
    build_question,
    call_user,
    conversation,
    prompt_text,
    require_no_media,
    runner_of,
)
from pytest_agentv.runtime.user_code import run_in_thread, user_traceback
from pytest_agentv.targets.fields import Flag, Seconds

# Gives each folder modules of its own, so that two folders may both have an `agent.py` or a `pricing.py`.

_PREFIX: Final = re.compile(r"agentv_[0-9a-f]{12}_")

_NOT_IMPORTED: Final = re.compile(r"conftest|setup|test_.*|.*_test")
"""Files that no other file imports. So the same name in two folders is no conflict."""
_INSTALLED: Final = ("site-packages", "dist-packages")


class FolderModules:
    """The modules of one folder. Get it from `modules_of`.

    They are in `sys.modules` under names with a prefix. Their code has its own `__import__`, which searches the folder
    first. So imports at the top of a file and inside of a function find the same module, in any thread, and `sys.path`
    stays unchanged. If an ordinary import finds a module in the same file, that module is used: the user's tests import
    the same one.
    """

    def __init__(self, folder: Path, prefix: str) -> None:
        self._folder = folder
        self._prefix = prefix
        self._builtins = _Builtins({"__import__": self._import})
        self._importlib = _Importlib(self)
        self._files: dict[str, Path] = {}
        """Files that were requested by path, by the name of their module."""

    def load_file(self, path: Path) -> ModuleType:
        """Import a file of the folder. Other files of the folder import the same module by its name."""
        name = path.stem
        if name.isidentifier() and file_of(find_ordinary(name)) == str(path) and not self._is_contested():
            return importlib.import_module(name)
        name = name.replace(".", "_")
        self._files[name] = path
        return importlib.import_module(self._prefix + name)

    def import_module(self, name: str, package: str | None = None) -> ModuleType:
        """Work like `importlib.import_module`, for code of the folder."""
        own = not name.startswith(".") and self._is_own(name)
        return importlib.import_module(self._prefix + name if own else name, package)

    def ambiguity(self, module: ModuleType) -> str | None:
        """Return why an ordinary module may import another folder's modules; None: it does not.

        This happens when `sys.path` was changed after the import of the module.
        """
        if _PREFIX.match(module.__name__):
            return None
        foreign = (foreign_file(self._folder, name) for name in importable_names(self._folder) if name in sys.modules)
        found, own = next(filter(None, foreign), (None, None))
        return None if own is None else f"an import of {Path(own).stem!r} may mean {found} or {own}: rename one of them"

    def find(self, name: str) -> ModuleSpec | None:
        """Find a module by a name with the folder's prefix."""
        parent = name.rpartition(".")[0]
        if parent:
            spec = PathFinder.find_spec(name, sys.modules[parent].__path__)
        else:
            spec = self._find_top(name.removeprefix(self._prefix), name)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(name, spec.loader.path, self._builtins)
        return spec

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,  # noqa: A002 - the parameters of `__import__`
        locals: Mapping[str, Any] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import the module of an import statement in the folder's code."""
        own = level == 0 and self._is_own(name)
        module = builtins.__import__(self._prefix + name if own else name, globals, locals, fromlist or (), level)
        return self._importlib if module is importlib else module

    def _is_own(self, name: str) -> bool:
        """Whether a name is a module of the folder that ordinary imports would not find.

        The standard library keeps its names: a file `types.py` must not break imports of Python's `types`.
        """
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names or is_stand_in(top):
            return False
        if self._prefix + top in sys.modules:
            return True
        own = find_in(self._folder, top)
        if own is None:
            return False
        ordinary = find_ordinary(top)
        if ordinary is None:
            return True
        if own.origin is None:  # a folder without `__init__.py` counts only if there is no better package
            return ordinary.origin is None and not {*portions_of(own)} & {*portions_of(ordinary)}
        return file_of(ordinary) != file_of(own) or self._is_contested()

    def _is_contested(self) -> bool:
        """Whether ordinary imports find some of the folder's modules in another folder of the project.

        Then no module of the folder may be imported ordinarily, because its imports might find the wrong module.
        """
        return any(foreign_file(self._folder, name) for name in importable_names(self._folder))

    def _find_top(self, name: str, full_name: str) -> ModuleSpec | None:
        if name in self._files:
            return spec_from_file_location(full_name, self._files[name])
        spec = find_in(self._folder, name)
        if spec is None:
            return None
        if spec.origin is None:
            renamed = ModuleSpec(full_name, None, is_package=True)
            renamed.submodule_search_locations = [*portions_of(spec), *portions_of(find_ordinary(name))]
            return renamed
        return spec_from_file_location(
            full_name, spec.origin, submodule_search_locations=spec.submodule_search_locations
        )


_FOLDERS: Final[dict[str, FolderModules]] = {}


def modules_of(folder: Path) -> FolderModules:
    """Return the modules of a folder: the same object for every caller."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    prefix = f"agentv_{hashlib.sha256(str(folder).encode('utf-8', 'surrogateescape')).hexdigest()[:12]}_"
    return _FOLDERS.setdefault(prefix, FolderModules(folder, prefix))


class _Finder(MetaPathFinder):
    """Finds the modules of folders. Leaves all other names to ordinary finders."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        prefix = _PREFIX.match(fullname)
        return _FOLDERS[prefix[0]].find(fullname) if prefix and prefix[0] in _FOLDERS else None


_FINDER: Final = _Finder()


class _Loader(SourceFileLoader):
    """Runs a module with the builtins of its folder, including its `__import__`."""

    def __init__(self, name: str, path: str, namespace: "_Builtins") -> None:
        super().__init__(name, path)
        self._namespace = namespace

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = self._namespace
        super().exec_module(module)


class _Builtins(dict[str, Any]):
    """The builtins of a folder's code.

    Other names are looked up in Python's builtins, so that patches of these have effect.
    """

    def __missing__(self, name: str) -> Any:
        return vars(builtins)[name]


class _Importlib(ModuleType):
    """The module `importlib` for the code of a folder."""

    def __init__(self, modules: FolderModules) -> None:
        super().__init__("importlib", importlib.__doc__)
        self.import_module = modules.import_module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib, name)


def find_in(folder: Path, name: str) -> ModuleSpec | None:
    """Find a module by its name in one folder."""
    return PathFinder.find_spec(name, [str(folder)])


def find_ordinary(name: str) -> ModuleSpec | None:
    """Find the module of an import outside of the folder, without importing it."""
    if name in sys.modules:
        return getattr(sys.modules[name], "__spec__", None)
    try:
        return find_spec(name)
    except Exception:  # noqa: BLE001 - finders of others may raise anything; the import itself will report it
        return None


def is_stand_in(name: str) -> bool:
    """Whether a test has replaced a module by an object without a file."""
    module = sys.modules.get(name)
    return module is not None and getattr(module, "__file__", None) is None and not hasattr(module, "__path__")


def file_of(spec: ModuleSpec | None) -> str | None:
    """Return the file of a module; None if it has none."""
    return os.path.realpath(spec.origin) if spec is not None and spec.has_location and spec.origin else None


def portions_of(spec: ModuleSpec | None) -> list[str]:
    """Return the folders of a package without `__init__.py`."""
    if spec is None or spec.origin is not None:
        return []
    return [os.path.realpath(place) for place in spec.submodule_search_locations or ()]


def foreign_file(folder: Path, name: str) -> tuple[str, str] | None:
    """Return a file of another project folder that an ordinary import finds, and the folder's own file.

    Installed packages do not count as other folders, because it is clear which of the two is meant.
    """
    found, own = file_of(find_ordinary(name)), file_of(find_in(folder, name))
    if found is None or own is None or found == own or any(part in found for part in _INSTALLED):
        return None
    return found, own


def importable_names(folder: Path) -> Iterator[str]:
    """Yield the names of modules and packages in a folder that other files may import."""
    for path in sorted(folder.iterdir()):
        name = path.stem if path.suffix == ".py" else path.name
        is_module = path.suffix == ".py" or (path / "__init__.py").is_file()
        is_meant = name not in sys.stdlib_module_names and not _NOT_IMPORTED.fullmatch(name)
        if is_module and is_meant and name.isidentifier():
            yield name


_OWN_KEYS: Final = ("text", "output_messages", "outputMessages")

_METRICS: Final = {
    spelling: name
    for name in ("token_usage", "cost_usd", "duration_ms", "finish_reason", "retrieved_context")
    for spelling in (name, to_camel(name))
}

_COSTS: Final = ("token_usage", "cost_usd", "duration_ms")


def _callable(value: object) -> str:
    text = filled(value)
    module, _, function = text.rpartition(":")
    if not module.strip() or not function.strip():
        raise expected("package.module:function or path/to/file.py:function")
    return text


CallableName: TypeAlias = Annotated[str, BeforeValidator(_callable)]


class Python(Provider):
    """A function in the pytest process, sync or async, or an agent of a framework."""

    kind = "python"
    takes_workspace = True

    callable: CallableName = Field(description="package.module:function or path/to/file.py:function")
    messages: Flag | None = Field(
        default=None, description="whether it gets the conversation as a list of messages, not as one text"
    )
    arguments: dict[str, Any] = Field(default={}, description="further keyword arguments of every call")
    timeout_seconds: Seconds | None = spelled(
        *("timeout_seconds", "timeoutSeconds"), default=None, description="limit of one call"
    )
    session: Flag = Field(
        default=False,
        description="whether it remembers a conversation by `request.session`, and gets only the new message",
    )

    def open(self, environment: TargetEnvironment) -> "PythonProvider":
        path = environment.target.path
        folder = Path.cwd() if path is None else Path(path).parent
        return PythonProvider(environment.name, self, folder, where=environment.where)

    @property
    def sources(self) -> Sources:
        return Sources(callable=self.callable)


@dataclass(frozen=True, slots=True)
class ImportedCallable:
    """A function or an agent, its module, and the modules of its folder."""

    function: Any
    module: ModuleType
    modules: FolderModules
    label: str

    def check(self) -> None:
        """Raise `ProviderError` if the function's imports may find another folder's modules."""
        reason = self.modules.ambiguity(self.module)
        if reason:
            raise _config_error(self.label, reason)


def import_callable(name: str, cwd: Path, label: str, expected: str | None = None) -> ImportedCallable:
    """Import a function or an agent. Blocks.

    Args:
        name: `package.module:function`, or `file.py:function` with a path relative to `cwd`.
        cwd: The folder whose modules can be imported, beside installed ones. For a file, it is the file's folder.
        label: The beginning of messages: target and callable.
        expected: What is needed instead, where an agent is of no use: "a function that …".

    Raises `ProviderError` of the kind `config`.
    """
    source, colon, attribute = name.rpartition(":")
    if not (source and colon and attribute):
        raise _config_error(label, "expected 'package.module:function' or 'path/to/file.py:function'")
    path = (cwd / source).resolve() if source.endswith(".py") else None
    if path and not path.is_file():
        siblings = [sibling.name for sibling in path.parent.glob("*.py")]
        raise _config_error(label, f"there is no file {path}", did_you_mean(path.name, siblings))
    modules = modules_of(path.parent if path else cwd.resolve())
    try:
        module = modules.load_file(path) if path else modules.import_module(source)
    except BaseException as error:  # a module may raise anything, including `SystemExit` and `KeyboardInterrupt`
        shown = path.name if path else source
        raise _config_error(label, f"cannot import {shown}: {user_traceback(error)}") from error
    function: object = getattr(module, attribute, None)
    if function is None:
        public = ((name, value) for name, value in vars(module).items() if not name.startswith("_"))
        names = [name for name, value in public if callable(value) or runner_of(value) is not None]
        raise _config_error(label, f"{source} has no function {attribute!r}", did_you_mean(attribute, names))
    if not callable(function) and (expected or runner_of(function) is None):
        found = f"{attribute!r} of {source} is a value of type {type(function).__name__}"
        expected = expected or "a function, or an agent of a framework that is known"
        raise _config_error(label, f"{found}, expected {expected}")
    return ImportedCallable(function, module, modules, label)


def _config_error(label: str, reason: str, hint: str | None = None) -> ProviderError:
    return ProviderError(f"{label}: {reason}" + (f" ({hint})" if hint else ""), "config")


class FunctionProvider:
    """Calls `function(prompt_text, **arguments)`, sync or async. A parameter named `request` gets the request as well.

    Or runs an agent of another package. `read_value` says which return values are allowed.
    """

    mode: PromptMode = "lm"

    def __init__(
        self,
        label: str,
        function: Any,
        arguments: JsonObject,
        timeout_seconds: float | None = None,
        *,
        as_messages: bool | None = None,
    ) -> None:
        """Take a function.

        Args:
            label: The beginning of messages.
            function: A function or an agent. A sync function runs in a thread of its own.
            arguments: Extra keyword arguments of every call.
            timeout_seconds: The longest duration of a call; None: only the limit of the run.
            as_messages: Whether to pass the prompt as a list of messages; None: agents get the messages of
                conversations, functions get a text.
        """
        self._label = label
        self._function = function
        self._extra = arguments
        self._timeout_seconds = timeout_seconds
        self._as_messages = as_messages
        self._runner = runner_of(function)

    async def check(self) -> None:
        """Do nothing: a function has no requirements."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        if request.prompt.media:  # pictures are read from disk
            function, positional, keywords = await asyncio.to_thread(self._call, request)
        else:
            function, positional, keywords = self._call(request)
        limit = shortest(self._timeout_seconds, request.timeout_seconds)
        started = time.perf_counter()
        value = await call_user(function, positional, keywords, label=self._label, limit=limit)
        duration = round((time.perf_counter() - started) * 1000)
        response = await read_value(value, self._label)
        return response.replace(duration_ms=duration) if response.duration_ms is None else response

    async def close(self) -> None:
        """Do nothing: no resource is open."""

    def _call(self, request: ProviderRequest) -> tuple[Function, tuple[Any, ...], dict[str, Any]]:
        """Return the callable with its arguments."""
        if self._runner is not None:
            question = build_question(request, as_messages=self._as_messages)
            return self._runner, (self._function, question), dict(self._extra)
        keywords = self._arguments(request)
        if self._as_messages:
            return self._function, (conversation(request),), keywords
        if keywords.get("request") is not request:
            ways_out = "set `messages: true`, or take a parameter `request` and read `request.prompt.media`"
            require_no_media(request, f"{self._label} gets a text, which", ways_out)
        return self._function, (prompt_text(request),), keywords

    def _arguments(self, request: ProviderRequest) -> dict[str, Any]:
        arguments = dict(self._extra)
        try:
            signature = inspect.signature(self._function)
        except (TypeError, ValueError):  # some functions in C have no signature
            return arguments
        if "request" in list(signature.parameters)[1:]:
            arguments.setdefault("request", request)
        try:
            signature.bind("prompt", **arguments)
        except TypeError as error:
            names = "".join(f", {name}=…" for name in arguments)
            raise ProviderError(
                f"{self._label} cannot be called as function(prompt{names}): {error}", "config"
            ) from None
        return arguments


class PythonProvider(FunctionProvider):
    """Imports the function of a target before it calls it."""

    reads_environ = True

    def __init__(self, name: str, settings: Python, folder: Path, where: str | None = None) -> None:
        """Take a target. `where` names it in messages about its definition; None: its name does."""
        label = f"target '{name}': {settings.callable}"
        super().__init__(label, None, settings.arguments, settings.timeout_seconds, as_messages=settings.messages)
        self._import_label = f"{where}: {settings.callable}" if where else label
        self._name = settings.callable
        self._folder = folder
        self._lock = asyncio.Lock()
        self._imported: ImportedCallable | None = None

    async def check(self) -> None:
        """Import the function, so that a fault shows before the first case."""
        async with self._lock:
            if self._imported is None:  # in a thread, because importing an agent's libraries may take seconds
                self._imported = await run_in_thread(
                    lambda: import_callable(self._name, self._folder, self._import_label), "agentv-import"
                )
                self._function = self._imported.function
                self._runner = runner_of(self._function)
        self._imported.check()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        await self.check()
        return await super().invoke(request)


def complete(value: Any, label: str, timeout_seconds: float | None) -> Adapter:
    """Return the result of `Provider.open`, completed to an `Adapter`. Raises `ProviderError`."""
    if callable(getattr(value, "invoke", None)):
        return ForeignAdapter(value, label, is_owned=True, timeout_seconds=timeout_seconds)
    raise ProviderError(f"{label}: open() returned {type(value).__name__}, expected an object with `invoke`", "config")


def adapt_provider(value: object, label: str) -> Adapter:
    """Return a provider for an object: an async `invoke`, a function of the prompt, or an agent.

    Raises `ProviderError` of the kind `config` for any other object. Messages begin with `label`.
    """
    if runner_of(value) is not None:
        return FunctionProvider(label, value, {})
    invoke = getattr(value, "invoke", None)
    if inspect.iscoroutinefunction(invoke):
        return ForeignAdapter(value, label, is_owned=False)
    if callable(value) and not isinstance(value, type):
        return FunctionProvider(label, value, {})
    found = f"the class {value.__name__}" if isinstance(value, type) else f"a value of type {type(value).__name__}"
    hint = "; its `invoke` is not async: hand over `object.invoke` itself" if callable(invoke) else ""
    expected = "a function that takes the prompt, or an object with an async `invoke`"
    raise ProviderError(f"{label} is {found}: expected {expected}{hint}", "config")


class ForeignAdapter:
    """A user's object with `invoke`, and perhaps other parts of an `Adapter`.

    Its async methods share the loop for user code. Its sync methods run in threads.
    """

    def __init__(self, value: Any, label: str, *, is_owned: bool, timeout_seconds: float | None = None) -> None:
        """Take an object. If it is not owned, its owner checks and closes it; else `timeout_seconds` limits both."""
        self.mode: PromptMode = getattr(value, "mode", "lm")
        self.keeps_limits: bool = getattr(value, "keeps_limits", False)
        self.reads_environ: bool = getattr(value, "reads_environ", False)
        self._value = value
        self._label = label
        self._is_owned = is_owned
        self._timeout_seconds = timeout_seconds
        if hasattr(value, "warm_up"):
            self.warm_up = value.warm_up
        if hasattr(value, "invoke_batch"):
            self.invoke_batch = self._invoke_batch

    async def check(self) -> None:
        if self._is_owned:
            await self._call("check", limit=self._timeout_seconds)

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        value = await self._call("invoke", request, limit=request.timeout_seconds)
        return await read_value(value, f"{self._label}: invoke()")

    async def close(self) -> None:
        if self._is_owned:
            await self._call("close", limit=self._timeout_seconds)

    async def _invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        """Call `invoke_batch`.

        A result that is no list is an error of all cases: another call would cost again. A value that is no answer is
        an error of its case: the others were paid for.
        """
        values = await self._call("invoke_batch", requests, limit=total_seconds(requests))
        # The keys of a mapping, the letters of a text and what has no order are no answers.
        if isinstance(values, str | bytes | bytearray) or not isinstance(values, Sequence | ValuesView):
            found = "a generator" if isinstance(values, Chunks) else f"a value of type {type(values).__name__}"
            error = f"{self._label}: invoke_batch() returned {found}, expected a list of answers"
            return [ProviderResponse(error=error) for _ in requests]
        responses = []
        for value in values:
            try:
                responses.append(await read_value(value, f"{self._label}: invoke_batch()"))
            except ProviderError as error:
                responses.append(ProviderResponse(error=str(error), error_kind=error.kind))
        return responses

    async def _call(self, name: str, *arguments: object, limit: float | None = None) -> object:
        """Call a method, if there is one, within a limit, unless the object keeps the limits itself."""
        method = getattr(self._value, name, None)
        if method is None:
            return None
        return await call_user(method, arguments, {}, label=self._label, limit=None if self.keeps_limits else limit)


async def read_value(value: object, label: str) -> ProviderResponse:
    """Return the response for a user's value. Raises `ProviderError`.

    It is a text, a mapping in the shape of `wire.py`, a result of another package, or a `ProviderResponse`.
    Only a text is read on the event loop. Other values may be large, so a thread reads them.
    """
    if isinstance(value, ProviderResponse):
        try:
            return checked(value)
        except WireError as error:
            return _without_answer(value, f"{label} returned {error}")
    if isinstance(value, str):
        return _read_text(value, label)
    return await run_in_thread(lambda: _read(value, label), "agentv-answer")


def _read_text(value: str, label: str) -> ProviderResponse:
    if len(value) > SIZE_LIMIT:
        raise ProviderError(f"{label} returned a text that cannot be read: {TOO_LARGE}", "crash")
    return ProviderResponse(output_messages=(answer_message(value),), is_text_only=True)


def _read(value: Any, label: str) -> ProviderResponse:
    if isinstance(value, Mapping) and any(key in value for key in _OWN_KEYS):
        return _read_mapping(value, label)
    from pytest_agentv.providers.frameworks import NativeAnswer, build_response, join, read_native  # noqa: PLC0415 - imports the readers of all packages

    returned = f"a value of type {type(value).__name__}"
    try:
        if isinstance(value, Chunks):
            returned = "a generator"
            value = join(value)
        answer = value if isinstance(value, NativeAnswer) else read_native(value)
        response = None if answer is None else build_response(answer)
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise ProviderError(f"{label} returned {returned} that cannot be read: {reason}", "crash") from error
    if isinstance(value, str):
        return _read_text(value, label)
    if isinstance(value, Mapping):
        return _read_mapping(value, label, response)
    if response is not None:
        return response
    returned = "None" if value is None else f"a value of type {type(value).__name__}"
    expected = f"a str, a mapping with {EXPECTED_KEYS}, a result of an agent framework, or a ProviderResponse"
    raise ProviderError(f"{label} returned {returned}: expected {expected}", "crash")


def _read_mapping(value: Mapping[str, Any], label: str, native: ProviderResponse | None = None) -> ProviderResponse:
    """Read a mapping. Native messages may come with tokens, cost and so on under our own keys."""
    if native is not None:
        value = {key: item for key, item in value.items() if key in _METRICS} if "messages" in value else {}
    try:  # a metric of any type is left out with a warning if it is no number
        text = json.dumps({key: plain(item) if key in _METRICS else item for key, item in value.items()})
        if len(text) > SIZE_LIMIT:
            raise WireError(TOO_LARGE)
        response = parse_response(json.loads(text, parse_constant=lambda _: None))  # NaN and infinity are not reported
    except WireError as error:
        return _without_answer(_figures(value), f"{label} returned a mapping that cannot be read: {error}")
    except (TypeError, ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        return _without_answer(_figures(value), f"{label} returned a mapping that is no JSON: {reason}")
    if native is not None:
        told = {name: found for name in _METRICS.values() if (found := getattr(response, name)) is not None}
        return native.replace(**told)
    if response.output_messages is None:
        if "text" in value:
            reason = f"{label} returned a mapping whose 'text' is None: expected a text"
            return _without_answer(response, reason, "no_answer")
        keys = ", ".join(map(repr, value)) or "no keys"
        return _without_answer(response, f"{label} returned a mapping with {keys}: expected {EXPECTED_KEYS}")
    if is_null(response.output_messages, response.trace):
        reason = f"{label} returned a message whose 'content' is None: expected a text"
        return _without_answer(response, reason, "no_answer")
    return response


def _figures(value: Mapping[str, Any]) -> ProviderResponse:
    """Return what a mapping costs that cannot be read otherwise, without figures that cannot be read either."""
    figures = {key: item for key, item in value.items() if _METRICS.get(key) in _COSTS}
    usable = {key: plain(item) for key, item in figures.items() if json_fault(item, with_texts=True) is None}
    return parse_response(usable)


def _without_answer(response: ProviderResponse, error: str, kind: ErrorKind = "crash") -> ProviderResponse:
    """Return the figures of a response that holds no answer, because it was paid for, with the error.

    Raises `ProviderError` if it reports neither tokens nor cost.
    """
    if response.token_usage is None and response.cost_usd is None:
        raise ProviderError(error, kind)
    return ProviderResponse(
        token_usage=response.token_usage,
        cost_usd=response.cost_usd,
        cost_source=response.cost_source if isinstance(response.cost_source, str) else None,
        duration_ms=response.duration_ms,
        error=error,
        error_kind=kind,
    )
