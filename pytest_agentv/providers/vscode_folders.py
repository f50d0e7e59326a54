"""The folders that VS Code works in, their owners, and the messages in them."""

import asyncio
import codecs
import hashlib
import json
import os
import re
import shlex
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NoReturn

from pytest_agentv.cases.prompts import build_preread, render_template
from pytest_agentv.errors import ProviderError, locate
from pytest_agentv.files.problems import describe_value
from pytest_agentv.model.base import Json, JsonObject, Record
from pytest_agentv.model.text import compact_json, pretty_json
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.runtime.files import FolderLock, hold_folder, read_regular_file, write_atomically

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
