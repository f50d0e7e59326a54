"""Which items the workers of pytest-xdist get: all of them run whatever ends first, and cases fill the places."""

from contextlib import suppress
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import tries
from xdist import scheduler

from pytest_agentv.session import schedule
from pytest_agentv.session.schedule import LoadScheduling
from pytest_agentv.session.workers import PLACES

pytestmark = pytest.mark.slow

KINDS = ("LoadScheduling", "LoadFileScheduling", "LoadScopeScheduling", "LoadGroupScheduling")


class Worker:
    """Notes what it is given. As a real one, it runs an item when it has the next one, or when no more will come."""

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.given: list[int] = []
        self.done = 0
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down, "it would not run what comes after that"
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def can_go_on(self) -> bool:
        return len(self.given) - self.done > (0 if self.shutting_down else 1)


@cache
def config_of(*words: str) -> pytest.Config:
    return pytest.Config.fromdictargs({}, ["--noconftest", "-p", "no:cacheprovider", *words])


def start(scheduler: Any, ids: list[str], workers: int = 2) -> list[Worker]:
    nodes = [Worker(number) for number in range(workers)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, ids)
    scheduler.schedule()
    return nodes


def complete(scheduler: Any, node: Worker, places: int | None = None, seconds: float = 5) -> None:
    if places is not None:
        scheduler.pytest_runtest_logreport(SimpleNamespace(node=node, **{PLACES: places}))
    index = node.given[node.done]
    node.done += 1
    scheduler.mark_test_complete(node, index, seconds)


def cases(count: int) -> list[str]:
    return [f"a.eval.yaml::case-{number}" for number in range(count)]


def ids_of(parts: list[tuple[bool, int]]) -> list[str]:
    """Return the ids of files: whether they hold cases, and how many items."""
    names = {True: "a.eval.yaml::case", False: "test_a.py::test"}
    return [f"{file}-{names[kind]}-{n}" for file, (kind, count) in enumerate(parts) for n in range(count)]


def test_each_worker_gets_twice_as_many_cases_as_it_may_have_in_flight() -> None:
    scheduler = LoadScheduling(config_of("--tx=2*popen", "--agentv-workers=20"))
    nodes = start(scheduler, cases(80))
    assert [len(node.given) for node in nodes] == [20, 20]
    for _ in range(10):
        complete(scheduler, nodes[0])
    assert 15 <= len(nodes[0].given) - nodes[0].done <= 20, "however long its cases take"


def test_places_of_the_target_override_those_of_the_option() -> None:
    scheduler = LoadScheduling(config_of("--tx=2*popen", "--agentv-workers=20"))
    node = start(scheduler, cases(400))[0]
    complete(scheduler, node, places=1)
    given = len(node.given)
    for _ in range(given - 3):
        complete(scheduler, node)
    assert len(node.given) == given, "as xdist has it"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("words", [["--agentv-workers=20"], []])
@settings(max_examples=tries(10, 200))
@given(st.data())
def test_without_cases_workers_get_what_they_get_of_xdist(kind: str, words: list[str], data: st.DataObject) -> None:
    config = config_of("--tx=2*popen", *words)
    ours, usual = getattr(schedule, kind)(config), getattr(scheduler, kind)(config)
    ids = ids_of(data.draw(st.lists(st.tuples(st.just(False), st.integers(1, 20)), max_size=4)))
    nodes, others = start(ours, ids), start(usual, ids)
    while busy := [number for number, node in enumerate(nodes) if node.can_go_on]:
        number, seconds = data.draw(st.sampled_from(busy)), data.draw(st.sampled_from([0.01, 5]))
        complete(ours, nodes[number], seconds=seconds)
        complete(usual, others[number], seconds=seconds)
        assert [node.given for node in nodes] == [node.given for node in others]
        assert [node.shutting_down for node in nodes] == [node.shutting_down for node in others]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=tries(20, 400))
@given(st.data())
def test_each_item_of_many_files_is_run_once_whichever_workers_die(kind: str, data: st.DataObject) -> None:
    workers = data.draw(st.integers(1, 4))
    words = data.draw(st.sampled_from([(), ("--agentv-workers=2",), ("--agentv-workers=50",)]))
    parts = data.draw(st.lists(st.tuples(st.booleans(), st.integers(1, 6)), min_size=1, max_size=12))
    ids = ids_of(parts)
    ours = getattr(schedule, kind)(config_of(f"--tx={workers}*popen", *words))
    nodes = [Worker(number) for number in range(workers)]
    for node in nodes:
        ours.add_node(node)
    collecting = list(nodes)
    run: list[int] = []
    deaths = data.draw(st.integers(0, 3))
    while busy := [*collecting, *(node for node in nodes if node.can_go_on and node not in collecting)]:
        node = data.draw(st.sampled_from(busy))
        if deaths and data.draw(st.integers(0, 4)) == 0:
            deaths -= 1
            node = data.draw(st.sampled_from(nodes))
            nodes.remove(node)
            with suppress(KeyError):  # as xdist does: workers without work were removed before
                died_on = ours.remove_node(node)
                run += [] if died_on is None else [ids.index(died_on)]
            nodes.append(Worker(len(run) + workers))
            ours.add_node(nodes[-1])
            collecting = [*(each for each in collecting if each is not node), nodes[-1]]
        elif node in collecting:
            collecting.remove(node)
            ours.add_node_collection(node, ids)
            if ours.collection_is_completed:
                ours.schedule()
        else:
            run.append(node.given[node.done])
            complete(ours, node, data.draw(st.sampled_from([None, 1, 3, 25])))
    assert sorted(run) == list(range(len(ids)))
    assert [node.done for node in nodes] == [len(node.given) for node in nodes]
