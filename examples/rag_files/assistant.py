"""Answers questions from a folder of documents: searches for passages, and answers from the best one.

No model is called, so it needs no key: the "model" picks the sentence that shares most with the question. Put your own
search and your own model in place of `search` and `pick`. The evaluation stays as it is.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

DOCUMENTS: Final = Path(__file__).parent / "documents"
COMMON: Final = re.compile(
    r"(a|an|and|are|at|by|can|do|does|for|from|how|i|in|is|it|my|of|on|or|the|to|what|when|with)"
)
"""Words that tell nothing about a question."""
LEAST_SHARED: Final = 0.25
"""Share of a question's weight that a passage has to hold. Below it the assistant says that it does not know."""


@dataclass(frozen=True)
class Passage:
    """A paragraph of a document, with the heading of the document."""

    source: str
    heading: str
    text: str

    @property
    def words(self) -> frozenset[str]:
        return words_of(f"{self.heading} {self.text}")


def answer(prompt: str) -> dict[str, Any]:
    """Answer with a sentence and its source; the passages that were found are reported as `retrieved_context`."""
    found = search(prompt)
    passages = {"retrieved_context": [f"{passage.source}: {passage.text}" for passage in found]}
    if not found:
        return {"text": "I do not know: our documents do not say.", **passages}
    sentence = pick(prompt, found[0])
    return {"text": f"{sentence} [{found[0].source}]", **passages}


def search(question: str, most: int = 3) -> list[Passage]:
    """Return the passages that share most with a question, the best first."""
    asked = words_of(question)
    least = LEAST_SHARED * sum(map(weight, asked))
    scored = [(sum(map(weight, asked & passage.words)), passage) for passage in passages()]
    best = sorted(scored, key=lambda each: -each[0])[:most]
    return [passage for score, passage in best if score > least]


def pick(question: str, passage: Passage) -> str:
    """Return the sentence of a passage that shares most with a question."""
    sentences = re.split(r"(?<=\.)\s+", passage.text)
    return max(sentences, key=lambda sentence: sum(map(weight, words_of(question) & words_of(sentence))))


@cache
def passages() -> tuple[Passage, ...]:
    found = []
    for path in sorted(DOCUMENTS.glob("*.md")):
        heading, *paragraphs = path.read_text("utf-8").strip().split("\n\n")
        found += [Passage(path.name, heading.lstrip("# "), text) for text in paragraphs]
    return tuple(found)


@cache
def weight(word: str) -> float:
    """Rare words tell more than frequent ones."""
    return math.log(1 + len(passages()) / (1 + document_frequency()[word]))


@cache
def document_frequency() -> Counter[str]:
    return Counter(word for passage in passages() for word in passage.words)


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text without their endings, and without those that all texts have."""
    found = re.findall(r"[a-z]+|\d[\d:.]*\d|\d", text.lower())
    told = (word for word in found if not COMMON.fullmatch(word))
    return frozenset(re.sub(r"(?<=...)(ies|ied|ed|es|s|y|e|ing)$", "", word) for word in told)
