"""Runs one evaluator, and always returns an `EvaluatorResult`: chooses what it judges, and asks its panel."""

import asyncio
import dataclasses
import inspect
import math
import re
import time
import traceback
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pytest_agentv.cases.prompts import spoken
from pytest_agentv.errors import EvaluatorError, KindError
from pytest_agentv.evaluators.answer_data import locate_in_answer, off_loop
from pytest_agentv.evaluators.context import METER, Context, Meter, Services, for_own_code, services_for_own_code
from pytest_agentv.model.base import ABSENT, Absent, Json, JsonObject, compact_json, counted, format_number, json_fault
from pytest_agentv.model.cases import AnyEvaluator, member_fault
from pytest_agentv.model.results import EvaluatorResult, Score, clamp_score, is_score, verdict_of
from pytest_agentv.runtime.files import read_regular_file
from pytest_agentv.runtime.user_code import (
    attempt_async,
    attempt_here,
    is_ours,
    leaves,
    run_in_thread,
    told,
    user_traceback,
)
from pytest_agentv.runtime.workspaces import is_cut

# The keys that all kinds share: judge a part of the answer, negate the verdict, be required.

KEYS: Final = ("required", "negate", "path", "file", "turn")
SLACK: Final = 1e-9
"""How far a float may be off a score and still count as rounded."""

ONLY_DIFFERS: Final = " (it only looks alike: "
"""How the note begins that a check misses a text which people would find."""

NO_WORKSPACE: Final = "there is no workspace: write `workspace` into the case or its file"
_LARGEST_FILE: Final = 10 * 2**20


def shared_key(evaluator: AnyEvaluator, key: str) -> Any:
    """Return the value of a key that all kinds share; None if the kind has its own key of that name."""
    return None if key in _own_keys(type(evaluator)) else getattr(evaluator, key, None)


@cache
def _own_keys(kind: type[object]) -> frozenset[str]:
    """Return the shared keys that a class redefines. The last class that annotates a key is the base of all kinds."""
    return frozenset(key for key in KEYS if sum(key in inspect.get_annotations(each) for each in kind.__mro__) > 1)


def text_of_part(part: Json) -> str:
    """Return a text unchanged, and other data as JSON."""
    return part if isinstance(part, str) else compact_json(part)


def require_judgements(members: Sequence[EvaluatorResult]) -> None:
    """Raise `EvaluatorError` if a member could not judge."""
    broken = [each for member in members for each in walk(member) if each.error is not None]
    if broken:
        reasons = ((member.name, (member.error or "").strip() or "it does not say why") for member in broken)
        message = "; ".join(f"member {name!r} could not judge: {reason}" for name, reason in reasons)
        raise EvaluatorError(message, kind=broken[0].error_kind or "crash", output=broken[0].raw_output)


def walk(result: EvaluatorResult) -> Iterator[EvaluatorResult]:
    """Yield a result and those of its members. What a member that could not judge is made of does not count."""
    yield result
    for member in result.evaluator_results or () if result.error is None else ():
        yield from walk(member)


def negated(score: Score) -> Score:
    """Negate a judgement. An error, or a value that is no number, stays; a check that was not made scores 0 either way.

    Raises `EvaluatorError` for a score that rests on unknown facts, which must not become a pass.
    """
    if score.error is not None or not is_score(score.value):
        return score
    if score.unknown is not None:
        error = EvaluatorError(f"{score.unknown}: there is nothing to negate", kind="config")
        error.results = score.results
        raise error
    if score.unchecked is not None:
        misses = (score.unchecked, *score.hits)
        why = "negated, but the check could not be made"
        return score.replace(value=0.0, hits=(), misses=misses, verdict=None, reasoning=why, unmet_required=None)
    doubts = [miss for miss in score.misses if ONLY_DIFFERS in miss]
    return score.replace(
        warnings=(*score.warnings, *doubts),  # it may pass, and nobody looks at the findings of what passes
        value=1 - score.value,  # not clamped, because a score outside of 0 to 1 causes a warning
        hits=score.misses,
        misses=score.hits,
        verdict=None,
        reasoning="; ".join(filter(None, ("negated: hits and misses are swapped", score.reasoning))),
        unmet_required=None,
    )


async def run_evaluator(evaluator: AnyEvaluator, context: Context) -> EvaluatorResult:
    """Evaluate an answer. A failure becomes a result with score 0 and `error`. Only a cancellation is raised."""
    if context.dry_run or not may_ask_models(evaluator):
        return await _run(evaluator, context)
    meter = Meter()
    token = METER.set(meter)
    try:
        return (await _run(evaluator, context)).replace(judge_metrics=meter.total)
    finally:
        METER.reset(token)


async def _run(evaluator: AnyEvaluator, context: Context) -> EvaluatorResult:
    started = time.perf_counter()
    # Users' evaluators may raise anything. The other evaluators continue.
    attempt = attempt_here if evaluator.own_code is None else attempt_async
    outcome = await attempt(lambda: judge(evaluator, context))
    duration_ms = round((time.perf_counter() - started) * 1000, 3)
    try:
        result = build_result(evaluator, outcome.get())
    except BaseException as error:  # noqa: BLE001 - as above
        result = build_result(evaluator, _failure(evaluator, error))
        if context.dry_run and is_of_mock(error):
            result = result.replace(error=None, error_kind=None)
    known = context.services
    asked = [known.judges.get(each) for each in evaluator.judged_by] or [known.judge] if evaluator.asks_judge else []
    models = (getattr(each, "model", None) or getattr(each, "name", None) for each in asked)
    judge_model = ", ".join(dict.fromkeys(filter(None, models))) or None
    return result.replace(duration_ms=duration_ms, judge_model=judge_model)


def _failure(evaluator: AnyEvaluator, error: BaseException) -> Score:
    """Return the score of an evaluator that could not judge."""
    message = told(error) if isinstance(error, KindError) else user_traceback(error)
    output: object = error.output if isinstance(error, EvaluatorError) else None
    members = getattr(error, "results", None)
    if members is not None and evaluator.own_code is not None:
        try:
            members = recordable(Score(0.0, results=members, error="no judgement"), "it").results
        except EvaluatorError:
            members = None
    return Score(
        0.0,
        misses=(f"Evaluator '{evaluator.label}' failed: {message}",),
        reasoning=message,
        results=members,
        raw_output=output if isinstance(output, str | None) else repr(output),  # users may give anything
        error=message,
        error_kind=error.kind if isinstance(error, KindError) else "crash",
    )


async def judge(evaluator: AnyEvaluator, context: Context) -> Score:
    """Judge the answer, or what `turn`, `file` and `path` choose of it; negate the judgement, and check `required`."""
    path, file = shared_key(evaluator, "path"), shared_key(evaluator, "file")
    part: Json | Absent = context.part
    context, miss = _of_turn(evaluator, context)
    if file is not None and not miss:
        part, miss = await run_in_thread(lambda: _of_workspace(context, file), "agentv-evaluator")
        if not miss:
            context = context.replace(candidate_answer=text_of_part(part), part=part)
    if path is not None and not miss:
        part, miss = await off_loop(len(context.candidate_answer), locate_in_answer, context, path)
        if part is not ABSENT:
            context = context.replace(candidate_answer=text_of_part(part), part=part)
    if miss:
        score = Score(0.0, misses=(miss,), unchecked=miss)
    elif len(evaluator.judged_by) > 1:
        score = await _ask_panel(evaluator, context)
    else:
        context = context.replace(services=judged_services(evaluator, context.services))
        score = await _judge(evaluator, context if evaluator.own_code is None else for_own_code(context))
        if evaluator.own_code is not None:
            score = recordable(score, f"evaluate() of {evaluator.label!r}")
        score = _finished(evaluator, score)
    if shared_key(evaluator, "required") is not True or score.error is not None:
        return score
    if clamp_score(score.value) + SLACK >= evaluator.required_score(context.threshold):
        return score
    unmet = f"{evaluator.label}: {score.misses[0]}" if score.misses else evaluator.label
    return score.replace(unmet_required=(unmet, *(score.unmet_required or ())), verdict="fail")


def judged_services(evaluator: AnyEvaluator, services: Services) -> Services:
    """Return the services for an evaluator and its members, with the judge that it names."""
    name = next(iter(evaluator.judged_by), None)
    return services if name is None else dataclasses.replace(services, judge=services.judges.get(name))


def _finished(evaluator: AnyEvaluator, score: Score) -> Score:
    """Hold a score against the evaluator's own threshold, and negate it."""
    score = evaluator.at_own_threshold(score)
    return negated(score) if shared_key(evaluator, "negate") is True else score


def _of_turn(evaluator: AnyEvaluator, context: Context) -> tuple[Context, str]:
    """Return what an evaluator judges of a conversation, and why that is not there; empty: it is."""
    turn = shared_key(evaluator, "turn")
    if turn is None:
        if not context.turns or not getattr(evaluator, "reads_conversation", False):
            return context, ""
        return context.replace(candidate_answer=spoken(context.output_messages or ()), turns=()), ""
    if turn > len(context.turns):
        return context, f"there is no turn {turn}: the conversation has {counted(len(context.turns), 'turn')}"
    return context.turns[turn - 1].replace(twin=context.twin, services=context.services), ""


def _of_workspace(context: Context, name: str) -> tuple[Json | Absent, str]:
    """Return what `file` names: the text of a file, `diff` or the list `changed`; else ABSENT and why; may block."""
    known = context.workspace
    if known is None:
        if name == "diff" and context.file_changes is not None and not is_cut(context.file_changes):
            return context.file_changes, ""
        raise EvaluatorError(NO_WORKSPACE, "config")
    if name == "changed":
        return list(known.changes.names), ""
    if name == "diff":
        fault = "" if known.changes.is_whole else "the diff is too long to be judged: judge `changed`, or a file"
        return known.changes.diff, fault
    root = Path(known.path).resolve()
    try:
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            return ABSENT, f"{name} is outside the workspace"
        if not path.exists():
            return ABSENT, f"there is no file {name}"
        return read_regular_file(path, _LARGEST_FILE).decode("utf-8", "replace"), ""
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a folder, a NUL in the name
        return ABSENT, f"{name} cannot be read: {getattr(error, 'strerror', None) or error}"


async def _judge(evaluator: AnyEvaluator, context: Context) -> Score:
    found: Any
    if inspect.iscoroutinefunction(type(evaluator).evaluate):
        found = evaluator.evaluate(context)
    else:
        found = await run_in_thread(lambda: evaluator.evaluate(context), "agentv-evaluator")
    return await found if inspect.isawaitable(found) else found  # type: ignore[no-any-return]


def build_result(evaluator: AnyEvaluator, score: Score) -> EvaluatorResult:
    """Build the record of a judgement. Raises `EvaluatorError` for a value that is no number."""
    if score.details is not None and (fault := json_fault(score.details)):
        raise EvaluatorError(f"its `details` cannot be recorded: they {fault}")
    if not is_score(score.value):
        raise EvaluatorError(f"evaluate() returned the score {score.value!r}, expected a number from 0 to 1")
    value = clamp_score(score.value)
    warnings = score.warnings
    if not -SLACK <= score.value <= 1 + SLACK:
        shown = format_number(score.value) if abs(score.value) < 1e21 else "too large to show"
        warnings = (*warnings, f"the score {shown} is outside 0 to 1 and counts as {format_number(value)}")
    return EvaluatorResult(
        name=evaluator.label,
        type=evaluator.kind,
        turn=shared_key(evaluator, "turn"),
        score=value,
        weight=evaluator.weight,
        verdict=score.verdict or verdict_of(value),
        hits=tuple(score.hits),
        misses=tuple(score.misses),
        reasoning=score.reasoning,
        evaluator_provider_request=score.request,
        evaluator_results=score.results,
        details=score.details,
        raw_output=score.raw_output,
        error=score.error,
        error_kind=None if score.error is None else score.error_kind,
        judge_retries=score.judge_retries,
        unmet_required=score.unmet_required,
        unknown=score.unknown,
        unchecked=score.unchecked,
        warnings=warnings or None,
        required=shared_key(evaluator, "required") is True or None,
    )


@cache
def _reader() -> Any:
    from pydantic import TypeAdapter  # noqa: PLC0415 - listing cases needs no pydantic

    return TypeAdapter(Score)


def recordable(score: Any, what: str) -> Score:
    """Return a score from user code as results files have it. Raises `EvaluatorError`, also for a member's error."""
    if not isinstance(score, Score):
        raise EvaluatorError(f"evaluate() returned {_type_of(score)}, expected a Score")
    refused = f"{what} returned a Score that cannot be recorded:"
    try:  # a value that is no number is refused by `build_result`
        read: Score = _reader().validate_python(score.replace(value=0.0)).replace(value=score.value)
    except ValueError as error:
        first = error.errors(include_url=False)[0]  # type: ignore[attr-defined]  # it is pydantic's
        raise EvaluatorError(f"{refused} `{'.'.join(map(str, first['loc']))}`: {first['msg']}") from None
    held: dict[str, Json] = {"request": read.request, "details": read.details, "results": []}
    for member in _members(read.results or ()):
        held["results"] += [member.evaluator_provider_request, member.details]
        if not -SLACK <= member.score <= 1 + SLACK:
            found = f"the score of its member {member.name!r} is {member.score}"
            raise EvaluatorError(f"{refused} {found}: expected a number from 0 to 1")
    for name, data in held.items():
        if fault := json_fault(data):
            raise EvaluatorError(f"{refused} its `{name}` {fault}")
    if read.error is not None:
        empty = "evaluate() returned a Score with an empty `error`, which does not say why it could not judge"
        return read if read.error.strip() else read.replace(error=empty)
    try:
        require_judgements(read.results or ())
    except EvaluatorError as error:
        error.results = read.results
        raise
    return read


def _members(results: Sequence[EvaluatorResult]) -> Iterator[EvaluatorResult]:
    for result in results:
        yield result
        yield from _members(result.evaluator_results or ())


def _type_of(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def may_ask_models(evaluator: AnyEvaluator) -> bool:
    """Whether an evaluator, or a member of one, asks a model, or runs code that may."""
    return any(
        each.asks_judge or each.calls_targets or each.embeds_with is not None or each.own_code is not None
        for each in evaluator.walk()
    )


def prepare(evaluator: AnyEvaluator, services: Services) -> AnyEvaluator:
    """Return the evaluator that judges, before the target is called. Raises `EvaluatorError`."""
    services = judged_services(evaluator, services)
    if evaluator.own_code is None:
        return evaluator.prepare(services)  # type: ignore[return-value]
    found: Any = evaluator.prepare(services_for_own_code(services))
    if found is None:
        return evaluator
    if isinstance(found, type) or not hasattr(found, "walk"):
        if inspect.iscoroutine(found):
            found.close()  # else Python warns that nobody awaits it
        what = f"prepare() of {evaluator.kind!r} returned {_type_of(found)}"
        raise EvaluatorError(f"{what}, expected an Evaluator or None", "config")
    if fault := member_fault(found):
        raise EvaluatorError(fault, "config")
    return found  # type: ignore[no-any-return]


# Panels: several judges of one evaluator, asked side by side, whose scores become one by a vote.

Vote: TypeAlias = Literal["majority", "mean", "median", "all"]
"""What a panel says: 1 or 0 by the judges that pass the answer (more than half, all), or an average of the scores."""


class _Reply(NamedTuple):
    """What a judge of a panel said."""

    judge: str
    score: Score
    """As the judge gave it; with `error`, it gave none."""
    finished: Score
    """Against the threshold, and negated."""
    passes: bool

    def to_plain(self) -> JsonObject:
        score = self.score
        if score.error is not None:
            return {"judge": self.judge, "error": score.error} | (
                {"reply": score.raw_output} if score.raw_output else {}
            )
        told = {"hits": list(score.hits), "misses": list(score.misses), "reasoning": score.reasoning}
        plain = {"judge": self.judge, "score": clamp_score(score.value), "passes": self.passes}
        return plain | {key: value for key, value in told.items() if value}


async def _ask_panel(evaluator: Any, context: Context) -> Score:
    """Ask all judges of an evaluator side by side, and let those vote that answer, if they are more than half."""
    names = evaluator.judged_by
    asked = []
    for number, name in enumerate(names):  # a judge that is asked several times has its questions numbered
        services = dataclasses.replace(context.services, judge=context.services.judges.get(name))
        twin = (*context.twin, names[:number].count(name))
        asked.append(_judge(evaluator, context.replace(services=services, twin=twin)))
    replies: list[_Reply] = []
    for name, found in zip(names, await asyncio.gather(*asked, return_exceptions=True), strict=True):
        score = Score(0.0, error=str(found), error_kind=found.kind) if isinstance(found, EvaluatorError) else found
        if isinstance(score, BaseException):
            raise score
        finished = score if score.error is not None else _finished(evaluator, score)
        is_enough = clamp_score(finished.value) + SLACK >= context.threshold
        replies.append(_Reply(name, score, finished, is_enough and not finished.unmet_required))
    answered = [each for each in replies if each.score.error is None]
    lost = {each.judge: each.score for each in replies if each.score.error is not None}
    details: JsonObject = {"vote": evaluator.vote, "judges": [each.to_plain() for each in replies]}
    if 2 * len(answered) <= len(replies):
        reasons = "; ".join(f"{name}: {score.error}" for name, score in lost.items())
        error = f"{len(answered)} of {len(replies)} judges answered, and a panel needs more than half: {reasons}"
        return Score(0.0, error=error, error_kind=next(iter(lost.values())).error_kind, details=details)
    score = _voted(evaluator, answered)
    values = [clamp_score(each.score.value) for each in answered]
    spread = round(max(values) - min(values), 6)
    passed = f"{sum(each.passes for each in answered)} of {len(answered)} judges pass it, vote {evaluator.vote}"
    said = ", ".join(
        f"{each.judge} {'no answer' if each.score.error is not None else format_number(each.score.value)}"
        for each in replies
    )
    told = f"{passed}: {said} (spread {format_number(spread)})"
    is_enough = score.value + SLACK >= context.threshold and not score.unmet_required
    reasoning = [f"{each.judge}: {each.score.reasoning}" for each in answered if each.score.reasoning]
    left_out = [f"judge {name!r} of the panel is left out: {score.error}" for name, score in lost.items()]
    return score.replace(
        hits=(told, *score.hits) if is_enough else score.hits,
        misses=score.misses if is_enough else (told, *score.misses),
        reasoning="; ".join(reasoning) or None,
        details={**details, "spread": spread},
        warnings=(*score.warnings, *left_out),
    )


def _voted(evaluator: Any, answered: Sequence[_Reply]) -> Score:
    """Return the score with what all judges found. Where a vote counts, each score is finished, else their average is.

    Required rubrics are unmet if half of the judges say so; one says so for all where all have to pass.
    """
    is_average = evaluator.vote in ("mean", "median")
    said = [(each.judge, each.score if is_average else each.finished) for each in answered]
    scores = [score for _, score in said]
    needed = len(said) if evaluator.vote == "all" else len(said) // 2 + 1
    is_enough = sum(each.passes for each in answered) >= needed
    unmet = [each.unmet_required for each in scores if each.unmet_required]
    is_unmet = len(unmet) > len(said) - needed
    values = sorted(clamp_score(each.value) for each in scores)
    if evaluator.vote == "median":
        values = values[(len(values) - 1) // 2 : len(values) // 2 + 1]
    score = Score(
        math.fsum(values) / len(values) if is_average else float(is_enough),
        hits=tuple(f"[{name}] {hit}" for name, score in said for hit in score.hits),
        misses=tuple(f"[{name}] {miss}" for name, score in said for miss in score.misses),
        request={**(scores[0].request or {}), "target": ", ".join(name for name, _ in said)},
        judge_retries=sum(each.judge_retries or 0 for each in scores) or None,
        unmet_required=tuple(dict.fromkeys(text for each in unmet for text in each)) if is_unmet else None,
        verdict="fail" if is_unmet else None,
        unknown="; ".join(dict.fromkeys(each.unknown for each in scores if each.unknown)) or None,
        warnings=tuple(dict.fromkeys(warning for each in scores for warning in each.warnings)),
    )
    return _finished(evaluator, score) if is_average else score


# Failures of checks on the answers of mocks.

SDK_FAILURE: Final = "Evaluation failed: "
"""The beginning of the reasoning that the SDK prints before it exits with 1."""


class ScriptFailedError(EvaluatorError):
    """A script ran, and exited with another code than 0."""

    def __init__(self, message: str, said: str, output: str | None) -> None:
        super().__init__(message, "process", output)
        self.said = said
        """The part of the message that the script wrote."""


_BROKEN: Final = (NameError, SyntaxError, ImportError, FileNotFoundError)
"""Errors that code raises whatever the answer is."""
_RAISED: Final = re.compile(
    rf"^{SDK_FAILURE}|^Traceback \(most recent call last\)|^ +File \".+\", line \d|^ +at ", re.MULTILINE
)
"""What Python, JavaScript and the SDKs write of an exception. A script that fails otherwise may be unable to start."""
_SAID: Final = re.compile(
    r"\b(?:Name|UnboundLocal|Reference|Indentation|Tab|Import|ModuleNotFound|FileNotFound)Error\b"
    r"|\bSyntaxError\b(?!: .*(?:valid JSON|JSON input|in JSON|JSON Parse))"  # JavaScript says so of an answer
    r"|can't open file|cannot import name|Cannot find (?:module|package)|No module named|No such file|\bENOENT\b"
    r"|\bis not defined\b|command not found"
)
"""What scripts say of errors that do not depend on the answer."""


def is_of_mock(error: BaseException) -> bool:
    """Whether a check that works may fail with this error on the answer of a mock: it ran, and raised on the answer."""
    if isinstance(error, ScriptFailedError):
        return bool(_RAISED.search(error.said)) and not _SAID.search(error.said)
    if isinstance(error, KindError):
        if error.kind != "crash":
            return False
        if error.__cause__ is None:
            return not any(is_ours(frame.filename) for frame in traceback.extract_tb(error.__traceback__)[-1:])
        error = error.__cause__
    return all(isinstance(leaf, Exception) and not isinstance(leaf, _BROKEN) for leaf in leaves(error))
