"""Kinds that ask a model: `llm_judge`, `rubric`, `statements`, and the recipes, whose prompts ship."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema, model_validator

from pytest_agentv.cases.evaluators import NO_MODEL, check_aggregator_template, check_judge_template, load_template
from pytest_agentv.cases.prompts import is_guideline, render_template, template_variables
from pytest_agentv.cases.variables import as_text
from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.answer_data import (
    REPLY_SCHEMA,
    TEXT,
    JudgeQuestion,
    Quotes,
    ask_judge,
    closed,
    listed,
    own_object,
    question_of,
    read_judgement,
    reasoning_of,
    require_judge,
    section,
    shipped,
    texts_of_steps,
)
from pytest_agentv.evaluators.base import Evaluator, scope_of
from pytest_agentv.evaluators.context import Context, Judge, Services, camel_case_message
from pytest_agentv.evaluators.run import SLACK, Vote
from pytest_agentv.evaluators.text import share
from pytest_agentv.model.base import Json, JsonObject, format_number, pretty_json, trim
from pytest_agentv.model.kind import FILLED_TEXT, NOT_EMPTY, Amount, Items, Part, Text, definition, spelled
from pytest_agentv.model.messages import ContentPart, FilePart, OtherPart
from pytest_agentv.model.results import NOTHING_COUNTS, EvaluatorResult, Score, verdict_of, weighted_mean
from pytest_agentv.model.secrets import masked


class ModelJudge(Evaluator):
    """An evaluator that asks a judge, or several. Without one, a case ends before its answer is paid for."""

    judge: Text | None = spelled(
        *("judge", "target", "provider"),
        default=None,
        description="the target that judges; default: that of the composite, of the run, of the case or file, of the "
        "target",
        examples=["gpt"],
    )
    judges: Items[Text] | None = Field(
        default=None, description="a panel: each of these targets judges", examples=[["gpt", "claude", "gemini"]]
    )
    vote: Vote = Field(default="majority", description="what a panel says", examples=["median"])
    threshold: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description="from this score the score is 1, below it 0; each judge of a panel is held against it",
        examples=[0.8],
    )

    @model_validator(mode="after")
    def _choose_judges(self) -> Self:
        if self.judges is not None and (self.judge is not None or len(self.judges) < 2):
            raise ValueError("expected either one name as `judge`, or two names or more as `judges`")
        return self

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        if self.judges is None and "vote" in self.model_fields_set:
            yield "vote", "only a panel votes: `judges: [...]`"

    reads_conversation = True

    @property
    def asks_judge(self) -> bool:
        return True

    @property
    def judged_by(self) -> tuple[str, ...]:
        return self.judges or ((self.judge,) if self.judge is not None else ())

    def required_score(self, threshold: float) -> float:
        is_graded = self.threshold is None and (self.judges is None or self.vote in ("mean", "median"))
        return threshold if is_graded else 1.0

    def at_own_threshold(self, score: Score) -> Score:
        if self.threshold is None or score.error is not None:
            return score
        is_enough = score.value + SLACK >= self.threshold
        shown = f"score {format_number(score.value)} {'>=' if is_enough else '<'} {format_number(self.threshold)}"
        return score.replace(
            value=1.0 if is_enough else 0.0,
            hits=(shown, *score.hits) if is_enough else score.hits,
            misses=score.misses if is_enough else (shown, *score.misses),
            verdict=score.verdict if score.unmet_required else None,
            details={**(score.details or {}), "score": score.value},
        )

    def prepare(self, services: Services) -> Evaluator:
        self.judge_of(services)
        return self

    def judge_of(self, services: Services) -> Judge:
        """Return the judge. Raises `EvaluatorError` when there is none."""
        return require_judge(services, f"evaluator {self.label!r}")


class Rubric(Part):
    """One statement a judge holds an answer against. In files a text stands for a rubric of that description."""

    id: Text = Field(default="", description="names it in results; default: `rubric-1`, `rubric-2`, …")
    description: Text = Field(description="what the answer does if it is good")
    weight: Amount = Field(default=1.0, description="its share in the score")
    required: bool = Field(default=True, description="whether the case fails without it, whatever the score")


def _numbered(rubrics: tuple[Rubric, ...]) -> tuple[Rubric, ...]:
    """Give each rubric its own id. If two had one id, one check of the judge would count for both."""
    names = [rubric.id or f"rubric-{number}" for number, rubric in enumerate(rubrics, start=1)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two rubrics have the id {twice!r}: the judge's checks are told apart by it")
    return tuple(rubric.model_copy(update={"id": name}) for rubric, name in zip(rubrics, names, strict=True))


RUBRICS_SCHEMA: Final = {"type": "array", "items": {"anyOf": [FILLED_TEXT, definition("Rubric")]}}

Rubrics: TypeAlias = Annotated[
    Items[
        Annotated[Rubric, BeforeValidator(lambda value: {"description": value} if isinstance(value, str) else value)]
    ],
    AfterValidator(_numbered),
    WithJsonSchema(RUBRICS_SCHEMA),
]


def with_prompt(part: Any, info: ValidationInfo) -> Any:
    """Return a judge or an aggregator with the text of its prompt in place of the prompt's file."""
    scope = scope_of(info)
    if scope is None or (part.prompt is None and part.prompt_path is None):
        return part
    template = load_template(part.prompt, part.prompt_path, scope.place, scope.references)
    if template is not None and hasattr(part, "reads_answer"):
        place = scope.place.at("prompt" if part.prompt is not None else "prompt_path")
        check_judge_template(template, place, scope.variables, needs_answer=part.reads_answer)
    elif template is not None:
        check_aggregator_template(template, scope.place)
    given = {} if part.prompt_path is None else {"prompt_path": None}
    return part.model_copy(update={"prompt": template and template.text, **given})


class PromptJudge(ModelJudge):
    """An evaluator that asks a judge by a prompt that may be the user's."""

    short_key = "prompt"
    hints: ClassVar[Mapping[str, str]] = NO_MODEL

    prompt: Text | None = Field(
        default=None, description="a file, or the text itself; may use `{{ candidate_answer }}` and other variables"
    )
    prompt_path: Text | None = spelled("prompt_path", "promptPath", default=None, description="the prompt's file")

    _read_prompt = model_validator(mode="after")(with_prompt)


class LlmJudge(PromptJudge):
    """A model reads the case and the answer and scores the answer; with rubrics it checks them one by one."""

    kind = "llm_judge"

    rubrics: Rubrics = Field(default=(), description="what is checked one by one, instead of a prompt")
    include_trace: bool = spelled(
        "include_trace", "includeTrace", default=False, description="whether the judge sees the tool calls"
    )

    def unread_keys(self) -> Iterator[tuple[str, str]]:
        yield from super().unread_keys()
        if self.rubrics:
            for key in [key for key in ("prompt_path", "prompt") if key in self.model_fields_set][:1]:
                yield key, "a judge with rubrics has a prompt of its own; split it into two evaluators"

    async def evaluate(self, context: Context) -> Score:
        judge = self.judge_of(context.services)
        if self.rubrics:
            return await judge_rubrics(judge, self.rubrics, context, include_trace=self.include_trace)
        seen = texts_of_steps(context, looked_up=not self.prompt, include_trace=self.include_trace)
        schema = None if self.prompt else REPLY_SCHEMA
        template = self.prompt or shipped("judge")
        question = question_by(template, context, seen, system="judge-system", reply="reply-score", schema=schema)
        return await ask_judge(judge, question, context, read_judgement)


class RubricJudge(LlmJudge):
    """`type: rubric`, the older spelling of an LLM judge with rubrics."""

    short_key = "rubrics"

    rubrics: Annotated[Rubrics, NOT_EMPTY, WithJsonSchema({**RUBRICS_SCHEMA, "minItems": 1})] = Field(
        description="what is checked one by one"
    )


class Statements(ModelJudge):
    """Sentences about the answer that a model checks, all in one call; the score is the share that is true.

    A text in a list of evaluators is such a sentence. Unlike `rubrics`, it does not fail the case by itself.
    """

    kind = "statements"
    examples = ({"answer": "The tent costs 120 euros.", "assert": ["Names the price", "Is polite"]},)

    value: Annotated[Items[Text], NOT_EMPTY] = Field(
        description="what the answer does if it is good, one sentence each", examples=[["Names the price"]]
    )

    def summary(self) -> str:
        return self.value[0] if len(self.value) == 1 else f"{len(self.value)} sentences"

    async def evaluate(self, context: Context) -> Score:
        judge = self.judge_of(context.services)
        rubrics = [
            Rubric(id=f"statement-{number}", description=text, required=False)
            for number, text in enumerate(self.value, start=1)
        ]
        return await judge_rubrics(judge, rubrics, context, read=read_statements)


def question_by(
    template: str, context: Context, seen: Mapping[str, str], *, system: str, reply: str, schema: JsonObject | None
) -> JudgeQuestion:
    """Render a template, then what a judge sees besides. `system` and `reply` are names of prompts."""
    variables = build_variables(context)
    said = ("candidate_answer", "output_messages", "retrieved_context", "file_changes")
    quotes = Quotes((*(variables[name] for name in said), *seen.values()))
    shown = {name: quotes.around(variables[name]) for name in said}
    sections = (section(name, quotes.around(text)) for name, text in seen.items())
    return JudgeQuestion(
        f"{shipped(system)}\n{quotes.rule}\n\n{shipped(reply)}",
        "\n\n".join((render_template(template, {**variables, **shown}), *sections)),
        material=(*variables.values(), *seen.values()),
        schema=schema,
    )


def build_variables(context: Context) -> Mapping[str, str]:
    """Return what a template can show. Source: agentv-formats 6.3."""
    case = context.case
    asked = [part for message in case.messages for part in message.parts if not is_guideline(part)]
    return {
        **{name: as_text(value) for name, value in (case.vars or {}).items()},
        "candidate_answer": trim(context.candidate_answer),
        "expected_outcome": trim(case.expected_outcome),
        "reference_answer": trim(case.reference_answer),
        "question": trim(question_of(context)),
        "input_messages": pretty_json([_segment(part) for part in asked]),
        "expected_messages": pretty_json(list(case.expected_messages)),
        "output_messages": pretty_json([camel_case_message(message) for message in context.output_messages or ()]),
        "retrieved_context": "\n\n".join(context.retrieved_context or ()),
        "file_changes": masked(context.file_changes or ""),
        "workspace_path": context.workspace_path or "",
    }


def _segment(part: ContentPart) -> Json:
    if isinstance(part, OtherPart):
        return part.item
    return part.to_item() if isinstance(part, FilePart) else {"type": part.type, "value": part.value}


def read_checks(reply: str, question: JudgeQuestion, rubrics: Sequence[Rubric]) -> Score:
    """Combine the checks of a judge's reply: the weight of satisfied rubrics divided by the weight of judged ones.

    A rubric that the judge left out does not count in the score, as in AgentV, but it is a miss. If it is required, the
    case fails, as with one that is not satisfied. Raises `ValueError` for a reply without a check of any rubric.
    """
    checks, reasoning = _checks_of(reply, question, rubrics)
    judged = [rubric for rubric in rubrics if rubric.id in checks]
    if rubrics and not judged:
        raise ValueError(f"{_unchecked(rubrics, {})}.")
    satisfied = [rubric for rubric in judged if checks[rubric.id]["satisfied"]]
    value = weighted_mean([(float(rubric in satisfied), rubric.weight) for rubric in judged])
    unmet = [rubric for rubric in rubrics if rubric not in satisfied]
    misses = [_finding(rubric, checks) for rubric in unmet]
    nothing_counts = bool(judged) and not any(rubric.weight for rubric in judged)
    if nothing_counts:
        misses.append(NOTHING_COUNTS)
    unmet_required = tuple(f"[{rubric.id}] {rubric.description}" for rubric in unmet if rubric.required)
    return Score(
        value,
        hits=tuple(_finding(rubric, checks) for rubric in satisfied),
        misses=tuple(misses),
        verdict="fail" if unmet_required else verdict_of(value),
        unmet_required=unmet_required or None,
        unknown=NOTHING_COUNTS if nothing_counts else _unchecked([each for each in rubrics if each.weight], checks),
        reasoning=reasoning,
    )


def _finding(rubric: Rubric, checks: Mapping[str, JsonObject]) -> str:
    check = checks.get(rubric.id)
    return _with_reason(f"[{rubric.id}] {rubric.description}", reasoning_of(check) if check else "not judged")


def _with_reason(text: str, reason: str | None) -> str:
    return f"{text}: {trim(reason)}" if reason else text


def read_statements(reply: str, question: JudgeQuestion, rubrics: Sequence[Rubric]) -> Score:
    """Turn a judge's reply into a score with a result for each statement. Raises `ValueError` if it leaves one out."""
    checks, reasoning = _checks_of(reply, question, rubrics)
    if unchecked := _unchecked(rubrics, checks):
        raise ValueError(f"{unchecked}.")
    results: list[EvaluatorResult] = []
    for rubric in rubrics:
        text, reason = rubric.description, reasoning_of(checks[rubric.id])
        score, hits, misses = (1.0, (text,), ()) if checks[rubric.id]["satisfied"] else (0.0, (), (text,))
        results.append(
            EvaluatorResult(text, "statement", score, 1.0, verdict_of(score), hits, misses, reason and trim(reason))
        )
    findings = [(bool(each.score), _with_reason(each.name, each.reasoning)) for each in results]
    return share(findings, reasoning).replace(results=tuple(results))


async def judge_rubrics(
    judge: Judge,
    rubrics: Sequence[Rubric],
    context: Context,
    *,
    include_trace: bool = False,
    read: Callable[[str, JudgeQuestion, Sequence[Rubric]], Score] = read_checks,
) -> Score:
    """Ask the judge about all rubrics at once, behind the case."""
    case = context.case
    seen = texts_of_steps(context, include_trace=include_trace)
    quotes = Quotes((context.candidate_answer, *seen.values()))
    lines = [
        f"- [{each.id}]{' (REQUIRED)' if each.required else ''}"
        f"{f' (weight: {format_number(each.weight)})' if each.weight != 1 else ''}: {each.description}"
        for each in rubrics
    ]
    texts = {
        "question": question_of(context),
        "expected_outcome": case.expected_outcome,
        **({"reference_answer": case.reference_answer} if trim(case.reference_answer) else {}),
        "candidate_answer": quotes.around(context.candidate_answer),
        **{name: quotes.around(text) for name, text in seen.items()},
        "rubrics": "\n".join(lines),
    }
    sections = (
        *(section(name, text) for name, text in texts.items()),
        "Check the candidate answer against every rubric of the list and reply with the JSON object.",
    )
    system = f"{shipped('rubrics-system')} {quotes.rule}\n\n{shipped('reply-checks')}"
    checks = listed(closed(id=TEXT, satisfied={"type": "boolean"}, reasoning=TEXT))
    schema = closed(checks=checks, overall_reasoning=TEXT)
    question = JudgeQuestion(system, "\n\n".join(sections), (*sections, *seen.values()), schema)
    return await ask_judge(judge, question, context, lambda reply, question: read(reply, question, rubrics))


def _checks_of(
    reply: str, question: JudgeQuestion, rubrics: Sequence[Rubric]
) -> tuple[Mapping[str, JsonObject], str | None]:
    """Return the checks of a judge's reply by the ids of their rubrics, and its reasoning. Raises `ValueError`."""
    found = _own_list(reply, question, "checks", id=str, satisfied=bool)
    # The prompt lists the rubrics as `[id]`, and some judges reply with that.
    ids = {f"[{rubric.id}]": rubric.id for rubric in rubrics} | {rubric.id: rubric.id for rubric in rubrics}
    checks: dict[str, JsonObject] = {}
    for check in found["checks"]:
        name = ids.get(check["id"].strip(), check["id"])
        if name in ids and checks.setdefault(name, check)["satisfied"] is not check["satisfied"]:
            raise ValueError(f"The judge's reply says of {name} both that it is satisfied and that it is not.")
    return checks, reasoning_of(found, "overall_reasoning")


def _own_list(reply: str, question: JudgeQuestion, name: str, **types: type) -> JsonObject:
    """Return the judge's own object with a list of objects that have keys of these types. Raises `ValueError`."""

    def accepts(found: JsonObject) -> bool:
        entries = found.get(name)
        return isinstance(entries, list) and all(
            isinstance(entry, dict) and all(isinstance(entry.get(key), kind) for key, kind in types.items())
            for entry in entries
        )

    keys = " and ".join(f"`{key}`" for key in types)
    return own_object(reply, accepts, question, f"`{name}` (each with {keys})")


def _unchecked(rubrics: Sequence[Rubric], checks: Mapping[str, JsonObject]) -> str | None:
    """Return that a judge left out some rubrics; None: it checked all."""
    names = [rubric.id for rubric in rubrics if rubric.id not in checks]
    return f"The judge's reply has no check for {', '.join(names)}" if names else None


# Criteria whose prompts ship (`prompts/`): faithfulness, relevance, recall, factuality, refusal.

_NEEDED: Final = {
    "question": "the question, and there is none",
    "reference_answer": "a reference: write the ideal answer of the case as `expected`",
    "retrieved_context": "the passages that the answer was made from: a target reports them as `retrieved_context`, "
    "and a prompt of your own may show a variable instead",
}
"""What is missing, by the variable of a prompt that shows it."""


class Recipe(PromptJudge):
    """A question to a judge whose reply is counted here, so that the score is no guess of the model."""

    def summary(self) -> str:
        return ""

    def form(self) -> tuple[str, JsonObject]:
        """Return how the judge has to reply: the name of a prompt that says so, and a JSON Schema."""
        raise NotImplementedError

    @property
    def template(self) -> str:
        return self.prompt or shipped(self.kind)

    def prepare(self, services: Services) -> Evaluator:
        if services.case is not None:
            self._require(reference_answer=services.case.reference_answer)
        return super().prepare(services)

    async def evaluate(self, context: Context) -> Score:
        """Ask the judge. Raises `EvaluatorError` if what its prompt shows is missing."""
        is_reported = context.retrieved_context is not None or context.dry_run  # it may be empty
        self._require(retrieved_context="reported" if is_reported else "", question=question_of(context))
        reply, schema = self.form()
        question = question_by(self.template, context, {}, system="system", reply=reply, schema=schema)
        return await ask_judge(self.judge_of(context.services), question, context, self.count)

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
        items = listed(closed(text=TEXT, holds={"type": "boolean"}, reasoning=TEXT))
        return "reply-items", closed(items=items, reasoning=TEXT)

    def count(self, reply: str, question: JudgeQuestion) -> Score:
        found = _own_list(reply, question, "items", text=str, holds=bool)
        findings = [(each["holds"], _with_reason(each["text"], reasoning_of(each))) for each in found["items"]]
        if findings:
            return share(findings, reasoning_of(found))
        if self.without_items is None:
            raise ValueError("The judge's reply lists no items.")
        misses = () if self.without_items else ("there is nothing that could hold",)
        return Score(self.without_items, misses=misses, reasoning=reasoning_of(found))


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
        return "reply-choice", closed(choice={"type": "string", "enum": list(self.choices)}, reasoning=TEXT)

    def count(self, reply: str, question: JudgeQuestion) -> Score:
        wanted = f"`choice`, one of {', '.join(self.choices)}"
        found = own_object(reply, lambda found: found.get("choice") in self.choices, question, wanted)
        value, reason = self.choices[found["choice"]], reasoning_of(found)
        told = (_with_reason(found["choice"], reason),)
        return Score(value, hits=told if value else (), misses=() if value else told, reasoning=reason)


class Factuality(_Choice):
    """Whether the answer agrees with the facts of the reference: 0 for one that contradicts it, or states none."""

    kind = "factuality"
    choices: ClassVar[Mapping[str, float]] = {"same": 1.0, "fewer": 1.0, "more": 1.0, "contradicts": 0.0, "none": 0.0}


class Refusal(_Choice):
    """Whether the answer refuses the request; `not-refusal` says that it does not."""

    kind = "refusal"
    choices: ClassVar[Mapping[str, float]] = {"refuses": 1.0, "answers": 0.0}
