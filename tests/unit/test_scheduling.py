"""Which worker gets which tests of this project."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import scheduling
from scheduling import ModuleScheduling, begins_early

ROOT = Path(__file__).parents[2]
SHARING = "tests/acceptance/test_gates.py"
OTHER = "tests/unit/test_text.py"


class Worker:
    """A worker that keeps what it is told to run."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def plan_of(pytestconfig: pytest.Config, nodeids: list[str], *workers: Worker) -> ModuleScheduling:
    option = SimpleNamespace(tx=["2*popen"], loadscopereorder=True)
    config: Any = SimpleNamespace(option=option, rootpath=ROOT, getvalue=vars(option).get, hook=pytestconfig.hook)
    plan = ModuleScheduling(config)
    for worker in workers:
        plan.add_node(worker)
        plan.add_node_collection(worker, nodeids)
    plan.schedule()
    return plan


def distributed(pytestconfig: pytest.Config, nodeids: list[str]) -> list[list[str]]:
    """Return the tests of each of two workers, which take turns to run one."""
    workers = [Worker("gw0"), Worker("gw1")]
    plan = plan_of(pytestconfig, nodeids, *workers)
    done = [0, 0]
    while any(done[number] < len(worker.given) for number, worker in enumerate(workers)):
        for number, worker in enumerate(workers):
            if done[number] < len(worker.given):
                plan.mark_test_complete(worker, worker.given[done[number]])
                done[number] += 1
    assert plan.tests_finished
    assert sorted(index for worker in workers for index in worker.given) == list(range(len(nodeids)))
    return [[nodeids[index] for index in worker.given] for worker in workers]


def test_a_module_that_shares_a_run_and_those_that_import_litellm_go_to_one_worker(pytestconfig: pytest.Config) -> None:
    found = distributed(pytestconfig, [f"{module}::test_{n}" for module in (SHARING, OTHER) for n in range(9)])
    assert sorted(sum(nodeid.startswith(SHARING) for nodeid in of_worker) for of_worker in found) == [0, 9]
    litellm = [f"{module}::test_{n}" for module in scheduling.IMPORTING_LITELLM for n in range(3)]
    assert sorted(map(len, distributed(pytestconfig, [*litellm, f"{OTHER}::test_one"]))) == [1, len(litellm)]


@pytest.mark.parametrize("module", sorted(scheduling.IMPORTING_LITELLM | scheduling.WAITING))
def test_a_module_that_begins_early_is_there(module: str) -> None:
    assert (ROOT / module).is_file()
    assert begins_early(ROOT, f"{module}::test_one")
    assert begins_early(ROOT, f"{SHARING}::test_one")
    assert not begins_early(ROOT, f"{OTHER}::test_one")


def test_a_test_that_ends_its_worker_is_not_run_again_and_all_others_are_run(pytestconfig: pytest.Config) -> None:
    nodeids = [f"{OTHER}::test_{n}" for n in range(4)]
    plan = plan_of(pytestconfig, nodeids, first := Worker("gw0"), second := Worker("gw1"))
    assert (first.given, second.given) == ([0, 2], [1, 3])
    assert plan.remove_node(first) == nodeids[0]
    for index in second.given:
        plan.mark_test_complete(second, index)
    plan.add_node(third := Worker("gw2"))
    plan.add_node_collection(third, nodeids)
    plan.schedule()
    assert sorted(second.given + third.given) == [1, 2, 3]
    assert second.shutting_down
    assert third.shutting_down
