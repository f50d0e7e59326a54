"""The command line of a `cli` target, which is filled in and run for each call."""

import logging
import time
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.models.records import record
from pytest_agentv.providers.cli.output import raise_for_failure, read_output
from pytest_agentv.providers.cli.placeholders import PLACEHOLDERS
from pytest_agentv.providers.cli.template import CallValues, clean, render_command, shell_argv, with_prompt
from pytest_agentv.runtime.processes.process import ProcessResult, ProcessStartError, run_process
from pytest_agentv.runtime.threads import run_in_thread

_LOGGER: Final = logging.getLogger(__name__)


@record
class CommandRun(Record):
    """A command that ended well, and its answer."""

    content: str
    raw: JsonObject
    duration_ms: float


@record
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
        self._log("target %s: running %s", self.target, command)
        started = time.perf_counter()
        try:
            result = await run_process(
                shell_argv(command, call.output_file.parent),
                cwd=self.cwd,
                env=with_prompt(self.environment, call.prompt),
                stdin=self._input(call),
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

    def _input(self, call: CallValues) -> bytes | None:
        if self.stdin is None:
            return None
        return render_command(self.stdin, call.as_texts()).encode("utf-8", "surrogateescape")

    def _log(self, message: str, *values: object) -> None:
        level = logging.INFO if self.is_verbose else logging.DEBUG
        if _LOGGER.isEnabledFor(level):
            _LOGGER.log(level, message, *(masked(value) if isinstance(value, str) else value for value in values))
