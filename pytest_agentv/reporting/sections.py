"""Fits the parts of a text into a limit: what one part does not need goes to the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.secrets import Masker
from pytest_agentv.reporting.escaping import cut, escaped_size, shown, visible

TEXT_LIMIT: Final = 3_000
"""Bytes of a text as a string of ASCII JSON, its quotes included."""

_NEAR: Final = 100
_SEPARATOR: Final = "\n\n"


@dataclass(frozen=True, slots=True)
class Section(Record):
    """A part of the text that may be cut."""

    text: str
    weight: int
    """What it gets of the room, in relation to the others, where there is not enough for all."""


@dataclass(frozen=True, slots=True)
class Look:
    """How texts are shown: without secrets, and no more of them than there could ever be room for."""

    masker: Masker
    limit: int | None
    """Bytes, as `TEXT_LIMIT`; None: everything is shown."""

    def all_of(self, text: str) -> str:
        return shown(text, self.masker)

    def head(self, text: str) -> str:
        """Return as much of a text as could be shown; answers may be megabytes long."""
        return self.all_of(text) if self.limit is None else cut(self.all_of(text), self.limit)

    def line(self, text: str, length: int) -> str:
        """Return a text on one line, cut to a number of characters."""
        return self.name(self.masker.mask(text), length)

    def name(self, text: str, length: int) -> str:
        """Return the name of a case, a target, an evaluator or a tool on one line; names are never masked."""
        line = " ".join(visible(text).split())
        return line if len(line) <= length else f"{line[: length - 3]}..."


def assemble(headline: str, sections: Sequence[Section], footer: str, limit: int | None) -> str:
    """Join the parts, the sections cut to the room that is left; what one does not need goes to the first that does."""
    present = [section for section in sections if section.text]
    if limit is None:
        return _SEPARATOR.join([headline, *(section.text for section in present), footer])
    room = limit - 2 - escaped_size(headline + footer) - escaped_size(_SEPARATOR) * (len(present) + 1)
    needs = [escaped_size(section.text) for section in present]
    total = sum(section.weight for section in present)
    sizes = [min(need, room * section.weight // total) for need, section in zip(needs, present, strict=True)]
    spare = room - sum(sizes)
    for index, need in enumerate(needs):
        extra = min(spare, need - sizes[index])
        sizes[index] += extra
        spare -= extra
    texts = [_fit(section.text, size) for section, size in zip(present, sizes, strict=True)]
    return _SEPARATOR.join([headline, *texts, footer])


def _fit(text: str, size: int) -> str:
    """Cut a text to a size, at the end of a line where one is near: rows of tables are not cut in two."""
    fitted = cut(text, size)
    if fitted == text:
        return text
    last_line = fitted.rfind("\n")
    is_near = last_line >= 0 and escaped_size(fitted[last_line:]) <= _NEAR
    return f"{fitted[:last_line]}\n..." if is_near else fitted
