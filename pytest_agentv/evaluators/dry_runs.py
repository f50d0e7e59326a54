"""Tells, in a dry run, a check that is broken from one that only cannot read the answer of the mock."""

import re
import traceback
from typing import Final

from pytest_agentv.errors import KindError
from pytest_agentv.evaluators.scripts.script import SDK_FAILURE, ScriptFailedError
from pytest_agentv.runtime.user_errors import is_ours, leaves

_BROKEN: Final = (NameError, SyntaxError, ImportError, FileNotFoundError)
"""Errors that code raises whatever the answer is."""
_RAISED: Final = re.compile(
    rf"^{SDK_FAILURE}|^Traceback \(most recent call last\)|^ +File \".+\", line \d|^ +at ", re.MULTILINE
)
"""What Python, JavaScript and the SDKs write of an exception. A script that fails otherwise may be unable to start."""
_SAID: Final = re.compile(
    r"\b(?:Name|UnboundLocal|Reference|Indentation|Tab|Import|ModuleNotFound|FileNotFound)Error\b"
    r"|\bSyntaxError\b(?!: .*(?:valid JSON|JSON input|in JSON|JSON Parse))"  # JavaScript says so of an answer
    r"|can't open file|cannot import name|Cannot find (?:module|package)|No module named|No such file|\bENOENT\b"
    r"|\bis not defined\b|command not found"
)
"""What scripts say of errors that do not depend on the answer."""


def is_of_mock(error: BaseException) -> bool:
    """Whether a check that works may fail with this error on the answer of a mock: it ran, and raised on the answer."""
    if isinstance(error, ScriptFailedError):
        return bool(_RAISED.search(error.said)) and not _SAID.search(error.said)
    if isinstance(error, KindError):
        if error.kind != "crash":
            return False
        if error.__cause__ is None:
            return not any(is_ours(frame.filename) for frame in traceback.extract_tb(error.__traceback__)[-1:])
        error = error.__cause__
    return all(isinstance(leaf, Exception) and not isinstance(leaf, _BROKEN) for leaf in leaves(error))
