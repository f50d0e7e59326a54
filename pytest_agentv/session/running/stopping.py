"""Decides whether a run goes on: it may end at failures, or for other reasons."""

import pytest

from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.reporting.escaping import shown
from pytest_agentv.reporting.serialization import stored_name
from pytest_agentv.session.recording.recorder import Recorder
from pytest_agentv.session.workers.interrupts import Parent


class FailureLimit:
    """Whether the run is about to stop at `-x`, `--maxfail` or `--stepwise`.

    pytest counts the failures that it has reported. A case that failed ahead of its turn counts as well, but only until
    its turn is over: pytest may see it in another way (xfail, reruns, hooks that change reports).
    """

    def __init__(self, config: pytest.Config) -> None:
        self.maximum = _max_failures(config)
        """0: any number may fail."""
        self._session: pytest.Session | None = None
        self._current = ""
        self._ahead: set[str] = set()
        """Node ids of cases that failed before their turn. Only the event loop adds, only pytest's thread removes."""

    def begin(self, item: pytest.Item) -> None:
        """Note which item's turn it is."""
        self._session, self._current = item.session, stored_name(item.nodeid)

    def end(self, item: pytest.Item) -> None:
        """Note that an item's turn is over: pytest has counted its failure."""
        self._current = ""
        self._ahead.discard(stored_name(item.nodeid))

    def note(self, node_id: str | None) -> None:
        """Note a case that did not pass."""
        if self.maximum and node_id is not None and node_id != self._current:
            self._ahead.add(node_id)

    @property
    def is_reached(self) -> bool:
        reported = self._session.testsfailed if self._session is not None else 0
        return 0 < self.maximum <= reported + len(self._ahead)


class Stopping:
    """Tells whether a run stops: unhealthy targets, lost results, failures, Ctrl-C, or a controller that is gone.

    Any thread may ask.
    """

    def __init__(
        self, *, pool: TargetPool, recorder: Recorder, failures: FailureLimit, parent: Parent, masker: Masker
    ) -> None:
        self.is_ending = False
        """Set by pytest's thread when the run ends. Cases that are cancelled later get no result."""
        self._pool = pool
        self._recorder = recorder
        self._failures = failures
        self._parent = parent
        self._masker = masker

    @property
    def runs_on(self) -> bool:
        """Whether cases may start before their turn."""
        return not (
            self.is_ending
            or self._pool.stop_reason is not None
            or self._recorder.error is not None
            or self._failures.is_reached
        )

    def stop_if_needed(self, session: pytest.Session) -> None:
        """End the run after the current item if a target is unhealthy or results are lost."""
        reason = self._pool.stop_reason
        if reason is not None:
            headline = shown(reason, self._masker).partition("\n")[0]
            session.shouldstop = f"agentv: {headline}"
        elif self._recorder.error is not None:
            session.shouldfail = f"agentv: {lost_text(self._recorder.error)}"

    def end_without_parent(self) -> None:
        """End a worker whose controller is gone. Nobody would see the results that it pays for."""
        if self._parent.is_gone():
            self.is_ending = True
            pytest.exit("the controller of this worker is gone")


def lost_text(reason: str) -> str:
    return f"results cannot be recorded: {reason}"


def _max_failures(config: pytest.Config) -> int:
    if config.getoption("stepwise", default=False):
        return 2 if config.getoption("stepwise_skip", default=False) else 1
    return int(config.getoption("maxfail", default=0) or 0)
