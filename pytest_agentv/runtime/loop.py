"""The event loop of a run: one per process, in a background thread."""

import asyncio
import concurrent.futures
import contextvars
import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from pytest_agentv.errors import LoopStartError
from pytest_agentv.runtime.user_code import run_in_background

T = TypeVar("T")
AnyFuture: TypeAlias = concurrent.futures.Future[T] | asyncio.Future[T]

_WAKE_SECONDS: Final = 0.2
"""Interval of waits, because on some platforms Ctrl-C does not interrupt a wait without a limit."""
_SWITCH_SECONDS: Final = 0.001
"""How long other threads may run while the loop is waiting for the interpreter. Python's default costs several waits of
5 ms per answer (benchmarks/in_flight.py)."""
STOP_SECONDS: Final = 10.0
"""How long cancelled tasks may take to end the processes they started."""


class LoopThread:
    """Runs coroutines for threads that wait. The first use starts it; `stop` stops and joins it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_stopped = False
        self._process = os.getpid()
        """A forked process has a copy of this object, but not its thread."""
        self._tasks: set[asyncio.Task[Any]] = set()
        """Tasks started on the loop itself, which keeps no strong reference to them."""
        self._starting: deque[tuple[Coroutine[Any, Any, Any], Callable[[Any], None], contextvars.Context]] = deque()
        self._is_woken = False
        """Whether the loop was woken for these. Waking takes a system call, and one is enough for many cases."""
        self._switch_seconds = 0.0

    @property
    def is_running(self) -> bool:
        return self._loop is not None and not self._is_stopped

    @property
    def is_current(self) -> bool:
        """Whether this is the loop's own thread, which must not wait for its own tasks."""
        return self._thread is threading.current_thread()

    def refuse_own_thread(self) -> None:
        """Raise `RuntimeError` on the loop's own thread, which would wait for itself."""
        if self.is_current:
            raise RuntimeError("the thread of the event loop must not wait for what runs on the loop")

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Start a coroutine on the loop from any thread. After `stop`, it is cancelled before it starts."""
        if self._is_stopped:
            coroutine.close()
            return _cancelled_future()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop_for(coroutine))

    def start(self, coroutine: Coroutine[Any, Any, T], on_done: "Callable[[AnyFuture[T]], None]") -> None:
        """Start a coroutine on the loop from any thread, and call `on_done` there. Twice as fast as `submit`."""
        if self._is_stopped:
            coroutine.close()
            on_done(_cancelled_future())
        elif self.is_current:
            self._start_here(coroutine, on_done)
        else:
            loop = self._loop_for(coroutine)
            self._starting.append((coroutine, on_done, contextvars.copy_context()))
            if not self._is_woken:
                self._is_woken = True
                loop.call_soon_threadsafe(self._start_all)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end. Any interruption of the wait, such as Ctrl-C, cancels it."""
        if self.is_current:
            coroutine.close()
        self.refuse_own_thread()
        future = self.submit(coroutine)
        try:
            return wait_for(future)
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Call a function on the loop soon. Does nothing after `stop`."""
        if self._loop is not None and not self._is_stopped:
            self._loop.call_soon_threadsafe(function)

    def cancel_all(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        if self._loop is not None and not self._is_elsewhere:
            concurrent.futures.wait([self.submit(_cancel_all_tasks())], timeout=STOP_SECONDS)

    def stop(self) -> None:
        """Cancel all tasks, let them clean up, and end the thread."""
        if self._loop is None or self._thread is None or self._is_stopped or self._is_elsewhere:
            return
        self._is_stopped = True
        cancelled = asyncio.run_coroutine_threadsafe(_cancel_all_tasks(), self._loop)
        concurrent.futures.wait([cancelled], timeout=STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_SECONDS)
        if sys.getswitchinterval() == _SWITCH_SECONDS:  # otherwise other code has changed it meanwhile
            sys.setswitchinterval(self._switch_seconds)

    def _start_all(self) -> None:
        self._is_woken = False  # set before the queue is read, so that a later `submit` wakes the loop again
        while self._starting:
            self._start_here(*self._starting.popleft())

    def _start_here(
        self,
        coroutine: Coroutine[Any, Any, T],
        on_done: "Callable[[AnyFuture[T]], None]",
        context: contextvars.Context | None = None,
    ) -> None:
        """Start a coroutine from the loop's own thread.

        Waking the loop from another thread takes a system call, after which another thread may hold the interpreter for
        milliseconds. Every case that starts when another ends would wait for that.
        """
        task = asyncio.get_running_loop().create_task(coroutine, context=context)
        self._tasks.add(task)
        task.add_done_callback(partial(self._end_here, on_done))  # one callback is one turn of the loop

    def _end_here(self, on_done: "Callable[[AnyFuture[T]], None]", task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        on_done(task)

    @property
    def _is_elsewhere(self) -> bool:
        return self._loop is not None and self._process != os.getpid()

    def _loop_for(self, coroutine: Coroutine[Any, Any, T]) -> asyncio.AbstractEventLoop:
        """Return the running loop. If it cannot be started, close the coroutine and raise `LoopStartError`."""
        try:
            return self.running_loop()
        except LoopStartError:
            coroutine.close()
            raise

    def running_loop(self) -> asyncio.AbstractEventLoop:
        """Start the loop unless it runs, and return it. Raises `LoopStartError`."""
        if self._is_elsewhere:
            raise RuntimeError(
                f"this process was forked from process {self._process}, where the cases of the run are evaluated: "
                "evaluate there, or in a process that is started anew (`spawn`)"
            )
        with self._lock:  # one test may run cases in several threads
            if self._loop is None:
                self._process = os.getpid()
                self._loop, self._thread = _start_loop()
                self._switch_seconds = sys.getswitchinterval()
                sys.setswitchinterval(min(self._switch_seconds, _SWITCH_SECONDS))
            return self._loop


def _start_loop() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    """Create a loop and run it in a thread. Raises `LoopStartError`."""
    try:
        for each in socket.socketpair():  # a loop that fails half-built warns in its `__del__`
            each.close()
        loop = asyncio.SelectorEventLoop()
    except Exception as error:
        hint = "; add --allow-unix-socket" if type(error).__name__ == "SocketBlockedError" else ""
        why = f"its event loop needs a socket pair: {type(error).__name__}: {error}"
        raise LoopStartError(f"no case can run, because {why}{hint}") from error
    try:
        return loop, run_in_background(loop, "agentv")
    except RuntimeError as error:
        raise LoopStartError(f"no case can run, because its event loop needs a thread: {error}") from error


async def _cancel_all_tasks() -> None:
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        if not task.cancelling():  # a second cancellation would interrupt the clean-up after the first
            task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _cancelled_future() -> "concurrent.futures.Future[T]":
    cancelled: concurrent.futures.Future[T] = concurrent.futures.Future()
    cancelled.cancel()
    cancelled.set_running_or_notify_cancel()
    return cancelled


def wait_for(future: "concurrent.futures.Future[T]", while_waiting: Callable[[], None] | None = None) -> T:
    """Wait for a future of the loop. Ctrl-C raises at once and does not cancel the future."""
    while not future.done():
        # Waits in a file of the standard library, because pytest names the line that Ctrl-C interrupts.
        with suppress(TimeoutError, concurrent.futures.CancelledError):
            future.exception(timeout=_WAKE_SECONDS)
        if while_waiting is not None and not future.done():
            while_waiting()
    return future.result()


def hand_on(done: "AnyFuture[T]", future: "concurrent.futures.Future[T]") -> None:
    """Copy the outcome of a finished future to another one, unless Ctrl-C has cancelled that one."""
    if done.cancelled() or future.cancelled():
        future.cancel()
        future.set_running_or_notify_cancel()  # notifies threads that wait for the cancellation
    elif (error := done.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())
