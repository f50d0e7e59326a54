"""The event loop for users' async functions. If one of them blocks this loop, the run continues."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from pytest_agentv.runtime.outcomes import Outcome, capture
from pytest_agentv.runtime.threads import abandon

T = TypeVar("T")

_BEGIN_SECONDS: Final = 5.0
"""How long a call waits for a blocked loop before it starts on a new one."""
_LOOK_SECONDS: Final = 0.25
_ANSWER_SECONDS: Final = 1.0
"""How long a loop may take to notice a cancellation. After that it counts as blocked."""
_CLEANUP_SECONDS: Final = 5.0
"""How long a cancelled function may take to clean up."""
_STOP_SECONDS: Final = 2.0


class CallTimeoutError(TimeoutError):
    """A call took longer than its limit."""

    def __init__(self, *, is_blocked: bool) -> None:
        super().__init__()
        self.is_blocked = is_blocked
        """Whether the loop was blocked and did not notice the cancellation."""


class UserLoop:
    """A loop in its own thread, started by the first call. Calls share it, so that they can share clients.

    The event loop policy of the process creates it, so it may be uvloop's. A blocked loop is abandoned: calls that
    have not started, and later ones, get a new loop. Use it from the run's event loop only.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()  # guards the two attributes above

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this loop. Such a caller must not block."""
        return self._thread is threading.current_thread()

    async def call(self, start: Callable[[], Awaitable[T]], limit: float | None) -> Outcome[T]:
        """Call a function and await its result on this loop, with the caller's context variables.

        Raises `CallTimeoutError` after `limit` seconds, counted from the start of the call. Cancelling the caller
        cancels the call, and waits for its end unless the loop is blocked.
        """
        call = await self._begin(start)
        try:
            async with asyncio.timeout(limit):
                return await call.outcome()
        except TimeoutError:
            raise CallTimeoutError(is_blocked=call.is_blocked) from None
        finally:
            if call.is_blocked:
                self._leave(call.loop)

    def close(self) -> None:
        """Cancel all running calls and end the thread. A later call starts a new thread."""
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            self._leave(loop)
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(loop.stop)
            thread.join(_STOP_SECONDS)

    async def _begin(self, start: Callable[[], Awaitable[T]]) -> "_Call[T]":
        while True:
            call = _Call(start, self._running_loop())
            if await call.begin(lambda loop=call.loop: loop is not self._loop):  # type: ignore[misc]
                return call
            self._leave(call.loop)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(target=_run, args=(loop,), name="agentv-async", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the system gives no more threads
                    loop.close()
                    raise
                self._loop, self._thread = loop, thread
            return self._loop

    def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if loop is self._loop and self._thread is not None:
                abandon(self._thread)  # it may be blocked
                self._loop = self._thread = None


USER_LOOP: Final = UserLoop()
"""The loop of this process."""


class _Call(Generic[T]):
    """A call on the user loop that is awaited on another loop."""

    def __init__(self, start: Callable[[], Awaitable[T]], loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.is_blocked = False
        self._start = start
        self._waiter = asyncio.get_running_loop()
        self._begun: asyncio.Future[None] = self._waiter.create_future()
        self._noticed: asyncio.Future[None] = self._waiter.create_future()
        self._ended: asyncio.Future[Outcome[T]] = self._waiter.create_future()
        self._task: asyncio.Task[Outcome[T]] | None = None
        self._claim = threading.Lock()
        """Taken once: by the loop that starts the call, or by the caller that gives up."""

    async def begin(self, is_left: Callable[[], bool]) -> bool:
        """Start the call unless the loop is blocked or abandoned. Return whether it has started."""
        try:
            self.loop.call_soon_threadsafe(self._create_task, context=contextvars.copy_context())
            patience = _BEGIN_SECONDS
            while patience > 0 and not is_left():
                if await _within(_LOOK_SECONDS, self._begun):
                    return True
                patience -= _LOOK_SECONDS
        except RuntimeError:  # the loop was just closed
            return False
        except asyncio.CancelledError:
            if self._claim.acquire(blocking=False):
                raise
            await self._cancel()
            raise
        return not self._claim.acquire(blocking=False)

    async def outcome(self) -> Outcome[T]:
        try:
            return await asyncio.shield(self._ended)
        except asyncio.CancelledError:
            await self._cancel()
            raise

    async def _cancel(self) -> None:
        """Cancel the call, and let it clean up."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._notice)
        self.is_blocked = not await _within(_ANSWER_SECONDS, self._ended, self._noticed)
        if not self.is_blocked:
            await _within(_CLEANUP_SECONDS, self._ended)

    def _create_task(self) -> None:
        """Create the task. Runs on the user loop, like the methods below."""
        self._task = asyncio.ensure_future(self._work())
        self._task.add_done_callback(self._deliver)

    async def _work(self) -> Outcome[T]:
        if not self._claim.acquire(blocking=False):
            return Outcome()  # the caller has given up
        self._tell(self._begun, None)
        outcome = await capture(self._start)
        if self._task is not None and not self._task.cancelling():
            self._tell(self._ended, outcome)  # now: another function may block the loop before the task is done
        return outcome

    def _notice(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._tell(self._noticed, None)

    def _deliver(self, task: "asyncio.Task[Outcome[T]]") -> None:
        self._tell(self._ended, Outcome(error=asyncio.CancelledError()) if task.cancelled() else task.result())

    def _tell(self, future: "asyncio.Future[Any]", value: object) -> None:
        with suppress(RuntimeError):  # the waiting loop is closed, so nobody waits
            self._waiter.call_soon_threadsafe(lambda: None if future.done() else future.set_result(value))


async def _within(seconds: float, *futures: "asyncio.Future[Any]") -> bool:
    """Wait until one of the futures is done, for at most `seconds`. Return whether one is."""
    done, _ = await asyncio.wait(futures, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


def run_until_stopped(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped. A user's task that raises `KeyboardInterrupt` or `SystemExit` does not end it."""
    while True:
        try:
            loop.run_forever()
        except (KeyboardInterrupt, SystemExit):  # Ctrl-C interrupts only the main thread
            continue
        return


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        run_until_stopped(loop)
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        with suppress(BaseException):  # errors of tasks that users started
            if tasks:
                loop.run_until_complete(asyncio.wait(tasks, timeout=_STOP_SECONDS / 2))
            loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
