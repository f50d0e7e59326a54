"""Describes errors of user code: type, text and the user's own lines, without frames of this package."""

import importlib
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pytest_agentv.errors import locate

_SHOWN_FRAMES: Final = 5
_SHOWN_LEAVES: Final = 10
_OWN_FOLDER: Final = str(Path(__file__).parents[1])
_FOLDER_PREFIX: Final = re.compile(r"agentv_[0-9a-f]{12}_")
"""Prefix of the module names that belong to one eval folder (`providers/python/folder_modules.py`)."""
_NO_LOOP: Final = ("There is no current event loop in thread", "no running event loop")
_NO_LOOP_ADVICE: Final = (
    "a sync function runs in a thread that has no event loop: call `asyncio.run(...)` in it, or make it `async def`"
)


def describe_error(error: BaseException) -> str:
    """Return type and text of an error, and of the members of an error group."""
    return "\n".join(_heads(error))


def told(error: BaseException) -> str:
    """Return the text of an error; if it is blank, as `str(TimeoutError())` is, what it was raised after."""
    text = str(error)
    cause = error.__cause__ or error.__context__
    if text.strip():
        return text
    return f"{type(error).__name__} without a text" + (f", raised after {describe_error(cause)}" if cause else "")


def user_traceback(error: BaseException, *foreign_folders: str) -> str:
    """Return type and text of an error, and its last frames in user code, innermost last.

    The members of a group follow with their own frames. Files below `foreign_folders` and files of this package do
    not count as user code.
    """
    lines = [_head(error), *_places(error, foreign_folders)]
    for leaf in leaves(error) if isinstance(error, BaseExceptionGroup) else ():
        lines += [f"  {line}" for line in (_head(leaf), *_places(leaf, foreign_folders))]
    return "\n".join(lines)


def leaves(error: BaseException) -> list[BaseException]:
    """Return the single errors within a group, at any depth; for a single error, the error itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for member in error.exceptions for leaf in leaves(member)][:_SHOWN_LEAVES]


def without_prefixes(text: str) -> str:
    """Return a text with module names as their authors wrote them."""
    return _FOLDER_PREFIX.sub("", text)


def _heads(error: BaseException) -> Iterator[str]:
    yield _head(error)
    if isinstance(error, BaseExceptionGroup):
        yield from (f"  {_head(leaf)}" for leaf in leaves(error))


def _head(error: BaseException) -> str:
    text = without_prefixes(_text_of(error))
    head = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{head} ({_NO_LOOP_ADVICE})" if text.startswith(_NO_LOOP) else head


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except (Exception, SystemExit) as fault:  # noqa: BLE001 - an exception here would hide the original error
        return f"(its text cannot be shown: {type(fault).__name__})"


def _places(error: BaseException, foreign_folders: tuple[str, ...]) -> list[str]:
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not is_ours(frame.filename) and not frame.filename.startswith(foreign_folders)
    ]
    return [f"  {locate(Path(frame.filename), frame.lineno)} in {frame.name}" for frame in frames[-_SHOWN_FRAMES:]]


def is_ours(filename: str) -> bool:
    return filename.startswith((_OWN_FOLDER, "<frozen importlib")) or filename == importlib.__file__
