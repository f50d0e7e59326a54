"""The messages of the protocol: texts of requests, names of their files, and the reading of answers."""

import codecs
import hashlib
import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from pytest_agentv.errors import ProviderError
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.prompts.preread import build_preread
from pytest_agentv.prompts.templates import render_template
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.runtime.reading import read_regular_file

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


@record
class Exchange(Record):
    """The files of one request."""

    request_file: Path
    temp_file: Path
    response_file: Path


@record
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


def build_query(request: ProviderRequest) -> str:
    """Build the text for the agent: a judge's contract, links to the files, the question and the files' tokens."""
    prompt = request.prompt.question
    document = build_preread(prompt, request.guideline_paths, request.input_paths, input_word="attachment")
    files = tuple(dict.fromkeys(request.file_paths))
    # Source: evaluation-2025-11, "VS Code Copilot provider".
    tokens = "\n".join(("[[ ## sha256_tokens ## ]]\n", *(f"{_hash(path)}  {path}" for path in files))) if files else ""
    return "\n\n".join(filter(None, (request.system_prompt, document, tokens)))


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


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _hash(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise ProviderError(f"attachment {path} cannot be read: {error.strerror}", "config") from error


def _decode(data: bytes) -> str | None:
    """Return an answer's text; None for a blank one. PowerShell writes UTF-16 with a byte order mark."""
    is_utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = data.decode("utf-16" if is_utf16 else "utf-8-sig").replace("\r\n", "\n")
    return text if text.strip() else None
