"""How many cases each process may have in flight, and how many failures end a run."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.session.case_runs import FailureLimit
from pytest_agentv.session.workers import WORKER_NUMBER, ProcessShare, WorkerNumbers, process_share


@given(count=st.integers(1, 20), workers=st.integers(1, 50))
def test_all_shares_together_make_up_the_workers_and_no_process_stands_still(count: int, workers: int) -> None:
    shares = [ProcessShare(index, count).of(workers) for index in range(count)]
    assert sum(shares) == max(workers, count)
    assert 0 <= shares[0] - shares[-1] <= 1
    assert shares[-1] >= 1


def config(**options: Any) -> Any:
    def getoption(name: str, *, default: object) -> object:
        return options.get(name, default)

    return SimpleNamespace(getoption=getoption)


@pytest.mark.parametrize(
    ("worker", "expected"),
    [({}, ProcessShare(0, 1)), ({"workerid": "alpha", WORKER_NUMBER: 1, "workercount": 4}, ProcessShare(1, 4))],
    ids=["no worker", "worker"],
)
def test_a_worker_has_the_share_of_the_number_it_was_sent(worker: dict[str, Any], expected: ProcessShare) -> None:
    assert process_share(config() if not worker else SimpleNamespace(workerinput=worker)) == expected  # type: ignore[arg-type]


def test_a_worker_that_replaces_a_dead_one_has_its_number() -> None:
    numbers = WorkerNumbers()
    assert [numbers.take(name) for name in ("gw0", "alpha", "gw2")] == [0, 1, 2]
    numbers.free("alpha")
    assert numbers.take("gw3") == 1
    numbers.free("unknown")
    assert numbers.take("gw4") == 3


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 0),
        ({"maxfail": 3}, 3),
        ({"stepwise": True}, 1),
        ({"stepwise": True, "stepwise_skip": True}, 2),
    ],
)
def test_failures_that_end_a_run_are_those_of_pytests_flags(options: dict[str, Any], expected: int) -> None:
    assert FailureLimit(config(**options)).maximum == expected


class Turn:
    """An item whose turn it is, in a run that has reported some failures."""

    def __init__(self, name: str, reported: int = 0) -> None:
        self.nodeid = name
        self.session = SimpleNamespace(testsfailed=reported)


def test_a_failure_ahead_of_its_turn_counts_until_pytest_has_seen_it() -> None:
    failures: Any = FailureLimit(config(maxfail=2))
    failures.begin(Turn("a"))
    failures.note("c")
    assert not failures.is_reached
    failures.note("d")
    assert failures.is_reached
    for name in "acd":  # pytest counted none of them: they were expected, or were run again
        failures.begin(Turn(name))
        failures.end(Turn(name))
    assert not failures.is_reached
    failures.begin(Turn("e", reported=2))
    assert failures.is_reached


def test_the_item_on_turn_is_counted_by_pytest_only() -> None:
    failures: Any = FailureLimit(config(maxfail=1))
    failures.begin(Turn("a"))
    failures.note("a")
    failures.note(None)
    assert not failures.is_reached


def test_without_a_limit_nothing_is_counted() -> None:
    failures: Any = FailureLimit(config())
    failures.begin(Turn("a", reported=5))
    failures.note("b")
    assert not failures.is_reached
