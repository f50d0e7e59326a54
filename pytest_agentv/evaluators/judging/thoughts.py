"""Removes the thoughts of a model from its reply, if the server leaves them there."""

import re
from collections.abc import Iterator
from typing import Final

from pytest_agentv.evaluators.judging.json_text import json_objects

_WORDS: Final = r"(?:\w+:)?(?:think|thinking|thoughts?|reasoning|analysis|reflection|scratchpad)"
_TAG: Final = re.compile(
    rf"(?P<end></{_WORDS}\s*>|\[/think\]|◁/think▷"
    r"|<\|channel\|>\s*final\b[^{}]{0,40}?<\|message\|>|<channel\|>|assistantfinal)"
    rf"|<{_WORDS}(?:\s[^<>]*)?>|\[think\]|◁think▷|<\|channel\|>\s*(?:analysis|commentary)\b|<\|channel>",
    re.IGNORECASE,
)
"""The tags around thoughts of DeepSeek, Qwen, Claude, Mistral, Kimi, gpt-oss and Gemma."""

_FENCE: Final = "```"


def without_thoughts(text: str) -> str:
    """Return a text without thoughts.

    Text before an end tag without a start tag counts as thoughts, because the prompts of many models hold the start
    tag. If a text begins with a start tag that has no end, the thoughts were cut, and there is no reply.
    """
    pieces: list[str] = []
    begun, done = None, 0
    for tag in _tags(text):
        if not tag["end"]:
            begun = tag.start() if begun is None else begun
            continue
        if begun is None:
            pieces.clear()
        else:
            pieces.append(text[done:begun])
        begun, done = None, tag.end()
    is_cut = begun is not None and not "".join([*pieces, text[done:begun]]).strip()
    return "" if is_cut else "".join([*pieces, text[done:]])


def _tags(text: str) -> Iterator[re.Match[str]]:
    """Yield the tags of a text. Tags in a JSON object or in quotes are part of the answer, and are skipped."""
    if not _TAG.search(text):
        return
    objects = json_objects(text)
    begin = end = 0
    for tag in _TAG.finditer(text):
        while tag.start() >= end and (found := next(objects, None)):
            begin, end = found.begin, found.begin + len(found.text)
        if not begin < tag.start() < end and not _is_quoted(text, tag):
            yield tag


def _is_quoted(text: str, tag: re.Match[str]) -> bool:
    before, after = text[max(0, tag.start() - 3) : tag.start()], text[tag.end() : tag.end() + 3]
    return before[-1:] in ('"', "'", "`") and before[-1:] == after[:1] and _FENCE not in (before, after)
