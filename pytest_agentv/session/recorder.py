"""Writes each result as soon as its case is done."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import TypeAlias

from pytest_agentv.errors import AgentvError
from pytest_agentv.model.results import EvalResult
from pytest_agentv.store.writers import ResultSink

RECORDER_THREAD = "agentv-results"


class _Written(asyncio.Future[EvalResult]):
    """Holds a result when it is written or known to be lost. A task that is cancelled meanwhile is so after that."""

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 - asyncio's signature
        return False


_Entry: TypeAlias = tuple[EvalResult, _Written]


class Recorder:
    """Passes results to the sink in a thread of its own: a lock of another process must not block the event loop.

    Results that arrive during a write are written together, under one lock.
    """

    def __init__(self, sink: ResultSink) -> None:
        self.error: str | None = None
        """Why results could not be written; the first reason is kept."""
        self._sink = sink
        self._queue: SimpleQueue[_Entry | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_probed = False

    def probe(self) -> None:
        """Check, once, that results can be written, before anything is paid for."""
        if not self._is_probed:
            self._is_probed = True
            try:
                self._sink.probe()
            except AgentvError as error:
                self.error = self.error or str(error)

    def record(self, result: EvalResult) -> "asyncio.Future[EvalResult]":
        """Queue a result. The future has it, as it was written, when it is or is known to be lost. Called on the loop.

        A result is written even if its case is cancelled meanwhile: the future cannot be cancelled.
        """
        if self._thread is None:
            thread = threading.Thread(target=self._write_all, name=RECORDER_THREAD, daemon=True)
            thread.start()
            self._thread = thread
        written = _Written()
        self._queue.put((result, written))
        return written

    def record_here(self, result: EvalResult) -> EvalResult:
        """Write a result in this thread, for want of a loop. Return it as it was written."""
        try:
            return self._sink.write(result)[0]
        except Exception as error:  # noqa: BLE001 - as for all results
            self._note_loss(error)
            return result

    def close(self) -> None:
        """Write the waiting results, end the thread and close the file."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None
        self._sink.close()

    def _write_all(self) -> None:
        is_open = True
        while is_open:
            entries = [self._queue.get()]
            while not self._queue.empty():  # no other thread takes entries
                entries.append(self._queue.get())
            is_open = None not in entries
            self._write([entry for entry in entries if entry is not None])

    def _write(self, entries: Sequence[_Entry]) -> None:
        try:
            if entries:
                written = self._sink.write(*[result for result, _ in entries])
                entries = [(result, future) for result, (_, future) in zip(written, entries, strict=True)]
        except Exception as error:  # noqa: BLE001 - whatever it is, cases wait for this thread
            # The cases were judged. The lost lines are reported at the end, and do not change the outcomes.
            self._note_loss(error)
        finally:
            if entries:
                with suppress(RuntimeError):  # the loop has ended, and nobody waits
                    # One call into the loop for all, because each call costs a switch of threads.
                    entries[0][1].get_loop().call_soon_threadsafe(_end_waiting, entries)

    def _note_loss(self, error: Exception) -> None:
        reason = str(error) if isinstance(error, AgentvError) else f"{type(error).__name__}: {error}"
        self.error = self.error or reason


def _end_waiting(entries: Sequence[_Entry]) -> None:
    for result, written in entries:
        written.set_result(result)
