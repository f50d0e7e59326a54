"""Whether a run goes on."""

import pytest

from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.reporting.escaping import shown
from pytest_agentv.session.recording.recorder import Recorder
from pytest_agentv.session.running.limits import FailureLimit
from pytest_agentv.session.workers.interrupts import Parent


class Stopping:
    """Knows all that stops a run: targets that are not well, lost results, failures, Ctrl-C, a controller that is gone.

    Any thread may ask.
    """

    def __init__(
        self, *, pool: TargetPool, recorder: Recorder, failures: FailureLimit, parent: Parent, masker: Masker
    ) -> None:
        self.is_ending = False
        """Set by pytest's thread when the run ends: cases that are cancelled from now on get no result."""
        self._pool = pool
        self._recorder = recorder
        self._failures = failures
        self._parent = parent
        self._masker = masker

    @property
    def runs_on(self) -> bool:
        """Whether cases may be started whose turn has not come."""
        return not (
            self.is_ending
            or self._pool.stop_reason is not None
            or self._recorder.error is not None
            or self._failures.is_reached
        )

    def stop_if_needed(self, session: pytest.Session) -> None:
        """End the run after the current item when its target is not well, or its results are lost."""
        reason = self._pool.stop_reason
        if reason is not None:
            headline = shown(reason, self._masker).partition("\n")[0]
            session.shouldstop = f"agentv: {headline}"
        elif self._recorder.error is not None:
            session.shouldfail = f"agentv: {lost_text(self._recorder.error)}"

    def end_without_parent(self) -> None:
        """End a worker whose controller is at its end: nobody would learn of what it goes on paying for."""
        if self._parent.is_gone():
            self.is_ending = True
            pytest.exit("the controller of this worker is gone")


def lost_text(reason: str) -> str:
    return f"results cannot be recorded: {reason}"
