"""Reads the output of a command as an answer (agentv-formats 5.8)."""

import json
import re
import signal
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.model.base import Json
from pytest_agentv.model.secrets import masked
from pytest_agentv.model.text import NoJsonConstantError, format_number, strict_json
from pytest_agentv.providers.api.failures import read_error_text
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.cli_template import LONGEST_ARGUMENT
from pytest_agentv.providers.wire import WireError, answer_message, parse_response
from pytest_agentv.runtime.files import read_regular_file, utf8_fault
from pytest_agentv.runtime.processes import OUTPUT_LIMIT, ProcessResult

_CANNOT_EXECUTE: Final = 126
"""The shell's exit code when the system refuses to start a program."""

_LONGEST_LINE: Final = 300
"""The most characters of the last line when it comes first."""

_LONGEST_REPORT: Final = 2000
"""The most characters of a command's output in an error. The end is kept, where programs report errors."""

_LOOKS_MEANT: Final = re.compile(r'\s*\{.*?"(?:text|output_messages|outputMessages|output)"\s*:', re.DOTALL)


class OutputError(ProviderError):
    """A command ended with exit code 0, but its output is no answer. Another call is not likely to give one."""

    answers: Mapping[str, ProviderResponse] = {}
    """What could be read of a batch, by the ids of its cases."""


def parse_output(content: str) -> ProviderResponse:
    """Read the answer to one request. Output of any other shape is the text of the answer.

    A warning says what is wrong with output that was meant as JSON.
    """
    try:
        data = strict_json(content)
        response = parse_response(data)
    except ValueError as error:
        meant = _LOOKS_MEANT.match(content) and isinstance(error, WireError | NoJsonConstantError)
        return _plain_text(content, *([f"the answer is taken as a plain text: {error}"] if meant else []))
    if response.output_messages is not None:
        return response
    if "text" not in data:
        return _plain_text(content)
    return response.replace(error="the target gave no answer: its 'text' is null", error_kind="no_answer")


def _plain_text(content: str, *warnings: str) -> ProviderResponse:
    return ProviderResponse(output_messages=(answer_message(content),), is_text_only=True, warnings=warnings)


def parse_batch_output(content: str, eval_ids: Sequence[str]) -> list[ProviderResponse]:
    """Read the JSONL answers to many requests, in the order of `eval_ids`. Skips other ids.

    A missing id gives a response with an `error`. Raises `OutputError` for an unusable line.
    """
    answers: dict[str, ProviderResponse] = {}
    fault: OutputError | None = None
    for number, line in enumerate(content.split("\n"), start=1):
        if line.strip():
            try:
                eval_id, response = _parse_record(line, number)
            except OutputError as error:
                fault = fault or error
                continue
            if eval_id in answers:
                fault = fault or _batch_error(number, f"the id {eval_id!r} was there before")
            answers[eval_id] = response
    if fault is not None:
        fault.answers = answers
        raise fault
    return [answers[eval_id] if eval_id in answers else _missing(eval_id) for eval_id in eval_ids]


def _parse_record(line: str, number: int) -> tuple[str, ProviderResponse]:
    try:
        data = strict_json(line)
    except ValueError as error:
        raise _batch_error(number, f"not JSON: {error}") from None
    if not isinstance(data, dict):
        raise _batch_error(number, "expected a JSON object")
    eval_id = data.get("id")
    if not isinstance(eval_id, str) or not eval_id:
        raise _batch_error(number, "expected a string 'id', the eval id it answers")
    try:
        response = parse_response(data)
    except WireError as error:
        raise _batch_error(number, str(error)) from None
    if response.output_messages is not None:
        return eval_id, response
    said = f": {read_error_text(json.dumps({'error': data['error']}))}" if data.get("error") else ""
    reason = f"Batch output has neither 'text' nor 'output_messages' for id '{eval_id}'{said}"
    return eval_id, response.replace(error=reason, error_kind="no_answer")


def _batch_error(number: int, reason: str) -> OutputError:
    return OutputError(f"CLI batch output, line {number}: {reason}", "process")


def _missing(eval_id: str) -> ProviderResponse:
    error = f"Batch output missing id '{eval_id}'"
    return ProviderResponse(output_messages=(answer_message(f"Error: {error}"),), error=error, error_kind="no_answer")


def parse_one_of_batch(content: str, eval_id: str, batch_ids: Collection[str]) -> ProviderResponse:
    """Read the answer to one request from a command that may have answered the whole batch again.

    `batch_ids` are the ids of that batch. Raises `OutputError` if the command has answered some of them, but in an
    unreadable way: then all answers together must not count as the answer to one.
    """
    named = set(_named_ids(content)) & {eval_id, *batch_ids}
    try:
        [answer] = parse_batch_output(content, [eval_id])
    except OutputError:
        is_one = isinstance(_json_or_none(content), dict)
        if named and not is_one:
            raise
        return parse_output(content) if eval_id in named or not named else _missing(eval_id)
    if answer != _missing(eval_id) or "\n" in content.strip() or named:
        return answer
    return parse_output(content)


def _named_ids(content: str) -> Iterator[str]:
    """Yield the ids of JSON objects in a list, in single lines, or in the whole content."""
    whole = _json_or_none(content)
    values = [*whole] if isinstance(whole, list) else [whole, *map(_json_or_none, content.split("\n"))]
    for value in values:
        if isinstance(value, dict) and isinstance(value.get("id"), str):
            yield value["id"]


def _json_or_none(text: str) -> Json:
    try:
        return strict_json(text)
    except ValueError:
        return None


def raise_for_failure(result: ProcessResult, limit: float | None, values: Mapping[str, str]) -> None:
    """Raise if the command did not end well. Source: "Timeout and retries"."""
    if result.timed_out:
        text = f"CLI provider timed out after {format_number(limit or 0)}s"
        said = report_output(result)
        raise ProviderError(f"{text}: {said}" if said else text, "timeout")
    if result.overflowed:
        size = OUTPUT_LIMIT // 2**20
        raise ProviderError(f"CLI wrote more than {size} MiB and was stopped (exit code unknown)", "process")
    if result.exit_code != 0:
        said = report_output(result)
        if said or result.exit_code < 0:
            cause, newline, rest = (said or "CLI failed").partition("\n")
            text = f"{cause} ({describe_exit(result.exit_code)}){newline}{rest}"
        else:
            text = f"CLI exited with code {result.exit_code}"
        hint = _long_argument_hint(values) if result.exit_code == _CANNOT_EXECUTE else ""
        raise ProviderError(text + hint, "process")


def _long_argument_hint(values: Mapping[str, str]) -> str:
    for name, value in values.items():
        size = len(value.encode("utf-8", "surrogateescape"))
        if size > LONGEST_ARGUMENT and name not in {"FILES", "ATTACHMENTS"}:
            return (
                f"; {{{name}}} has {size} bytes and the system takes 128 KiB in one argument: "
                'use {PROMPT_FILE}, or the key stdin: "{PROMPT}"'
            )
    return ""


def read_output(result: ProcessResult, path: Path | None) -> str:
    """Return what a successful command printed, or wrote to its output file. Raises `OutputError`."""
    text, fault = (result.stdout.rstrip("\n"), result.stdout_fault) if path is None else _read_file(path, result)
    what = "output" if path is None else "output file"
    if fault:
        raise OutputError(f"The {what} of the command is {fault}", "process")
    if not text.strip():
        said = report_output(result)
        reason = f"The command ended with exit code 0, but its {what} is empty"
        raise OutputError(f"{reason}; it said: {said}" if said else reason, "no_answer")
    return text


def _read_file(path: Path, result: ProcessResult) -> tuple[str, str | None]:
    try:
        content = read_regular_file(path)
    except FileNotFoundError:
        reason = "the command ended with exit code 0 but did not write it"
        said = report_output(result)
        text = f"Failed to read output file '{path}': {reason}"
        raise OutputError(f"{text}; it said: {said}" if said else text, "process") from None
    except OSError as error:
        raise OutputError(f"Failed to read output file '{path}': {error.strerror}", "process") from error
    return content.decode("utf-8-sig", "replace").replace("\r\n", "\n"), utf8_fault(content)


def report_output(result: ProcessResult) -> str:
    """Return the text of a failed command: the end of standard error, else of standard output.

    The last line comes first, because it names the cause and some reports show only one line. It is repeated in its
    place.
    """
    said = masked(result.stderr.strip() or result.stdout.strip())
    left_out = len(said) - _LONGEST_REPORT
    lines = list(islice(_lines_with_words(said), 2))
    shown = f"[… {left_out} characters left out] {said[-_LONGEST_REPORT:]}" if left_out > 0 else said
    if len(lines) <= 1:
        return shown
    return f"{lines[0][:_LONGEST_LINE]}\n{shown}"


def _lines_with_words(text: str) -> Iterator[str]:
    """Yield the non-blank lines from the last one on. There may be millions."""
    end = len(text)
    while end >= 0:
        start = text.rfind("\n", 0, end) + 1
        line = text[start:end]
        if re.search(r"\w", line):
            yield line.strip()
        end = start - 1


def describe_exit(code: int) -> str:
    """Return `exit code 1`, or the signal that killed the command."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"exit code unknown: killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"exit code unknown: killed by signal {-code}"
