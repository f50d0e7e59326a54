"""Eval cases, as the engine runs them."""

from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.messages import InputMessage
from pytest_agentv.models.scores import Score


class AnyEvaluator(Protocol):
    """What judges an answer: an `evaluators.base.Evaluator`, of which records need to know no more than this."""

    @property
    def kind(self) -> str: ...

    @property
    def label(self) -> str: ...

    @property
    def weight(self) -> float: ...

    @property
    def asks_judge(self) -> bool: ...

    @property
    def calls_targets(self) -> bool: ...

    @property
    def scripts(self) -> Sequence[tuple[str | None, tuple[str, ...]]]: ...

    @property
    def own_code(self) -> object: ...

    def walk(self) -> "Iterator[AnyEvaluator]": ...

    def to_plain(self) -> dict[str, Any]: ...

    def prepare(self, services: Any) -> "AnyEvaluator": ...

    def evaluate(self, context: Any) -> Awaitable[Score]: ...


@dataclass(frozen=True, slots=True)
class EvalCase(Record):
    """One case: everything that running it needs, with all its files read.

    Source: agentv-formats 1.3 to 1.9.
    """

    eval_id: str
    dataset: str
    path: str
    """The eval file, absolute."""
    line: int
    expected_outcome: str
    question: str
    """The raw question that code judges get: no roles, no file texts (agentv-formats 1.9)."""
    messages: tuple[InputMessage, ...]
    """The input, files read: what prompts are built from."""
    input_messages: tuple[JsonObject, ...]
    """The input as written."""
    expected_messages: tuple[JsonObject, ...] = ()
    """The ideal answer as written, files read: `role`, and where they are there `name`, `content`, `tool_calls`."""
    reference_answer: str = ""
    guideline_paths: tuple[str, ...] = ()
    """Absolute paths of the input files that match the guideline patterns."""
    file_paths: tuple[str, ...] = ()
    """Guidelines first, then the other input files; absolute, in order, duplicates kept."""
    guideline_patterns: tuple[str, ...] = ()
    evaluators: tuple[AnyEvaluator, ...] | None = None
    """None: the case has no list, and the default judge decides."""
    conversation_id: str | None = None
    target: str | None = None
    """The case's or its file's target; the command line comes before it."""
    threshold: float | None = None
    threshold_source: str | None = None
    """Where the threshold was written: `case` or `file`."""
