"""The files of answers that wait for their verdicts: names them, and deletes them when a verdict is written."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

from pytest_agentv.engine.jobs import CaseIdentity, CaseVersion, version_of
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.results import EvalResult

VERSION: Final = "version"
"""The key of the version of its case, in the file of an answer."""
NUMBER: Final = "number"
"""The key of the number of an answer, 0-based, in its file."""
_SUFFIX: Final = ".json"
_COUNTED: Final = f".counted{_SUFFIX}"
_Item: TypeAlias = tuple[str | None, str]
"""Node id and id of a case: a test may have several."""


def waiting_name(identity: CaseIdentity, digest: str) -> str:
    """Return the file name of an answer. It begins with a hash of its case."""
    item = json.dumps((identity.node_id, identity.eval_id))
    return f"{hashlib.sha256(item.encode()).hexdigest()[:16]}-{digest}{_SUFFIX}"


def version_note(identity: CaseIdentity, number: int) -> JsonObject:
    """Return what is noted in the file of an answer: its number, and the version of its case that has no verdict."""
    return {VERSION: list(version_of(identity) or ()), NUMBER: number}


def counted_path(path: Path) -> Path:
    """Return the path of an answer whose cost a results file already counts."""
    is_counted = path.name.endswith(_COUNTED)
    return path if is_counted else path.with_name(f"{path.name.removesuffix(_SUFFIX)}{_COUNTED}")


class WaitingAnswers:
    """The answers that this process keeps until their results are written. Used on the event loop only."""

    def __init__(self) -> None:
        self._paths: dict[_Item, dict[int, Path]] = {}

    def add(self, identity: CaseIdentity, number: int, path: Path) -> None:
        """Note where an answer of a case is."""
        self._paths.setdefault((identity.node_id, identity.eval_id), {})[number] = path

    def holds(self, identity: CaseIdentity, number: int) -> bool:
        """Whether an answer of this process has no result yet. Another item of the same name must not take it."""
        return number in self._paths.get((identity.node_id, identity.eval_id), {})

    def settle(self, result: EvalResult, number: int | None = None) -> None:
        """Delete the answers of a written verdict. Mark those of a written error as counted.

        Args:
            result: The result that was written.
            number: The number of its answer; None: all answers of the case.
        """
        item = (result.node_id, result.eval_id)
        known = self._paths.get(item, {})
        for each in list(known) if number is None else [number]:
            path = known.pop(each, None)
            with suppress(OSError):  # an answer that holds a secret was never written
                if path is not None and result.status != "error":
                    path.unlink()
                elif path is not None and result.execution_metrics is not None:
                    path.replace(counted_path(path))
        if not known:
            self._paths.pop(item, None)


def drop_waiting(folder: Path, read_judged: Callable[[], Mapping[CaseVersion, int]]) -> None:
    """Delete the answers on which there is a verdict, and the folder when no answer is left.

    The answers of other cases, versions and targets stay: the run may not have selected them, and the next one may.

    Args:
        folder: The folder of the answers.
        read_judged: Returns the versions of cases that have a verdict, and on how many answers it is. Called only if
            there are answers.
    """
    with suppress(OSError):
        paths = list(folder.glob(f"*{_SUFFIX}"))
        judged: Mapping[CaseVersion, int] = read_judged() if paths else {}
        for path in paths:
            version, number = _noted_in(path)
            if number < judged.get(version, 0):
                path.unlink()
        if not any(folder.glob(f"*{_SUFFIX}")):
            shutil.rmtree(folder)  # including the leftovers of a killed writer


def _noted_in(path: Path) -> tuple[Any, int]:
    """Return the version and the number that are noted in the file of an answer; an empty version: it is not known."""
    try:
        noted = json.loads(path.read_text("utf-8"))
        return tuple(noted[VERSION]), int(noted.get(NUMBER, 0))
    except (OSError, ValueError, TypeError, KeyError):
        return (), 0
