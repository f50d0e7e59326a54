"""The exceptions of pytest-agentv. Messages are for the person who fixes the file: where, what, what was expected."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

ErrorStage = Literal["setup", "provider", "evaluator"]
"""Where a case broke."""

_NoAnswer = Literal["no_answer", "user_at_fault"]
ErrorKind = Literal["timeout", "auth", "rate_limit", "network", "process", "config", "crash", "cancelled", _NoAnswer]
"""Why a case broke. `no_answer`: the target replied, but without an answer (a filter, a token limit, a refusal).
`user_at_fault`: the simulated user of a conversation did not keep to its goal or its persona."""

_KINDS: Final = get_args(ErrorKind)

# Why a path cannot be read. To read a pipe would block.
NO_REGULAR_FILE: Final = "expected a regular file, not a folder, a pipe or a device"

TOO_LARGE: Final = "it is too large for the free memory"


class AgentvError(Exception):
    """Base of all errors of pytest-agentv."""

    problems: tuple[Any, ...] = ()
    """The faults that the text names, one by one, and warnings that it leaves out. Each has a text."""


class FileError(AgentvError):
    """A file cannot be used as a whole. The text is the reason behind `path:line:`."""

    def __init__(self, path: Path, message: str, line: int | None = None) -> None:
        super().__init__(f"{locate(path, line)}: {message}")
        self.path = path
        self.line = line
        self.reason = message


class SourceError(FileError):
    """The text of a file is not valid YAML, JSON or JSONL."""


class TargetsError(FileError):
    """The targets file is missing, unreadable or holds errors."""


class CaseError(AgentvError):
    """One eval case cannot be loaded. The text names every fault with `path:line`."""


class TargetError(AgentvError):
    """A target cannot be used: its name is unknown, a variable is unset, a field is wrong."""


class LoopStartError(AgentvError):
    """No case can run: the system, or a plugin such as pytest-socket, denies what the event loop needs."""


class KindError(AgentvError):
    """Base of failures that are recorded with a kind."""

    _kind: ErrorKind = "crash"

    def __init__(self, message: str, kind: ErrorKind = "crash") -> None:
        super().__init__(message)
        self.kind = kind

    @property
    def kind(self) -> ErrorKind:
        """Why it failed: `timeout`, `auth`, … A word of your own becomes `crash`, and the message names it."""
        return self._kind

    @kind.setter
    def kind(self, kind: ErrorKind) -> None:
        # A record with another word could not be read, so that what it cost would be lost.
        is_known = kind in _KINDS
        self._kind = kind if is_known else "crash"
        if not is_known:
            message, *others = self.args or ("",)
            self.args = (f"{message} (its kind {kind!r} is unknown: expected {', '.join(_KINDS)})", *others)


class ProviderError(KindError):
    """A call of the target failed, so there is no answer to judge. `raw` is kept as that of a `ProviderResponse`."""

    def __init__(self, message: str, kind: ErrorKind = "crash", raw: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, kind)
        self.raw: Mapping[str, Any] = raw or {}


class EvaluatorError(KindError):
    """An evaluator could not judge the answer. `output` is what it printed instead."""

    def __init__(self, message: str, kind: ErrorKind = "crash", output: str | None = None) -> None:
        super().__init__(message, kind)
        self.output = output
        self.results: tuple[Any, ...] | None = None
        """What the members of a composite found; None: it has none."""


class HookError(KindError):
    """A hook of a conftest or plugin raised an error or returned an invalid value."""


def name_below(path: Path, root: Path) -> str:
    """Return a path with slashes, relative to a folder if it is below it."""
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def locate(path: Path, line: int | None) -> str:
    """Return `path:line`, or only the path. Paths below the working directory are relative to it."""
    try:
        shown = path.relative_to(Path.cwd())
    except ValueError:
        shown = path
    return f"{shown}:{line}" if line is not None else str(shown)
