"""Which items may be begun before their turn."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_agentv.session.compat import queued_items
from pytest_agentv.session.running import lookahead as module
from pytest_agentv.session.running.lookahead import Lookahead

CASES = "evalcases:\n" + "".join(
    f"  - {{id: {name}, expected_outcome: o, input: q, evaluators: [{{name: l, type: latency, threshold: 9}}]}}\n"
    for name in "abcdef"
)


@pytest.fixture
def items(pytester: pytest.Pytester) -> list[pytest.Item]:
    """Six cases with a Python test behind the third."""
    pytester.path.joinpath("1.eval.yaml").write_text(CASES)
    pytester.makepyfile("def test_python(): ...")
    collected, _ = pytester.inline_genitems("-p", "no:hypothesispytest")
    found = {item.name: item for item in collected}
    return [found[name] for name in ("a", "b", "c", "test_python", "d", "e", "f")]


def lookahead(items: list[pytest.Item], **options: Any) -> Lookahead:
    def getoption(name: str, *, default: object) -> object:
        return options.get(name, default)

    config: Any = SimpleNamespace(
        getoption=getoption,
        pluginmanager=SimpleNamespace(get_plugins=lambda: options.get("plugins", ())),
        **options.get("worker", {}),
    )
    ahead = Lookahead(config)
    ahead.remember(items)
    return ahead


def names(found: Iterator[pytest.Item]) -> list[str]:
    return [item.name for item in found]


def test_nothing_runs_ahead_in_a_process_that_was_forked_for_one_item(
    items: list[pytest.Item], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pytest-forked does: what was begun there would end with it, and be paid for again at its own turn."""
    ahead = lookahead(items)
    monkeypatch.setattr(module.os, "getpid", lambda: -1)
    assert names(ahead.after(items[0], set())) == []
    assert names(ahead.of_batch(items[0], set())) == []


def test_an_item_is_found_wherever_it_stands(items: list[pytest.Item]) -> None:
    ahead = lookahead(items)
    assert names(ahead.after(items[4], set())) == ["e", "f"]
    assert names(ahead.after(items[1], set())) == ["e", "f"]  # nothing before these can be begun any more
    assert names(lookahead(items[1:]).after(items[0], set())) == []


class WorkerInteractor:
    """xdist's worker, as far as it is looked into."""

    def __init__(self, next_index: object, *queued: object) -> None:
        self.nextitem_index = next_index
        self.torun = SimpleNamespace(lock=self._lock)
        self._queued = deque(queued)

    @contextmanager
    def _lock(self) -> Iterator[deque[object]]:
        yield self._queued


def worker(dist: str) -> dict[str, Any]:
    return {"workerinput": {"agentv_dist": dist}}


def test_the_queue_of_an_older_xdist_is_known_too(items: list[pytest.Item]) -> None:
    interactor = WorkerInteractor(4)
    interactor.torun = Queue()  # type: ignore[assignment]
    for position in (5, 1, object()):
        interactor.torun.put(position)  # type: ignore[attr-defined]
    ahead = lookahead(items, worker=worker("load"), plugins=[interactor])
    assert names(ahead.after(items[0], set())) == ["d", "e", "b"]
    assert interactor.torun.qsize() == 3, "it was looked at only"  # type: ignore[attr-defined]


@pytest.mark.parametrize("dist", ["load", "worksteal"])
def test_where_the_queue_is_unknown_or_not_to_be_relied_on_only_the_next_item_is_seen(
    items: list[pytest.Item], dist: str
) -> None:
    plugins = [WorkerInteractor(1, 2, 4)] if dist == "worksteal" else []
    ahead = lookahead(items, worker=worker(dist), plugins=plugins)
    assert names(ahead.after(items[0], set())) == []
    ahead.begin(items[1])
    assert names(ahead.after(items[0], set())) == ["b"]


@pytest.mark.parametrize("broken", [SimpleNamespace(), SimpleNamespace(lock=None)])
def test_another_xdist_is_no_error(items: list[pytest.Item], broken: object) -> None:
    interactor = WorkerInteractor(1)
    interactor.torun = broken  # type: ignore[assignment]
    config: Any = SimpleNamespace(pluginmanager=SimpleNamespace(get_plugins=lambda: [interactor]))
    assert queued_items(config, items) is None
