"""Keeps answers on disk, so that the same question to the same target costs once (`--agentv-cache`)."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_agentv.engine.attempts import timed
from pytest_agentv.engine.targets.answer_files import cached_file, keep_answer, read_answer, what_is_asked
from pytest_agentv.errors import FileError
from pytest_agentv.models.base import ATOMS, Json, JsonObject, Record
from pytest_agentv.models.masking.secrets import Masker, Secret
from pytest_agentv.models.targets import Target, affects_answers
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import Adapter, BatchProvider, ProviderRequest, ProviderResponse, one_for_each

_VERSION: Final = 2
"""Part of every key. Incremented when the format of the entries changes."""

_UNLIKE_OTHERS: Final = os.urandom(8).hex()
"""Stands in keys for values that cannot be compared with those of other runs."""


class CachedProvider:
    """Calls the provider behind it only for requests that are not in the cache.

    `keep_answer` says which answers are kept. The key covers everything that affects an answer: the kind, the target's
    settings without secrets, the prompt, the system prompt, the case's id, the numbers of the answer, of the rerun
    and among equal questions of the case, and the content of the files. Entries are written in one step, so any number
    of processes may share the folder.
    """

    def __init__(
        self,
        provider: Adapter,
        target: Target,
        folder: Path,
        masker: Masker,
        as_at_home: Callable[[JsonObject], JsonObject] = dict,
        *,
        tell: Callable[[FileError], None] | None = None,
    ) -> None:
        """Take a provider, its target and the folder of the cache.

        `as_at_home` gives keys the paths that the process of the run would have, wherever the files lie. `tell` hears
        why an answer cannot be written.
        """
        self.mode: PromptMode = provider.mode
        self.keeps_limits: bool = getattr(provider, "keeps_limits", False)
        self.embed = getattr(provider, "embed", None)
        """Embeddings have a cache of their own."""
        if isinstance(provider, BatchProvider):
            self._batch_provider = provider
            self.invoke_batch = self._invoke_batch
        self._provider = provider
        self._target = {"kind": target.kind, "settings": lasting_settings(target)}
        if target.provider_batching:
            self._target["batching"] = True  # the same command prints other output then
        self._target |= code_places(target, folder, as_at_home)
        self._folder = folder
        self._masker = masker
        self._as_at_home = as_at_home
        self._tell = tell

    async def check(self) -> None:
        await self._provider.check()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        path = self.place(request)
        known = read_answer(path)
        if known is not None:
            return known.replace(cached=True)
        started = time.perf_counter()
        response = timed(await self._provider.invoke(request), started)
        self._keep(path, response)
        return response

    def forget(self, request: ProviderRequest) -> None:
        """Delete the answer to a request, which was of no use."""
        with suppress(OSError):
            self.place(request).unlink(missing_ok=True)

    async def close(self) -> None:
        await self._provider.close()

    async def _invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        """Ask the requests that are not in the cache in one call, if there are any."""
        paths = [self.place(request) for request in requests]
        kept = [None if known is None else known.replace(cached=True) for known in map(read_answer, paths)]
        missing = [number for number, known in enumerate(kept) if known is None]
        started = time.perf_counter()
        wanted = [requests[number] for number in missing]
        asked = one_for_each(wanted, await self._batch_provider.invoke_batch(wanted) if missing else [])
        responses = dict(zip(missing, [timed(response, started) for response in asked], strict=True))
        for number, response in responses.items():
            self._keep(paths[number], response)
        return [known or responses[number] for number, known in enumerate(kept)]

    def _keep(self, path: Path, response: ProviderResponse) -> None:
        error = keep_answer(path, response, self._masker)
        if error is not None and self._tell is not None:
            self._tell(error)

    def place(self, request: ProviderRequest) -> Path:
        """Return the file of the answer to a request."""
        question = {"version": _VERSION, "target": self._target, **what_is_asked(request)}
        return cached_file(self._folder, self._as_at_home(question))


def code_places(target: Target, folder: Path, as_at_home: Callable[[JsonObject], JsonObject] = dict) -> JsonObject:
    """Return where a target's code lies, seen from a folder, if its settings name it by a relative path or by a word.

    Two folders may each have an `agent.py`, or a kind of the same name.
    """
    settings = target.settings
    if settings.sources.callable is not None:
        paths: Sequence[Path] = [Path(settings.sources.folder or Path(target.path or "").parent)]
    elif settings.own_code is None:
        return {}
    else:
        from pytest_agentv.loading.code_files import own_files  # noqa: PLC0415 - only for kinds of users

        paths = own_files(settings.own_code)
    home = as_at_home({"code": list(map(str, paths)), "folder": str(folder)})
    places = [os.path.relpath(place, str(home["folder"])) for place in home["code"]]
    code = {"code": places[0] if len(places) == 1 else places} if places else {}
    return {**code, **_values_of_factory(settings.own_code)}


def _values_of_factory(code: object) -> JsonObject:
    """Return the hash of the values that a factory got from the code which made it: two folders may give it others."""
    if code is None:
        return {}
    from pytest_agentv.loading.code_files import is_plain  # noqa: PLC0415 - as above
    from pytest_agentv.loading.value_hashes import hash_value  # noqa: PLC0415 - as above

    return {} if is_plain(code) else {"made of": hash_value(code).digest}


def lasting_settings(target: Target) -> Json:
    """Return the settings of a target that affect its answers, without secrets."""
    plain = target.settings.to_plain()
    return public_settings({key: value for key, value in plain.items() if affects_answers(target.settings, key)})


def public_settings(value: object) -> Json:
    """Return settings as plain data, without secrets."""
    if isinstance(value, Record):
        return public_settings(value.to_plain())
    if isinstance(value, Mapping):
        return {key: public_settings(item) for key, item in value.items() if not isinstance(item, Secret)}
    if isinstance(value, list | tuple):
        return [public_settings(item) for item in value if not isinstance(item, Secret)]
    return value if type(value) in ATOMS or isinstance(value, float) else _public_value(value)


def _public_value(value: object) -> Json:
    """Return what stands for a value that JSON cannot hold. It is that of no other run if a part of it is not known."""
    from pytest_agentv.loading.value_hashes import text_of_value  # noqa: PLC0415 - few kinds have such values

    return text_of_value(value) or _UNLIKE_OTHERS
