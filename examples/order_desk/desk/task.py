"""What the agent is asked: the prompt's text taken apart into question, conversation and documents."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

TURN: Final = re.compile(r"^@\[(System|User|Assistant|Tool)\]:\n", re.MULTILINE)
EMBEDDED_FILE: Final = re.compile(r'<file path="([^"]+)">\n(.*?)\n</file>', re.DOTALL)
FILE_MARK: Final = re.compile(r'<file: path="[^"]+">|<Attached: [^>]+>')


@dataclass(frozen=True, slots=True)
class Task:
    """One question with everything that came along."""

    question: str
    """The last turn of the user."""
    history: str
    """All turns before it, the system's included; empty for a single question."""
    documents: Mapping[str, str]
    """Texts of guidelines and attachments by file name."""

    @property
    def guidelines(self) -> str:
        return "\n".join(text for name, text in self.documents.items() if name.endswith(".instructions.md"))

    @property
    def csv_files(self) -> list[str]:
        return [text for name, text in self.documents.items() if name.endswith(".csv")]


def read_task(prompt: str, guidelines: str = "", files: Iterable[str] = ()) -> Task:
    """Take a prompt apart.

    Files come embedded in the text (as models get them) or as paths (as programs get them); both end up in `documents`.
    """
    text = f"{guidelines}\n{prompt}"
    documents = {PurePosixPath(label).name: content for label, content in EMBEDDED_FILE.findall(text)}
    documents |= {Path(file).name: Path(file).read_text(encoding="utf-8") for file in files}
    turns = _turns(FILE_MARK.sub("", EMBEDDED_FILE.sub("", text)))
    return Task(turns[-1], "\n".join(turns[:-1]), documents)


def _turns(text: str) -> list[str]:
    """Split a conversation at its `@[Role]:` lines; a text without any is one turn."""
    parts = TURN.split(text)
    turns = parts[2::2] or parts
    return [turn.strip() for turn in turns]
