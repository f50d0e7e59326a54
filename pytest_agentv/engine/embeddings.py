"""What evaluators may ask: embeddings, and the targets that judge scripts call through their proxy."""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

from pytest_agentv.engine.answers import invoke_with_retries
from pytest_agentv.engine.judges import EqualQuestions, Tell, prompts_for, tell_of_replies
from pytest_agentv.engine.stored import digest_of
from pytest_agentv.errors import EvaluatorError, ProviderError, TargetError, locate
from pytest_agentv.evaluators.context import Embedding, ProxiedQuestion, current_meter
from pytest_agentv.model.base import Json
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import Costs, TokenUsage
from pytest_agentv.providers.api.base import Embeddings, vectors_of
from pytest_agentv.providers.api.client import ContentError
from pytest_agentv.providers.base import Adapter, ProviderRequest, ProviderResponse
from pytest_agentv.runtime.user_code import Outcome, attempt_async
from pytest_agentv.store.answers import AnswerStore, Question, current_case

# Embeddings of a target: each text is asked for once, in requests for several cases, and cached on disk.

Ask: TypeAlias = Callable[[Sequence[str], float | None], Awaitable[Embeddings]]

_KINDS: Final = ("openai", "azure", "gemini")
"""The kinds of targets that give embeddings."""
MOST: Final = 64
"""The most texts of one request."""
WAIT_SECONDS: Final = 0.01
"""How long a text waits for texts of other cases, in seconds."""


class TargetEmbedder:
    """The embeddings of one target. Used on the event loop."""

    def __init__(
        self,
        target: Target,
        provider: Adapter,
        identity: Json,
        store: AnswerStore | None,
        timeout_seconds: float | None,
    ) -> None:
        """Take a target with its adapter. Raises `TargetError` for one that gives no embeddings.

        `identity` stands for the target in keys of the store. Without a store no embeddings are kept.
        """
        ask: Ask | None = getattr(provider, "embed", None)
        if ask is None:
            what = f"target {target.name!r} ({target.kind}) gives no embeddings: openai, azure and gemini targets do"
            if (
                getattr(target.settings, "client", None) == "litellm"
                and target.kind in _KINDS
                and target.path is not None
            ):
                where = locate(Path(target.path), target.line)
                what = f"target {target.name!r} ({where}) gives no embeddings through litellm: leave out `client`"
            raise TargetError(what)
        self._name = target.name
        self._identity = identity
        self._ask = ask
        self._store = store
        self._timeout_seconds = timeout_seconds
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
            await self._keep({text: outcomes[text] for text in sent})
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
        found = None if self._store is None else self._store.find(self._question(text))
        vectors = None if found is None else vectors_of([found.response.get("vector")])
        if vectors and vectors[0]:
            self._known[text].set_result(Outcome(Embedding(vectors[0])))
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

        async def ask() -> list[Embedding]:
            return list(_shares(await self._ask(texts, self._timeout_seconds), texts))

        outcome = await attempt_async(ask)
        if isinstance(outcome.error, ContentError) and len(texts) > 1:
            # One of the texts may be at fault, or their number: then each alone is accepted, and later requests shrink.
            accepted = await asyncio.gather(*(self._send_some([text]) for text in texts))
            if all(accepted):
                self._most = min(self._most, len(texts) // 2)
            return all(accepted)
        if outcome.error is not None:
            for text in texts:  # a later case may try again
                self._known.pop(text).set_result(Outcome(error=outcome.error))
            return False
        for text, embedding in zip(texts, outcome.get(), strict=True):
            waiting = self._known[text] if embedding.vector else self._known.pop(text)  # a later case may try again
            waiting.set_result(Outcome(embedding))
        return True

    async def _keep(self, outcomes: Mapping[str, Outcome[Embedding]]) -> None:
        """Write the embeddings that the running case has asked for: a row for each text, one of them with the call."""
        if self._store is None:
            return
        for number, (text, outcome) in enumerate(outcomes.items(), start=1):
            found = None if outcome.error is not None else outcome.get()
            usage = None if found is None or found.tokens is None else TokenUsage(found.tokens, 0)
            costs = Costs.of_call(usage, None if found is None else found.cost_usd)
            vector = json.dumps({"vector": found.vector}) if found is not None and found.vector else None
            costs = costs if number == 1 else costs.replace(calls=0)
            await self._store.add(self._question(text), vector, costs, waits=number == len(outcomes))

    def _question(self, text: str) -> Question:
        item, eval_id, tested = current_case.get()
        key = digest_of({"embedding": self._identity, "text": text})
        return Question(item, eval_id, key, target=tested, role="judge")


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
    current_meter().add(TokenUsage(tokens, 0) if tokens else None, math.fsum(costs) if costs else None)


def _shares(found: Embeddings, texts: Sequence[str]) -> Iterator[Embedding]:
    """Yield the embedding of each text, with its share of tokens and cost, by its length. It is empty for no vector."""
    total = sum(map(len, texts)) or 1
    for text, vector in zip(texts, found.vectors, strict=True):
        share = len(text) / total
        cost = None if found.cost_usd is None else found.cost_usd * share
        yield Embedding(vector or (), found.tokens * share or None, cost)


# The targets that judge scripts may call through their proxy.


class CallableTargets:
    """The targets of a targets file. The first call of a target resolves it."""

    def __init__(
        self,
        primary: str,
        others: Sequence[str],
        default_name: str,
        open_target: Callable[[str], tuple[Target, Adapter]],
        *,
        asked: EqualQuestions | None = None,
        check: Callable[[Target, Adapter], Awaitable[None]] | None = None,
        tell: Tell | None = None,
    ) -> None:
        """Resolve the default target now, so that `TargetError` is raised before anything is paid for.

        `primary` is the target under test, `others` are all names of its targets file, `default_name` is for calls that
        name no target. `open_target` raises `TargetError`, `check` (None for mocks) raises `ProviderError`. `asked`
        counts the questions of the case, and `tell` hears what is odd about the replies.
        """
        self.default_name = default_name
        self.names = tuple(dict.fromkeys((primary, *others)))
        self._open = open_target
        self._asked = asked or EqualQuestions()
        self._check = check
        self._tell = tell
        self.default = open_target(default_name)
        """The default target, to be checked before anything is paid for."""

    def resolve(self, name: str) -> Callable[[ProxiedQuestion], Awaitable[ProviderResponse]]:
        """Return a function that calls a target. Raises `TargetError` if the target cannot be used."""
        return partial(self._ask, *self._open(name))

    async def _ask(self, target: Target, provider: Adapter, asked: ProxiedQuestion) -> ProviderResponse:
        """Call a target once, without retries, because the script has the time limit of one call.

        Raises `ProviderError` if there is no reply. A response with an error may hold the metrics of the call.
        """
        if self._check is not None:
            await self._check(target, provider)  # a script may name a target that no case has
        request = ProviderRequest(
            **prompts_for(target, asked.system_prompt, asked.question),
            eval_id=asked.eval_id,
            attempt=asked.attempt,
            answer=asked.context.answer,
            reruns=asked.context.reruns,
            timeout_seconds=asked.context.timeout_seconds,
        )
        request = self._asked.next(provider, request, asked.context.twin)
        attempts = await invoke_with_retries(provider, request, 0, f"target {target.name}")
        tell_of_replies(target.name, attempts, self._tell)
        return attempts.reply()
