"""Runs user code beside the event loop, so that its errors cannot end the run, and describes them."""

import asyncio
import concurrent.futures
import contextvars
import importlib
import re
import threading
import time
import traceback
from asyncio import Future
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from pytest_agentv.errors import locate

T = TypeVar("T")


# Calls whose errors cannot end the run, and cannot look like a cancellation of the run.


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """The value or the error of a call: some errors end the event loop if a task raises them."""

    value: T | None = None
    error: BaseException | None = None

    def get(self) -> T:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value] # it is of type T if there is no error


async def attempt_async(start: Callable[[], Awaitable[T]]) -> Outcome[T]:
    """Await what a function returns in its own task. Raises only `CancelledError`, when the caller is cancelled."""
    outcome = await attempt_here(lambda: asyncio.ensure_future(capture(start)))
    return outcome.value or Outcome(error=outcome.error)  # a task can also cancel itself


async def attempt_here(start: Callable[[], Awaitable[T]]) -> Outcome[T]:
    """Await what a function of ours returns in the caller's task: another task costs three turns of the loop."""
    caller = asyncio.current_task()
    before = caller.cancelling() if caller else 0
    outcome = await capture(start)
    if caller is not None and caller.cancelling() > before:
        raise asyncio.CancelledError
    return outcome


async def capture(start: Callable[[], Awaitable[T]]) -> Outcome[T]:
    """Await what a function returns, in the caller's task."""
    try:
        return Outcome(await start())
    except BaseException as error:  # noqa: BLE001 - it becomes a value
        return Outcome(error=error)


# Blocking code, in threads beside the event loop.


async def run_in_thread(function: Callable[[], T], name: str, *, stop: bool = False) -> T:
    """Run a function like `attempt_in_thread`, and return its value or raise its error."""
    return (await attempt_in_thread(function, name, stop=stop)).get()


async def attempt_in_thread(function: Callable[[], T], name: str, *, stop: bool = False) -> Outcome[T]:
    """Run a function in its own daemon thread, with the caller's context variables.

    A pool would be joined at exit, which a function that hangs would block. A cancelled caller abandons the thread.
    With `stop`, `SystemExit` is raised in it, which ends a loop of Python code.
    """
    loop = asyncio.get_running_loop()
    ended: Future[Outcome[T]] = loop.create_future()
    context = contextvars.copy_context()

    def deliver(outcome: Outcome[T]) -> None:
        if not ended.done():
            ended.set_result(outcome)

    def work() -> None:
        try:
            outcome = Outcome(context.run(function))
        except BaseException as error:  # noqa: BLE001 - it becomes a value
            outcome = Outcome(error=error)
        with suppress(RuntimeError):  # the loop is closed, so nobody waits
            loop.call_soon_threadsafe(deliver, outcome)

    thread = threading.Thread(target=work, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:  # the system gives no more threads
        return Outcome(error=error)
    try:
        return await ended
    except asyncio.CancelledError:
        if stop:
            import ctypes  # noqa: PLC0415 - only for code that exceeded its limit

            identity = ctypes.c_ulong(thread.ident or 0)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(SystemExit))
        raise


# The event loop for users' async functions. If one of them blocks this loop, the run continues.

_BEGIN_SECONDS: Final = 5.0
"""How long a call waits for a blocked loop before it starts on a new one."""
_LOOK_SECONDS: Final = 0.25
_ANSWER_SECONDS: Final = 1.0
"""How long a loop may take to notice a cancellation. After that it counts as blocked."""
_CLEANUP_SECONDS: Final = 5.0
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
        """Await what a function returns on this loop. Raises `CallTimeoutError` `limit` seconds after its start."""
        outcome: Outcome[T] | None = None
        while outcome is None:
            call = _Call(start, self._running_loop())
            try:
                outcome = await call.run(limit, lambda loop=call.loop: loop is not self._loop)  # type: ignore[misc]
            except TimeoutError:
                raise CallTimeoutError(is_blocked=call.is_blocked) from None
            finally:
                if call.is_blocked:
                    self._leave(call.loop)
        return outcome

    def close(self) -> None:
        """Cancel all running calls and end the thread. A later call starts a new thread."""
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            self._leave(loop)
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(loop.stop)
            thread.join(_STOP_SECONDS)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._loop, self._thread = loop, run_in_background(loop, "agentv-async")
            return self._loop

    def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            if loop is self._loop:
                self._loop = self._thread = None


USER_LOOP: Final = UserLoop()


def run_in_background(loop: asyncio.AbstractEventLoop, name: str) -> threading.Thread:
    """Run a loop in a thread until it is stopped. Raises `RuntimeError` if the system gives no more threads."""
    thread = threading.Thread(target=_run, args=(loop,), name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:
        loop.close()
        raise
    return thread


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    is_stopped = False
    try:
        while not is_stopped:
            with suppress(KeyboardInterrupt, SystemExit):  # of a user's task; Ctrl-C interrupts only the main thread
                loop.run_forever()
                is_stopped = True
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


class _Call(Generic[T]):
    def __init__(self, start: Callable[[], Awaitable[T]], loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.is_blocked = False
        """Whether the loop is closed, or was found blocked."""
        self._start = start
        self._task: asyncio.Task[None] | None = None
        self._started: float | None = None
        self._is_noticed = False
        self._outcome: concurrent.futures.Future[Outcome[T]] = concurrent.futures.Future()
        """Running when the loop has started the call; cancelled when the caller has given up before that."""

    async def run(self, limit: float | None, is_left: Callable[[], bool]) -> Outcome[T] | None:
        """Return the outcome; None: the loop is blocked or abandoned before the start. Raises `TimeoutError`."""
        ended = asyncio.wrap_future(self._outcome)
        until = time.monotonic() + _BEGIN_SECONDS
        try:
            self.loop.call_soon_threadsafe(self._begin, context=contextvars.copy_context())
            while not ended.done():
                rest: float | None = None
                if self._started is None:
                    if (time.monotonic() >= until or is_left()) and self._outcome.cancel():
                        self.is_blocked = True
                        return None
                    rest = _LOOK_SECONDS if limit is None else min(limit, _LOOK_SECONDS)
                elif limit is not None:
                    rest = self._started + limit - time.monotonic()
                    if rest <= 0:
                        raise TimeoutError
                await asyncio.wait([ended], timeout=rest)
        except RuntimeError:  # the loop was just closed
            self.is_blocked = True
            return None
        except BaseException:
            await self._cancel(ended)
            raise
        return ended.result()

    async def _cancel(self, ended: "Future[Outcome[T]]") -> None:
        if self._outcome.cancel():
            return
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._notice)
        await asyncio.wait([ended], timeout=_ANSWER_SECONDS)
        self.is_blocked = not (ended.done() or self._is_noticed)
        if not self.is_blocked:
            await asyncio.wait([ended], timeout=_CLEANUP_SECONDS)
        ended.cancel()

    def _begin(self) -> None:  # on the user loop, like the methods below
        self._task = asyncio.ensure_future(self._work())

    async def _work(self) -> None:
        if not self._outcome.set_running_or_notify_cancel():  # the caller has given up
            return
        self._started = time.monotonic()
        outcome = await capture(self._start)
        if self._task is not None and self._task.cancelling():
            last = await capture(lambda: asyncio.sleep(0))  # the function may have cancelled its task and returned
            outcome = outcome if last.error is None else Outcome(error=last.error)
        self._outcome.set_result(outcome)

    def _notice(self) -> None:
        self._is_noticed = True
        if self._task is not None:
            self._task.cancel()


# Errors of user code: type, text and the user's own lines, without frames of this package.

_SHOWN_FRAMES: Final = 5
_SHOWN_LEAVES: Final = 10
_OWN_FOLDER: Final = str(Path(__file__).parents[1])
FOLDER_PREFIX: Final = re.compile(r"agentv_[0-9a-f]{12}_")
"""Prefix of the names of modules that belong to one eval folder (`providers/user_modules.py`)."""
_NO_LOOP: Final = ("There is no current event loop in thread", "no running event loop")
_NO_LOOP_ADVICE: Final = (
    "a sync function runs in a thread that has no event loop: call `asyncio.run(...)` in it, or make it `async def`"
)


def describe_error(error: BaseException) -> str:
    """Return type and text of an error, and of the members of an error group."""
    lines = [_head(error)]
    if isinstance(error, BaseExceptionGroup):
        lines += [f"  {_head(leaf)}" for leaf in leaves(error)]
    return "\n".join(lines)


def told(error: BaseException) -> str:
    """Return the text of an error; if it is blank, as `str(TimeoutError())` is, what it was raised after."""
    text = str(error)
    cause = error.__cause__ or error.__context__
    if text.strip():
        return text
    return f"{type(error).__name__} without a text" + (f", raised after {describe_error(cause)}" if cause else "")


def user_traceback(error: BaseException, *foreign_folders: str) -> str:
    """Return type and text of an error, its last frames in user code, and the members of a group."""
    lines = [_head(error), *_places(error, foreign_folders)]
    for leaf in leaves(error) if isinstance(error, BaseExceptionGroup) else ():
        lines += [f"  {line}" for line in (_head(leaf), *_places(leaf, foreign_folders))]
    return "\n".join(lines)


def leaves(error: BaseException) -> list[BaseException]:
    """Return the single errors within a group, at any depth; for a single error, the error itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for member in error.exceptions for leaf in leaves(member)][:_SHOWN_LEAVES]


def _head(error: BaseException) -> str:
    try:
        text = str(error)
    except (Exception, SystemExit) as fault:  # noqa: BLE001 - an exception here would hide the original error
        text = f"(its text cannot be shown: {type(fault).__name__})"
    text = FOLDER_PREFIX.sub("", text)  # module names as their authors wrote them
    head = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{head} ({_NO_LOOP_ADVICE})" if text.startswith(_NO_LOOP) else head


def _places(error: BaseException, foreign_folders: tuple[str, ...]) -> list[str]:
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not is_ours(frame.filename) and not frame.filename.startswith(foreign_folders)
    ]
    return [f"  {locate(Path(frame.filename), frame.lineno)} in {frame.name}" for frame in frames[-_SHOWN_FRAMES:]]


def is_ours(filename: str) -> bool:
    return filename.startswith((_OWN_FOLDER, "<frozen importlib")) or filename == importlib.__file__
