"""Which worker gets which tests of this project."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import scheduling
from scheduling import ModuleScheduling, begins_early

ROOT = Path(__file__).parents[2]
SHARING = "tests/acceptance/test_junit.py"
OTHER = "tests/unit/test_text.py"
LITELLM = sorted(scheduling.IMPORTING_LITELLM)


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


def distributed(pytestconfig: pytest.Config, nodeids: list[str]) -> list[list[str]]:
    """Return the tests of each of two workers, which take turns to run one."""
    option = SimpleNamespace(tx=["2*popen"], loadscopereorder=True)
    config: Any = SimpleNamespace(option=option, rootpath=ROOT, getvalue=vars(option).get, hook=pytestconfig.hook)
    plan = ModuleScheduling(config)
    workers = [Worker("gw0"), Worker("gw1")]
    for worker in workers:
        plan.add_node(worker)
        plan.add_node_collection(worker, nodeids)
    plan.schedule()
    done = [0, 0]
    while any(done[number] < len(worker.given) for number, worker in enumerate(workers)):
        for number, worker in enumerate(workers):
            if done[number] < len(worker.given):
                plan.mark_test_complete(worker, worker.given[done[number]])
                done[number] += 1
    assert plan.tests_finished
    assert sorted(index for worker in workers for index in worker.given) == list(range(len(nodeids)))
    return [[nodeids[index] for index in worker.given] for worker in workers]


def test_tests_of_one_module_go_to_all_workers(pytestconfig: pytest.Config) -> None:
    first, second = distributed(pytestconfig, [f"{Path(__file__).relative_to(ROOT)}::test_{n}" for n in range(20)])
    assert len(first) == len(second) == 10


def test_a_module_that_shares_a_run_goes_to_one_worker(pytestconfig: pytest.Config) -> None:
    found = distributed(pytestconfig, [f"{module}::test_{n}" for module in (SHARING, OTHER) for n in range(9)])
    assert sorted(sum(nodeid.startswith(SHARING) for nodeid in of_worker) for of_worker in found) == [0, 9]


def test_tests_that_import_litellm_go_to_one_worker(pytestconfig: pytest.Config) -> None:
    found = distributed(
        pytestconfig, [f"{module}::test_{n}" for module in LITELLM for n in range(3)] + [f"{OTHER}::test_one"]
    )
    assert sorted(map(len, found)) == [1, 3 * len(LITELLM)]


def test_of_many_modules_each_goes_to_one_worker(pytestconfig: pytest.Config) -> None:
    modules = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/unit").glob("test_*.py"))[:40]
    found = distributed(pytestconfig, [f"{module}::test_{n}" for module in modules for n in range(5)])
    first, second = ({nodeid.partition("::")[0] for nodeid in of_worker} for of_worker in found)
    assert not first & second
    assert first | second == set(modules)


@pytest.mark.parametrize("module", sorted(scheduling.IMPORTING_LITELLM | scheduling.WAITING))
def test_a_module_that_begins_early_is_there(module: str) -> None:
    assert (ROOT / module).is_file()
    assert begins_early(ROOT, f"{module}::test_one")
    assert begins_early(ROOT, f"{SHARING}::test_one")
    assert not begins_early(ROOT, f"{OTHER}::test_one")
