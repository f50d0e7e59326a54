"""Keeps answers of models until they are judged, so that a run that goes on need not ask, and pay, for them again."""

import hashlib
import json
import logging
import shutil
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Final

from pytest_agentv.engine.jobs import CaseIdentity
from pytest_agentv.engine.targets.answer_files import keep_answer, read_answer, what_is_asked
from pytest_agentv.engine.targets.folders import UnjudgedFolders
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.runtime.threads import run_in_thread

_LOGGER: Final = logging.getLogger(__name__)
_THREAD: Final = "agentv-unjudged"
_MARK_DIGITS: Final = 16


class UnjudgedAnswer:
    """The answer to a request, which is kept from when it came until there is a verdict."""

    def __init__(
        self, identity: CaseIdentity, request: ProviderRequest, folders: UnjudgedFolders, masker: Masker
    ) -> None:
        self._identity = identity
        self._request = request
        self._folders = folders
        self._masker = masker
        self._is_kept = False

    @cached_property
    def _name(self) -> str:
        """If the case asks something else later, or its target has changed, it is another one. Its grading may change.

        Hashing takes a while, and most answers are judged at once.
        """
        asked = what_is_asked(self._request.replace(reruns=0))
        key = json.dumps([self._identity.target_hash, asked], sort_keys=True, default=str)
        return f"{_item_mark(self._identity.node_id)}-{_digest(key)}.json"

    @property
    def _path(self) -> Path:
        return self._folders.own / self._name

    def find(self) -> ProviderResponse | None:
        """Return the answer of the run that this one goes on with, or that is run again, if it was not judged."""
        folder = self._folders.own if self._request.reruns else self._folders.left
        found = None if folder is None else read_answer(folder / self._name)
        if found is None:
            return None
        self._is_kept = folder == self._folders.own
        _LOGGER.info("the target is not asked again: its answer was not judged yet")
        return found.replace(cached=True)  # its cost is counted where it was asked

    async def keep(self, response: ProviderResponse, duration_ms: float | None) -> None:
        """Write the answer: a run that is killed from now on leaves it to the next one.

        Args:
            response: The answer.
            duration_ms: How long the call took, where the provider does not tell; None: nobody measured it.
        """
        if not self._is_kept:
            self._is_kept = True
            if response.duration_ms is None:
                response = response.replace(duration_ms=duration_ms)
            await run_in_thread(lambda: keep_answer(self._path, response, self._masker), _THREAD)

    async def drop(self) -> None:
        """Delete the answer: there is a verdict."""
        if self._is_kept:
            self._is_kept = False
            await run_in_thread(lambda: self._path.unlink(missing_ok=True), _THREAD)


def drop_judged(folder: Path, results: Iterable[EvalResult]) -> None:
    """Delete what is left of items that have a verdict, after their cases or targets changed; and a folder without any.

    The answers of other items wait on, whether they ran this time or not. Raises `OSError`.
    """
    found = list(results)
    errors = {result.node_id for result in found if result.status == "error"}
    judged = {_item_mark(result.node_id) for result in found if result.node_id and result.node_id not in errors}
    paths = list(folder.glob("*.json"))
    left = [path for path in paths if path.name.partition("-")[0] not in judged]
    for path in set(paths).difference(left):
        path.unlink(missing_ok=True)
    if not left:
        shutil.rmtree(folder)


def _item_mark(node_id: str) -> str:
    """Return what the names of an item's files begin with."""
    return _digest(node_id)[:_MARK_DIGITS]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
