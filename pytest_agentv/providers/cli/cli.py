"""The `cli` provider: a command line, rendered and run once per case, or once for a whole batch."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Final, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from pytest_agentv.loading.project_files import command_words
from pytest_agentv.loading.targets.fields import OptionalText, RealFlag, RealSeconds, ShieldedText, path_in, text_of
from pytest_agentv.loading.targets.free_data import reveal
from pytest_agentv.models.kind import spelled
from pytest_agentv.models.masking.secrets import Secret
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment, shortest, total_seconds
from pytest_agentv.providers.cli.command import Command, CommandRun
from pytest_agentv.providers.cli.healthcheck import Healthcheck, run_healthcheck
from pytest_agentv.providers.cli.output import OutputError, parse_batch_output, parse_one_of_batch, parse_output
from pytest_agentv.providers.cli.placeholders import CommandTemplate, FilesFormat, InputTemplate, has_prompt_only
from pytest_agentv.providers.cli.template import CallValues, request_values
from pytest_agentv.providers.kind import Provider, Sources
from pytest_agentv.providers.trace_files import with_trace
from pytest_agentv.runtime.processes.reaper import temporary_folder
from pytest_agentv.runtime.threads import run_in_thread

T = TypeVar("T")

_LONG_ANSWER: Final = 256 * 1024
"""Characters; shorter answers are parsed on the event loop."""


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
    def leaves_out_guidelines(self) -> bool:
        """Whether the command gets the question, but neither the texts nor the paths of guidelines.

        A command that gets no question, and one for a whole batch, reads the cases itself.
        """
        return has_prompt_only(f"{self.command_template} {self.stdin or ''}")

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
            response = await _beside_the_loop(run.content, lambda: self._parse(run.content, request.eval_id))
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

    def _parse(self, content: str, eval_id: str) -> ProviderResponse:
        ids = self._batch_ids
        return parse_output(content) if ids is None else parse_one_of_batch(content, eval_id, ids)

    async def _complete(self, response: ProviderResponse, run: CommandRun, duration_ms: float) -> ProviderResponse:
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
