"""The `vscode` provider: requests that VS Code's chat answers in files (agentv-formats 5.7)."""

import asyncio
import logging
import os
import re
import secrets
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from pytest_agentv.cases.prompts import PromptMode, file_uri
from pytest_agentv.errors import FileError, ProviderError
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.kind import spelled
from pytest_agentv.model.secrets import masked
from pytest_agentv.model.text import format_number
from pytest_agentv.providers.base import (
    RUN_VARIABLE,
    ProviderRequest,
    ProviderResponse,
    TargetEnvironment,
    total_seconds,
)
from pytest_agentv.providers.kind import Provider, Sources
from pytest_agentv.providers.vscode_folders import (
    Answer,
    Claim,
    Exchange,
    SubagentRoot,
    SubagentTakenError,
    name_files,
    workspace_text,
    write_requests,
)
from pytest_agentv.providers.wire import answer_message
from pytest_agentv.runtime.files import FolderLock
from pytest_agentv.runtime.processes import Launched, LaunchError, launch
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
