"""Keeps the answers of models until they are judged, so that a resumed run does not pay for them again."""

import logging
from functools import cached_property
from pathlib import Path
from typing import Final

from pytest_agentv.engine.cache import digest_of, keep_answer, read_answer, what_is_asked
from pytest_agentv.engine.jobs import CaseIdentity
from pytest_agentv.engine.pool import UnjudgedFolders
from pytest_agentv.engine.waiting import WaitingAnswers, counted_path, version_note, waiting_name
from pytest_agentv.model.secrets import Masker
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.runtime.user_code import run_in_thread

# Records of such targets may need it. It is imported before the call, because later no file may be opened any more.
from pytest_agentv.store import conversations as _bounded  # noqa: F401

_LOGGER: Final = logging.getLogger(__name__)
_THREAD: Final = "agentv-unjudged"


class UnjudgedAnswer:
    """Keeps the answer to a request until its verdict is written."""

    def __init__(
        self,
        identity: CaseIdentity,
        request: ProviderRequest,
        folders: UnjudgedFolders,
        masker: Masker,
        waiting: WaitingAnswers,
        *,
        is_repeated: bool,
    ) -> None:
        self._identity = identity
        self._request = request
        self._folders = folders
        self._masker = masker
        self._waiting = waiting
        self._is_repeated = is_repeated
        self._is_kept = False

    @cached_property
    def _path(self) -> Path:
        """The file of the answer. Its name depends on the request and the target, but not on the grading.

        Computed when it is first needed, because most answers are judged at once.
        """
        asked = what_is_asked(self._request.replace(reruns=0))
        key = [self._identity.node_id, self._identity.target_hash, asked]
        return self._folders.own / waiting_name(self._identity, digest_of(key))

    def find(self) -> ProviderResponse | None:
        """Return an answer that was not judged: of an earlier run, of a worker that died, or of a case that is rerun.

        It is `cached` if it was so when it was kept, because an earlier run has paid for it. It is also `cached` if the
        results file of this run counts its cost already, or with the other answers of its case.
        """
        if self._waiting.holds(self._identity, self._request.answer):
            return None  # it is being judged for another item of the same name
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
                    is_own = folder == self._folders.own
                    if is_own:
                        self._note(path)
                    is_counted = path != plain and (is_own or self._is_repeated)
                    return found.replace(cached=found.cached or is_counted)
        return None

    async def keep(self, response: ProviderResponse, duration_ms: float | None) -> None:
        """Write the answer, so that a resumed run finds it if this run is killed.

        Args:
            response: The answer.
            duration_ms: How long the call took, if the response does not tell; None: unknown.
        """
        if not self._is_kept:
            if response.duration_ms is None:
                response = response.replace(duration_ms=duration_ms)
            path = counted_path(self._path) if response.cached else self._path
            self._note(path)
            run_id, note = self._identity.run_id, version_note(self._identity, self._request.answer)
            await run_in_thread(lambda: keep_answer(path, response, self._masker, run_id, note), _THREAD)

    def _note(self, path: Path) -> None:
        self._is_kept = True
        self._waiting.add(self._identity, self._request.answer, path)
