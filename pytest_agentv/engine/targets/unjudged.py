"""Keeps answers of models until they are judged, so that a run that goes on need not ask, and pay, for them again."""

import hashlib
import json
import logging
from functools import cached_property
from pathlib import Path
from typing import Final

from pytest_agentv.engine.jobs import CaseIdentity
from pytest_agentv.engine.targets.answer_files import keep_answer, read_answer, what_is_asked
from pytest_agentv.engine.targets.folders import UnjudgedFolders
from pytest_agentv.engine.targets.waiting import WaitingAnswers, counted_path, waiting_name
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.runtime.threads import run_in_thread

_LOGGER: Final = logging.getLogger(__name__)
_THREAD: Final = "agentv-unjudged"


class UnjudgedAnswer:
    """The answer to a request, which is kept from when it came until its verdict is written."""

    def __init__(
        self,
        identity: CaseIdentity,
        request: ProviderRequest,
        folders: UnjudgedFolders,
        masker: Masker,
        waiting: WaitingAnswers,
    ) -> None:
        self._identity = identity
        self._request = request
        self._folders = folders
        self._masker = masker
        self._waiting = waiting
        self._is_kept = False

    @cached_property
    def _path(self) -> Path:
        """The file of the answer. It is another one after a change of the request or of the target.

        The grading may change. The path is computed when it is first needed: most answers are judged at once.
        """
        asked = what_is_asked(self._request.replace(reruns=0))
        key = [self._identity.node_id, self._identity.target_hash, asked]
        digest = hashlib.sha256(json.dumps(key, sort_keys=True, default=str).encode()).hexdigest()
        return self._folders.own / waiting_name(self._identity, digest)

    def find(self) -> ProviderResponse | None:
        """Return an answer that is not judged yet: of an earlier run, a worker that died, or a case that is rerun.

        It is `cached` if a results file already counts its cost.
        """
        if self._waiting.holds(self._identity, self._request.answer):
            return None  # another item of the same name is being judged by it
        for folder in dict.fromkeys((self._folders.own, self._folders.left)):
            if folder is None or not folder.is_dir():
                continue
            plain = folder / self._path.name
            # The folder may hold answers of an older run with the same results file.
            of_run = None if folder == self._folders.left else self._identity.run_id
            for path in (counted_path(plain), plain):
                found = read_answer(path, of_run)
                if found is not None:
                    _LOGGER.info("the target is not asked again: its answer was not judged yet")
                    if folder == self._folders.own:
                        self._note(path)
                    return found.replace(cached=path != plain)
        return None

    async def keep(self, response: ProviderResponse, duration_ms: float | None) -> None:
        """Write the answer: a run that is killed from now on leaves it to the next one.

        Args:
            response: The answer.
            duration_ms: How long the call took, where the provider does not tell; None: nobody measured it.
        """
        if not self._is_kept:
            if response.duration_ms is None:
                response = response.replace(duration_ms=duration_ms)
            path = counted_path(self._path) if response.cached else self._path
            self._note(path)
            await run_in_thread(lambda: keep_answer(path, response, self._masker, self._identity.run_id), _THREAD)

    def _note(self, path: Path) -> None:
        self._is_kept = True
        self._waiting.add(self._identity, self._request.answer, path)
