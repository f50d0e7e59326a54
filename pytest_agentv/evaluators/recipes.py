"""Criteria whose prompts ship (`prompts/`): faithfulness, relevance, recall, factuality, refusal."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import ClassVar, Final

from pytest_agentv.cases.prompts import template_variables
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import (
    TEXT,
    JudgeQuestion,
    ask_judge,
    closed,
    listed,
    own_object,
    question_of,
    reasoning_of,
    unreadable,
)
from pytest_agentv.evaluators.base import Evaluator, or_sync
from pytest_agentv.evaluators.context import Context, Services
from pytest_agentv.evaluators.judge import PromptJudge, question_by
from pytest_agentv.model.base import JsonObject, trim
from pytest_agentv.model.results import Score

_ITEMS_SCHEMA: Final = closed(
    items=listed(closed(text=TEXT, holds={"type": "boolean"}, reasoning=TEXT)), reasoning=TEXT
)

_NEEDED: Final = {
    "question": "the question, and there is none",
    "reference_answer": "a reference: write the ideal answer of the case as `expected`",
    "retrieved_context": "the passages that the answer was made from: a target reports them as `retrieved_context`, "
    "and a prompt of your own may show a variable instead",
}
"""What is missing, by the variable of a prompt that shows it."""


@cache
def _shipped(name: str) -> str:
    return (Path(__file__).parent / "prompts" / f"{name}.md").read_text("utf-8")


class Recipe(PromptJudge):
    """A question to a judge whose reply is counted here, so that the score is no guess of the model.

    A prompt of the user's takes the place of the one that ships. The form of the reply stays.
    """

    def form(self) -> tuple[str, JsonObject]:
        """Return how the judge has to reply: in words, and as a JSON Schema."""
        raise NotImplementedError

    def summary(self) -> str:
        return ""

    @property
    def template(self) -> str:
        return self.prompt or _shipped(self.kind)

    def prepare(self, services: Services) -> Evaluator:
        if services.case is not None:
            self._require(reference_answer=services.case.reference_answer)
        return super().prepare(services)

    @or_sync
    async def evaluate(self, context: Context) -> Score:
        """Ask the judge. Raises `EvaluatorError` if it cannot be reached, or if what its prompt shows is missing."""
        is_reported = context.retrieved_context is not None or context.dry_run  # it may be empty
        self._require(retrieved_context="reported" if is_reported else "", question=question_of(context))
        contract, schema = self.form()
        question = question_by(self.template, context, {}, system=_shipped("system"), contract=contract, schema=schema)
        return await ask_judge(self.judge_of(context.services), question, context, self.read)

    def read(self, reply: str, question: JudgeQuestion) -> Score:
        """Turn a judge's reply into a score, which has `error` if the reply is none."""
        try:
            return self.count(reply, question)
        except ValueError as error:
            return unreadable(reply, str(error))

    def count(self, reply: str, question: JudgeQuestion) -> Score:
        """Turn a judge's reply into a score. Raises `ValueError`."""
        raise NotImplementedError

    def _require(self, **found: str) -> None:
        for name, text in found.items():
            if not trim(text) and name in template_variables(self.template):
                raise EvaluatorError(f"evaluator {self.label!r} needs {_NEEDED[name]}", "config")


class _Share(Recipe):
    """The judge lists items and says of each whether it holds; the score is the share that does."""

    without_items: ClassVar[float | None] = None
    """The score where there are no items; None: there are always some."""

    def form(self) -> tuple[str, JsonObject]:
        return _shipped("reply-items"), _ITEMS_SCHEMA

    def count(self, reply: str, question: JudgeQuestion) -> Score:
        found = own_object(reply, _has_items, question, "`items` (each with `text` and `holds`)")
        items = found["items"]
        if not items and self.without_items is None:
            raise ValueError("The judge's reply lists no items.")
        told: dict[bool, list[str]] = {True: [], False: []}
        for each in items:
            reason = trim(reasoning_of(each) or "")
            told[each["holds"]].append(f"{each['text']}: {reason}" if reason else each["text"])
        hits, misses = tuple(told[True]), tuple(told[False])
        value = len(hits) / len(items) if items else self.without_items or 0.0
        if not items:
            misses = () if value else ("there is nothing that could hold",)
        return Score(value, hits=hits, misses=misses, reasoning=reasoning_of(found))


def _has_items(found: JsonObject) -> bool:
    items = found.get("items")
    return isinstance(items, list) and all(
        isinstance(each, dict) and isinstance(each.get("text"), str) and isinstance(each.get("holds"), bool)
        for each in items
    )


class Faithfulness(_Share):
    """The share of the answer's claims that the retrieved passages support; 1 for an answer that claims nothing."""

    kind = "faithfulness"
    without_items = 1.0


class AnswerRelevance(_Share):
    """The share of the answer's statements that help to answer the question; 0 for an answer that says nothing."""

    kind = "answer-relevance"
    without_items = 0.0


class ContextRelevance(_Share):
    """The share of the retrieved sentences that help to answer the question; 0 where nothing was retrieved."""

    kind = "context-relevance"
    reads_answer = False
    without_items = 0.0


class ContextRecall(_Share):
    """The share of the reference answer's statements that the retrieved passages support."""

    kind = "context-recall"
    reads_answer = False


class _Choice(Recipe):
    """The judge chooses a word, and each word has a score."""

    choices: ClassVar[Mapping[str, float]]

    def form(self) -> tuple[str, JsonObject]:
        return _shipped("reply-choice"), closed(choice={"type": "string", "enum": list(self.choices)}, reasoning=TEXT)

    def count(self, reply: str, question: JudgeQuestion) -> Score:
        wanted = f"`choice`, one of {', '.join(self.choices)}"
        found = own_object(reply, lambda found: found.get("choice") in self.choices, question, wanted)
        value, reason = self.choices[found["choice"]], reasoning_of(found)
        told = (f"{found['choice']}: {reason}" if reason else found["choice"],)
        return Score(value, hits=told if value else (), misses=() if value else told, reasoning=reason)


class Factuality(_Choice):
    """Whether the answer agrees with the facts of the reference: 0 for one that contradicts it, or states none."""

    kind = "factuality"
    choices: ClassVar[Mapping[str, float]] = {"same": 1.0, "fewer": 1.0, "more": 1.0, "contradicts": 0.0, "none": 0.0}


class Refusal(_Choice):
    """Whether the answer refuses the request; `not-refusal` says that it does not."""

    kind = "refusal"
    choices: ClassVar[Mapping[str, float]] = {"refuses": 1.0, "answers": 0.0}
