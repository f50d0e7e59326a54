"""How the store keeps the answers to equal questions of a case apart."""

import asyncio
from pathlib import Path
from typing import Any

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.engine.judging import EqualQuestions
from pytest_agentv.engine.stored import StoredProvider
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.composite import Composite, WeightedAverage
from pytest_agentv.evaluators.context import Context
from pytest_agentv.model.results import Score
from pytest_agentv.model.secrets import Masker
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.mock import dry_run_provider
from pytest_agentv.store.answers import AnswerStore, Runs

from .checks.conftest import CASE

REQUEST = ProviderRequest(Prompt("question"), eval_id="a")


def stored() -> StoredProvider:
    store = AnswerStore(Runs(Path(), "", Path()), print)
    return StoredProvider(dry_run_provider(0, 0, 0), "fingerprint", store, Masker())


def test_the_first_of_equal_questions_has_no_number_and_the_others_have_one_each() -> None:
    asked, provider = EqualQuestions(), stored()
    other = REQUEST.replace(prompt=Prompt("another question"))
    numbers = [asked.next(provider, each).occurrence for each in (REQUEST, other, REQUEST, REQUEST, other)]
    assert numbers == [(), (), (1,), (2,), (1,)]
    assert asked.next(provider, REQUEST, (0, 0)).occurrence == (3,), "the first of equal members asks like one alone"
    assert asked.last(provider, REQUEST).occurrence == (3,)


def test_equal_members_count_for_themselves_whichever_asks_first() -> None:
    provider, twins = stored(), [(0,), (1,), (0, 1), (1, 1), (1, 0)]
    orders = [twins, twins[::-1]]
    found = []
    for order in orders:
        asked = EqualQuestions()
        found.append({twin: asked.next(provider, REQUEST, twin).occurrence for twin in order if twin != (1, 0)})
    assert found[0] == found[1]
    assert len(set(found[0].values())) == 4
    again = EqualQuestions()
    assert [again.next(provider, REQUEST, (1,)).occurrence for _ in range(2)] == [(0, 1), (1, 1)]


def test_without_a_store_nothing_is_counted() -> None:
    asked, provider = EqualQuestions(), dry_run_provider(0, 0, 0)
    assert [asked.next(provider, REQUEST).occurrence for _ in range(2)] == [(), ()]


def test_members_of_composites_are_numbered_for_themselves() -> None:
    seen: list[tuple[str, tuple[int, ...]]] = []

    class Noting(Evaluator):
        """A kind of the user's, which may ask a judge."""

        kind = "noting"
        what: str = "x"

        async def evaluate(self, context: Context) -> Score:
            seen.append((self.label, context.twin))
            return Score(1.0)

    def of(name: str, *members: Any) -> Composite:
        return Composite(name=name, evaluators=members, aggregator=WeightedAverage())

    members = (Noting(name="a"), Noting(name="b", weight=2, required=True), Noting(name="c", what="y"))
    more = (Noting(name="d"), Noting(name="e"), Noting(name="f", what="y"))
    asyncio.run(of("all", of("left", *members), of("right", *more)).evaluate(Context(CASE, Prompt("q"), "x")))
    assert dict(seen) == {"a": (0, 0), "b": (0, 1), "c": (0, 2), "d": (1, 0), "e": (1, 1), "f": (1, 2)}
