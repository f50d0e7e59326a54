"""The shared part of all coding agents: starts and watches their program, reads its output, tells whether it failed."""

import json
import logging
import math
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import IO, Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from pytest_agentv.cases.prompts import PromptMode, build_preread
from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.model.base import ABSENT, Json, JsonObject, Record, is_number, mapping, text_or_none
from pytest_agentv.model.kind import Items, expected, filled, spelled
from pytest_agentv.model.messages import Message, TokenUsage, ToolCall
from pytest_agentv.model.options import LOGS_FOLDER
from pytest_agentv.model.secrets import Secret, masked
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment, shortest
from pytest_agentv.providers.kind import Provider, Sources
from pytest_agentv.runtime.processes import ProcessResult, ProcessStartError, run_process
from pytest_agentv.runtime.reaper import marked_processes, temporary_folder
from pytest_agentv.targets.fields import (
    DefaultText,
    OptionalText,
    Seconds,
    ShieldedText,
    path_in,
    program_in,
    reveal,
)

# Reads the output of a coding agent's program while it runs: its events, its log, and other lines.

_LOGGER: Final = logging.getLogger(__name__)
_OFF: Final = frozenset({"false", "0", "off", "no"})
_LONGEST_NAME: Final = 80
"""The most characters of a target's name and of a case's id in a file name."""


class StreamLog:
    """The log of one call, with times, for people (agentv-formats 5.3).

    If it cannot be written, that is only a warning, because the answer matters more.
    """

    def __init__(self, path: Path | None, header: str, summarize: Callable[[JsonObject], str | None] | None) -> None:
        """Create the file, and its folder.

        Args:
            path: The file; None: no log is written.
            header: The beginning of the file.
            summarize: Returns the line of an event, or None for one without a line; None: events are logged in full.
        """
        self.path: Path | None = None
        self._summarize = summarize
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
        if self._file is None:
            return
        if self._summarize is None:
            self._write_line("stdout", as_json(event, indent=2))
        elif summary := self._summarize(event):
            self._write_line("stdout", " ".join(masked(summary).split()))

    def write_text(self, stream: str, text: str) -> None:
        """Write a line that is not an event."""
        self._write_line(stream, text)

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):  # text that was held back because the disk was full
                self._file.close()
            self._file = None

    def _write_line(self, stream: str, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        hours, minutes = divmod(minutes, 60)
        clock = f"{hours:02}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"
        self._write(f"[+{clock}] [{stream}] {text}\n")

    def _write(self, text: str) -> None:
        if self._file is None:
            return
        try:
            self._file.write(masked(text))
        except OSError as error:
            _LOGGER.warning("the stream log %s ends here: %s", self.path, error.strerror)
            self.close()


@dataclass(frozen=True, slots=True)
class StreamLogs:
    """The logs of a target's calls."""

    title: str
    """The name of the program at the beginning of a log."""
    kind: str
    target: str
    folder: Path
    summarize: Callable[[JsonObject], str | None] | None
    """See `StreamLog`."""
    is_on: bool = True

    def open(self, eval_id: str, attempt: int) -> StreamLog:
        """Open `<time>_<target>_<eval id>_attempt-<n>_<8 hex>.log`; `attempt` is 0-based."""
        if not self.is_on:
            return StreamLog(None, "", None)
        started = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        time_part = started.replace(":", "-").replace(".", "-")
        name = f"{time_part}_{_safe(self.target)}_{_safe(eval_id)}_attempt-{attempt + 1}_{secrets.token_hex(4)}.log"
        facts = {
            "target": self.target,
            "eval": " ".join(eval_id.split()),
            "attempt": attempt + 1,
            "started": started,
        }
        head = [f"# {self.title} stream log", *(f"# {key}: {value}" for key, value in facts.items())]
        return StreamLog(self.folder / name, "\n".join(head) + "\n\n", self.summarize)


def stream_logs(
    title: str,
    kind: str,
    environment: TargetEnvironment,
    *,
    folder: str | None,
    summarize: Callable[[JsonObject], str | None] | None,
) -> StreamLogs:
    """Return the logs of a target, in its log folder or in `.agentv/logs/<kind>` below the working directory.

    The environment variable `AGENTV_<KIND>_STREAM_LOGS` turns them off with `false`, `0`, `off` or `no`.
    """
    switch = f"AGENTV_{kind.upper().replace('-', '_')}_STREAM_LOGS"
    return StreamLogs(
        title,
        kind,
        environment.name,
        Path(folder) if folder else Path.cwd() / LOGS_FOLDER / kind,
        summarize,
        is_on=environment.variables.get(switch, "").strip().lower() not in _OFF,
    )


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)[:_LONGEST_NAME]


def as_json(event: JsonObject, indent: int | None = None) -> str:
    """Return an event as JSON, for people."""
    try:
        return json.dumps(event, indent=indent, ensure_ascii=False)
    except RecursionError:  # writing recurses deeper than reading
        return "(an event that is nested too deeply to be shown)"


MOST_KEPT: Final = 256 * 2**20
"""In bytes. A program that writes more events is not read any further."""
_LONGEST_LINE: Final = 64 * 2**20
"""In bytes. A longer line is skipped."""
_LONGEST_REPORT: Final = 2000
"""The most characters kept of text outside of events. The end is kept, where programs report errors."""
_SHOWN_EVENTS: Final = 3


class LineSplitter:
    """Splits a stream into lines at newlines only. Events hold raw U+2028, at which `splitlines` would split."""

    def __init__(self, longest: int = _LONGEST_LINE) -> None:
        self._longest = longest
        self._pending = bytearray()
        self._is_too_long = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the complete lines, and a remark for a line that is too long."""
        # Searches only the new part: lines of many megabytes come in hundreds of pieces.
        first, *others = data.split(b"\n")
        self._keep(first)
        for piece in others:
            yield from self.rest()
            self._keep(piece)

    def rest(self) -> Iterator[bytes]:
        """Yield the last text if it does not end with a newline."""
        line = b"(a line that is too long)" if self._is_too_long else bytes(self._pending)
        self._pending = bytearray()
        self._is_too_long = False
        if line:
            yield line

    def _keep(self, piece: bytes) -> None:
        self._is_too_long = self._is_too_long or len(self._pending) + len(piece) > self._longest
        if self._is_too_long:
            self._pending = bytearray()
        else:
            self._pending += piece


class AgentOutput:
    """Listens to a program that writes an event per line of standard output."""

    def __init__(self, log: StreamLog, skipped: frozenset[str] = frozenset(), most_kept: int = MOST_KEPT) -> None:
        self.events: list[JsonObject] = []
        self._log = log
        self._skipped = skipped
        """Event types that are neither kept nor logged."""
        self._unread = tuple(f'{{"type":"{kind}"'.encode() for kind in sorted(skipped))
        """The usual beginnings of such lines. They are most of the output, and parsing them would be a waste."""
        self._bytes_left = most_kept
        """Bytes of events that may still come."""
        self._lines = {"stdout": LineSplitter(), "stderr": LineSplitter()}
        self._said = {"stdout": "", "stderr": ""}

    @property
    def overflowed(self) -> bool:
        """Whether the program wrote more events than are kept."""
        return self._bytes_left < 0

    @property
    def stdout(self) -> str:
        """The end of standard output, without secrets: the text outside of events, else the events."""
        if self.noise:
            return self.noise
        return masked("\n".join(map(as_json, self.events[-_SHOWN_EVENTS:])))[-_LONGEST_REPORT:]

    @property
    def stderr(self) -> str:
        """The end of standard error, without secrets."""
        return self._said["stderr"].strip()

    @property
    def noise(self) -> str:
        """The end of the text outside of events on standard output, without secrets."""
        return self._said["stdout"].strip()

    def listen(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Read a piece of the program's output."""
        for line in self._lines[stream].feed(data):
            self._take(stream, line)

    def end(self) -> None:
        """Read the rest, and end the log."""
        for stream, splitter in self._lines.items():
            for line in splitter.rest():
                self._take(stream, line)
        self._log.close()

    def _take(self, stream: str, line: bytes) -> None:
        line = line.strip()
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

_KINDS: Final[Mapping[int, ErrorKind]] = {401: "auth", 403: "auth", 429: "rate_limit"}
_STATUS: Final = re.compile(r"\b(401|403|429|50[0234]|529)\b")
_WORDS: Final[Mapping[ErrorKind, tuple[str, ...]]] = {
    "rate_limit": ("rate limit",),
    "auth": ("api key", "log in", "logged in", "login", "authenticat", "missing environment variable"),
    "network": (
        *("connect", "network", "high demand", "overloaded", "timed out"),
        *("econnre", "other side closed", "socket hang up", "und_err_"),  # in the words of Node.js
    ),
}
_SAYS_NOTHING: Final = ("content_filter", "incomplete response")
"""Words of a reply that the API itself cut. The text around them may be that of a connection that ended."""
_LONGEST_SUMMARY: Final = 50
"""Characters of a text in the summary log."""
_LARGEST_NUMBER: Final = 2**53
"""The largest integer that JavaScript programs count exactly."""


def as_list(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else ()


def as_number(value: Json) -> float:
    """Return a number unchanged; 0 for any other value, for NaN, and for numbers too large to compute with."""
    return value if is_number(value) and abs(value) <= _LARGEST_NUMBER else 0


def joined_text(content: Json) -> str | None:
    """Return the text of a message's content, which is a text or a list of blocks; None if there is no text."""
    if isinstance(content, str):
        return content
    blocks = [mapping(block) for block in as_list(content)]
    texts = [text for block in blocks if block.get("type") == "text" and isinstance(text := block.get("text"), str)]
    return "\n".join(texts) if texts else None


def result_output(content: Json) -> Json:
    """Return the output of a tool: the text of its result, or the blocks if one of them is not a text."""
    blocks = as_list(content)
    if blocks and all(mapping(block).get("type") == "text" for block in blocks):
        return joined_text(content)
    return content


def with_outputs(messages: Iterable[Message], outputs: Mapping[str, Json]) -> tuple[Message, ...]:
    """Add the outputs of tools to the calls of messages, by the ids of the calls."""

    def complete(call: ToolCall) -> ToolCall:
        return call if call.id is None else call.replace(output=outputs.get(call.id, ABSENT))

    return tuple(
        message.replace(tool_calls=tuple(map(complete, message.tool_calls))) if message.tool_calls else message
        for message in messages
    )


def status_kind(status: float) -> ErrorKind | None:
    """Return the kind of failure of an HTTP status; None if the status does not tell."""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "network"
    return _KINDS.get(int(status))


def guess_kind(text: str) -> ErrorKind:
    """Return the kind of failure that a program's text describes."""
    lowered = text.lower()
    if any(word in lowered for word in _SAYS_NOTHING):
        return "no_answer"
    status = _STATUS.search(lowered)
    known = status_kind(int(status[1])) if status else None
    if known is not None:
        return known
    for kind, words in _WORDS.items():
        if any(word in lowered for word in words):
            return kind
    return "process"


def shorten(text: str) -> str:
    """Return the beginning of a text for a log line.

    Masks secrets before it cuts, because half a secret is not recognized.
    """
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
    raise expected("summary or json")


ShieldedWord: TypeAlias = Annotated[
    ShieldedText, BeforeValidator(lambda word: word if isinstance(word, Secret) else filled(word))
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
