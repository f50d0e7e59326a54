"""The shared part of all coding agents: starts and watches their program, reads its output, tells whether it failed."""

import math
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from pytest_agentv.cases.prompts import PromptMode, build_preread
from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.files.problems import describe_value
from pytest_agentv.model.base import JsonObject, Record
from pytest_agentv.model.kind import spelled
from pytest_agentv.model.messages import Message, TokenUsage
from pytest_agentv.model.secrets import Secret, masked
from pytest_agentv.providers.agents.output import MOST_KEPT, AgentOutput, guess_kind, stream_logs
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment, shortest
from pytest_agentv.providers.kind import Provider, Sources
from pytest_agentv.runtime.processes import ProcessResult, ProcessStartError, run_process
from pytest_agentv.runtime.reaper import marked_processes, temporary_folder
from pytest_agentv.targets.fields import (
    DefaultText,
    Items,
    OptionalText,
    Seconds,
    ShieldedText,
    filled_text,
    path_in,
    program_in,
    reveal,
)


@dataclass(frozen=True, slots=True)
class AgentCommand(Record):
    """How to call a program."""

    arguments: tuple[str | Secret, ...]
    stdin: str
    environment: Mapping[str, str | Secret | None] = field(default_factory=dict)
    """Variables to set; None: remove the variable."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Variables to set only if they are not set."""


@dataclass(frozen=True, slots=True)
class AgentAnswer(Record):
    """The facts that the events of a program report."""

    messages: tuple[Message, ...] = ()
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    finish_reason: str | None = None
    """Why the model stopped, in the words of its API; None: not reported."""
    is_complete: bool = False
    """Whether the program reported that it was done.

    A killed program may end with exit code 0, but without that report.
    """
    failure: str | None = None
    """Why there is no answer, in the program's words."""
    failure_kind: ErrorKind | None = None
    """None: guess it from these words."""


DEFAULT_SYSTEM_PROMPT: Final = (
    "Do not create, change or delete files. Put your whole answer into your reply, changes to code included: for each "
    "file its path and a unified diff, as `git diff` writes it. Only the reply is judged."
)


def _log_format(value: object) -> str:
    if isinstance(value, str) and value.strip().lower() in ("summary", "json"):
        return value.strip().lower()
    raise ValueError(f"expected summary or json, got {describe_value(value)}")


ShieldedWord: TypeAlias = Annotated[
    ShieldedText, BeforeValidator(lambda word: word if isinstance(word, Secret) else filled_text(word))
]
LogFormat: TypeAlias = Annotated[Literal["summary", "json"], BeforeValidator(_log_format)]
Executable: TypeAlias = Annotated[DefaultText, program_in("cwd")]


def executable_key(program: str) -> Any:
    """Return the key of the program, with its usual name as the default."""
    return spelled(
        "executable",
        "command",
        "binary",
        default=program,
        description="the program, a name or a path (default: `codex`, `claude`, `pi`)",
    )


class CodingAgent(Provider):
    """A program that works in a folder with tools of its own (agentv-formats 4.5)."""

    is_agent = True
    leaves_files = True
    costs_money = True
    title: ClassVar[str]
    """The name in messages."""
    skipped_types: ClassVar[frozenset[str]] = frozenset()
    """Event types to skip, because they repeat the whole text with each new word."""

    executable: Executable = executable_key("")
    args: Items[ShieldedWord] = spelled(*("args", "arguments"), default=(), description="further arguments")
    cwd: Annotated[OptionalText, path_in("cwd")] = Field(
        default=None, description="the folder it works in (default: a new, empty one for each call)"
    )
    model: OptionalText = Field(default=None, description="passed on to the program")
    system_prompt: OptionalText = spelled(
        *("system_prompt", "systemPrompt"),
        default=None,
        description="instructions; by default the agent changes no files, and puts diffs into its reply",
    )
    timeout_seconds: Seconds | None = spelled(
        *("timeout_seconds", "timeoutSeconds"),
        default=None,
        description="limit of one call; `--agentv-timeout` applies as well",
    )
    log_dir: Annotated[OptionalText, path_in("cwd")] = spelled(
        *("log_dir", "logDir", "log_directory", "logDirectory"),
        default=None,
        description="where the log of each call goes (default: `.agentv/logs/<provider>`)",
    )
    log_format: LogFormat = spelled(
        *("log_format", "logFormat", "log_output_format", "logOutputFormat"),
        default="summary",
        description="`summary`, a line for each event (default), or `json`, the events",
    )

    def command(self, request: ProviderRequest) -> AgentCommand:
        """Return the command to call. The executable comes before its arguments."""
        raise NotImplementedError

    def read(self, events: Sequence[JsonObject]) -> AgentAnswer:
        """Read the events. Skips events of unexpected shapes."""
        raise NotImplementedError

    def summarize(self, event: JsonObject) -> str | None:
        """Return an event's line in the log; None for an event without news for people."""
        raise NotImplementedError

    def open(self, environment: TargetEnvironment) -> "AgentProvider":
        return AgentProvider(self, environment)

    @property
    def sources(self) -> Sources:
        words = (self.executable, *(word for word in self.args if isinstance(word, str)))
        return Sources(words, folder=self.cwd)


class AgentProvider:
    """Runs the program of a coding agent once per case, in the target's folder or in a new one."""

    mode: PromptMode = "agent"

    def __init__(self, settings: CodingAgent, environment: TargetEnvironment) -> None:
        self._where = environment.where
        self._settings = settings
        self._environment = environment.variables
        self._argv: tuple[str, ...] = ()
        """The program's absolute path and the other words of `executable`; empty: not searched yet."""
        self._logs = stream_logs(
            settings.title,
            settings.kind,
            environment,
            folder=settings.log_dir,
            summarize=settings.summarize if settings.log_format == "summary" else None,
        )

    async def check(self) -> None:
        self._locate()

    async def close(self) -> None:
        """Do nothing: no resource is open."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        argv = self._locate()
        command = self._settings.command(request)
        limit = shortest(self._settings.timeout_seconds, request.timeout_seconds)
        output = AgentOutput(log := self._logs.open(request.eval_id, request.attempt), self._settings.skipped_types)
        try:
            result = await self._run(argv, command, limit, output)
        finally:
            output.end()
        raw: dict[str, object] = {
            "executable": argv[0],
            "args": [masked(reveal(argument)) for argument in command.arguments],
            "exit_code": result.exit_code,
            "stderr": output.stderr,
        }
        if log.path is not None:
            raw["log_file"] = str(log.path)
        answer = self._settings.read(output.events)
        response = ProviderResponse(
            output_messages=answer.messages,
            token_usage=answer.token_usage,
            cost_usd=answer.cost_usd,
            duration_ms=round(result.duration_ms) if answer.duration_ms is None else answer.duration_ms,
            finish_reason=answer.finish_reason,
            raw=raw,
        )
        return check_failure(response, self._settings.title, result, output, answer, limit=limit)

    async def _run(
        self, argv: Sequence[str], command: AgentCommand, limit: float | None, output: AgentOutput
    ) -> ProcessResult:
        try:
            with self._folders(command.stdin) as (workspace, temporary), marked_processes() as mark:
                changes = {"TMPDIR": str(temporary), **command.environment}
                kept = {name: value for name, value in self._environment.items() if name not in changes}
                added = {name: reveal(value) for name, value in changes.items() if value is not None}
                return await run_process(
                    [*argv, *map(reveal, command.arguments)],
                    cwd=str(workspace),
                    env={**command.defaults, **kept, **added, **mark},
                    stdin=command.stdin.encode("utf-8", "replace"),
                    timeout_seconds=limit,
                    listener=output.listen,
                )
        except ProcessStartError as error:
            raise ProviderError(f"{self._where}: {self._settings.title}: {error}", "config") from error

    def _locate(self) -> tuple[str, ...]:
        """Find the program. Raises `ProviderError`."""
        if not self._argv:
            place = f"{self._where}: {self._settings.title}"
            self._argv = find_program(self._settings.executable, self._environment.get("PATH"), place)
        return self._argv

    @contextmanager
    def _folders(self, prompt: str) -> Iterator[tuple[Path, Path]]:
        """Create the folders of a call: a working directory, if the target has none, and one for temporary files."""
        with temporary_folder(f"agentv-{self._settings.kind}-") as folder:
            temporary = folder / "tmp"
            temporary.mkdir()
            workspace = folder / "workspace"
            if self._settings.cwd is not None:
                workspace = Path(self._settings.cwd)
            else:
                workspace.mkdir()
                (workspace / "prompt.md").write_text(prompt, "utf-8", errors="replace")
            yield workspace, temporary


def find_program(executable: str, search_path: str | None, place: str) -> tuple[str, ...]:
    """Return the absolute path of a program, and the other words of `executable`.

    The path is absolute because the program starts in another folder. Raises `ProviderError` that names `place`.
    """
    words = [executable] if Path(executable).is_file() else executable.split()
    found = shutil.which(words[0], path=search_path)
    if found is None:
        what = "is no program that can be run" if "/" in words[0] else "was not found on PATH"
        message = f"{place}: executable {words[0]!r} {what}; install it, or write its path as `executable`"
        raise ProviderError(message, "config")
    return (str(Path(found).absolute()), *words[1:])


_NO_ANSWER: Final = "ended without a word and without a call of a tool"

_LONGEST_HEADLINE: Final = 1000
"""The most characters of each text of a program."""


def check_failure(
    response: ProviderResponse,
    title: str,
    result: ProcessResult,
    output: AgentOutput,
    answer: AgentAnswer,
    *,
    limit: float | None,
) -> ProviderResponse:
    """Return the response of a call. It has an error if the call failed, or timed out, and reports its cost.

    The exit code alone does not tell. Raises `ProviderError` for any other failure. Source: evaluation-2026-01, "Claude
    Code error handling" and "Codex CLI provider".
    """
    fault = _fault(result, output, answer, limit)
    if fault is None:
        return response
    if fault == _NO_ANSWER:
        answer = answer.replace(failure_kind="no_answer")
    said = _said(output, answer)
    kind: ErrorKind = "timeout" if result.timed_out else answer.failure_kind or guess_kind(answer.failure or said)
    where = f"\nlog: {response.raw['log_file']}" if "log_file" in response.raw else ""
    error = f"{title} {fault}{': ' if said else ''}{said}{where}"
    raw = {**response.raw, "stdout": output.stdout}
    if not (answer.token_usage or answer.cost_usd):
        raise ProviderError(error, kind, raw)
    return response.replace(error=error, error_kind=kind, raw=raw)


def _fault(result: ProcessResult, output: AgentOutput, answer: AgentAnswer, limit: float | None) -> str | None:
    if result.timed_out:
        return f"timed out after {math.ceil(limit or 0)}s"
    if output.overflowed:
        return f"wrote more than {MOST_KEPT // 2**20} MiB of events"
    if result.exit_code < 0:
        return f"was ended by signal {-result.exit_code}"
    if result.exit_code > 0:
        return f"exited with code {result.exit_code}"
    if answer.failure:
        return "failed"
    if not output.events:
        return "wrote no events"
    if not answer.is_complete:
        return "ended without a result"
    return None if answer.messages else _NO_ANSWER


def _said(output: AgentOutput, answer: AgentAnswer) -> str:
    """Return the program's texts about its failure: in events, on standard error, and beside its events."""
    texts = {"": answer.failure or "", "stderr: ": output.stderr, "stdout: ": output.noise}
    found = []
    for label, text in texts.items():
        if text:
            shown = masked(text)
            found.append(f"{label}{shown[:_LONGEST_HEADLINE]}{'…' if len(shown) > _LONGEST_HEADLINE else ''}")
    return found[0].removeprefix("stderr: ") if len(found) == 1 else "\n".join(found)


def agent_prompt(settings: CodingAgent, request: ProviderRequest, *, with_system_prompt: bool = True) -> str:
    """Return the text for an agent: its instructions, the files it must read first, and the question."""
    document = build_preread(request.prompt.question, request.guideline_paths, request.input_paths)
    return f"{system_prompt(settings, request)}\n\n{document}" if with_system_prompt else document


def system_prompt(settings: CodingAgent, request: ProviderRequest) -> str:
    """Return the instructions: those of the judge that asks, or of the target, or the default ones."""
    return request.system_prompt or settings.system_prompt or DEFAULT_SYSTEM_PROMPT
