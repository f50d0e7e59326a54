"""The target that judges, for evaluators that need a model, and kept judgements held against another threshold."""

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.engine.answers import Attempts, checked_metrics, invoke_with_retries
from pytest_agentv.errors import EvaluatorError, ProviderError, locate
from pytest_agentv.evaluators.context import Context, current_meter
from pytest_agentv.evaluators.run import shared_key
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.cases import AnyEvaluator, EvalCase, Target
from pytest_agentv.model.messages import candidate_answer, incomplete_reason
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.secrets import masked
from pytest_agentv.providers.base import Adapter, KeepsAnswers, ProviderRequest
from pytest_agentv.targets.definitions import TargetDefinition

_LOGGER: Final = logging.getLogger(__name__)

Tell: TypeAlias = Callable[[str, Sequence[str]], None]
"""Warns of what is odd about the reply of the target with this name."""


class EqualQuestions:
    """Numbers the equal questions of a case, so that the cache keeps their answers apart. Used on the event loop.

    Only questions whose answers are kept need a number. Equal members of a composite ask at the same time, in an order
    that may differ in the next run. So each of them counts its own questions (`Context.twin`).
    """

    def __init__(self) -> None:
        self._asked: Counter[tuple[str, tuple[int, ...]]] = Counter()

    def next(self, provider: Adapter, request: ProviderRequest, twin: tuple[int, ...] = ()) -> ProviderRequest:
        """Count a question that is asked now, and return it with its number."""
        if not isinstance(provider, KeepsAnswers):
            return request
        self._asked[self._place(provider, request, twin)] += 1
        return self.last(provider, request, twin)

    def last(self, provider: KeepsAnswers, request: ProviderRequest, twin: tuple[int, ...] = ()) -> ProviderRequest:
        """Return a question with the number with which it was last asked."""
        place = self._place(provider, request, twin)
        number = max(0, self._asked[place] - 1)
        return request.replace(occurrence=(number, *place[1]) if number or place[1] else ())

    def _place(
        self, provider: KeepsAnswers, request: ProviderRequest, twin: tuple[int, ...]
    ) -> tuple[str, tuple[int, ...]]:
        while twin and not twin[-1]:  # the first of equal members asks like an evaluator alone
            twin = twin[:-1]
        return provider.place(request), twin


class ProviderJudge:
    """A judge that is a target."""

    def __init__(
        self, target: Target, provider: Adapter, options: RunOptions, asked: EqualQuestions, tell: Tell | None = None
    ) -> None:
        """`asked` counts the questions of the case, `tell` hears what is odd about the replies."""
        self.name = target.name
        self.model: str | None = getattr(target.settings, "model", None)
        self._target = target
        self._provider = provider
        self._options = options
        self._asked = asked
        self._tell = tell

    async def ask(
        self, system_prompt: str, user_prompt: str, context: Context, schema: JsonObject | None = None
    ) -> str:
        """Return the reply's text. Raises `EvaluatorError` if the target cannot answer."""
        request = self._request(system_prompt, user_prompt, context).replace(schema=schema)
        request = self._asked.next(self._provider, request, context.twin)
        retries = self._options.max_retries
        attempts = await invoke_with_retries(self._provider, request, retries, f"judge {self.name}")
        tell_of_replies(self.name, attempts, self._tell)
        for lost in attempts.lost:
            current_meter().add_reply(lost)
        current_meter().add_reply(attempts.response, attempts.count - len(attempts.lost))
        try:
            response = attempts.answer()
        except ProviderError as error:
            raise EvaluatorError(f"the judge {self.name!r} could not be asked: {error}", error.kind) from None
        reason = incomplete_reason(response.finish_reason)
        if reason is not None:
            text = f"the reply of the judge {self.name!r} is not whole: {reason}"
            raise EvaluatorError(f"{text} (finish_reason={response.finish_reason})", "no_answer")
        return candidate_answer(response.output_messages)

    def forget(self, system_prompt: str, user_prompt: str, context: Context) -> None:
        """Forget the reply, so that the next run asks for it anew."""
        if isinstance(self._provider, KeepsAnswers):
            request = self._request(system_prompt, user_prompt, context)
            self._provider.forget(self._asked.last(self._provider, request, context.twin))

    def _request(self, system_prompt: str, user_prompt: str, context: Context) -> ProviderRequest:
        return ProviderRequest(
            **prompts_for(self._target, system_prompt, user_prompt),
            eval_id=context.case.eval_id,
            answer=context.answer,
            reruns=context.reruns,
            timeout_seconds=context.timeout_seconds,
        )


def prompts_for(target: Target, system_prompt: str | None, question: str) -> dict[str, Any]:
    """Return the prompts of a request: a single one for a target that takes no system prompt."""
    if not system_prompt or getattr(target.settings, "takes_system_prompt", False):
        return {"prompt": Prompt(question), "system_prompt": system_prompt}
    return {"prompt": Prompt(f"{system_prompt}\n\n{question}"), "system_prompt": None}


def tell_of_replies(name: str, attempts: Attempts, tell: Tell | None) -> None:
    """Log the figures of a judge that are left out, and tell what else is odd about its replies.

    Source: evaluation-2026-01, "Metrics schema validation".
    """
    replies = [each for each in (*attempts.lost, attempts.response) if each is not None and not each.cached]
    for fault in (fault for each in replies for fault in checked_metrics(each)[1]):
        _LOGGER.warning("%s", masked(f"judge {name}: {fault}"))
    if tell is not None:
        tell(name, [masked(warning) for each in replies for warning in each.warnings])


def judging_fault(target: Target | TargetDefinition, kind: object, path: Path) -> str | None:
    """Return why a target has no judge, if so: it names none, and its kind cannot judge its own answers.

    `kind` is the class of its kind, or an object of it.
    """
    if target.judge_target is not None or getattr(kind, "judges_itself", False):
        return None
    return (
        f"target {target.name!r} ({locate(path, target.line)}) would have to judge its own answers: give it a model "
        f"as judge, `judge_target: <name of a target>`, or give the case evaluators that need no model"
    )


def evaluators_of(case: EvalCase) -> tuple[AnyEvaluator, ...]:
    """Return what judges a case: its evaluators, else the default judge."""
    return _default_evaluators() if case.evaluators is None else case.evaluators


@cache
def _default_evaluators() -> tuple[AnyEvaluator, ...]:
    from pytest_agentv.evaluators.judge import default_judge  # noqa: PLC0415 - imports pydantic

    return (default_judge(),)


@dataclass(frozen=True, slots=True)
class Needs:
    """What evaluators need to judge an answer."""

    evaluators: tuple[AnyEvaluator, ...]
    judges: tuple[str | None, ...]
    """The judges that evaluators and their members ask, by name; None stands for the judge of the case."""
    targets: bool
    """Whether one is a script that may call targets."""
    embeddings: tuple[str, ...]
    """The targets whose embeddings they compare."""
    takes_long: bool
    """Whether they do more than look at the answer: they ask a target, or run programs or user code."""
    looks_at_files: bool
    """Whether they may look at what an answer left in files: scripts, code of users, `file` but for diffs."""
    threshold: bool
    """Whether a `required` evaluator, or each judge of a panel, has to reach the threshold of the case."""
    only_models: tuple[bool, ...]
    """Of each evaluator, whether it does no more than ask models, and thus may wait beside others."""

    @property
    def asked(self) -> tuple[str | None, ...]:
        """The judges; scripts that call targets ask that of the case."""
        return self.judges if None in self.judges or not self.targets else (*self.judges, None)

    @classmethod
    def of(cls, evaluators: tuple[AnyEvaluator, ...]) -> "Needs":
        members = [member for evaluator in evaluators for member in evaluator.walk()]
        embeddings = tuple(dict.fromkeys(each.embeds_with for each in members if each.embeds_with is not None))
        runs_code = any(each.own_code or each.scripts for each in members)
        return cls(
            evaluators,
            tuple(dict.fromkeys(name for each in evaluators for name in each.asked_judges)),
            any(each.calls_targets for each in evaluators),
            embeddings,
            runs_code or bool(embeddings) or any(each.asks_judge for each in members),
            runs_code or any(shared_key(each, "file") not in (None, "diff") for each in members),
            any(len(each.judged_by) > 1 or _has_threshold(each) for each in members),
            tuple(map(_only_asks_models, evaluators)),
        )


def _only_asks_models(evaluator: AnyEvaluator) -> bool:
    members = list(evaluator.walk())
    runs_more = any(each.own_code or each.scripts or shared_key(each, "file") is not None for each in members)
    return not runs_more and any(each.asks_judge or each.embeds_with is not None for each in members)


def _has_threshold(evaluator: AnyEvaluator) -> bool:
    is_required = shared_key(evaluator, "required") is True
    return is_required and evaluator.required_score(0.0) != evaluator.required_score(1.0)


_LAST: Final = [Needs.of(())]
"""The last needs: consecutive cases often share the evaluators of their file."""


def needs_of_case(case: EvalCase) -> Needs:
    """Return what a case needs to be judged: its evaluators, and who checks its simulated user."""
    evaluators = evaluators_of(case)
    needs = _LAST[0]  # two threads ask
    if needs.evaluators is not evaluators:
        _LAST[0] = needs = Needs.of(evaluators)
    if case.user is None or not case.user.check or None in needs.judges:
        return needs
    return dataclasses.replace(needs, judges=(*needs.judges, None))
