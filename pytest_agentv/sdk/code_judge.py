"""Runs a function as a judge script: reads the case from standard input and prints the result."""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from typing import Any, NoReturn, TypeAlias, TypeVar

from pytest_agentv.sdk.records import CodeJudgeInput, Json, Result
from pytest_agentv.sdk.wire import WireError, build_reply, read_input

Judge: TypeAlias = Callable[[CodeJudgeInput], Any]
"""A function that returns a `Result`, a mapping with its keys, or an awaitable of either."""

J = TypeVar("J", bound=Judge)


def code_judge(function: J) -> J:
    """Run a function as this script's judge. Use it as a decorator on the last function of the script.

    The function runs at once when the script is executed, and never when it is imported, for example by a test.
    Prints of the function go to standard error. If it raises, the script prints a result of score 0 and exits with 1.
    """
    if sys._getframe(1).f_globals.get("__name__") == "__main__":
        run_judge(function)
    return function


def run_judge(function: Judge) -> None:
    """Judge the case on standard input and print the result. Exits with 1 if the function raises."""
    output = sys.stdout
    try:
        with redirect_stdout(sys.stderr):
            result = _awaited(function(read_input(_read_payload())))
            reply = _to_json(build_reply(result))
    except Exception as error:  # noqa: BLE001 - the run must see any failure of a judge
        _exit_with(error)
    output.write(f"{reply}\n")
    output.flush()


def _read_payload() -> Json:
    try:
        return json.loads(sys.stdin.buffer.read())
    except ValueError as error:
        raise WireError(f"standard input is not valid JSON: {error}") from None


def _awaited(result: Any) -> Result | Mapping[str, Json]:
    if hasattr(result, "__await__"):
        import asyncio  # noqa: PLC0415 - 30 ms that other judges save

        async def wait() -> Any:
            return await result

        result = asyncio.run(wait())
    found: Result | Mapping[str, Json] = result
    return found


def _to_json(reply: Mapping[str, Json]) -> str:
    try:
        return json.dumps(reply, indent=2, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:  # all other fields are checked already
        raise WireError(f"details: {error}") from None


def _exit_with(error: Exception) -> NoReturn:
    import traceback  # noqa: PLC0415 - only for failures

    if isinstance(error, WireError):  # the last line says everything; lines of this package would hide it
        message = str(error)
    else:
        message = f"{type(error).__name__}: {error}"
        traceback.print_exception(error)
    failure = {"score": 0, "hits": [], "misses": [message], "reasoning": f"Evaluation failed: {message}"}
    sys.stdout.write(f"{json.dumps(failure, indent=2)}\n")
    sys.stdout.flush()
    sys.exit(1)
