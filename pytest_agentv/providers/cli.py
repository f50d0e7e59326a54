"""The `cli` provider: a command line, rendered and run once per case, or once for a whole batch."""

import asyncio
import json
import logging
import re
import signal
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from pytest_agentv.cases.prompts import PromptMode
from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.files.problems import describe_value
from pytest_agentv.model.base import Json, JsonObject, NoJsonConstantError, Record, format_number, strict_json
from pytest_agentv.model.kind import expected, spelled
from pytest_agentv.model.secrets import masked
from pytest_agentv.providers.api.base import HttpRequest, is_success, open_client, shown_url
from pytest_agentv.providers.api.client import read_error_text
from pytest_agentv.providers.base import (
    ProviderRequest,
    ProviderResponse,
    TargetEnvironment,
    shortest,
    total_seconds,
    with_trace,
)
from pytest_agentv.providers.cli_template import (
    LONGEST_ARGUMENT,
    PLACEHOLDERS,
    CallValues,
    CommandTemplate,
    FilesFormat,
    InputTemplate,
    clean,
    has_prompt_only,
    render_command,
    request_values,
    shell_argv,
    with_prompt,
)
from pytest_agentv.providers.kind import Provider, Settings, Sources, WireError, answer_message, parse_response
from pytest_agentv.runtime.files import read_regular_file, utf8_fault
from pytest_agentv.runtime.processes import OUTPUT_LIMIT, ProcessResult, ProcessStartError, run_process
from pytest_agentv.runtime.reaper import temporary_folder
from pytest_agentv.runtime.retry import RequestError
from pytest_agentv.runtime.user_code import run_in_thread
from pytest_agentv.targets.fields import (
    Flag,
    OptionalText,
    Seconds,
    ShieldedText,
    Url,
    path_in,
    reveal,
)

# Reads the output of a command as an answer (agentv-formats 5.8).

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


_LOGGER: Final = logging.getLogger(__name__)

DEFAULT_TIMEOUT_SECONDS: Final = 60.0
"""The default limit. Without one, a check that hangs would block the whole run."""

_LONG_ANSWER: Final = 256 * 1024
"""Characters; shorter answers are parsed on the event loop."""

T = TypeVar("T")


class HttpHealthcheck(Settings):
    """GET a URL; 2xx is healthy."""

    type: Literal["http"] = Field(default="http", description="`http`")
    url: Url = Field(description="the URL to GET")
    timeout_seconds: Seconds | None = spelled(
        *("timeout_seconds", "timeoutSeconds"), default=None, description="limit of the probe"
    )


class CommandHealthcheck(Settings):
    """Run a command; exit code 0 is healthy."""

    type: Literal["command"] = Field(default="command", description="`command`")
    command_template: CommandTemplate = spelled(
        *("command_template", "commandTemplate"), description="the command to run, with placeholders such as {PROMPT}"
    )
    cwd: Annotated[OptionalText, path_in("eval_dir", is_default=True)] = Field(
        default=None, validate_default=True, description="where it runs, relative to the eval file's folder"
    )
    timeout_seconds: Seconds | None = spelled(
        *("timeout_seconds", "timeoutSeconds"), default=None, description="limit of the probe"
    )


def _healthcheck(value: object) -> object:
    if isinstance(value, Settings):
        return value
    if not isinstance(value, dict):
        raise expected("a mapping with the key type")
    if value.get("type") not in ("http", "command"):
        raise ValueError(f"type must be 'http' or 'command', got {describe_value(value.get('type'))}")
    return {key: item for key, item in value.items() if item is not None}


Healthcheck: TypeAlias = Annotated[
    Annotated[HttpHealthcheck | CommandHealthcheck, Field(discriminator="type")], BeforeValidator(_healthcheck)
]


def _variable_name(value: str) -> str:
    if not value.strip() or "=" in value or "\0" in value:
        raise ValueError(f"{value!r} is no name of an environment variable")
    return value


VariableName: TypeAlias = Annotated[str, AfterValidator(_variable_name)]


class Cli(Provider):
    """A command line, rendered and run once per case (agentv-formats 4.6)."""

    kind = "cli"
    leaves_files = True
    answers_by_id = True

    command_template: CommandTemplate = spelled(
        *("command_template", "commandTemplate"), description="the command to run, with placeholders such as {PROMPT}"
    )
    stdin: InputTemplate | None = Field(
        default=None, description="the standard input of the command, with the same placeholders, filled in unquoted"
    )
    files_format: FilesFormat = spelled(
        *("files_format", "filesFormat", "attachments_format", "attachmentsFormat"),
        default="{path}",
        description="how each path of `{FILES}` is written, with `{path}` and `{basename}`",
    )
    cwd: Annotated[OptionalText, path_in("eval_dir", is_default=True)] = Field(
        default=None,
        validate_default=True,
        description="where it runs, relative to the eval file's folder (default: that folder)",
    )
    timeout_seconds: Seconds | None = spelled(
        *("timeout_seconds", "timeoutSeconds"),
        default=None,
        description="limit of one call; `--agentv-timeout` applies as well, the shorter one counts",
    )
    verbose: Flag = spelled(
        *("verbose", "cli_verbose", "cliVerbose"), default=False, description="log the commands and their exit codes"
    )
    keep_temp_files: Flag = spelled(
        *("keep_temp_files", "keepTempFiles", "keep_output_files", "keepOutputFiles"),
        default=False,
        description="leave prompt and output files where they are, for debugging",
    )
    env: dict[VariableName, ShieldedText] = Field(
        default={}, description="variables of the command, in addition to those of the environment and of `.env`"
    )
    healthcheck: Healthcheck | None = Field(
        default=None, description="a probe, once per run, before the first case; if it fails, the run ends"
    )

    def open(self, environment: TargetEnvironment) -> "CliProvider":
        return CliProvider(environment.name, self, environment.variables, environment.target.provider_batching)

    @property
    def is_probed(self) -> bool:
        return self.healthcheck is not None

    @property
    def leaves_out_guidelines(self) -> bool:
        """Whether the command gets the question, but neither the texts nor the paths of guidelines.

        A command that gets no question, and one for a whole batch, reads the cases itself.
        """
        return has_prompt_only(f"{self.command_template} {self.stdin or ''}")

    @property
    def sources(self) -> Sources:
        return Sources((self.command_template,), folder=self.cwd)


class CliProvider:
    """Runs a command template with `/bin/sh` (agentv-formats 5.8).

    The answer is read from `{OUTPUT_FILE}` where the template has it, else from standard output.
    """

    mode: PromptMode = "agent"

    def __init__(self, name: str, settings: Cli, environment: Mapping[str, str], is_batched: bool = False) -> None:
        self._name = name
        self._batch_ids: set[str] | None = set() if is_batched else None  # the cases that were sent in one call
        self._settings = settings
        self._command = Command(
            target=name,
            template=settings.command_template,
            stdin=settings.stdin,
            cwd=settings.cwd or str(Path.cwd()),
            environment={**environment, **{key: reveal(value) for key, value in settings.env.items()}},
            is_verbose=settings.verbose,
            keeps_files=settings.keep_temp_files,
        )

    async def check(self) -> None:
        if self._settings.healthcheck is not None:
            await run_healthcheck(
                self._settings.healthcheck,
                target_name=self._name,
                environment=self._command.environment,
                timeout_seconds=self._settings.timeout_seconds,
            )

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        with self._folder(request.eval_id) as folder:
            values = request_values(request, self._settings.files_format, folder / "output.json")
            limit = shortest(self._settings.timeout_seconds, request.timeout_seconds)
            run = await self._command.run(values, limit)
            content, ids = run.content, self._batch_ids
            response = await _beside_the_loop(
                content,
                lambda: parse_output(content) if ids is None else parse_one_of_batch(content, request.eval_id, ids),
            )
            return await self._complete(response, run, run.duration_ms)

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        """Run the command once for all requests. It writes a JSON line with an `id` for each."""
        paths = tuple(path for request in requests for path in request.file_paths)
        eval_ids = [request.eval_id for request in requests]
        self._batch_ids = {*(self._batch_ids or ()), *eval_ids}
        with self._folder("batch") as folder:
            output_file = folder / "output.jsonl"
            values = CallValues("batch", output_file, files=paths, files_format=self._settings.files_format)
            limit = shortest(self._settings.timeout_seconds, total_seconds(requests))
            try:
                run = await self._command.run(values, limit)
                responses = await _beside_the_loop(run.content, lambda: parse_batch_output(run.content, eval_ids))
            except OutputError as error:
                found = [error.answers.get(eval_id, ProviderResponse()) for eval_id in eval_ids]
                return [each.replace(error=str(error), error_kind=error.kind) for each in found]
            share = round(run.duration_ms / max(1, len(requests)))
            return [await self._complete(response, run, share) for response in responses]

    async def close(self) -> None:
        """Do nothing: no resource is open."""

    def _folder(self, eval_id: str) -> AbstractContextManager[Path]:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", eval_id)[:40]
        return temporary_folder(f"agentv-{name}-", keep=self._command.leaves_files)

    async def _complete(self, response: ProviderResponse, run: "CommandRun", duration_ms: float) -> ProviderResponse:
        """Add what the run knows. Reads the trace now, because the command may have written it into its own folder."""
        took = duration_ms if response.duration_ms is None else response.duration_ms
        response = response.replace(duration_ms=took, raw=run.raw)
        if response.trace_ref is None:
            return response
        found = response.replace(trace_ref=str(Path(self._command.cwd, response.trace_ref)))
        return await run_in_thread(lambda: with_trace(found), "agentv-trace")


async def _beside_the_loop(content: str, parse: Callable[[], T]) -> T:
    """Parse a long answer in a thread, so that other cases go on meanwhile."""
    return parse() if len(content) <= _LONG_ANSWER else await run_in_thread(parse, "agentv-parse")


@dataclass(frozen=True, slots=True)
class CommandRun(Record):
    """A command that ended well, and its answer."""

    content: str
    raw: JsonObject
    duration_ms: float


@dataclass(frozen=True, slots=True)
class Command(Record):
    """A command line with placeholders, and how to run it."""

    target: str
    template: str
    stdin: str | None
    cwd: str
    environment: Mapping[str, str] = field(repr=False)
    is_verbose: bool
    keeps_files: bool

    @property
    def leaves_files(self) -> bool:
        """Whether the folder of a call stays, because its files are kept for debugging."""
        return self.keeps_files and (self._has_output_file or self._has_prompt_file)

    async def run(self, call: CallValues, limit: float | None) -> CommandRun:
        """Run the command once, for at most `limit` seconds. Raises `ProviderError`."""
        result, command, duration_ms = await self._run(call, limit)
        values = call.for_shell()
        used = {name: values[name] for name in PLACEHOLDERS if f"{{{name}}}" in self.template}
        raise_for_failure(result, limit, used)
        raw: dict[str, object] = {"command": command, "exit_code": result.exit_code, "stderr": result.stderr}
        if not self._has_output_file:
            return CommandRun(read_output(result, None), raw, duration_ms)
        if self.keeps_files:
            raw["output_file"] = str(call.output_file)
        # in a thread: a file on a network may block, and other cases must not wait
        content = await run_in_thread(lambda: read_output(result, call.output_file), "agentv-read")
        return CommandRun(content, raw, duration_ms)

    async def _run(self, call: CallValues, limit: float | None) -> tuple[ProcessResult, str, float]:
        command = render_command(self.template, call.for_shell())
        if self._has_prompt_file:
            call.prompt_file.write_text(clean(call.prompt), "utf-8", newline="")
        stdin = None
        if self.stdin is not None:
            stdin = render_command(self.stdin, call.as_texts()).encode("utf-8", "surrogateescape")
        self._log("target %s: running %s", self.target, command)
        started = time.perf_counter()
        try:
            result = await run_process(
                shell_argv(command, call.output_file.parent),
                cwd=self.cwd,
                env=with_prompt(self.environment, call.prompt),
                stdin=stdin,
                timeout_seconds=limit,
            )
        except ProcessStartError as error:
            raise ProviderError(f"CLI provider could not be started: {error}", "process") from error
        duration_ms = round((time.perf_counter() - started) * 1000)
        self._log("target %s: exit code %d after %d ms", self.target, result.exit_code, duration_ms)
        if result.stderr:
            self._log("target %s: stderr: %s", self.target, result.stderr.rstrip())
        return result, command, duration_ms

    @property
    def _has_output_file(self) -> bool:
        return "{OUTPUT_FILE}" in self.template

    @property
    def _has_prompt_file(self) -> bool:
        return "{PROMPT_FILE}" in self.template + (self.stdin or "")

    def _log(self, message: str, *values: object) -> None:
        level = logging.INFO if self.is_verbose else logging.DEBUG
        if _LOGGER.isEnabledFor(level):
            _LOGGER.log(level, message, *(masked(value) if isinstance(value, str) else value for value in values))


async def run_healthcheck(
    healthcheck: HttpHealthcheck | CommandHealthcheck,
    *,
    target_name: str,
    environment: Mapping[str, str],
    timeout_seconds: float | None,
    kind: str = "CLI",
) -> None:
    """Probe a target; `timeout_seconds` is the target's own limit, `kind` its name in messages.

    Raises `ProviderError` if it is not healthy. Source: "Optional health check".
    """
    limit = healthcheck.timeout_seconds or timeout_seconds or DEFAULT_TIMEOUT_SECONDS
    try:
        if isinstance(healthcheck, HttpHealthcheck):
            await _probe_url(healthcheck.url, limit, environment)
        else:
            await _probe_command(healthcheck, environment, limit)
    except _UnhealthyError as fault:
        raise ProviderError(f"{kind} healthcheck failed for '{target_name}': {fault}", fault.kind) from fault


class _UnhealthyError(Exception):
    def __init__(self, reason: str, kind: ErrorKind) -> None:
        super().__init__(reason)
        self.kind: ErrorKind = kind


async def _probe_url(url: str, limit: float, environment: Mapping[str, str]) -> None:
    """GET a URL and expect 2xx. Uses the proxies of models."""
    asked = f"GET {shown_url(url)}"
    client = await open_client(asked, "the health check", environment)
    try:
        async with asyncio.timeout(limit):
            reply = await client.exchange(HttpRequest("GET", url))
    except TimeoutError as error:
        raise _UnhealthyError(f"{asked} did not answer within {format_number(limit)}s", "timeout") from error
    except RequestError as error:
        raise _UnhealthyError(error.failure.message, "network") from error
    finally:
        await client.close()
    if not is_success(reply.status):
        raise _UnhealthyError(f"{asked} answered {reply.status}, expected 2xx", "network")


async def _probe_command(healthcheck: CommandHealthcheck, environment: Mapping[str, str], limit: float) -> None:
    values = CallValues("healthcheck", Path(tempfile.gettempdir(), "agentv-healthcheck.json")).for_shell()
    command = render_command(healthcheck.command_template, {**values, "PROMPT_FILE": "/dev/null"})
    try:
        result = await run_process(
            ["/bin/sh", "-c", command], cwd=healthcheck.cwd or str(Path.cwd()), env=environment, timeout_seconds=limit
        )
    except ProcessStartError as error:
        raise _UnhealthyError(str(error), "process") from error
    if result.timed_out:
        raise _UnhealthyError(f"the command `{command}` timed out after {format_number(limit)}s", "timeout")
    if result.exit_code != 0:
        said = report_output(result)
        text = f"the command `{command}` ended with {describe_exit(result.exit_code)}"
        raise _UnhealthyError(f"{text}: {said}" if said else text, "process")
