"""The event loop of users' async functions: one of them may block it, and the run goes on."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from pytest_agentv.runtime.outcomes import Outcome, capture

T = TypeVar("T")

_ANSWER_SECONDS: Final = 1.0
"""How long a loop may take to notice a cancellation; one that takes longer is blocked."""
_CLEANUP_SECONDS: Final = 5.0
"""How long a cancelled function may take to clean up."""
_STOP_SECONDS: Final = 2.0


class UserCall(Generic[T]):
    """A call on the loop of users, awaited on another loop."""

    def __init__(self, start: Callable[[], Awaitable[T]], loop: asyncio.AbstractEventLoop) -> None:
        self.is_blocked = False
        """Whether the loop did not answer when the call was cancelled."""
        self._start = start
        self._loop = loop
        self._waiter = asyncio.get_running_loop()
        self._ended: asyncio.Future[Outcome[T]] = self._waiter.create_future()
        self._noticed: asyncio.Future[None] = self._waiter.create_future()
        self._task: asyncio.Task[Outcome[T]] | None = None

    async def outcome(self) -> Outcome[T]:
        """Return what came of the call. When the caller is cancelled, the call is, and its end is waited for."""
        try:
            self._loop.call_soon_threadsafe(self._begin, context=contextvars.copy_context())
        except RuntimeError:  # the loop was closed: the run is over
            return Outcome(error=asyncio.CancelledError())
        try:
            return await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._cancel)
            self.is_blocked = not await _within(_ANSWER_SECONDS, self._ended, self._noticed)
            if not self.is_blocked:
                await _within(_CLEANUP_SECONDS, self._ended)
            raise

    def _begin(self) -> None:
        """Runs on the loop of users, like `_cancel`."""
        self._task = asyncio.ensure_future(capture(self._start))
        self._task.add_done_callback(self._deliver)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._tell(self._noticed, None)

    def _deliver(self, task: "asyncio.Task[Outcome[T]]") -> None:
        self._tell(self._ended, Outcome(error=asyncio.CancelledError()) if task.cancelled() else task.result())

    def _tell(self, future: "asyncio.Future[Any]", value: object) -> None:
        with suppress(RuntimeError):  # the waiting loop was closed: nobody waits
            self._waiter.call_soon_threadsafe(lambda: None if future.done() else future.set_result(value))


class UserLoop:
    """A loop in a thread of its own, started by the first call; calls share it, so that they can share clients.

    It is made by the event loop policy of the process, which may be uvloop's. A loop that a function blocks is left
    alone when the call's time is over: later calls get a new one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards `_loop` and `_thread`
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this loop, which must not wait for anything."""
        return self._thread is threading.current_thread()

    def call(self, start: Callable[[], Awaitable[T]]) -> UserCall[T]:
        """Return a call that `UserCall.outcome` makes; `start` is called on the loop, too."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name="agentv-async", daemon=True)
                self._thread.start()
            return UserCall(start, self._loop)

    def leave(self, call: UserCall[Any]) -> None:
        """Let later calls have a new loop if this one's loop is blocked."""
        with self._lock:
            if call.is_blocked and call._loop is self._loop:
                self._loop = self._thread = None

    def close(self) -> None:
        """Cancel what still runs, and end the thread. A later call starts a new one."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(loop.stop)
            thread.join(_STOP_SECONDS)


USER_LOOP: Final = UserLoop()
"""The loop of this process."""


async def _within(seconds: float, *futures: "asyncio.Future[Any]") -> bool:
    """Wait until one of the futures is done. Return whether one is."""
    done, _ = await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        run_until_stopped(loop)
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        with suppress(BaseException):  # of tasks that users have started
            loop.run_until_complete(asyncio.wait(tasks, timeout=_STOP_SECONDS / 2) if tasks else asyncio.sleep(0))
            loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop. A task of a user's that raises `KeyboardInterrupt` or `SystemExit` does not end it."""
    while True:
        try:
            loop.run_forever()
        except (KeyboardInterrupt, SystemExit):  # no thread but the main one is interrupted by Ctrl-C
            continue
        return
