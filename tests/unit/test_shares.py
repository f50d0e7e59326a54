"""How many cases each process may have in flight, and how many failures end a run."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.session.limits import ProcessShare, max_failures, process_share


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
    [
        ({}, ProcessShare(0, 1)),
        ({"workerid": "gw1", "workercount": 4}, ProcessShare(1, 4)),
        ({"workerid": "gw6", "workercount": 4}, ProcessShare(2, 4)),
    ],
    ids=["no worker", "worker", "replacement"],
)
def test_a_worker_that_replaces_a_crashed_one_has_its_share(worker: dict[str, Any], expected: ProcessShare) -> None:
    assert process_share(config() if not worker else SimpleNamespace(workerinput=worker)) == expected  # type: ignore[arg-type]


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
    assert max_failures(config(**options)) == expected
