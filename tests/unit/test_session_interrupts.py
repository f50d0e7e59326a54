"""The end of a run with many processes."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_agentv.session import workers
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.session.workers import CrashWatch, Parent, shorten_traceback, stop_mark


def config(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


@pytest.mark.parametrize(("is_full", "entries"), [(False, 1), (True, 2)])
def test_only_a_full_traceback_of_an_interrupt_is_kept_for_rendering(is_full: bool, entries: int) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as excinfo:
        interrupted()
    last = excinfo.traceback[-1]
    shorten_traceback(config(getoption=lambda _, default: is_full), excinfo)
    assert len(excinfo.traceback) == entries
    assert excinfo.traceback[-1].lineno == last.lineno


def test_a_worker_learns_that_its_controller_was_interrupted(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.tempfile, "gettempdir", lambda: str(tmp_path))
    worker, plain = Parent(config(workerinput={}), "run"), Parent(config(), "run")
    assert (worker.is_gone(), plain.is_gone()) == (False, False)
    stop_mark("another run", os.getppid()).touch()
    assert not worker.is_gone()
    stop_mark("run", os.getppid()).touch()
    assert (worker.is_gone(), plain.is_gone()) == (True, False)


def test_a_controller_leaves_the_mark_while_it_is_interrupted(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers.tempfile, "gettempdir", lambda: str(tmp_path))
    settings: Any = config(getoption=lambda _, default: True)
    controller = CrashWatch(settings, RunIdentity("run", tmp_path / "out.jsonl"), config())
    mark = stop_mark("run", os.getpid())
    with pytest.raises(KeyboardInterrupt) as interrupt:
        raise KeyboardInterrupt
    controller.pytest_keyboard_interrupt(interrupt)
    assert not mark.exists(), "no worker has a case"
    controller.pytest_xdist_node_collection_finished(["a.eval.yaml::case"])
    controller.pytest_keyboard_interrupt(interrupt)
    assert mark.exists()
    controller.pytest_unconfigure()
    assert not mark.exists()


def test_a_worker_learns_that_its_controller_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Parent(config(workerinput={}), "run")
    monkeypatch.setattr(workers.os, "getppid", lambda: 1_000_000)
    assert worker.is_gone()
