"""The shared part of all coding agents: starts and watches their program, reads its output, tells whether it failed."""

import json
import logging
import math
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from pytest_agentv.cases.prompts import PromptMode, build_preread
from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.model.base import ABSENT, Json, JsonObject, Record, is_number, mapping, text_or_none
from pytest_agentv.model.kind import Items, filled, spelled
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall
from pytest_agentv.model.options import LOGS_FOLDER
from pytest_agentv.model.secrets import Secret, beginning, masked
from pytest_agentv.providers.api.base import entries, text_of
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetAdapter, TargetEnvironment, shortest
from pytest_agentv.providers.kind import Provider, Sources
from pytest_agentv.runtime.processes import ProcessResult, ProcessStartError, run_process
from pytest_agentv.runtime.reaper import temporary_folder
from pytest_agentv.targets.fields import (
    OptionalText,
    Program,
    Seconds,
    ShieldedText,
    path_in,
    reveal,
)

_LOGGER: Final = logging.getLogger(__name__)
_OFF: Final = frozenset({"false", "0", "off", "no"})
_LONGEST_NAME: Final = 80


class StreamLog:
    """The log of one call, with times, for people (agentv-formats 5.3). One that cannot be written is a warning."""

    def __init__(self, path: Path | None, header: str = "", *, in_full: bool = False) -> None:
        """Create the file, and its folder; without a path, no log is written. Events have a line, or are `in_full`."""
        self.path: Path | None = None
        self._in_full = in_full
        self._started = time.monotonic()
        self._file: IO[str] | None = None
        if path is None:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("x", encoding="utf-8", errors="replace", buffering=1)
        except OSError as error:
            _LOGGER.warning("no stream log %s: %s", path, error.strerror)
            return
        self.path = path
        self._write(header)

    def write_event(self, event: JsonObject) -> None:
        """Write an event, as a line or in full."""
        if self._file is not None:
            whole = json.dumps(event, indent=2, ensure_ascii=False) if self._in_full else ""
            self.write_text("stdout", whole or summarize(event))

    def write_text(self, stream: str, text: str) -> None:
        """Write a line that is not an event."""
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        hours, minutes = divmod(minutes, 60)
        clock = f"{hours:02}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"
        self._write(f"[+{clock}] [{stream}] {text}\n")

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # text that was held back because the disk was full
                self._file.close()
            self._file = None

    def _write(self, text: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(masked(text))
        except OSError as error:
            _LOGGER.warning("the stream log %s ends here: %s", self.path, error.strerror)
            self.close()


_TOLD: Final = frozenset({"type", "subtype", "role", "tool", "toolName", "text", "command", "query", "message"}) | {
    *("errorMessage", "error", "result", "content", "exit_code", "total_cost_usd", "duration_ms", "isError"),
}
_IN_BRACKETS: Final = ("name", "tool_name", "toolCallId", "tool_use_id")
_LONGEST_LINE: Final = 300
_DEEPEST: Final = 6


def summarize(event: JsonObject) -> str:
    """Return an event's line in the log: its type, and what it tells."""
    told = " ".join(_told({**event, "type": None}, "", 0))[:_LONGEST_LINE]
    kind = shorten(str(event.get("type")))
    return f"{kind}: {told}" if told else kind


def _told(value: Json, key: str, depth: int) -> Iterator[str]:
    if isinstance(value, dict | list) and depth < _DEEPEST:
        if key == "permission_denials" and isinstance(value, list) and value:
            yield "refused for lack of permission:"
        for name, item in value.items() if isinstance(value, dict) else ((key, item) for item in value):
            yield from _told(item, name, depth + 1)
    elif isinstance(value, str) and value and key in (*_TOLD, *_IN_BRACKETS):
        yield f"({shorten(value)})" if key in _IN_BRACKETS else shorten(value)
    elif key in _TOLD and (number := as_number(value)):
        yield f"{key}={number:g}"


MOST_KEPT: Final = 256 * 2**20
"""In bytes. A program that writes more events, or a longer line, is not read any further."""
_LONGEST_REPORT: Final = 2000
"""The most characters kept of text outside of events. The end is kept, where programs report errors."""


class AgentOutput:
    """Listens to a program that writes an event per line of standard output."""

    def __init__(self, log: StreamLog, skipped: frozenset[str] = frozenset()) -> None:
        self.events: list[JsonObject] = []
        self._log = log
        self._skipped = skipped
        self._unread = tuple(f'{{"type":"{kind}"'.encode() for kind in sorted(skipped))
        """The usual beginnings of such lines. They are most of the output, and parsing them would be a waste."""
        self._bytes_left = MOST_KEPT
        self._pending = {"stdout": bytearray(), "stderr": bytearray()}
        """The last line of each stream, which has not ended yet."""
        self._said = {"stdout": "", "stderr": ""}

    @property
    def overflowed(self) -> bool:
        """Whether the program wrote more events than are kept."""
        return self._bytes_left < 0

    def said(self, stream: Literal["stdout", "stderr"]) -> str:
        """Return the end of a stream's text outside of events, without secrets."""
        return self._said[stream].strip()

    def listen(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Read a piece of the program's output. Splits at newlines only: events hold raw U+2028."""
        pending = self._pending[stream]
        pending += data
        if b"\n" in data:  # lines of many megabytes come in hundreds of pieces
            *lines, self._pending[stream] = pending.split(b"\n")
            for line in lines:
                self._take(stream, line)
        elif len(pending) > max(0, self._bytes_left):
            self._bytes_left = -1
            pending.clear()

    def end(self) -> None:
        """Read the rest, and end the log."""
        for stream, line in self._pending.items():
            self._take(stream, line)
        self._log.close()

    def _take(self, stream: str, data: bytearray) -> None:
        line = bytes(data.strip())
        if not line or self.overflowed or line.startswith(self._unread):
            return
        event = parse_event(line) if stream == "stdout" else None
        if event is None:
            text = masked(line.decode("utf-8", "replace"))
            self._said[stream] = f"{self._said[stream]}{text}\n"[-_LONGEST_REPORT:]
            self._log.write_text(stream, text)
            return
        if text_or_none(event.get("type")) in self._skipped:
            return
        self._bytes_left -= len(line)
        if not self.overflowed:
            self.events.append(event)
            self._log.write_event(event)


def parse_event(line: bytes) -> JsonObject | None:
    """Return the JSON object of a line; None for any other line."""
    try:
        event = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


# Reads the events of coding agents. Their shapes change with every release, so unexpected values are skipped.

_SAID: Final[Mapping[ErrorKind, str]] = {
    "no_answer": "content_filter|incomplete response",
    "rate_limit": r"\b429\b|rate limit",
    "auth": r"\b40[13]\b|api key|log in|login|logged in|authenticat|missing environment variable",
    "network": r"\b(50[0234]|529)\b|connect|network|socket|econn|closed|high demand|overloaded|timed out",
}
"""Words of programs and APIs about a failure, by its kind."""
_LONGEST_SUMMARY: Final = 50
_LARGEST_NUMBER: Final = 2**53
"""The largest integer that JavaScript programs count exactly."""


def as_number(value: Json) -> float:
    """Return a number unchanged; 0 for any other value, for NaN, and for numbers too large to compute with."""
    return value if is_number(value) and abs(value) <= _LARGEST_NUMBER else 0


def joined_text(content: Json) -> str | None:
    """Return the text of a message's content, which is a text or a list of blocks; None if there is no text."""
    if isinstance(content, str):
        return content
    texts = [text_of(block.get("text")) for block in entries(content) if block.get("type") == "text"]
    return "\n".join(texts) if texts else None


def calls_among(content: Json, kind: str, given: str) -> tuple[ToolCall, ...]:
    """Return the calls among the blocks of a message's content; `given` is the key of their input."""
    blocks = [block for block in entries(content) if block.get("type") == kind]
    return tuple(
        ToolCall(str(block.get("name")), block.get(given, ABSENT), id=text_or_none(block.get("id"))) for block in blocks
    )


def result_output(content: Json) -> Json:
    """Return the output of a tool: the text of its result, or the blocks if one of them is not a text."""
    is_text = isinstance(content, list) and content and all(mapping(part).get("type") == "text" for part in content)
    return joined_text(content) if is_text else content


def with_outputs(messages: Iterable[Message], outputs: Mapping[str, Json]) -> tuple[Message, ...]:
    """Add the outputs of tools to the calls of messages, by the ids of the calls."""
    return tuple(
        message.replace(
            tool_calls=tuple(call.replace(output=outputs.get(call.id or "", ABSENT)) for call in message.tool_calls)
        )
        for message in messages
    )


def sum_tokens(usages: Sequence[JsonObject], *names: str) -> TokenUsage:
    """Add up tokens: the names of new input, of input written to a cache, of input read from it, and of output."""
    new, written, read, out = (sum(as_number(usage.get(name)) for usage in usages) for name in names)
    return TokenUsage(new + written, out, read or None)


def guess_kind(text: str) -> ErrorKind:
    """Return the kind of failure that a program's text describes."""
    return next((kind for kind, words in _SAID.items() if re.search(words, text, re.IGNORECASE)), "process")


def shorten(text: str) -> str:
    """Return the beginning of a text for a log line. Masks secrets first, because half a secret is not recognized."""
    line = " ".join(masked(text).split())
    return line if len(line) <= _LONGEST_SUMMARY else f"{line[:_LONGEST_SUMMARY]}..."


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
    session: str | None = None
    """The id by which the program goes on with the conversation."""
    is_complete: bool = False
    """Whether the program reported that it was done. A killed one may end with exit code 0, but without that report."""
    failure: str | None = None
    failure_kind: ErrorKind | None = None
    """None: guess it from these words."""


DEFAULT_SYSTEM_PROMPT: Final = (
    "Do not create, change or delete files. Put your whole answer into your reply, changes to code included: for each "
    "file its path and a unified diff, as `git diff` writes it. Only the reply is judged."
)


WORKSPACE_PROMPT: Final = (
    "Work in the current folder: create, change and delete files there as the task asks. What the folder holds when "
    "you end is judged. Nobody answers questions."
)


ShieldedWord: TypeAlias = Annotated[
    ShieldedText, BeforeValidator(lambda word: word if isinstance(word, Secret) else filled(word))
]


LogFormat: TypeAlias = Annotated[Literal["summary", "json"], BeforeValidator(lambda word: str(word).strip().lower())]


class CodingAgent(Provider):
    """A program that works in a folder with tools of its own (agentv-formats 4.5)."""

    is_agent = True
    leaves_files = True
    takes_workspace = True
    costs_money = True
    title: ClassVar[str]
    program: ClassVar[str]
    adds_up_usage: ClassVar[bool] = False
    """Whether it reports the tokens of the whole conversation when it goes on with one."""
    skipped_types: ClassVar[frozenset[str]] = frozenset()
    """Event types to skip, because they repeat the whole text with each new word."""

    executable: Program = spelled(
        *("executable", "command", "binary"),
        default="",
        description="the program, a name or a path (default: `codex`, `claude`, `pi`)",
    )
    args: Items[ShieldedWord] = spelled(*("args", "arguments"), default=(), description="further arguments")
    cwd: Annotated[OptionalText, path_in("cwd")] = Field(
        default=None, description="the folder it works in (default: a new, empty one for each call)"
    )
    model: OptionalText = Field(default=None, description="passed on to the program")
    system_prompt: OptionalText = Field(
        default=None,
        description="instructions; by default the agent changes files only in a workspace; else its reply has diffs",
    )
    timeout_seconds: Seconds | None = Field(
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

    def goes_on(self, request: ProviderRequest) -> bool:
        """Whether the next turn is in the same folder, so that the program can go on with its conversation."""
        return request.turn > 0 and (self.cwd or request.workspace) is not None

    def read(self, events: Sequence[JsonObject]) -> AgentAnswer:
        """Read the events. Skips events of unexpected shapes."""
        raise NotImplementedError

    def open(self, environment: TargetEnvironment) -> "AgentProvider":
        return AgentProvider(self, environment)

    @property
    def sources(self) -> Sources:
        words = (self.executable or self.program, *(word for word in self.args if isinstance(word, str)))
        return Sources(words, folder=self.cwd)


class AgentProvider(TargetAdapter):
    """Runs the program of a coding agent once per case, in the target's folder or in a new one."""

    mode: PromptMode = "agent"

    def __init__(self, settings: CodingAgent, environment: TargetEnvironment) -> None:
        self._where = environment.where
        self._settings = settings
        self._environment = environment.variables
        self._target = environment.name
        self._used: dict[str, TokenUsage] = {}
        """The tokens so far of conversations that go on, where the program adds them up."""

    async def check(self) -> None:
        self._locate()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Run the program. Raises `ProviderError` for a failed call, unless it reports what it cost."""
        argv = self._locate()
        command = self._settings.command(request)
        limit = shortest(self._settings.timeout_seconds, request.timeout_seconds)
        output = AgentOutput(log := self._open_log(request), self._settings.skipped_types)
        try:
            result = await self._run(argv, command, limit, output, request)
        finally:
            output.end()
        raw: dict[str, object] = {
            "executable": argv[0],
            "args": [masked(reveal(argument)) for argument in command.arguments],
            "exit_code": result.exit_code,
            "stdout": output.said("stdout"),
            "stderr": output.said("stderr"),
        }
        if log.path is not None:
            raw["log_file"] = str(log.path)
        answer = self._settings.read(output.events)
        session = answer.session if self._settings.goes_on(request) else None
        response = ProviderResponse(
            output_messages=answer.messages,
            session=session,
            token_usage=self._usage(answer.token_usage, session),
            cost_usd=answer.cost_usd,
            duration_ms=round(result.duration_ms) if answer.duration_ms is None else answer.duration_ms,
            finish_reason=answer.finish_reason,
            raw=raw,
        )
        fault = find_fault(result, output, answer)
        if fault is None or (fault == _SILENT and request.workspace is not None):  # its work may be the answer
            return response
        said = _said(output, answer)
        after = f" after {math.ceil(limit or 0)}s" if result.timed_out else ""
        where = "" if log.path is None else f"\nlog: {log.path}"
        error = f"{self._settings.title} {fault}{after}{': ' if said else ''}{said}{where}"
        kind = answer.failure_kind or guess_kind(answer.failure or said)
        if result.timed_out or fault == _SILENT:
            kind = "timeout" if result.timed_out else "no_answer"
        if not (answer.token_usage or answer.cost_usd):
            raise ProviderError(error, kind, raw)
        return response.replace(error=error, error_kind=kind)

    def _usage(self, usage: TokenUsage | None, session: str | None) -> TokenUsage | None:
        if usage is None or session is None or not self._settings.adds_up_usage:
            return usage
        before, self._used[session] = self._used.get(session, TokenUsage(0, 0, 0)), usage
        cached = (usage.cached or 0) - (before.cached or 0)
        return TokenUsage(usage.input - before.input, usage.output - before.output, cached or None)

    async def _run(
        self,
        argv: Sequence[str],
        command: AgentCommand,
        limit: float | None,
        output: AgentOutput,
        request: ProviderRequest,
    ) -> ProcessResult:
        try:
            with temporary_folder(f"agentv-{self._settings.kind}-") as folder:
                temporary, workspace = folder / "tmp", folder / "workspace"
                temporary.mkdir()
                if (cwd := request.workspace or self._settings.cwd) is not None:
                    workspace = Path(cwd)
                else:
                    workspace.mkdir()
                    (workspace / "prompt.md").write_text(command.stdin, "utf-8", errors="replace")
                own = {"TMPDIR": str(temporary), **command.environment}
                variables = {**command.defaults, **self._environment, **own}
                return await run_process(
                    request.sandboxed([*argv, *map(reveal, command.arguments)], temporary),
                    cwd=str(workspace),
                    env={name: reveal(value) for name, value in variables.items() if value is not None},
                    stdin=command.stdin.encode("utf-8", "replace"),
                    timeout_seconds=limit,
                    listener=output.listen,
                    leaves_nothing=True,
                )
        except ProcessStartError as error:
            raise ProviderError(f"{self._where}: {self._settings.title}: {error}", "config") from error

    def _locate(self) -> tuple[str, ...]:
        """Return the program's absolute path and the other words of `executable`. Raises `ProviderError`."""
        executable = self._settings.executable or self._settings.program
        found = find_program(executable, self._environment.get("PATH"))
        if found is None:
            what = "is no program that can be run" if "/" in executable else "was not found on PATH"
            fault = f"executable {executable!r} {what}; install it, or write its path as `executable`"
            raise ProviderError(f"{self._where}: {self._settings.title}: {fault}", "config")
        return found

    def _open_log(self, request: ProviderRequest) -> StreamLog:
        """Open a log `<time>_<target>_<eval id>_attempt-<n>_<8 hex>.log`, unless a variable switches them off."""
        settings, attempt = self._settings, request.attempt + 1
        switch = f"AGENTV_{settings.kind.upper().replace('-', '_')}_STREAM_LOGS"
        if self._environment.get(switch, "").strip().lower() in _OFF:
            return StreamLog(None)
        started = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        parts = [re.sub(r"[^A-Za-z0-9._-]+", "_", part)[:_LONGEST_NAME] for part in (self._target, request.eval_id)]
        name = "_".join([re.sub("[:.]", "-", started), *parts, f"attempt-{attempt}", secrets.token_hex(4)])
        folder = Path(settings.log_dir) if settings.log_dir else Path.cwd() / LOGS_FOLDER / settings.kind
        header = (
            f"# {settings.title} stream log\n# target: {self._target}\n# eval: {' '.join(request.eval_id.split())}\n"
            f"# attempt: {attempt}\n# started: {started}\n\n"
        )
        return StreamLog(folder / f"{name}.log", header, in_full=settings.log_format == "json")


def find_program(command: str, search_path: str | None) -> tuple[str, ...] | None:
    """Return the absolute path of a command's program, and the command's other words; None if there is no program."""
    words = [command]
    found = shutil.which(command, path=search_path)
    if found is None:
        with suppress(ValueError):  # an open quote
            words = shlex.split(command)
        found = shutil.which(words[0], path=search_path) if words else None
    return None if found is None else (str(Path(found).absolute()), *words[1:])


_LONGEST_HEADLINE: Final = 1000


_SILENT: Final = "ended without a word and without a call of a tool"


def find_fault(result: ProcessResult, output: AgentOutput, answer: AgentAnswer) -> str | None:
    """Return why a call failed; None: it did not. The exit code alone does not tell."""
    if result.timed_out:
        return "timed out"
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
    return None if answer.messages else _SILENT


def _said(output: AgentOutput, answer: AgentAnswer) -> str:
    """Return the program's texts about its failure: in events, on standard error, and beside its events."""
    texts = {"": answer.failure or "", "stderr: ": output.said("stderr"), "stdout: ": output.said("stdout")}
    found = [f"{label}{beginning(masked(text), _LONGEST_HEADLINE)}" for label, text in texts.items() if text]
    return found[0].removeprefix("stderr: ") if len(found) == 1 else "\n".join(found)


def agent_document(request: ProviderRequest) -> str:
    """Return the files that an agent must read first, and the question."""
    return build_preread(request.prompt.question, request.guideline_paths, request.input_paths)


def system_prompt(settings: CodingAgent, request: ProviderRequest) -> str:
    """Return the instructions: those of the judge that asks, or of the target, or the default ones."""
    default = DEFAULT_SYSTEM_PROMPT if request.workspace is None else WORKSPACE_PROMPT
    return request.system_prompt or settings.system_prompt or default


def agent_prompt(settings: CodingAgent, request: ProviderRequest) -> str:
    """Return the text for an agent: its instructions and the document."""
    return f"{system_prompt(settings, request)}\n\n{agent_document(request)}"
