"""The `vscode` provider: requests that VS Code's chat answers in files (agentv-formats 5.7)."""

import asyncio
import codecs
import hashlib
import json
import logging
import os
import re
import secrets
import shlex
import shutil
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final, NoReturn

from pydantic import Field

from pytest_agentv.cases.prompts import PromptMode, build_preread, file_uri, render_template
from pytest_agentv.errors import FileError, ProviderError, locate
from pytest_agentv.files.problems import describe_value
from pytest_agentv.model.base import Json, JsonObject, Record, compact_json, format_number, pretty_json
from pytest_agentv.model.kind import spelled
from pytest_agentv.model.secrets import masked
from pytest_agentv.providers.base import (
    RUN_VARIABLE,
    ProviderRequest,
    ProviderResponse,
    TargetEnvironment,
    total_seconds,
)
from pytest_agentv.providers.kind import Provider, Sources, answer_message
from pytest_agentv.runtime.files import FolderLock, hold_folder, read_regular_file, write_atomically
from pytest_agentv.runtime.processes import Launched, LaunchError, launch
from pytest_agentv.targets.fields import DefaultText, Flag, OptionalText, path_in

# The folders that VS Code works in, their owners, and the messages in them.

LOCK_NAME: Final = "subagent.lock"
_NAME: Final = re.compile(r"subagent-(\d+)")
_PROGRAM: Final = "pytest-agentv"
_TURN_SECONDS: Final = 0.1
_AGENTS: Final = Path(".github", "agents")
_KEPT_AGENTS: Final = frozenset({"wakeup.md", "subagent.md"})
_WAKEUP: Final = """---
description: Tells whoever opened this folder that it is ready
---
Create the file that you are asked for, empty, and do nothing else.
"""


class SubagentTakenError(Exception):
    """Another program has taken our folder: its locking is not atomic."""


@dataclass(frozen=True, slots=True)
class Owner(Record):
    """The owner of a folder, from its lock file."""

    pid: int
    host: str
    started: str
    run: str
    is_waiting: bool
    """False: nobody waits for the answer, and the agent removes the lock."""
    program: str = _PROGRAM


_SOMEBODY_ELSE: Final = Owner(0, "", "", "", is_waiting=False, program="")


class Claim:
    """A folder that we own until it is released.

    The lock file is for other programs. The agent removes it when it is done, perhaps with an earlier request that we
    gave up. Our own runs use the lock on the folder itself: nobody removes that one, and a killed run leaves none.
    """

    def __init__(self, folder: Path, owner: Owner, lock: FolderLock) -> None:
        self.folder = folder
        self.lock_file = folder / LOCK_NAME
        self.messages = folder / "messages"
        self.workspace_file = folder / f"{folder.name}.code-workspace"
        self._text = compact_json(owner.to_plain())
        self._lock = lock
        self._is_handed_over = False

    @property
    def name(self) -> str:
        return self.folder.name

    def keep(self) -> None:
        """Write the lock file again if it is gone. Raises `SubagentTakenError` if the folder is not ours."""
        try:
            with self.lock_file.open("x", encoding="utf-8") as file:
                file.write(self._text)
        except FileExistsError:
            if self._read() not in (None, self._text):  # no owner: the file was removed just now
                raise SubagentTakenError(f"another program took {self.name}") from None
        except FileNotFoundError:
            raise SubagentTakenError(f"{self.folder} was removed") from None

    def prepare(self, workspace: str) -> None:
        """Write the workspace file if it differs, and remove the chat modes of earlier requests."""
        if not self.workspace_file.exists() or self.workspace_file.read_text("utf-8") != workspace:
            write_atomically(self.workspace_file, workspace)
        write_wakeup(self.folder)
        for path in (self.folder / _AGENTS).glob("*.md"):
            if path.name not in _KEPT_AGENTS:
                path.unlink(missing_ok=True)

    def hand_over(self) -> None:
        """Leave the lock file to the agent."""
        self._is_handed_over = True

    def release(self) -> None:
        if not self._is_handed_over and self._read() == self._text:
            self.lock_file.unlink(missing_ok=True)
        self._lock.release()

    def _read(self) -> str | None:
        try:
            return self.lock_file.read_text("utf-8", "replace")
        except OSError:
            return None


class SubagentRoot:
    """The folder with the subagents' folders, shared by all runs of a user."""

    def __init__(self, path: Path, run: str) -> None:
        self.path = path
        self._run = run

    @asynccontextmanager
    async def turn(self, *, is_waiting: bool) -> AsyncIterator[tuple[Claim, FolderLock]]:
        """Wait until no other call of this run is in flight, and claim a folder.

        This also takes the lock on the root, so that no other run claims folders or opens windows. It is released when
        the request is sent, or at the end.
        """
        started = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
        owner = Owner(os.getpid(), socket.gethostname(), started, self._run, is_waiting)
        while True:
            async with hold_folder(self.path) as root_lock:
                claim = self._claim(owner)
                if claim is not None:
                    try:
                        yield claim, root_lock
                    finally:
                        claim.release()
                    return
            await asyncio.sleep(_TURN_SECONDS)

    def next_name(self) -> str:
        """Return the name of the folder for a request now, without claiming it."""
        folders = list(self._folders())
        free = (folder.name for _, folder in folders if not (folder / LOCK_NAME).exists())
        return next(free, f"subagent-{folders[-1][0] + 1 if folders else 1}")

    def _claim(self, owner: Owner) -> Claim | None:
        """Claim the first free folder, or a new one; None: a call of this run is, or may be, in flight.

        The caller holds the lock on the root. A folder of one of our runs may lack its lock file, or have an empty one:
        a finished agent has removed it, and the run is writing it again. A lock of ours that no process holds is from a
        killed run. Locks of others are never broken, however old. That costs one more folder, and users can run
        `subagent code unlock`.
        """
        folders = list(self._folders())
        free: list[tuple[Path, FolderLock]] = []
        try:
            for _, folder in folders:
                lock = FolderLock(folder)
                is_ours, found = lock.acquire(), _read_owner(folder / LOCK_NAME)
                if not is_ours:
                    if found is None or found is _SOMEBODY_ELSE or found.run == owner.run:
                        return None
                elif found is None or (found.program == _PROGRAM and found.is_waiting and found.host == owner.host):
                    free.append((folder, lock))
                else:
                    lock.release()
            folder, lock = free.pop(0) if free else self._provision(folders[-1][0] + 1 if folders else 1)
        finally:
            for _, unused in free:
                unused.release()
        (folder / LOCK_NAME).unlink(missing_ok=True)
        claim = Claim(folder, owner, lock)
        try:
            claim.keep()
        except SubagentTakenError:
            lock.release()
            return None
        return claim

    def _provision(self, number: int) -> tuple[Path, FolderLock]:
        folder = self.path / f"subagent-{number}"
        write_wakeup(folder)
        lock = FolderLock(folder)
        lock.acquire()
        return folder, lock

    def _folders(self) -> Iterator[tuple[int, Path]]:
        """Yield the subagents' folders by number."""
        paths = self.path.iterdir() if self.path.is_dir() else ()
        numbered = ((int(match[1]), path) for path in paths if (match := _NAME.fullmatch(path.name)) and path.is_dir())
        yield from sorted(numbered)


def write_wakeup(folder: Path) -> None:
    """Write the chat mode that answers as soon as VS Code has opened a folder, unless it exists."""
    path = folder / _AGENTS / "wakeup.md"
    if not path.exists():
        write_atomically(path, _WAKEUP)


def _read_owner(lock_file: Path) -> Owner | None:
    """Return the owner from a lock file; None if there is none."""
    try:
        return Owner.from_plain(json.loads(lock_file.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError):  # the npm package writes empty ones
        return _SOMEBODY_ELSE


# The workspace file that VS Code opens for a subagent, by itself or from a template of the user.

DEFAULT_WORKSPACE: Final[JsonObject] = {
    "folders": [{"path": "."}],
    "settings": {"chat.modeFilesLocations": {".github/agents/**/*.md": True}},
}
_LOCATIONS: Final = ("chat.promptFilesLocations", "chat.instructionsFilesLocations", "chat.modeFilesLocations")
"""Settings whose keys are paths."""

_STRING: Final = r'"(?:\\.|[^"\\\n])*"'
_COMMENT: Final = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA: Final = re.compile(rf"({_STRING})|,(?=\s*[}}\]])")


def workspace_text(template: str | None) -> str:
    """Return the text of a subagent's workspace file.

    The folders of a template come after the subagent's own. Relative paths are relative to the template.

    Raises `ProviderError` that names the template's file and, if known, the line.
    """
    if template is None:
        return pretty_json(DEFAULT_WORKSPACE)
    path = Path(template)
    data = _read(path)
    workspace = {**data, "folders": [{"path": "."}, *_absolute_folders(path, data.get("folders"))]}
    settings = data.get("settings", {})
    if not isinstance(settings, dict):
        _refuse(path, f"settings: expected an object, got {describe_value(settings)}")
    if settings:
        workspace["settings"] = {
            key: {_absolute_pattern(path.parent, location): is_on for location, is_on in value.items()}
            if key in _LOCATIONS and isinstance(value, dict)
            else value
            for key, value in settings.items()
        }
    return pretty_json(workspace)


def _read(path: Path) -> JsonObject:
    """Read JSON as VS Code does, with comments and trailing commas."""
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        _refuse(path, "is not UTF-8")
    except OSError as error:
        _refuse(path, f"cannot be read: {error.strerror}")
    plain = _COMMENT.sub(lambda match: match[1] or re.sub(r"[^\n]", " ", match[0]), text)
    plain = _TRAILING_COMMA.sub(lambda match: match[1] or " ", plain)
    try:
        data = json.loads(plain)
    except json.JSONDecodeError as error:
        _refuse(path, f"invalid JSON: {error.msg} (column {error.colno})", error.lineno)
    except RecursionError:
        _refuse(path, "the values are nested too deeply")
    if not isinstance(data, dict):
        _refuse(path, f"expected an object with a list of 'folders', got {describe_value(data)}")
    return data


def _absolute_folders(path: Path, folders: Json) -> list[JsonObject]:
    if not isinstance(folders, list):
        found = "it is missing" if folders is None else f"got {describe_value(folders)}"
        _refuse(path, f'folders: expected a list such as [{{"path": "."}}], {found}')
    for index, folder in enumerate(folders):
        if not isinstance(folder, dict) or not isinstance(folder.get("path", folder.get("uri")), str):
            _refuse(path, f'folders[{index}]: expected an object with a text "path", got {json.dumps(folder)[:60]}')
    return [
        {**folder, "path": os.path.normpath(path.parent / folder["path"])} if "path" in folder else folder
        for folder in folders
    ]


def _absolute_pattern(folder: Path, pattern: str) -> str:
    """Return a relative path or glob pattern as an absolute one. VS Code itself resolves `~`."""
    if pattern.startswith(("/", "~")):
        return pattern
    literal, star, rest = pattern.partition("*")
    parent, _, name = literal.rpartition("/")
    return f"{os.path.normpath(folder / parent)}/{name}{star}{rest}" if star else os.path.normpath(folder / pattern)


def _refuse(path: Path, reason: str, line: int | None = None) -> NoReturn:
    raise ProviderError(f"workspace_template {locate(path, line)}: {reason}", "config")


# The messages of the protocol: texts of requests, names of their files, and the reading of answers.

_TIMESTAMP: Final = "%Y%m%d%H%M%S"
_STAMPED: Final = re.compile(r"(\d{14})_")
_GARBLED_POLLS: Final = 10
"""The number of looks at an unchanging file that is not a text, before it is given up."""

_INSTRUCTIONS: Final = """[[ ## task ## ]]

{{ userQuery }}

[[ ## system_instructions ## ]]

A program reads your answer from a file; nobody reads this chat.

1. Write your whole answer, as Markdown, to this new file: {{ responseFileTmp }}
   Create or change no other file. Where the task asks for changes of files, give them in the answer as unified diffs
   (`diff --git`), each under the name of its repository and the path of the file inside it.
"""

_SINGLE: Final = f"""{_INSTRUCTIONS}
2. Once the answer is complete, and no earlier, hand it in with these commands:

```sh
mv {{{{ quotedTmp }}}} {{{{ quotedFinal }}}}
rm -f {{{{ quotedLock }}}}
```
"""

_IN_BATCH: Final = f"""{_INSTRUCTIONS}
2. Once the answer is complete, and no earlier, hand it in by renaming that file to: {{{{ responseFileFinal }}}}

Leave `subagent.lock` where it is: other requests are answered in the same folder, and it goes when all of them are.
"""

_ORCHESTRATOR: Final = """Each of the files below holds one request. Use the tool #runSubagent once for each of them:
give it the path of the file, and nothing else. Do not read the files yourself, so that no request learns of another.

{{ requests }}

When every subagent has ended, make sure that all answers are there, and only then open the lock:

```sh
ls {{ answers }} && rm -f {{ quotedLock }}
```
"""


@dataclass(frozen=True, slots=True)
class Exchange(Record):
    """The files of one request."""

    request_file: Path
    temp_file: Path
    response_file: Path


@dataclass(frozen=True, slots=True)
class Posting(Record):
    """All files of one dispatch."""

    exchanges: tuple[Exchange, ...]
    orchestrator_file: Path | None
    """None: a single request."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that the dispatch itself writes."""
        requests = tuple(exchange.request_file for exchange in self.exchanges)
        return requests if self.orchestrator_file is None else (*requests, self.orchestrator_file)

    @property
    def entry_file(self) -> Path:
        """The file that the agent is told to read."""
        return self.orchestrator_file or self.exchanges[0].request_file


def name_files(messages: Path, count: int, *, is_batch: bool) -> Posting:
    """Name the files of a dispatch, so that no answer to an earlier one can be taken for its own.

    The protocol's names have a time in seconds, but requests may be faster. So the time is at least one more than that
    of the previous dispatch, whose files stay until they are replaced.
    """
    stamps = [match[1] for path in _entries(messages) if (match := _STAMPED.match(path.name))]
    now = datetime.now(UTC)
    if stamps and f"{now:{_TIMESTAMP}}" <= max(stamps):
        now = datetime.strptime(max(stamps), _TIMESTAMP).replace(tzinfo=UTC) + timedelta(seconds=1)
    stamp = f"{now:{_TIMESTAMP}}"
    prefixes = [f"{stamp}_{index}" for index in range(count)] if is_batch else [stamp]
    exchanges = tuple(
        Exchange(messages / f"{prefix}_req.md", messages / f"{prefix}_res.tmp.md", messages / f"{prefix}_res.md")
        for prefix in prefixes
    )
    return Posting(exchanges, messages / f"{stamp}_orchestrator.md" if is_batch else None)


def write_requests(posting: Posting, requests: Sequence[ProviderRequest], lock: Path) -> None:
    """Write the files of a dispatch, and remove those of earlier ones."""
    messages = posting.entry_file.parent
    messages.mkdir(exist_ok=True)
    is_batch = posting.orchestrator_file is not None
    for exchange, request in zip(posting.exchanges, requests, strict=True):
        exchange.request_file.write_text(_request_text(request, exchange, lock, is_batch=is_batch), "utf-8")
    if posting.orchestrator_file is not None:
        posting.orchestrator_file.write_text(_orchestrator_text(posting, lock), "utf-8")
    for path in _entries(messages):
        if path not in posting.files and not path.is_dir():
            path.unlink(missing_ok=True)


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _request_text(request: ProviderRequest, exchange: Exchange, lock: Path, *, is_batch: bool) -> str:
    variables = {
        "userQuery": build_query(request),
        "responseFileTmp": str(exchange.temp_file),
        "responseFileFinal": str(exchange.response_file),
        "quotedTmp": shlex.quote(str(exchange.temp_file)),
        "quotedFinal": shlex.quote(str(exchange.response_file)),
        "quotedLock": shlex.quote(str(lock)),
    }
    return render_template(_IN_BATCH if is_batch else _SINGLE, variables)


def _orchestrator_text(posting: Posting, lock: Path) -> str:
    requests = (f"messages/{exchange.request_file.name}" for exchange in posting.exchanges)
    variables = {
        "requests": "\n".join(f"{number}. {path}" for number, path in enumerate(requests, start=1)),
        "answers": shlex.join(str(exchange.response_file) for exchange in posting.exchanges),
        "quotedLock": shlex.quote(str(lock)),
    }
    return render_template(_ORCHESTRATOR, variables)


def build_query(request: ProviderRequest) -> str:
    """Build the text for the agent: a judge's contract, links to the files, the question and the files' tokens."""
    prompt = request.prompt.question
    document = build_preread(prompt, request.guideline_paths, request.input_paths, input_word="attachment")
    files = tuple(dict.fromkeys(request.file_paths))
    # Source: evaluation-2025-11, "VS Code Copilot provider".
    tokens = "\n".join(("[[ ## sha256_tokens ## ]]\n", *(f"{_hash(path)}  {path}" for path in files))) if files else ""
    return "\n\n".join(filter(None, (request.system_prompt, document, tokens)))


def _hash(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise ProviderError(f"attachment {path} cannot be read: {error.strerror}", "config") from error


class Answer:
    """A file that an agent will write."""

    def __init__(self, exchange: Exchange) -> None:
        self.text: str | None = None
        """Set once the file is complete."""
        self._exchange = exchange
        self._seen: tuple[int, int] | None = None
        self._unchanged = 0

    def look(self) -> bool:
        """Return whether the answer is complete. Called repeatedly.

        It is complete when the file is the same as at the last look and holds a text that is not blank. Agents write it
        in pieces, even if they are told not to.

        Raises `ProviderError` for a file that never becomes a text.
        """
        if self.text is not None:
            return True
        path = self._exchange.response_file
        try:
            status = path.stat()
            seen = (status.st_size, status.st_mtime_ns)
            self._unchanged = self._unchanged + 1 if seen == self._seen else 0
            self._seen = seen
            if self._unchanged:
                self.text = _decode(read_regular_file(path))
        except FileNotFoundError:
            self._seen = None
        except OSError as error:
            raise ProviderError(f"VS Code's answer cannot be read: {path}: {error.strerror}", "process") from error
        except UnicodeDecodeError as error:
            if self._unchanged >= _GARBLED_POLLS:
                raise ProviderError(f"VS Code's answer is no UTF-8 text: {path} ({error.reason})", "process") from None
        return self.text is not None

    @property
    def state(self) -> str:
        """Describe an answer that did not arrive."""
        path, temporary = self._exchange.response_file, self._exchange.temp_file
        if path.exists():
            return f"{path} is there, but blank or still being written"
        if temporary.exists():
            return f"{temporary} was begun, but not renamed to {path.name}"
        return f"{path} was not written"


def _decode(data: bytes) -> str | None:
    """Return an answer's text; None for a blank one. PowerShell writes UTF-16 with a byte order mark."""
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = data.decode("utf-16" if is_utf16 else "utf-8-sig").replace("\r\n", "\n")
    return text if text.strip() else None


_LOGGER: Final = logging.getLogger(__name__)

_STATUS_SECONDS: Final = 10.0
_LAUNCH_SECONDS: Final = 30.0
"""The limit for the program, which only sends a command to the editor or starts it, without waiting for it."""
_OPEN_SECONDS: Final = 0.1
_READY_SECONDS: Final = 60.0
_READY_POLL_SECONDS: Final = 0.2
_FOCUS_SECONDS: Final = 0.5
"""The pause between two commands, so that the second one reaches the window of the first one."""

_POLL_SECONDS: Final = 0.5
"""The time between two looks at the answers. An answer that is unchanged for so long is complete."""

_MOST_CLAIMS: Final = 5
"""How many times other programs may take a folder first, before it can be no accident."""


class Vscode(Provider):
    """The chat of VS Code, on a machine with a desktop."""

    kind = "vscode"
    takes_system_prompt = True
    is_agent = True
    leaves_files = True
    is_one_by_one = True
    costs_money = True

    vscode_cmd: DefaultText = spelled(
        *("vscode_cmd", "command"),
        default="code",
        description="the command line program (default: `code`; `code-insiders` for `vscode-insiders`)",
    )
    workspace_template: Annotated[OptionalText, path_in("targets_dir")] = spelled(
        *("workspace_template", "workspaceTemplate"),
        default=None,
        description="a workspace file whose folders and settings are added, relative to the targets file",
    )
    wait: Flag = Field(
        default=True, description="false hands the request over and does not wait: each case is an error"
    )
    dry_run: Flag = spelled(
        *("dry_run", "dryRun"), default=False, description="true opens nothing: each case is an error"
    )
    subagent_root: Annotated[OptionalText, path_in("targets_dir")] = spelled(
        *("subagent_root", "subagentRoot"),
        default=None,
        description="where the folders are (default: `~/.subagent/vscode-agents`)",
    )

    def open(self, environment: TargetEnvironment) -> "VscodeProvider":
        return VscodeProvider(self, environment)

    @property
    def sources(self) -> Sources:
        return Sources(() if self.workspace_template is None else (self.workspace_template,))


class VscodeInsiders(Vscode):
    """The same of the insiders' edition."""

    kind = "vscode-insiders"

    vscode_cmd: DefaultText = spelled(
        *("vscode_cmd", "command"),
        default="code-insiders",
        description="the command line program (default: `code`; `code-insiders` for `vscode-insiders`)",
    )


class VscodeProvider:
    """Passes requests to VS Code in files, one dispatch at a time in the whole run, and reads its answers."""

    mode: PromptMode = "agent"
    keeps_limits = True

    def __init__(self, settings: Vscode, environment: TargetEnvironment) -> None:
        self._where = environment.where
        self._settings = settings
        self._environment = environment.variables
        run = self._environment.get(RUN_VARIABLE) or f"process {os.getpid()}"
        self._root = SubagentRoot(_root_path(settings, self._environment), run)

    async def check(self) -> None:
        """Check that the program and the workspace template exist."""
        if not self._settings.dry_run:
            self._program()
            workspace_text(self._settings.workspace_template)

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        (response,) = await self._ask([request], request.timeout_seconds, is_batch=False)
        return response

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        """Send all requests in one chat. A missing answer is an error of its own request only."""
        return await self._ask(requests, total_seconds(requests), is_batch=True)

    async def close(self) -> None:
        """Do nothing: windows stay open."""

    async def _ask(
        self, requests: Sequence[ProviderRequest], limit: float | None, *, is_batch: bool
    ) -> list[ProviderResponse]:
        """Ask for some answers. The time limit starts when it is the call's turn. Raises `ProviderError`."""
        try:
            if self._settings.dry_run:
                return self._rehearse(requests, is_batch=is_batch)
            for _ in range(_MOST_CLAIMS):
                async with self._root.turn(is_waiting=self._settings.wait) as (claim, root_lock):
                    dispatch = Dispatch(claim, requests, is_batch=is_batch)
                    try:
                        return await self._exchange(dispatch, claim, root_lock, limit)
                    except SubagentTakenError as error:
                        if dispatch.is_sent:
                            raise ProviderError(f"{error} before its answer was there", "process") from None
        except FileError as error:
            raise ProviderError(f"{self._where}: {error}", "config") from error
        except OSError as error:
            reason = f"subagent_root {self._root.path} cannot be used: {error.strerror} ({error.filename})"
            raise ProviderError(f"{self._where}: {reason}", "config") from error
        raise ProviderError(f"another program takes the subagents in {self._root.path} that are chosen", "process")

    async def _exchange(
        self, dispatch: "Dispatch", claim: Claim, root_lock: FolderLock, limit: float | None
    ) -> list[ProviderResponse]:
        started = time.perf_counter()
        window = Window(self._program(), self._environment, claim)
        workspace = workspace_text(self._settings.workspace_template)
        try:
            async with asyncio.timeout(limit) as clock:
                await dispatch.send(window, workspace)
                root_lock.release()
                if self._settings.wait:
                    await dispatch.collect()
                else:
                    claim.hand_over()
        except TimeoutError:
            if not clock.expired():
                raise
            if not any(answer.text for answer in dispatch.answers):
                state = f"its window on {claim.folder} was not ready for the request"
                if dispatch.is_sent:
                    state = dispatch.answers[0].state
                raise ProviderError(f"VS Code timed out after {_seconds(limit)}: {state}", "timeout") from None
        took = round((time.perf_counter() - started) * 1000 / len(dispatch.answers))
        return self._responses(dispatch, took, limit)

    def _responses(self, dispatch: "Dispatch", took: float, limit: float | None) -> list[ProviderResponse]:
        responses = []
        for answer, raw in zip(dispatch.answers, dispatch.describe(), strict=True):
            if answer.text is not None:
                message = answer_message(answer.text)
                responses.append(
                    ProviderResponse(output_messages=(message,), duration_ms=took, is_text_only=True, raw=raw)
                )
            elif self._settings.wait:
                error = f"VS Code answered other cases of the batch, and not this one, within {_seconds(limit)}"
                responses.append(ProviderResponse(error=f"{error}: {answer.state}", raw=raw))
            else:
                reason = "the answer was not waited for, so there is none to judge: the target has `wait: false`"
                responses.append(_without_answer(reason, raw).replace(duration_ms=took))
        return responses

    def _rehearse(self, requests: Sequence[ProviderRequest], *, is_batch: bool) -> list[ProviderResponse]:
        """Describe where the requests would go, without writing anything."""
        name = self._root.next_name()
        posting = name_files(self._root.path / name / "messages", len(requests), is_batch=is_batch)
        described = (
            describe_exchange(name, exchange, request)
            for exchange, request in zip(posting.exchanges, requests, strict=True)
        )
        reason = "VS Code was not asked, so there is no answer to judge: the target has `dry_run: true`"
        return [_without_answer(reason, raw) for raw in described]

    def _program(self) -> tuple[str, ...]:
        command = self._settings.vscode_cmd
        program = find_program(command, self._environment)
        if program is None:
            raise ProviderError(
                f"{self._where}: VS Code's command line program {command!r} was not found on PATH; install it (in VS "
                f"Code: \"Shell Command: Install '{Path(command).name}' command in PATH\"), or name it in the targets "
                "file: `vscode_cmd: /path/to/code`",
                "config",
            )
        return program


def _without_answer(reason: str, raw: JsonObject) -> ProviderResponse:
    """Return a response with nothing to judge. Checks for what must not be said would pass on an empty answer."""
    return ProviderResponse(output_messages=(), error=reason, error_kind="no_answer", raw=raw)


def _seconds(limit: float | None) -> str:
    return f"{format_number(limit or 0)}s"


def _root_path(settings: Vscode, environment: Mapping[str, str]) -> Path:
    """Return the folder of the subagents. The stable and the insiders' edition have different ones."""
    if settings.subagent_root is not None:
        return Path(settings.subagent_root)
    is_insiders = "code-insiders" in Path(settings.vscode_cmd).name
    name = "vscode-insiders-agents" if is_insiders else "vscode-agents"
    return Path(environment.get("HOME") or Path.home(), ".subagent", name)


class Dispatch:
    """Requests in flight, in a folder that we own."""

    def __init__(self, claim: Claim, requests: Sequence[ProviderRequest], *, is_batch: bool) -> None:
        self.is_sent = False
        self._claim = claim
        self._requests = requests
        self._posting = name_files(claim.messages, len(requests), is_batch=is_batch)
        self.answers = [Answer(exchange) for exchange in self._posting.exchanges]

    async def send(self, window: "Window", workspace: str) -> None:
        """Write the requests and start the chat. Raises `ProviderError`, `SubagentTakenError`, `OSError`."""
        self._claim.prepare(workspace)
        write_requests(self._posting, self._requests, self._claim.lock_file)
        await window.open()
        self._claim.keep()  # by now, another program that took the folder at the same moment has shown itself
        entry = self._posting.entry_file
        files = dict.fromkeys(path for request in self._requests for path in request.file_paths)
        text = f"Follow instructions in [{entry.name}]({file_uri(str(entry))})"
        if self._posting.orchestrator_file is None:
            await window.chat([*files, str(entry)], text)
        else:
            await window.chat([str(entry), *files], f"{text}. Use #runSubagent tool.")
        self.is_sent = True

    async def collect(self) -> None:
        """Wait until all answers are complete. Raises `ProviderError`, `SubagentTakenError`, `OSError`."""
        while [answer for answer in self.answers if not answer.look()]:
            self._claim.keep()
            await asyncio.sleep(_POLL_SECONDS)

    def describe(self) -> list[JsonObject]:
        """Return the record of each request."""
        return [
            describe_exchange(self._claim.name, exchange, request, exit_code=0)
            for exchange, request in zip(self._posting.exchanges, self._requests, strict=True)
        ]


def describe_exchange(
    subagent: str, exchange: Exchange, request: ProviderRequest, *, exit_code: int | None = None
) -> JsonObject:
    """Return the record of a request: its folder and files, or those that a dry run would use."""
    session = {
        "exit_code": exit_code,
        "subagent_name": subagent,
        "response_file": str(exchange.response_file),
        "temp_file": str(exchange.temp_file),
    }
    return {
        "session": {key: value for key, value in session.items() if value is not None},
        "input_files": list(dict.fromkeys(request.file_paths)),
        "response_file": str(exchange.response_file),
    }


class Window:
    """The editor's window on one subagent's folder, handled by the editor's command line program."""

    def __init__(self, program: Sequence[str], environment: Mapping[str, str], claim: Claim) -> None:
        self._program = program
        self._environment = environment
        self._claim = claim

    async def open(self) -> None:
        """Bring the window to the front. Waits for a new window. Raises `ProviderError`."""
        claim = self._claim
        status = await self._launch(["--status"], _STATUS_SECONDS)
        # An open window shows by its title; `subagent-1` is not `subagent-10`.
        if re.search(rf"(?<![\w-]){re.escape(claim.name)}(?![\w-])", status.stdout):
            await self._call(str(claim.workspace_file))
        else:
            alive = claim.folder / ".alive"
            _remove(alive)
            await self._call(str(claim.workspace_file))
            await asyncio.sleep(_OPEN_SECONDS)
            await self._call(
                "-r", "chat", "-m", "wakeup", f"Create an empty file named .alive in the folder {claim.folder}"
            )
            await self._wait_for(alive)
        await asyncio.sleep(_FOCUS_SECONDS)

    async def chat(self, attachments: Sequence[str], text: str) -> None:
        """Start a new chat. Raises `ProviderError`."""
        attached = [word for path in attachments for word in ("-a", path)]
        await self._call("-r", "chat", "-m", secrets.token_hex(4), *attached, text)

    async def _wait_for(self, alive: Path) -> None:
        deadline = time.monotonic() + _READY_SECONDS
        while not _remove(alive):
            if time.monotonic() >= deadline:
                _LOGGER.warning("VS Code did not show within %gs that %s is open", _READY_SECONDS, self._claim.folder)
                return
            await asyncio.sleep(_READY_POLL_SECONDS)

    async def _call(self, *arguments: str) -> None:
        done = await self._launch(arguments, _LAUNCH_SECONDS)
        if done.exit_code == 0:
            return
        said = masked(done.stderr.strip() or done.stdout.strip())[-2000:]
        command = shlex.join((*self._program, *arguments[:4]))
        if done.exit_code is None:
            reason = f"VS Code's command did not return within {_LAUNCH_SECONDS:g}s: {command}"
        else:
            reason = f"VS Code's command failed with exit code {done.exit_code}: {command}"
        raise ProviderError(f"{reason}: {said}" if said else reason, "process")

    async def _launch(self, arguments: Sequence[str], seconds: float) -> Launched:
        try:
            return await launch(
                [*self._program, *arguments],
                cwd=str(self._claim.folder),
                env=self._environment,
                timeout_seconds=seconds,
            )
        except LaunchError as error:
            raise ProviderError(f"VS Code could not be started: {error}", "process") from error


def _remove(path: Path) -> bool:
    """Remove a file; return whether it was there."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def find_program(command: str, environment: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return the program of a command, and its other words; None if it does not exist."""
    path = environment.get("PATH")
    whole = shutil.which(command, path=path)
    if whole is not None:
        return (str(Path(whole).absolute()),)
    try:
        program, *words = shlex.split(command)
    except ValueError:  # no words, or an open quote
        return None
    found = shutil.which(program, path=path)
    return None if found is None else (str(Path(found).absolute()), *words)
