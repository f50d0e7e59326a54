"""The `vscode` provider: requests that VS Code's chat answers in files (agentv-formats 5.7)."""

import asyncio
import hashlib
import json
import logging
import os
import re
import secrets
import shlex
import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

from pydantic import Field

from pytest_agentv.cases.prompts import PromptMode, build_preread, file_uri
from pytest_agentv.errors import FileError, ProviderError, locate
from pytest_agentv.model.base import Json, JsonObject, format_number, pretty_json
from pytest_agentv.model.kind import spelled
from pytest_agentv.model.secrets import masked
from pytest_agentv.providers.agents import find_program
from pytest_agentv.providers.base import (
    ProviderRequest,
    ProviderResponse,
    TargetAdapter,
    TargetEnvironment,
    total_seconds,
)
from pytest_agentv.providers.kind import Provider, Sources, answer_message
from pytest_agentv.runtime.files import read_regular_file, write_atomically
from pytest_agentv.runtime.processes import ProcessStartError, launch
from pytest_agentv.runtime.workspaces import hold_folder
from pytest_agentv.targets.fields import DefaultText, Flag, OptionalText, path_in

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


def _command_of(edition: str) -> Any:
    return spelled(
        *("vscode_cmd", "command"),
        default=edition,
        description="the command line program (default: `code`; `code-insiders` for `vscode-insiders`)",
    )


class Vscode(Provider):
    """The chat of VS Code, on a machine with a desktop."""

    kind = "vscode"
    takes_system_prompt = True
    is_agent = True
    leaves_files = True
    is_one_by_one = True
    costs_money = True

    vscode_cmd: DefaultText = _command_of("code")
    workspace_template: Annotated[OptionalText, path_in("targets_dir")] = Field(
        default=None,
        description="a workspace file whose folders and settings are added, relative to the targets file",
    )
    wait: Flag = Field(
        default=True, description="false hands the request over and does not wait: each case is an error"
    )
    dry_run: Flag = Field(default=False, description="true opens nothing: each case is an error")
    subagent_root: Annotated[OptionalText, path_in("targets_dir")] = Field(
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

    vscode_cmd: DefaultText = _command_of("code-insiders")


class VscodeProvider(TargetAdapter):
    """Passes requests to VS Code in files. All calls of a user, in any run, lock the root folder in turn."""

    mode: PromptMode = "agent"
    keeps_limits = True

    def __init__(self, settings: Vscode, environment: TargetEnvironment) -> None:
        self._where = environment.where
        self._settings = settings
        self._environment = environment.variables
        is_insiders = "code-insiders" in Path(settings.vscode_cmd).name
        name = "vscode-insiders-agents" if is_insiders else "vscode-agents"
        home = environment.variables.get("HOME") or Path.home()
        self._root = Path(settings.subagent_root or Path(home, ".subagent", name))

    async def check(self) -> None:
        """Check that the program and the workspace template exist."""
        if not self._settings.dry_run:
            self._program()
            workspace_text(self._settings.workspace_template)

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        return (await self._ask([request], is_batch=False))[0]

    async def invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        """Send all requests in one chat. A missing answer is an error of its own request only."""
        return await self._ask(requests, is_batch=True)

    async def _ask(self, requests: Sequence[ProviderRequest], *, is_batch: bool) -> list[ProviderResponse]:
        """Ask for some answers. The time limit starts when it is the call's turn. Raises `ProviderError`."""
        if self._settings.dry_run:
            reason = "VS Code was not asked, so there is no answer to judge: the target has `dry_run: true`"
            return [ProviderResponse(output_messages=(), error=reason, error_kind="no_answer") for _ in requests]
        try:
            async with hold_folder(self._root):
                subagent = free_subagent(self._root)
                chat = Chat(subagent, requests, self._program(), self._environment, is_batch=is_batch)
                try:
                    return await self._exchange(chat, total_seconds(requests))
                finally:
                    subagent.release()
        except FileError as error:
            raise ProviderError(f"{self._where}: {error}", "config") from error
        except OSError as error:
            reason = f"subagent_root {self._root} cannot be used: {error.strerror} ({error.filename})"
            raise ProviderError(f"{self._where}: {reason}", "config") from error

    async def _exchange(self, chat: "Chat", limit: float | None) -> list[ProviderResponse]:
        started = time.perf_counter()
        exchanges = chat.exchanges
        try:
            async with asyncio.timeout(limit) as clock:
                await chat.send(workspace_text(self._settings.workspace_template))
                while self._settings.wait and [exchange for exchange in exchanges if not exchange.look()]:
                    chat.subagent.keep()
                    await asyncio.sleep(_POLL_SECONDS)
                if not self._settings.wait:
                    chat.subagent.lock_file.write_text("", "utf-8")  # which the agent removes
        except TimeoutError:
            if not clock.expired():
                raise
            if not any(exchange.text for exchange in exchanges):
                state = f"its window on {chat.subagent.folder} was not ready for the request"
                state = exchanges[0].state if chat.is_sent else state
                error = f"VS Code timed out after {format_number(limit or 0)}s: {state}"
                raise ProviderError(error, "timeout") from None
        took = round((time.perf_counter() - started) * 1000 / len(exchanges))
        return [self._response(exchange, limit).replace(duration_ms=took) for exchange in exchanges]

    def _response(self, exchange: "Exchange", limit: float | None) -> ProviderResponse:
        raw = exchange.describe()
        if exchange.text is not None:
            return ProviderResponse((answer_message(exchange.text),), is_text_only=True, raw=raw)
        if self._settings.wait:
            error = f"VS Code answered other cases of the batch, and not this one, within {format_number(limit or 0)}s"
            return ProviderResponse(error=f"{error}: {exchange.state}", raw=raw)
        reason = "the answer was not waited for, so there is none to judge: the target has `wait: false`"
        return ProviderResponse(output_messages=(), error=reason, error_kind="no_answer", raw=raw)

    def _program(self) -> tuple[str, ...]:
        command = self._settings.vscode_cmd
        program = find_program(command, self._environment.get("PATH"))
        if program is None:
            raise ProviderError(
                f"{self._where}: VS Code's command line program {command!r} was not found on PATH; install it (in VS "
                f"Code: \"Shell Command: Install '{Path(command).name}' command in PATH\"), or name it in the targets "
                "file: `vscode_cmd: /path/to/code`",
                "config",
            )
        return program


# The folders that VS Code works in, and the messages in them.

_NAME: Final = re.compile(r"subagent-(\d+)")
_OWNER: Final = f"pytest-agentv on {socket.gethostname()}"
_WAKEUP: Final = """---
description: Tells whoever opened this folder that it is ready
---
Create the file that you are asked for, empty, and do nothing else.
"""


class Subagent:
    """A folder that VS Code works in. Its lock file shows that it is taken; the agent removes it when it is done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock_file = folder / "subagent.lock"
        self.workspace_file = folder / f"{folder.name}.code-workspace"

    @property
    def is_free(self) -> bool:
        """Whether nobody else has the folder: a lock of ours is from a killed run. Locks of others are never broken."""
        try:
            return self.lock_file.read_text("utf-8", "replace") == _OWNER
        except FileNotFoundError:
            return True

    def keep(self) -> None:
        """Write the lock file if it is not there. Raises `ProviderError` if another program has written it."""
        if self.is_free:
            self.lock_file.write_text(_OWNER, "utf-8")
        else:
            raise ProviderError(f"another program took {self.folder.name} before its answer was there", "process")

    def prepare(self, workspace: str) -> None:
        """Take the folder, and write its workspace file if it differs: VS Code would load it again."""
        wakeup = self.folder / ".github" / "agents" / "wakeup.md"
        wakeup.parent.mkdir(parents=True, exist_ok=True)
        self.keep()
        if not self.workspace_file.exists() or self.workspace_file.read_text("utf-8") != workspace:
            write_atomically(self.workspace_file, workspace)
        if not wakeup.exists():
            write_atomically(wakeup, _WAKEUP)

    def release(self) -> None:
        if self.is_free:
            self.lock_file.unlink(missing_ok=True)


def free_subagent(root: Path) -> Subagent:
    """Return the first free folder, else the next one, which does not exist."""
    paths = root.iterdir() if root.is_dir() else ()
    numbers = sorted(int(match[1]) for path in paths if (match := _NAME.fullmatch(path.name)) and path.is_dir())
    subagents = [Subagent(root / f"subagent-{number}") for number in (*numbers, max(numbers, default=0) + 1)]
    return next(subagent for subagent in subagents if subagent.is_free)


_TIMESTAMP: Final = "%Y%m%d%H%M%S"
_STAMPED: Final = re.compile(r"(\d{14})_")


_HAND_IN: Final = """with these commands:

```sh
mv {temp} {final}
rm -f {lock}
```
"""
_HAND_IN_OF_BATCH: Final = """by renaming that file to: {final}

Leave `subagent.lock` where it is: other requests are answered in the same folder, and it goes when all of them are.
"""


def _request_text(exchange: "Exchange", hand_in: str, lock: Path) -> str:
    paths = {"temp": exchange.temp_file, "final": exchange.response_file, "lock": lock}
    quoted = {name: shlex.quote(str(path)) for name, path in paths.items()}
    return f"""[[ ## task ## ]]

{build_query(exchange.request)}

[[ ## system_instructions ## ]]

A program reads your answer from a file; nobody reads this chat.

1. Write your whole answer, as Markdown, to this new file: {exchange.temp_file}
   Create or change no other file. Where the task asks for changes of files, give them in the answer as unified diffs
   (`diff --git`), each under the name of its repository and the path of the file inside it.

2. Once the answer is complete, and no earlier, hand it in {hand_in.format_map(quoted)}"""


def _orchestrator_text(exchanges: Sequence["Exchange"], lock: Path) -> str:
    requests = "\n".join(f"{at}. messages/{each.request_file.name}" for at, each in enumerate(exchanges, start=1))
    return f"""Each of the files below holds one request. Use the tool #runSubagent once for each of them:
give it the path of the file, and nothing else. Do not read the files yourself, so that no request learns of another.

{requests}

When every subagent has ended, make sure that all answers are there, and only then open the lock:

```sh
ls {shlex.join(str(exchange.response_file) for exchange in exchanges)} && rm -f {shlex.quote(str(lock))}
```
"""


class Exchange:
    """A request, and the file that an agent will write for it."""

    def __init__(self, request: ProviderRequest, messages: Path, prefix: str) -> None:
        self.request = request
        self.request_file = messages / f"{prefix}_req.md"
        self.temp_file = messages / f"{prefix}_res.tmp.md"
        self.response_file = messages / f"{prefix}_res.md"
        self.text: str | None = None
        self._seen = b""

    def look(self) -> bool:
        """Return whether the answer is complete: not blank, and the same as at the last look."""
        if self.text is not None:
            return True
        try:
            data = read_regular_file(self.response_file)
        except FileNotFoundError:
            return False
        except OSError as error:
            reason = f"VS Code's answer cannot be read: {self.response_file}: {error.strerror}"
            raise ProviderError(reason, "process") from error
        if data == self._seen:
            with suppress(UnicodeDecodeError):  # torn
                text = data.decode("utf-8-sig").replace("\r\n", "\n")
                self.text = text if text.strip() else None
        self._seen = data
        return self.text is not None

    @property
    def state(self) -> str:
        """Describe an answer that did not arrive."""
        what = "is there, but blank, no UTF-8 text, or still being written"
        return f"{self.response_file} {what if self.response_file.exists() else 'was not written'}"

    def describe(self) -> JsonObject:
        """Return the record of the request: its folder and files."""
        return {
            "session": {
                "exit_code": 0,
                "subagent_name": self.request_file.parents[1].name,
                "response_file": str(self.response_file),
                "temp_file": str(self.temp_file),
            },
            "input_files": list(dict.fromkeys(self.request.file_paths)),
            "response_file": str(self.response_file),
        }


class Chat:
    """Requests that are sent in one chat, in the editor's window on one subagent's folder."""

    def __init__(
        self,
        subagent: Subagent,
        requests: Sequence[ProviderRequest],
        program: Sequence[str],
        environment: Mapping[str, str],
        *,
        is_batch: bool,
    ) -> None:
        """Name the files, so that no answer to an earlier request can be taken for one of these.

        The protocol's names have a time in seconds, but requests may be faster. So the time is at least one more than
        that of the request before, whose files stay until they are replaced.
        """
        self.subagent = subagent
        self.is_sent = False
        self._program = program
        self._environment = environment
        self._messages = subagent.folder / "messages"
        names = [path.name for path in self._messages.iterdir()] if self._messages.is_dir() else []
        now = datetime.now(UTC)
        if last := max((match[1] for name in names if (match := _STAMPED.match(name))), default=None):
            now = max(now, datetime.strptime(last, _TIMESTAMP).replace(tzinfo=UTC) + timedelta(seconds=1))
        stamp = f"{now:{_TIMESTAMP}}"
        prefixes = [f"{stamp}_{index}" for index in range(len(requests))] if is_batch else [stamp]
        self.exchanges = [
            Exchange(request, self._messages, prefix) for request, prefix in zip(requests, prefixes, strict=True)
        ]
        self._orchestrator_file = self._messages / f"{stamp}_orchestrator.md" if is_batch else None

    async def send(self, workspace: str) -> None:
        """Write the requests and start the chat. Raises `ProviderError`, `OSError`."""
        self.subagent.prepare(workspace)
        lock, orchestrator = self.subagent.lock_file, self._orchestrator_file
        texts = {}
        for exchange in self.exchanges:
            hand_in = _HAND_IN if orchestrator is None else _HAND_IN_OF_BATCH
            texts[exchange.request_file] = _request_text(exchange, hand_in, lock)
        if orchestrator is not None:
            texts[orchestrator] = _orchestrator_text(self.exchanges, lock)
        self._messages.mkdir(exist_ok=True)
        for path, content in texts.items():
            path.write_text(content, "utf-8")
        for path in self._messages.iterdir():
            if path not in texts and not path.is_dir():
                path.unlink(missing_ok=True)
        await self._open_window()
        self.subagent.keep()  # by now, another program that took the folder at the same moment has shown itself
        entry = orchestrator or self.exchanges[0].request_file
        files = dict.fromkeys(path for exchange in self.exchanges for path in exchange.request.file_paths)
        text = f"Follow instructions in [{entry.name}]({file_uri(str(entry))})"
        attached = [*files, str(entry)]
        if orchestrator is not None:
            attached, text = [str(entry), *files], f"{text}. Use #runSubagent tool."
        words = [word for path in attached for word in ("-a", path)]
        await self._call("-r", "chat", "-m", secrets.token_hex(4), *words, text)
        self.is_sent = True

    async def _open_window(self) -> None:
        """Bring the window to the front. Waits for a new window."""
        folder = self.subagent.folder
        status = await self._call("--status", seconds=_STATUS_SECONDS)
        # An open window shows by its title; `subagent-1` is not `subagent-10`.
        is_open = re.search(rf"(?<![\w-]){re.escape(folder.name)}(?![\w-])", status)
        alive = folder / ".alive"
        alive.unlink(missing_ok=True)
        await self._call(str(self.subagent.workspace_file))
        if not is_open:
            await asyncio.sleep(_OPEN_SECONDS)
            wish = f"Create an empty file named .alive in the folder {folder}"
            await self._call("-r", "chat", "-m", "wakeup", wish)
            for _ in range(round(_READY_SECONDS / _READY_POLL_SECONDS)):
                if alive.exists():
                    break
                await asyncio.sleep(_READY_POLL_SECONDS)
            else:
                _LOGGER.warning("VS Code did not show within %gs that %s is open", _READY_SECONDS, folder)
        await asyncio.sleep(_FOCUS_SECONDS)

    async def _call(self, *arguments: str, seconds: float | None = None) -> str:
        """Run the program and return what it says. Without its own limit, a failure raises `ProviderError`."""
        try:
            exit_code, output = await launch(
                [*self._program, *arguments],
                cwd=str(self.subagent.folder),
                env=self._environment,
                timeout_seconds=seconds or _LAUNCH_SECONDS,
            )
        except ProcessStartError as error:
            raise ProviderError(f"VS Code could not be started: {error}", "process") from error
        if exit_code == 0 or seconds is not None:
            return output
        fault = f"failed with exit code {exit_code}"
        if exit_code is None:
            fault = f"did not return within {_LAUNCH_SECONDS:g}s"
        said = masked(output.strip())[-2000:]
        reason = f"VS Code's command {fault}: {shlex.join((*self._program, *arguments[:4]))}"
        raise ProviderError(f"{reason}: {said}" if said else reason, "process")


def build_query(request: ProviderRequest) -> str:
    """Build the text for the agent: a judge's contract, links to the files, the question and the files' tokens."""
    prompt, tokens = request.prompt.question, ["[[ ## sha256_tokens ## ]]\n"]
    document = build_preread(prompt, request.guideline_paths, request.input_paths, input_word="attachment")
    for path in dict.fromkeys(request.file_paths):
        try:
            tokens.append(f"{hashlib.sha256(Path(path).read_bytes()).hexdigest()}  {path}")
        except OSError as error:
            raise ProviderError(f"attachment {path} cannot be read: {error.strerror}", "config") from error
    shown = "\n".join(tokens) if request.file_paths else ""
    return "\n\n".join(filter(None, (request.system_prompt, document, shown)))


# The workspace file that VS Code opens for a subagent, by itself or from a template of the user.

DEFAULT_WORKSPACE: Final[JsonObject] = {
    "folders": [{"path": "."}],
    "settings": {"chat.modeFilesLocations": {".github/agents/**/*.md": True}},
}
_LOCATIONS: Final = ("chat.promptFilesLocations", "chat.instructionsFilesLocations", "chat.modeFilesLocations")

_STRING: Final = r'"(?:\\.|[^"\\\n])*"'
_COMMENT: Final = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA: Final = re.compile(rf"({_STRING})|,(?=\s*[}}\]])")


def workspace_text(template: str | None) -> str:
    """Return the text of a subagent's workspace file. Raises `ProviderError`."""
    if template is None:
        return pretty_json(DEFAULT_WORKSPACE)
    path = Path(template)
    workspace = _read(path)
    folders: list[Json] = [{"path": "."}]
    for folder in workspace["folders"]:
        if not isinstance(folder, dict) or not isinstance(folder.get("path", folder.get("uri")), str):
            _refuse(path, f'folders: expected objects with a text "path", got {json.dumps(folder)[:60]}')
        place = {"path": os.path.normpath(path.parent / folder["path"])} if "path" in folder else {}
        folders.append({**folder, **place})
    workspace["folders"] = folders
    settings = workspace.get("settings")
    for key in _LOCATIONS:
        if isinstance(settings, dict) and isinstance(locations := settings.get(key), dict):
            settings[key] = {_absolute_pattern(path.parent, place): is_on for place, is_on in locations.items()}
    return pretty_json(workspace)


def _read(path: Path) -> dict[str, Json]:
    """Read JSON as VS Code does, with comments and trailing commas."""
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        _refuse(path, f"cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8'}")
    plain = _COMMENT.sub(lambda match: match[1] or re.sub(r"[^\n]", " ", match[0]), text)
    plain = _TRAILING_COMMA.sub(lambda match: match[1] or " ", plain)
    try:
        data = json.loads(plain)
    except json.JSONDecodeError as error:
        _refuse(path, f"invalid JSON: {error.msg} (column {error.colno})", error.lineno)
    if not isinstance(data, dict) or not isinstance(data.get("folders"), list):
        _refuse(path, 'expected an object with a list such as "folders": [{"path": "."}]')
    return data


def _absolute_pattern(folder: Path, pattern: str) -> str:
    """Return a relative path or glob pattern as an absolute one. VS Code itself resolves `~`."""
    if pattern.startswith(("/", "~")):
        return pattern
    literal, star, rest = pattern.partition("*")
    parent, _, name = literal.rpartition("/")
    return f"{os.path.normpath(folder / parent)}/{name}{star}{rest}" if star else os.path.normpath(folder / pattern)


def _refuse(path: Path, reason: str, line: int | None = None) -> NoReturn:
    raise ProviderError(f"workspace_template {locate(path, line)}: {reason}", "config")
