"""The shared part of all coding agents: starts and watches their program, reads its output, and cleans up."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from pytest_agentv.errors import ProviderError
from pytest_agentv.loading.problems import describe_value
from pytest_agentv.loading.targets.fields import (
    DefaultText,
    Items,
    OptionalText,
    Seconds,
    ShieldedText,
    filled_text,
    path_in,
    program_in,
)
from pytest_agentv.loading.targets.free_data import reveal
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.kind import spelled
from pytest_agentv.models.masking.secrets import Secret, masked
from pytest_agentv.prompts.preread import build_preread
from pytest_agentv.prompts.prompt import PromptMode
from pytest_agentv.providers.agents.failure import check_failure
from pytest_agentv.providers.agents.log import stream_logs
from pytest_agentv.providers.agents.output import AgentOutput
from pytest_agentv.providers.agents.program import AgentAnswer, AgentCommand, find_program
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment, shortest
from pytest_agentv.providers.kind import Provider, Sources
from pytest_agentv.runtime.processes.process import ProcessResult, ProcessStartError, run_process
from pytest_agentv.runtime.processes.reaper import marked_processes, temporary_folder

DEFAULT_SYSTEM_PROMPT: Final = (
    "Do not create, change or delete files. Put your whole answer into your reply, changes to code included: for each "
    "file its path and a unified diff, as `git diff` writes it. Only the reply is judged."
)


def _word(value: object) -> str | Secret:
    return value if isinstance(value, Secret) else filled_text(value)


def _log_format(value: object) -> str:
    if isinstance(value, str) and value.strip().lower() in ("summary", "json"):
        return value.strip().lower()
    raise ValueError(f"expected summary or json, got {describe_value(value)}")


ShieldedWord: TypeAlias = Annotated[ShieldedText, BeforeValidator(_word)]
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
                return await run_process(
                    [*argv, *map(reveal, command.arguments)],
                    cwd=str(workspace),
                    env=self._variables(command, temporary) | mark,
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

    def _variables(self, command: AgentCommand, temporary: Path) -> dict[str, str]:
        changes = {"TMPDIR": str(temporary), **command.environment}
        kept = {name: value for name, value in self._environment.items() if name not in changes}
        return {**command.defaults, **kept} | {
            name: reveal(value) for name, value in changes.items() if value is not None
        }


def agent_prompt(settings: CodingAgent, request: ProviderRequest, *, with_system_prompt: bool = True) -> str:
    """Return the text for an agent: its instructions, the files it must read first, and the question."""
    document = build_preread(request.prompt.question, request.guideline_paths, request.input_paths)
    return f"{system_prompt(settings, request)}\n\n{document}" if with_system_prompt else document


def system_prompt(settings: CodingAgent, request: ProviderRequest) -> str:
    """Return the instructions: those of the judge that asks, or of the target, or the default ones."""
    return request.system_prompt or settings.system_prompt or DEFAULT_SYSTEM_PROMPT
