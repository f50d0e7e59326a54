"""Keeps answers on disk, so that the same question to the same target costs once (`--agentv-cache`)."""

import hashlib
import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_agentv.errors import AgentvError, ProviderError
from pytest_agentv.loading.project_files import source_file
from pytest_agentv.models.base import Json, JsonObject, Record
from pytest_agentv.models.finish_reasons import incomplete_reason
from pytest_agentv.models.masking.secrets import Masker, Secret
from pytest_agentv.models.targets import Target
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import Adapter, BatchProvider, ProviderRequest, ProviderResponse, candidate_answer
from pytest_agentv.runtime.files import write_atomically

_LOGGER: Final = logging.getLogger(__name__)
_PACKAGE: Final = "pytest_agentv."
_VERSION: Final = 2
"""Part of every key. Incremented when the format of the entries changes."""


class CachedProvider:
    """Calls the provider behind it only for requests that are not in the cache.

    It does not keep failed calls. It does not keep answers that hold a secret either: they would be masked on disk,
    so a later run would judge another answer.

    The key covers everything that affects an answer: the kind, the target's settings without secrets, the prompt, the
    system prompt, the case's id, the numbers of the answer and of the rerun, and the content of the files. Entries are
    written in one step, so any number of processes may share the folder.
    """

    def __init__(
        self,
        provider: Adapter,
        target: Target,
        folder: Path,
        masker: Masker,
        as_at_home: Callable[[JsonObject], JsonObject] = dict,
    ) -> None:
        """`as_at_home` gives keys the paths that the process of the run would have, wherever the files lie."""
        self.mode: PromptMode = provider.mode
        self.keeps_limits: bool = getattr(provider, "keeps_limits", False)
        self.embed = getattr(provider, "embed", None)
        """Embeddings have a cache of their own."""
        if isinstance(provider, BatchProvider):
            self._batch_provider = provider
            self.invoke_batch = self._invoke_batch
        self._provider = provider
        self._target = {"kind": target.kind, "settings": public_settings(target.settings.to_plain())}
        if target.provider_batching:
            self._target["batching"] = True  # the same command prints something else
        code = _code_place(target)
        if code is not None:
            home = as_at_home({"code": str(code), "folder": str(folder)})
            self._target["code"] = os.path.relpath(str(home["code"]), str(home["folder"]))
        self._folder = folder
        self._masker = masker
        self._as_at_home = as_at_home

    async def check(self) -> None:
        await self._provider.check()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        path = self._path(request)
        known = _read(path)
        if known is not None:
            return known.replace(cached=True)
        response = await self._provider.invoke(request)
        self._keep_whole(path, response)
        return response

    def forget(self, request: ProviderRequest) -> None:
        """Delete the answer to a request, which was of no use."""
        with suppress(OSError):
            self._path(request).unlink(missing_ok=True)

    async def close(self) -> None:
        await self._provider.close()

    async def _invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        """Ask the requests that are not in the cache in one call, if there are some."""
        paths = [self._path(request) for request in requests]
        kept = [None if known is None else known.replace(cached=True) for known in map(_read, paths)]
        missing = [number for number, known in enumerate(kept) if known is None]
        asked = await self._batch_provider.invoke_batch([requests[number] for number in missing]) if missing else []
        if len(asked) != len(missing):  # nobody knows which answer is whose
            raise ProviderError(f"{len(missing)} requests were sent and {len(asked)} responses came back", "crash")
        responses = dict(zip(missing, asked, strict=True))
        for number, response in responses.items():
            self._keep_whole(paths[number], response)
        return [known or responses[number] for number, known in enumerate(kept)]

    def _path(self, request: ProviderRequest) -> Path:
        question = {
            "version": _VERSION,
            "target": self._target,
            "eval_id": request.eval_id,
            "prompt": request.prompt.in_words().to_plain(),
            "system_prompt": request.system_prompt,
            "guidelines": len(request.guideline_paths),
            "files": [_hash_file(path) for path in request.file_paths],
        }
        if request.answer:  # the first answer keeps the key that it has without repeats
            question["answer"] = request.answer
        if request.reruns:
            question["reruns"] = request.reruns
        text = json.dumps(self._as_at_home(question), sort_keys=True, default=str)
        key = hashlib.sha256(text.encode()).hexdigest()
        return self._folder / key[:2] / f"{key}.json"

    def _keep_whole(self, path: Path, response: ProviderResponse) -> None:
        is_whole = response.error is None and incomplete_reason(response.finish_reason) is None
        if is_whole and response.output_messages != ():  # nobody waited for an answer
            self._keep(path, response)

    def _keep(self, path: Path, response: ProviderResponse) -> None:
        """Write an answer if reading it back gives the same answer, so that later runs judge the same."""
        plain = response.to_plain()
        debugging = self._masker.mask_plain(plain.pop("raw", {}))  # not judged, so it may be masked
        if self._masker.mask_plain(plain) != plain:
            _LOGGER.info("the answer holds a secret, and is not kept for later runs")
            return
        try:
            text = json.dumps({**plain, "raw": debugging}, ensure_ascii=True)
            if not _is_same_answer(ProviderResponse.from_plain(json.loads(text)), response):
                _LOGGER.warning("the answer is not kept for later runs: JSON cannot hold it as it is")
                return
            write_atomically(path, text)
        except (AgentvError, TypeError, ValueError, RecursionError) as error:
            _LOGGER.warning("the answer cannot be kept for later runs: %s", self._masker.mask(str(error)))


def _code_place(target: Target) -> Path | None:
    """Return where the code lies that the settings of a target name by a relative path, or by a word.

    Two folders may each have an `agent.py`, or a kind of the same name.
    """
    settings = target.settings
    if settings.sources.callable is not None:
        return Path(settings.sources.folder or Path(target.path or "").parent)
    kind = type(settings)
    own = getattr(kind, "factory", None) if kind.__module__.startswith(_PACKAGE) else kind
    return None if own is None else source_file(own)


def _read(path: Path) -> ProviderResponse | None:
    """Return a kept response; None if it is missing or cannot be read."""
    try:
        kept = json.loads(path.read_text("utf-8"))
        is_whole = isinstance(kept, dict) and "raw" in kept  # without it, any mapping would be an empty answer
        return ProviderResponse.from_plain(kept) if is_whole else None
    except (OSError, ValueError, RecursionError):
        return None


def _is_same_answer(first: ProviderResponse, second: ProviderResponse) -> bool:
    """Whether two responses are judged alike. Compares texts too, because 1 and 1.0 are equal but read differently."""
    first = first.replace(raw=second.raw)
    return first == second and candidate_answer(first.output_messages) == candidate_answer(second.output_messages)


def _hash_file(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "missing"


def public_settings(value: object) -> Json:
    """Return settings as plain data, without secrets."""
    if isinstance(value, Record):
        return public_settings(value.to_plain())
    if isinstance(value, Mapping):
        return {key: public_settings(item) for key, item in value.items() if not isinstance(item, Secret)}
    if isinstance(value, list | tuple):
        return [public_settings(item) for item in value if not isinstance(item, Secret)]
    return value
