"""Imports the function or agent of `callable: package.module:function` or `path/to/file.py:function`."""

from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.models.records import record
from pytest_agentv.providers.python.folder_modules import FolderModules, modules_of
from pytest_agentv.providers.python.frameworks.table import runner_of
from pytest_agentv.runtime.user_errors import user_traceback

_FUNCTION_OR_AGENT: Final = "a function, or an agent of a framework that is known"


@record
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
    path = _existing_file(cwd / source, label) if source.endswith(".py") else None
    modules = modules_of(path.parent if path else cwd.resolve())
    try:
        module = modules.load_file(path) if path else modules.import_module(source)
    except BaseException as error:  # a module may raise anything, including `SystemExit` and `KeyboardInterrupt`
        shown = path.name if path else source
        raise _config_error(label, f"cannot import {shown}: {user_traceback(error)}") from error
    function: object = getattr(module, attribute, None)
    if function is None:
        raise _config_error(label, f"{source} has no function {attribute!r}", did_you_mean(attribute, _names(module)))
    if not callable(function) and (expected or runner_of(function) is None):
        found = f"{attribute!r} of {source} is a value of type {type(function).__name__}"
        raise _config_error(label, f"{found}, expected {expected or _FUNCTION_OR_AGENT}")
    return ImportedCallable(function, module, modules, label)


def _existing_file(path: Path, label: str) -> Path:
    path = path.resolve()
    if not path.is_file():
        siblings = [sibling.name for sibling in path.parent.glob("*.py")]
        raise _config_error(label, f"there is no file {path}", did_you_mean(path.name, siblings))
    return path


def _names(module: ModuleType) -> list[str]:
    public = ((name, value) for name, value in vars(module).items() if not name.startswith("_"))
    return [name for name, value in public if callable(value) or runner_of(value) is not None]


def _config_error(label: str, reason: str, hint: str | None = None) -> ProviderError:
    return ProviderError(f"{label}: {reason}" + (f" ({hint})" if hint else ""), "config")
