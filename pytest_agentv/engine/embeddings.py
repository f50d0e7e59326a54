"""What evaluators may ask: embeddings, and the targets that judge scripts call through their proxy."""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeAlias

from pytest_agentv.engine.answers import invoke_with_retries
from pytest_agentv.engine.judges import EqualQuestions, Tell, prompts_for, tell_of_replies
from pytest_agentv.engine.stored import digest_of
from pytest_agentv.errors import EvaluatorError, ProviderError, TargetError
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

_MOST: Final = 32
"""The most texts of one request: some servers take no more."""
_WAIT_SECONDS: Final = 0.01
"""How long a text waits for texts of other cases, in seconds."""


@dataclass(slots=True, eq=False)
class TargetEmbedder:
    """The embeddings of one target. Raises `TargetError` for one that gives none. Used on the event loop."""

    target: Target
    provider: Adapter
    identity: Json
    """What stands for the target in keys of the store."""
    store: AnswerStore | None
    """None: no embeddings are kept."""
    timeout_seconds: float | None
    _ask: Ask = field(init=False)
    _known: dict[str, asyncio.Future[Outcome[Embedding]]] = field(default_factory=dict)
    _waiting: list[str] = field(default_factory=list)
    _sending: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        target, ask = self.target, getattr(self.provider, "embed", None)
        if ask is None or getattr(target.settings, "embed", ask) is None:
            how = ", without `client`" if getattr(target.settings, "client", None) == "litellm" else ""
            what = f"target {target.name!r} ({target.kind}) gives no embeddings: openai, azure and gemini targets do"
            raise TargetError(f"{what}{how}")
        self._ask = ask

    async def embed(self, texts: Sequence[str]) -> Sequence[Embedding]:
        """Return the embeddings of texts. The first caller pays for a text. Raises `EvaluatorError`."""
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
            raise EvaluatorError(f"the target {self.target.name!r} gave no embeddings: {error}", error.kind) from None
        if not all(each.vector for each in found.values()):
            told = "gave no embeddings: it replied without a vector for one of the texts"
            raise EvaluatorError(f"the target {self.target.name!r} {told}", "crash")
        free = {text: Embedding(each.vector) for text, each in found.items()}
        is_paid = [text in sent and text not in texts[:place] for place, text in enumerate(texts)]
        return [found[text] if paid else free[text] for text, paid in zip(texts, is_paid, strict=True)]

    def _request(self, text: str) -> bool:
        """Get the embedding of a text. Returns whether the target is asked for it, because it is not in the cache."""
        loop = asyncio.get_running_loop()
        self._known[text] = loop.create_future()
        found = None if self.store is None else self.store.find(self._question(text))
        vectors = None if found is None else vectors_of([found.response.get("vector")])
        if vectors and vectors[0]:
            self._known[text].set_result(Outcome(Embedding(vectors[0])))
            return False
        self._waiting.append(text)
        if len(self._waiting) == 1:
            loop.call_later(_WAIT_SECONDS, self._send)
        return True

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), _MOST):
            task = asyncio.ensure_future(self._send_some(waiting[start : start + _MOST]))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def _send_some(self, texts: Sequence[str]) -> None:
        """Ask for some texts in one request, for all who wait for them."""

        async def ask() -> list[Embedding]:
            return list(_shares(await self._ask(texts, self.timeout_seconds), texts))

        outcome = await attempt_async(ask)
        if isinstance(outcome.error, ContentError) and len(texts) > 1:
            # One of the texts may be at fault, or their number.
            await asyncio.gather(*(self._send_some([text]) for text in texts))
            return
        if outcome.error is not None:
            for text in texts:  # a later case may try again
                self._known.pop(text).set_result(Outcome(error=outcome.error))
            return
        for text, embedding in zip(texts, outcome.get(), strict=True):
            waiting = self._known[text] if embedding.vector else self._known.pop(text)  # a later case may try again
            waiting.set_result(Outcome(embedding))

    async def _keep(self, outcomes: Mapping[str, Outcome[Embedding]]) -> None:
        """Write the embeddings that the running case has asked for: a row for each text, one of them with the call."""
        if self.store is None:
            return
        for number, (text, outcome) in enumerate(outcomes.items(), start=1):
            found = None if outcome.error is not None else outcome.get()
            usage = None if found is None or found.tokens is None else TokenUsage(found.tokens, 0)
            costs = Costs.of_call(usage, None if found is None else found.cost_usd)
            vector = json.dumps({"vector": found.vector}) if found is not None and found.vector else None
            costs = costs if number == 1 else costs.replace(calls=0)
            await self.store.add(self._question(text), vector, costs, waits=number == len(outcomes))

    def _question(self, text: str) -> Question:
        item, eval_id, tested = current_case.get()
        key = digest_of({"embedding": self.identity, "text": text})
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


@dataclass(slots=True)
class CallableTargets:
    """The targets of a targets file. The first call of a target resolves it."""

    names: tuple[str, ...]
    default_name: str
    """The target of calls that name none."""
    open_target: Callable[[str], tuple[Target, Adapter]]
    """Raises `TargetError`."""
    asked: EqualQuestions = field(default_factory=EqualQuestions)
    """Counts the questions of the case."""
    check: Callable[[Target, Adapter], Awaitable[None]] | None = None
    """Raises `ProviderError`; None for mocks."""
    tell: Tell | None = None
    """Hears what is odd about the replies."""
    default: tuple[Target, Adapter] = field(init=False)
    """The default target, to be checked before anything is paid for."""

    def __post_init__(self) -> None:
        self.default = self.open_target(self.default_name)

    def resolve(self, name: str) -> Callable[[ProxiedQuestion], Awaitable[ProviderResponse]]:
        """Return a function that calls a target. Raises `TargetError` if the target cannot be used."""
        return partial(self._ask, *self.open_target(name))

    async def _ask(self, target: Target, provider: Adapter, asked: ProxiedQuestion) -> ProviderResponse:
        """Call a target once, without retries, because the script has the time limit of one call.

        Raises `ProviderError` if there is no reply. A response with an error may hold the metrics of the call.
        """
        if self.check is not None:
            await self.check(target, provider)  # a script may name a target that no case has
        request = ProviderRequest(
            **prompts_for(target, asked.system_prompt, asked.question),
            eval_id=asked.eval_id,
            attempt=asked.attempt,
            answer=asked.context.answer,
            reruns=asked.context.reruns,
            timeout_seconds=asked.context.timeout_seconds,
        )
        request = self.asked.next(provider, request, asked.context.twin)
        attempts = await invoke_with_retries(provider, request, 0, f"target {target.name}")
        tell_of_replies(target.name, attempts, self.tell)
        return attempts.reply()
