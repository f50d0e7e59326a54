"""What users are told of errors that their own code raised: type, text and their lines, without frames of ours."""

import importlib
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest_agentv
from pytest_agentv.errors import locate

_SHOWN_FRAMES: Final = 5
_SHOWN_LEAVES: Final = 10
_OWN_FOLDER: Final = str(Path(pytest_agentv.__file__).parent)
_FOLDER_PREFIX: Final = re.compile(r"agentv_[0-9a-f]{12}_")
"""What the names of a folder's own modules begin with (`providers/folder_modules.py`)."""
_NO_LOOP: Final = "There is no current event loop in thread"
_NO_LOOP_ADVICE: Final = (
    "a sync function runs in a thread that has no event loop: call `asyncio.run(...)` in it, or make it `async def`"
)


def describe_error(error: BaseException) -> str:
    """Return type and text of an error; of a group of errors, those of its members as well."""
    return "\n".join(_heads(error))


def user_traceback(error: BaseException, *foreign_folders: str) -> str:
    """Return type and text of an error and the last places of the user's code it came through, innermost last.

    The members of a group follow with places of their own. What lies below `foreign_folders` is as little the user's
    as this package is.
    """
    lines = [_head(error), *_places(error, foreign_folders)]
    for leaf in leaves(error) if isinstance(error, BaseExceptionGroup) else ():
        lines += [f"  {line}" for line in (_head(leaf), *_places(leaf, foreign_folders))]
    return "\n".join(lines)


def leaves(error: BaseException) -> list[BaseException]:
    """Return the errors that a group is made of, at any depth; a single error is its own leaf."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for member in error.exceptions for leaf in leaves(member)][:_SHOWN_LEAVES]


def without_prefixes(text: str) -> str:
    """Return a text with the names of modules as their authors wrote them."""
    return _FOLDER_PREFIX.sub("", text)


def _heads(error: BaseException) -> Iterator[str]:
    yield _head(error)
    if isinstance(error, BaseExceptionGroup):
        yield from (f"  {_head(leaf)}" for leaf in leaves(error))


def _head(error: BaseException) -> str:
    text = without_prefixes(str(error))
    head = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{head} ({_NO_LOOP_ADVICE})" if text.startswith(_NO_LOOP) else head


def _places(error: BaseException, foreign_folders: tuple[str, ...]) -> list[str]:
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not _is_ours(frame.filename) and not frame.filename.startswith(foreign_folders)
    ]
    return [f"  {locate(Path(frame.filename), frame.lineno)} in {frame.name}" for frame in frames[-_SHOWN_FRAMES:]]


def _is_ours(filename: str) -> bool:
    return filename.startswith((_OWN_FOLDER, "<frozen importlib")) or filename == importlib.__file__
