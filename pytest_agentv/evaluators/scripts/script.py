"""Runs a judge's script with JSON on standard input, and reports every possible failure."""

import shlex
import signal
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.judging.grading import reasoning_of
from pytest_agentv.evaluators.judging.json_text import json_object
from pytest_agentv.models.base import Json
from pytest_agentv.models.masking.secrets import Masker, masked
from pytest_agentv.models.text import format_number, pretty_json
from pytest_agentv.runtime.processes.process import ProcessResult, ProcessStartError, run_process

STDERR_LIMIT: Final = 2000
"""The most characters of standard error in a message. The end is kept, where the reason is."""

OUTPUT_LIMIT: Final = 10_000
"""Characters of unusable output that the record keeps."""

SCRIPT_LIMIT: Final = 200
"""Characters of a script that a message holds."""

SDK_FAILURE: Final = "Evaluation failed: "
"""The beginning of the reasoning that the SDK prints before it exits with 1."""


class ScriptFailedError(EvaluatorError):
    """A script ran, and exited with another code than 0."""

    def __init__(self, message: str, said: str, output: str | None) -> None:
        """`said` is the part of the message that the script wrote."""
        super().__init__(message, "process", output)
        self.said = said


_NOTHING_TO_MASK: Final = Masker()


class ProcessRun(Protocol):
    """Runs a program that reads standard input, as `run_process` does. Raises `ProcessStartError`."""

    async def __call__(
        self,
        argv: Sequence[str],
        *,
        cwd: str,
        env: Mapping[str, str],
        stdin: bytes,
        timeout_seconds: float | None,
    ) -> ProcessResult: ...


async def run_judge_script(
    script: Sequence[str],
    payload: Json,
    *,
    cwd: str,
    environment: Mapping[str, str],
    timeout_seconds: float | None,
    masker: Masker = _NOTHING_TO_MASK,
    run: ProcessRun = run_process,
) -> str:
    """Give a script its payload and return what it printed, masked.

    Raises:
        EvaluatorError: It cannot be started (kind `config`), took too long (`timeout`), or was killed, printed
            without end or exited with another code than 0 (`process`).
    """
    try:
        result = await run(
            script,
            cwd=cwd,
            env=environment,
            stdin=pretty_json(payload).encode(errors="backslashreplace"),  # half a surrogate pair becomes a JSON escape
            timeout_seconds=timeout_seconds,
        )
    except ProcessStartError as error:
        message = f"Code evaluator could not be started (script: {show_script(script)}, cwd: {cwd}): {error}"
        raise EvaluatorError(message, kind="config") from error
    stdout, stderr = masker.mask(result.stdout), masker.mask(result.stderr)
    fault = _fault(result, timeout_seconds)
    if fault is None:
        return stdout
    said = _reason(stdout, stderr)
    message = f"Code evaluator {fault} (script: {show_script(script)}): {said}"
    kept = cut(stdout) if stdout.strip() else None
    if result.exit_code > 0 and not (result.timed_out or result.overflowed):
        raise ScriptFailedError(message, said, kept)
    raise EvaluatorError(message, kind="timeout" if result.timed_out else "process", output=kept)


def show_script(script: Sequence[str]) -> str:
    """Return the command for a message. A command that was written as a string stays unchanged."""
    text = masked(script[2] if len(script) == 3 and script[:2] == ("sh", "-lc") else shlex.join(script))
    return text if len(text) <= SCRIPT_LIMIT else f"{text[:SCRIPT_LIMIT]}…"


def cut(output: str) -> str:
    """Return the beginning of an output, with a note if it was cut."""
    if len(output) <= OUTPUT_LIMIT:
        return output
    output = masked(output)
    return f"{output[:OUTPUT_LIMIT]}\n[cut: the first {OUTPUT_LIMIT} of {len(output)} characters]"


def _fault(result: ProcessResult, timeout_seconds: float | None) -> str | None:
    if result.timed_out:
        return f"timed out after {format_number(timeout_seconds or 0)} s"
    if result.overflowed:
        return "was stopped because it printed too much"
    if result.exit_code < 0:
        return f"was killed by {_signal_name(-result.exit_code)}"
    if result.exit_code:
        return f"exited with code {result.exit_code}"
    return f"printed what is {result.stdout_fault}" if result.stdout_fault else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _reason(stdout: str, stderr: str) -> str:
    """Return the script's own error: the SDK's failure on standard output, or the end of its standard error."""
    found = json_object(stdout.strip()) or {}
    reasoning = reasoning_of(found) or ""
    said = [reasoning] if reasoning.startswith(SDK_FAILURE) else []
    if errors := masked(stderr.strip()):
        said.append(errors if len(errors) <= STDERR_LIMIT else _tail(errors))
    return "\n".join(said) or "it wrote nothing on standard error"


def _tail(errors: str) -> str:
    return f"[standard error, the last {STDERR_LIMIT} of {len(errors)} characters]\n{errors[-STDERR_LIMIT:]}"
