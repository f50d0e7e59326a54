"""The `cli` provider: a command line, rendered and run once per case, or once for a whole batch."""

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Final, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from pytest_agentv.errors import ProviderError
from pytest_agentv.loading.project_files import command_words
from pytest_agentv.loading.targets.fields import OptionalText, RealFlag, RealSeconds, ShieldedText, path_in, text_of
from pytest_agentv.loading.targets.free_data import reveal
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.kind import spelled
from pytest_agentv.models.masking.secrets import Secret, masked
from pytest_agentv.models.records import record
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment, shortest
from pytest_agentv.providers.cli.healthcheck import Healthcheck, run_healthcheck
from pytest_agentv.providers.cli.output import (
    parse_batch_output,
    parse_one_of_batch,
    parse_output,
    raise_for_failure,
    read_output_file,
)
from pytest_agentv.providers.cli.placeholders import PLACEHOLDERS, CommandTemplate, FilesFormat, InputTemplate
from pytest_agentv.providers.cli.template import (
    CallValues,
    clean,
    render_command,
    request_values,
    shell_argv,
    with_prompt,
)
from pytest_agentv.providers.kind import Provider, Sources
from pytest_agentv.runtime.processes.process import ProcessStartError, run_process
from pytest_agentv.runtime.processes.reaper import temporary_folder
from pytest_agentv.runtime.threads import run_in_thread

_LOGGER: Final = logging.getLogger(__name__)

T = TypeVar("T")

_LONG_ANSWER: Final = 256 * 1024
"""Characters; shorter answers are parsed on the event loop."""


@record
class _Run(Record):
    """A command that ended well, and its answer."""

    content: str
    raw: JsonObject
    duration_ms: float


def _environment_text(value: object) -> str | Secret:
    return value if isinstance(value, Secret) else text_of(value)


def _variable_name(value: str) -> str:
    if not value.strip() or "=" in value or "\0" in value:
        raise ValueError(f"{value!r} is no name of an environment variable")
    return value


VariableName: TypeAlias = Annotated[str, AfterValidator(_variable_name)]
EnvironmentText: TypeAlias = Annotated[ShieldedText, BeforeValidator(_environment_text)]


class Cli(Provider):
    """A command line, rendered and run once per case (agentv-formats 4.6)."""

    kind = "cli"
    is_strict = True

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
    timeout_seconds: RealSeconds | None = spelled(
        *("timeout_seconds", "timeoutSeconds"),
        default=None,
        description="limit of one call; `--agentv-timeout` applies as well, the shorter one counts",
    )
    verbose: RealFlag = spelled(
        *("verbose", "cli_verbose", "cliVerbose"), default=False, description="log the commands and their exit codes"
    )
    keep_temp_files: RealFlag = spelled(
        *("keep_temp_files", "keepTempFiles", "keep_output_files", "keepOutputFiles"),
        default=False,
        description="leave prompt and output files where they are, for debugging",
    )
    env: dict[VariableName, EnvironmentText] = Field(
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
    def sources(self) -> Sources:
        return Sources(tuple(command_words(self.command_template)), folder=self.cwd)


class CliProvider:
    """Runs a command template with `/bin/sh` (agentv-formats 5.8).

    The answer is read from `{OUTPUT_FILE}` where the template has it, else from standard output.
    """

    mode: PromptMode = "agent"

    def __init__(self, name: str, settings: Cli, environment: Mapping[str, str], is_batched: bool = False) -> None:
        self._name = name
        self._batch_ids: set[str] | None = set() if is_batched else None  # the cases that were sent in one call
        self._settings = settings
        self._cwd = settings.cwd or str(Path.cwd())
        self._environment = {**environment, **{key: reveal(value) for key, value in settings.env.items()}}
        self._placeholders = [name for name in PLACEHOLDERS if f"{{{name}}}" in settings.command_template]
        self._uses_output_file = "{OUTPUT_FILE}" in settings.command_template
        self._uses_prompt_file = "{PROMPT_FILE}" in settings.command_template + (settings.stdin or "")

    async def check(self) -> None:
        if self._settings.healthcheck is not None:
            await run_healthcheck(
                self._settings.healthcheck,
                target_name=self._name,
                environment=self._environment,
                timeout_seconds=self._settings.timeout_seconds,
            )

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        with self._folder(request.eval_id) as folder:
            values = request_values(request, self._settings.files_format, folder / "output.json")
            run = await self._run(values, shortest(self._settings.timeout_seconds, request.timeout_seconds))
        response = await _beside_the_loop(run.content, lambda: self._parse(run.content, request.eval_id))
        return self._complete(response, run, run.duration_ms)

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        """Run the command once for all requests. It writes a JSON line with an `id` for each."""
        paths = tuple(path for request in requests for path in request.file_paths)
        eval_ids = [request.eval_id for request in requests]
        self._batch_ids = {*(self._batch_ids or ()), *eval_ids}
        with self._folder("batch") as folder:
            output_file = folder / "output.jsonl"
            values = CallValues("batch", output_file, files=paths, files_format=self._settings.files_format)
            run = await self._run(values, shortest(self._settings.timeout_seconds, _total_seconds(requests)))
        responses = await _beside_the_loop(run.content, lambda: parse_batch_output(run.content, eval_ids))
        share = round(run.duration_ms / max(1, len(requests)))
        return [self._complete(response, run, share) for response in responses]

    async def close(self) -> None:
        """Do nothing: no resource is open."""

    def _folder(self, eval_id: str) -> AbstractContextManager[Path]:
        keep = self._settings.keep_temp_files and (self._uses_output_file or self._uses_prompt_file)
        return temporary_folder(f"agentv-{re.sub(r'[^A-Za-z0-9._-]+', '-', eval_id)[:40]}-", keep=keep)

    async def _run(self, call: CallValues, limit: float | None) -> _Run:
        values = call.for_shell()
        command = render_command(self._settings.command_template, values)
        if self._uses_prompt_file:
            call.prompt_file.write_text(clean(call.prompt), "utf-8", newline="")
        self._log("target %s: running %s", self._name, command)
        started = time.perf_counter()
        try:
            result = await run_process(
                shell_argv(command, call.output_file.parent),
                cwd=self._cwd,
                env=with_prompt(self._environment, call.prompt),
                stdin=self._input(call),
                timeout_seconds=limit,
            )
        except ProcessStartError as error:
            raise ProviderError(f"CLI provider could not be started: {error}", "process") from error
        duration_ms = round((time.perf_counter() - started) * 1000)
        self._log("target %s: exit code %d after %d ms", self._name, result.exit_code, duration_ms)
        if result.stderr:
            self._log("target %s: stderr: %s", self._name, result.stderr.rstrip())
        raise_for_failure(result, limit, {name: values[name] for name in self._placeholders})
        raw: dict[str, object] = {"command": command, "exit_code": result.exit_code, "stderr": result.stderr}
        if not self._uses_output_file:
            return _Run(result.stdout.rstrip("\n"), raw, duration_ms)
        if self._settings.keep_temp_files:
            raw["output_file"] = str(call.output_file)
        # in a thread: a file on a network may block, and other cases must not wait
        content = await run_in_thread(lambda: read_output_file(call.output_file, result), "agentv-read")
        return _Run(content, raw, duration_ms)

    def _parse(self, content: str, eval_id: str) -> ProviderResponse:
        ids = self._batch_ids
        return parse_output(content) if ids is None else parse_one_of_batch(content, eval_id, ids)

    def _input(self, call: CallValues) -> bytes | None:
        if self._settings.stdin is None:
            return None
        return render_command(self._settings.stdin, call.as_texts()).encode("utf-8", "surrogateescape")

    def _complete(self, response: ProviderResponse, run: _Run, duration_ms: float) -> ProviderResponse:
        trace_ref = None if response.trace_ref is None else str(Path(self._cwd, response.trace_ref))
        took = duration_ms if response.duration_ms is None else response.duration_ms
        return response.replace(trace_ref=trace_ref, duration_ms=took, raw=run.raw)

    def _log(self, message: str, *values: object) -> None:
        level = logging.INFO if self._settings.verbose else logging.DEBUG
        if _LOGGER.isEnabledFor(level):
            _LOGGER.log(level, message, *(masked(value) if isinstance(value, str) else value for value in values))


async def _beside_the_loop(content: str, parse: Callable[[], T]) -> T:
    """Parse a long answer in a thread, so that other cases go on meanwhile."""
    return parse() if len(content) <= _LONG_ANSWER else await run_in_thread(parse, "agentv-parse")


def _total_seconds(requests: Iterable[ProviderRequest]) -> float | None:
    """Return the time limit of a batch: the sum of the limits of its requests."""
    limits = [request.timeout_seconds for request in requests]
    return None if None in limits else sum(filter(None, limits))
