"""Embeddings for several cases in one request: what one text, or their number, does to the others."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_agentv.engine.embedding import TargetEmbedder
from pytest_agentv.errors import EvaluatorError, ProviderError
from pytest_agentv.evaluators.context import Embedding
from pytest_agentv.model.cases import Target
from pytest_agentv.providers.api.base import Embeddings
from pytest_agentv.providers.api.client import ContentError
from pytest_agentv.store.answers import AnswerStore, Runs

MISSING = "the target 'embeddings' gave no embeddings: it replied without a vector for one of the texts"


class Server:
    """Refuses requests with more than `most` texts, and those with the text `bad`. Gives no vector for `lost`."""

    def __init__(self, most: int = 64, error: ProviderError | None = None, store: Path | None = None) -> None:
        self.most = most
        self.error = error or ContentError("model 'e' replied HTTP 400", "config", {"request_attempts": 1})
        self.sizes: list[int] = []
        runs = None if store is None else Runs(store, "run", Path(), any_run=True)
        self.store = None if runs is None else AnswerStore(runs, pytest.fail)
        target = Target("embeddings", "openai")
        self.embedder = TargetEmbedder(target, self.answer, "fingerprint", self.store, None)

    async def answer(self, texts: Sequence[str], _: float | None) -> Embeddings:
        self.sizes.append(len(texts))
        if len(texts) > self.most or "bad" in texts:
            raise self.error
        vectors = tuple(None if text == "lost" else (1.0, float(len(text))) for text in texts)
        return Embeddings(vectors, 10 * len(texts), 0.5 * len(texts))

    async def ask(self, *questions: Sequence[str]) -> list[Sequence[Embedding] | BaseException]:
        """Ask for the texts of several cases at a time."""
        return await asyncio.gather(*map(self.embedder.embed, questions), return_exceptions=True)


def test_a_text_without_a_vector_is_an_error_of_its_own_case_only(tmp_path: Path) -> None:
    server = Server(store=tmp_path / "answers.sqlite")

    async def run() -> list[Sequence[Embedding] | BaseException]:
        return [*await server.ask(["a", "b"], ["lost", "c"]), *await server.ask(["c", "a"], ["lost", "b"])]

    good, bad, again, still_bad = asyncio.run(run())

    assert [[each.vector for each in found] for found in (good, again) if not isinstance(found, BaseException)] == [
        [(1.0, 1.0)] * 2
    ] * 2
    for found in (bad, still_bad):
        assert isinstance(found, EvaluatorError)
        assert str(found) == MISSING
    assert server.sizes == [4, 1], "what was paid for is kept, and only what lacks is asked for again"
    assert server.store is not None
    server.store.close()
    other = Server(store=tmp_path / "answers.sqlite")
    asyncio.run(other.ask(["a", "b", "c"], ["lost"]))
    assert other.sizes == [1], "the store keeps the good vectors only"


def test_a_server_that_takes_fewer_texts_soon_gets_fewer() -> None:
    server = Server(most=2)

    async def run() -> list[Sequence[Embedding] | BaseException]:
        return [*await server.ask(list("abcdefgh")), *await server.ask(list("ijkl")), *await server.ask(list("mnop"))]

    assert not any(isinstance(each, BaseException) for each in asyncio.run(run()))
    assert server.sizes == [8, *[1] * 8, 4, *[1] * 4, 2, 2]
