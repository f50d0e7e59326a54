"""Results are handed to a thread that writes them, the ones that wait together."""

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from pytest_agentv.errors import FileError
from pytest_agentv.model.results import EvalResult
from pytest_agentv.session.recording.records import Recorder

RESULT = EvalResult("t", "a", "d", 1.0, (), (), "hello", "default")


class Sink:
    """Notes what is written together; the first write waits for `go`."""

    def __init__(self, *errors: Exception) -> None:
        self.written: list[list[str]] = []
        self.is_closed = False
        self.begun = threading.Event()
        self.go = threading.Event()
        self._errors = list(errors)

    def write(self, *results: EvalResult) -> Sequence[EvalResult]:
        self.begun.set()
        assert self.go.wait(5)
        if self._errors:
            raise self._errors.pop(0)
        self.written.append([result.eval_id for result in results])
        return results

    def close(self) -> None:
        self.is_closed = True


def results(names: str) -> list[EvalResult]:
    return [RESULT.replace(eval_id=name) for name in names]


@pytest.mark.scenario("Mutex error handling")
def test_an_error_lets_those_who_wait_go_on_and_the_first_reason_is_kept(tmp_path: Any) -> None:
    sink: Any = Sink(FileError(tmp_path / "r.jsonl", "cannot be written: full"), ValueError("odd"))
    sink.go.set()
    recorder = Recorder(sink)

    async def record() -> None:
        for result in results("abc"):
            await asyncio.wait_for(recorder.record(result), 5)

    asyncio.run(record())
    recorder.close()
    assert sink.written == [["c"]]
    assert recorder.error == f"{tmp_path}/r.jsonl: cannot be written: full"


def test_a_task_that_is_cancelled_while_it_waits_for_its_line_ends_when_the_line_is_written() -> None:
    sink: Any = Sink()
    recorder = Recorder(sink)

    async def record() -> None:
        async def wait() -> None:
            await recorder.record(RESULT)

        waiting = asyncio.ensure_future(wait())
        assert await asyncio.to_thread(sink.begun.wait, 5)
        waiting.cancel()
        assert await asyncio.wait([waiting], timeout=0.01) == (set(), {waiting})
        sink.go.set()
        await asyncio.wait([waiting], timeout=5)
        assert waiting.cancelled()
        assert sink.written == [["a"]]

    asyncio.run(record())
    recorder.close()
