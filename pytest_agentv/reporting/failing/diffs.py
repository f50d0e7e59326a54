"""Compares an answer with the reference word by word, for people to read."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final, Literal, TypeAlias

_MOST_CELLS: Final = 250_000
"""Pairs of words that are compared, in a twentieth of a second. Longer texts get no diff."""
_LEAST_COMMON: Final = 0.3
"""Share of the shorter text's words that both have. With less in common, a diff is harder to read than two texts."""

_Kind: TypeAlias = Literal["both", "removed", "added"]
_Step: TypeAlias = tuple[_Kind, str]

_MARKS: Final[dict[_Kind, tuple[str, str]]] = {"both": ("", ""), "removed": ("[-", "-]"), "added": ("{+", "+}")}
"""The marks of `git diff --word-diff`."""


def word_diff(reference: str, answer: str) -> str | None:
    """Return both texts as one, `[-only in the reference-]` and `{+only in the answer+}`. Line breaks stay.

    Indentation is shown, but not compared.

    None: the texts are the same, too long, or have too little in common.
    """
    old, new = _words(reference), _words(answer)
    if old == new or not old or not new:
        return None
    head = _common_head(old, new)
    tail = _common_head(old[head:][::-1], new[head:][::-1])
    middle_old, middle_new = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(middle_old) * len(middle_new) > _MOST_CELLS:
        return None
    end = old[len(old) - tail :]
    steps = [*_kept(old[:head]), *_steps(middle_old, middle_new), *_kept(end)]
    common = sum(kind == "both" and word != "\n" for kind, word in steps)
    return _text(_indented(steps, reference, answer)) if common >= _LEAST_COMMON * min(len(old), len(new)) else None


def alike(reference: str, answer: str) -> tuple[str, str]:
    """Return two texts. Two JSON documents get the same layout, so that only their values differ."""
    try:
        values = [json.loads(text) for text in (reference, answer)]
    except (ValueError, RecursionError):
        return reference, answer
    laid_out = [json.dumps(value, indent=2, ensure_ascii=False) for value in values]
    return laid_out[0], laid_out[1]


def _words(text: str) -> list[str]:
    return re.findall(r"\n|[^\s]+", text.strip())


def _common_head(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = zip(old, new, strict=False)
    return next((index for index, (one, other) in enumerate(pairs) if one != other), min(len(old), len(new)))


def _kept(words: Sequence[str]) -> list[_Step]:
    return [("both", word) for word in words]


def _steps(old: Sequence[str], new: Sequence[str]) -> Iterator[_Step]:
    """Yield the shortest way from one text to the other, by their longest common subsequence."""
    lengths = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        row, below = lengths[i], lengths[i + 1]
        for j in range(len(new) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if old[i] == new[j] else max(below[j], row[j + 1])
    i = j = 0
    while i < len(old) and j < len(new):
        if old[i] == new[j]:
            yield "both", old[i]
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            yield "removed", old[i]
            i += 1
        else:
            yield "added", new[j]
            j += 1
    yield from (("removed", word) for word in old[i:])
    yield from (("added", word) for word in new[j:])


def _indented(steps: Sequence[_Step], reference: str, answer: str) -> Iterator[_Step]:
    """Yield the steps with the indentation of the lines that they begin: the answer's if both texts have the line."""
    old, new = (iter(re.findall(r"\n *", text.strip())) for text in (reference, answer))
    for kind, word in steps:
        if word != "\n":
            yield kind, word
            continue
        lines = {"both": (old, new), "removed": (old,), "added": (new,)}[kind]
        yield kind, [next(each, word) for each in lines][-1]


def _text(steps: Iterable[_Step]) -> str:
    parts = []
    for kind, group in groupby(steps, key=lambda step: step[0]):
        before, after = _MARKS[kind]
        parts.append(f"{before}{_joined(word for _, word in group)}{after}")
    return _joined(parts)


def _joined(words: Iterable[str]) -> str:
    """Return words with blanks between them, except at the beginning of a line."""
    text, begins_line = "", True
    for word in words:
        text += word if begins_line or word.startswith("\n") else f" {word}"
        begins_line = "\n" in word and not word.rpartition("\n")[2].strip()
    return text
