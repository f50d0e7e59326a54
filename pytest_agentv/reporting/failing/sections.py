"""Fits the parts of a text into a limit. A short part leaves its spare space to the others."""

from collections.abc import Sequence
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.records import record
from pytest_agentv.reporting.escaping import cut, escaped_size, on_one_line, shown, visible

TEXT_LIMIT: Final = 3_000
"""In bytes of the text as an ASCII JSON string, quotes included."""

_NEAR: Final = 100
_SEPARATOR: Final = "\n\n"


@record
class Section(Record):
    """A part of the text that may be cut."""

    text: str
    weight: int
    """Its share of the space relative to the other sections, if they do not all fit."""


@record
class Look:
    """How texts are shown: masked, and cut to the longest possible length."""

    masker: Masker
    limit: int | None
    """In bytes, like `TEXT_LIMIT`; None: no limit."""

    def all_of(self, text: str) -> str:
        return shown(text, self.masker)

    def head(self, text: str) -> str:
        """Return as much of a text as could be shown. Answers can be megabytes long."""
        return self.all_of(text) if self.limit is None else cut(self.all_of(text), self.limit)

    def line(self, text: str, length: int) -> str:
        """Return a text on one line, cut to a number of characters."""
        return self.name(self.masker.mask(text), length)

    def name(self, text: str, length: int) -> str:
        """Return the name of a case, target, evaluator or tool on one line. Names are never masked."""
        return on_one_line(visible(text), length)


def assemble(headline: str, sections: Sequence[Section], footer: str, limit: int | None) -> str:
    """Join the parts and cut the sections to the limit. Unused space goes to the first section that needs it."""
    present = [section for section in sections if section.text]
    if limit is None:
        return _SEPARATOR.join([headline, *(section.text for section in present), footer])
    space = limit - 2 - escaped_size(headline + footer) - escaped_size(_SEPARATOR) * (len(present) + 1)
    needs = [escaped_size(section.text) for section in present]
    total = sum(section.weight for section in present)
    sizes = [min(need, space * section.weight // total) for need, section in zip(needs, present, strict=True)]
    spare = space - sum(sizes)
    for index, need in enumerate(needs):
        extra = min(spare, need - sizes[index])
        sizes[index] += extra
        spare -= extra
    texts = [_fit(section.text, size) for section, size in zip(present, sizes, strict=True)]
    return _SEPARATOR.join([headline, *texts, footer])


def block(title: str, text: str, look: Look) -> str:
    """Return a text below its title; nothing without a text."""
    head = look.head(text)
    if not head.strip():
        return ""
    return f"{title}\n  {indented(head, '  ')}" if title else head


def indented(text: str, spaces: str) -> str:
    """Return a text with its lines indented, except the first."""
    return text.replace("\n", f"\n{spaces}")


def _fit(text: str, size: int) -> str:
    """Cut a text to a size, at a line end if one is near, so that table rows stay whole."""
    fitted = cut(text, size)
    if fitted == text:
        return text
    last_line = fitted.rfind("\n")
    is_near = last_line >= 0 and escaped_size(fitted[last_line:]) <= _NEAR
    return f"{fitted[:last_line]}\n..." if is_near else fitted
