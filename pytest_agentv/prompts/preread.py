"""Builds the document for agents: links to the files to read first, then the query (agentv-formats 5.2)."""

from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Literal

from pytest_agentv.models.text import trim


def build_preread(
    question: str,
    guideline_paths: Sequence[str],
    input_paths: Sequence[str],
    *,
    input_word: Literal["input", "attachment"] = "input",
) -> str:
    """Build the document. Without files it is only the query.

    Args:
        question: The prompt's question.
        guideline_paths: Absolute paths; each is linked once.
        input_paths: Absolute paths of the other files; guidelines among them are not linked again.
        input_word: The agent's word for files that are not guidelines.
    """
    guidelines = tuple(dict.fromkeys(guideline_paths))
    inputs = tuple(path for path in dict.fromkeys(input_paths) if path not in guidelines)
    sections = [
        _preread_block(guidelines, inputs, input_word) if guidelines or inputs else "",
        "[[ ## user_query ## ]]",
        trim(question),
    ]
    return "\n\n".join(filter(None, sections))


def file_uri(path: str) -> str:
    """Return a readable `file://` link: without percent escapes, unlike `Path.as_uri`."""
    posix = PurePath(path).as_posix()
    return f"file://{posix}" if posix.startswith("/") else f"file:///{posix}"


def _preread_block(guidelines: tuple[str, ...], inputs: tuple[str, ...], input_word: str) -> str:
    lines = (
        *_links("Read each of these guideline files:", guidelines),
        *_links(f"Read each of these {input_word} files:", inputs),
        "Should one of them not be there, reply with `ERROR: missing-file <filename>` and do nothing else.",
        "Once you have read them, follow your system_instructions to answer the user query below.",
    )
    return "\n".join(lines)


def _links(heading: str, paths: Iterable[str]) -> list[str]:
    links = [f"* [{PurePath(path).name}]({file_uri(path)})" for path in paths]
    return [heading, *links[:-1], f"{links[-1]}."] if links else []
