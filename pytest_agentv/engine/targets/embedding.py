"""Gets embeddings from a target: asks for each text once, in requests for several cases, and caches them on disk."""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from pytest_agentv.engine.targets.answer_files import cached_file, write_entry
from pytest_agentv.engine.targets.cache import code_places, lasting_settings
from pytest_agentv.errors import EvaluatorError, FileError, ProviderError, TargetError, locate
from pytest_agentv.evaluators.context import Embedding
from pytest_agentv.evaluators.metering import current_meter
from pytest_agentv.models.targets import Target
from pytest_agentv.models.traces import TokenUsage
from pytest_agentv.providers.apis.base import Embeddings
from pytest_agentv.providers.apis.data import vectors_of
from pytest_agentv.providers.base import Adapter
from pytest_agentv.providers.repeating import ContentError
from pytest_agentv.runtime.outcomes import Outcome, attempt_async

Ask: TypeAlias = Callable[[Sequence[str], float | None], Awaitable[Embeddings]]

_KINDS: Final = ("openai", "azure", "gemini")
"""The kinds of targets that give embeddings."""
_VERSION: Final = 2
"""Part of every key. Incremented when the format of the entries changes, or what is sent for them."""
MOST: Final = 64
"""The most texts of one request."""
WAIT_SECONDS: Final = 0.01
"""How long a text waits for texts of other cases, in seconds."""


def _embedding_fault(target: Target) -> str:
    """Return why a target without embeddings gives none."""
    through_litellm = getattr(target.settings, "client", None) == "litellm" and target.kind in _KINDS
    if through_litellm and target.path is not None:
        where = locate(Path(target.path), target.line)
        return f"target {target.name!r} ({where}) gives no embeddings through litellm: leave out `client`"
    return f"target {target.name!r} ({target.kind}) gives no embeddings: openai, azure and gemini targets do"


def embedder_of(
    target: Target,
    provider: Adapter,
    cache: Path | None,
    timeout_seconds: float | None,
    tell: Callable[[FileError], None] | None = None,
) -> "TargetEmbedder":
    """Return the embeddings of a target. Raises `TargetError` for one that gives none."""
    ask = getattr(provider, "embed", None)
    if ask is None:
        raise TargetError(_embedding_fault(target))
    return TargetEmbedder(target, ask, cache, timeout_seconds, tell)


class TargetEmbedder:
    """The embeddings of one target. Used on the event loop."""

    def __init__(
        self,
        target: Target,
        ask: Ask,
        cache: Path | None,
        timeout_seconds: float | None,
        tell: Callable[[FileError], None] | None = None,
    ) -> None:
        """Take a target.

        Args:
            target: Its settings are part of the keys of the cache.
            ask: Returns the vectors of texts.
            cache: The folder of the cache; None: no cache.
            timeout_seconds: The longest that a request may take.
            tell: Hears why an embedding cannot be written.
        """
        self._name = target.name
        code = {} if cache is None else code_places(target, cache)
        self._settings = {"kind": target.kind, "settings": lasting_settings(target), **code}
        self._ask = ask
        self._cache = cache
        self._timeout_seconds = timeout_seconds
        self._tell = tell
        self._known: dict[str, asyncio.Future[Outcome[Embedding]]] = {}
        self._most = MOST
        self._waiting: list[str] = []
        self._sending: set[asyncio.Task[bool]] = set()

    async def embed(self, texts: Sequence[str]) -> Sequence[Embedding]:
        """Return the embeddings of texts. The first caller that asks for a text gets its cost, and its call counts.

        Raises `EvaluatorError` when the target cannot be asked.
        """
        sent = {text for text in dict.fromkeys(texts) if text not in self._known and self._request(text)}
        asked = {text: self._known[text] for text in texts}
        # A cancelled case must not cancel a request that others wait for.
        outcomes = {text: await asyncio.shield(each) for text, each in asked.items()}
        if sent:
            _meter([outcomes[text] for text in sent])
        try:
            found = {text: outcome.get() for text, outcome in outcomes.items()}
        except ProviderError as error:
            raise EvaluatorError(f"the target {self._name!r} gave no embeddings: {error}", error.kind) from None
        if not all(each.vector for each in found.values()):
            told = "gave no embeddings: it replied without a vector for one of the texts"
            raise EvaluatorError(f"the target {self._name!r} {told}", "crash")
        free = {text: Embedding(each.vector) for text, each in found.items()}
        is_paid = [text in sent and text not in texts[:place] for place, text in enumerate(texts)]
        return [found[text] if paid else free[text] for text, paid in zip(texts, is_paid, strict=True)]

    def _request(self, text: str) -> bool:
        """Get the embedding of a text. Returns whether the target is asked for it, because it is not in the cache."""
        loop = asyncio.get_running_loop()
        self._known[text] = loop.create_future()
        path = self._path(text)
        kept = None if path is None else _read(path)
        if kept is not None:
            self._known[text].set_result(Outcome(kept))
            return False
        self._waiting.append(text)
        if len(self._waiting) == 1:
            loop.call_later(WAIT_SECONDS, self._send)
        return True

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), self._most):
            task = asyncio.ensure_future(self._send_some(waiting[start : start + self._most]))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send_some(self, texts: Sequence[str]) -> bool:
        """Ask for some texts in one request. Returns whether it succeeded, for all who wait for them."""
        outcome = await attempt_async(lambda: self._embed(texts))
        if isinstance(outcome.error, ContentError) and len(texts) > 1:
            return await self._send_each(texts)
        if outcome.error is not None:
            for text in texts:  # a later case may try again
                self._known.pop(text).set_result(Outcome(error=outcome.error))
            return False
        for text, embedding in zip(texts, outcome.get(), strict=True):
            waiting = self._known[text] if embedding.vector else self._known.pop(text)  # a later case may try again
            waiting.set_result(Outcome(embedding))
        return True

    async def _send_each(self, texts: Sequence[str]) -> bool:
        """Ask for each text alone, after a server refused them together: one of them may be at fault, or their number.

        If each is accepted, it was their number. So later requests have fewer texts.
        """
        accepted = await asyncio.gather(*(self._send_some([text]) for text in texts))
        if all(accepted):
            self._most = min(self._most, len(texts) // 2)
        return all(accepted)

    async def _embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Ask for the embeddings of some texts and keep them. All callers that wait get an error."""
        embeddings = list(_shares(await self._ask(texts, self._timeout_seconds), texts))
        for text, embedding in zip(texts, embeddings, strict=True):
            if embedding.vector:
                self._keep(text, embedding)
        return embeddings

    def _keep(self, text: str, embedding: Embedding) -> None:
        path = self._path(text)
        if path is None:
            return
        error = write_entry(path, json.dumps({"vector": embedding.vector}))
        if error is not None and self._tell is not None:
            self._tell(error)

    def _path(self, text: str) -> Path | None:
        if self._cache is None:
            return None
        return cached_file(self._cache, {"embedding": _VERSION, "target": self._settings, "text": text})


def _meter(outcomes: Sequence[Outcome[Embedding]]) -> None:
    """Count the call of the running evaluator, with what is known of its tokens and its cost.

    A call that failed counts too, because it may have been paid for, but not one that no request was made for.
    """
    errors = [outcome.error for outcome in outcomes]
    if not any(error is None or "request_attempts" in getattr(error, "raw", {}) for error in errors):
        return
    paid = [outcome.get() for outcome in outcomes if outcome.error is None]
    costs = [each.cost_usd for each in paid if each.cost_usd is not None]
    tokens = math.fsum(each.tokens or 0 for each in paid)
    current_meter().add(1, TokenUsage(tokens, 0) if tokens else None, math.fsum(costs) if costs else None)


def _shares(found: Embeddings, texts: Sequence[str]) -> Iterator[Embedding]:
    """Yield the embedding of each text, with its share of tokens and cost, by its length. It is empty for no vector."""
    total = sum(map(len, texts)) or 1
    for text, vector in zip(texts, found.vectors, strict=True):
        share = len(text) / total
        cost = None if found.cost_usd is None else found.cost_usd * share
        yield Embedding(vector or (), found.tokens * share or None, cost)


def _read(path: Path) -> Embedding | None:
    try:
        vectors = vectors_of([json.loads(path.read_text("utf-8"))["vector"]])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return Embedding(vectors[0]) if vectors and vectors[0] else None
