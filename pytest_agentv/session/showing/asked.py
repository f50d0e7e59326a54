"""Keeps the question and the expected outcome of a case for its failure text, after the case is freed."""

from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.messages import ContentPart, FilePart, ObjectPart, TextPart
from pytest_agentv.models.records import record
from pytest_agentv.models.text import compact_json
from pytest_agentv.reporting.serialization import json_safe


@record
class Asked(Record):
    """The question and the expected outcome of a case, as its failure text shows them."""

    question: str = ""
    """The text of the last message of the user."""
    reference_answer: str = ""

    @staticmethod
    def of(case: EvalCase | None) -> "Asked":
        if case is None:
            return NOTHING_ASKED
        messages = [message for message in case.messages if message.role == "user"]
        parts = messages[-1].parts if messages else ()
        return Asked("\n".join(filter(None, map(_part_text, parts))), case.reference_answer)


NOTHING_ASKED: Final = Asked()


def _part_text(part: ContentPart) -> str:
    match part:
        case TextPart():
            return part.value
        case FilePart():
            return f"[{part.path}]"
        case ObjectPart():
            return compact_json(json_safe(part.value))
    return ""
