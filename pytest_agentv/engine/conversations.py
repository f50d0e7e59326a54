"""Asks a target turn by turn: the written turns of a case, then those of a simulated user."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, TypeAlias
from uuid import uuid4

from pytest_agentv.cases.prompts import Prompt, PromptMode, build_prompt, render_parts, spoken
from pytest_agentv.engine.answers import OuterAdapter, costs_of, extract_trace, invoke_with_retries
from pytest_agentv.engine.judges import prompts_for
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import EvalCase, SimulatedUser, Target, TurnPlan
from pytest_agentv.model.messages import Costs, InputMessage, Message, TextPart, added_usage, candidate_answer
from pytest_agentv.model.results import ConversationFigures
from pytest_agentv.providers.base import Adapter, Conversation, ProviderRequest, ProviderResponse, with_trace
from pytest_agentv.runtime.user_code import run_in_thread

STOP: Final = "###STOP###"
"""The word with which a simulated user ends a conversation."""

_ROLE: Final = """\
You play a person who talks to an assistant. Stay in this role: never answer for the assistant.
Goal: {goal}
{persona}Say one short message at a time. Tell only what you are asked for, and nothing that is not written here.
When the goal is reached, or cannot be reached, reply with {stop} alone."""

GoesOn: TypeAlias = Callable[[ProviderResponse], Awaitable[bool]]
"""Returns whether a conversation goes on after its last turn."""
FaultOfUser: TypeAlias = Callable[[SimulatedUser, str], Awaitable[tuple[str | None, Costs]]]
"""Returns what a user did wrong in its messages, None for nothing, and the costs of the check."""


@dataclass(slots=True)
class _Talk:
    """A conversation so far."""

    messages: list[InputMessage]
    """The messages before the first turn, and those of the turns, as the target gets them."""
    said: list[Message] = field(default_factory=list)
    """The messages of the turns, as they are recorded."""
    replies: list[ProviderResponse] = field(default_factory=list)
    prompts: list[Prompt] = field(default_factory=list)
    costs: list[Costs] = field(default_factory=list)
    user_costs: list[Costs] = field(default_factory=list)
    prices: list[float | None] = field(default_factory=list)
    """What each reply of target and user costs, in US dollars, also one from the store; None: unknown."""
    user_said: list[str] = field(default_factory=list)
    """The messages of the simulated user."""
    stopped: Literal["turns", "user", "max_turns", "max_cost_usd", "failure", "error"] = "turns"
    error: ProviderError | None = None


@dataclass(slots=True)
class ConversationAdapter(OuterAdapter):
    """Stands before the adapter of a target, and asks it turn by turn. Its answer holds the messages of all turns."""

    keeps_limits: ClassVar = True  # the limit is for each call

    mode: PromptMode
    adapter: Adapter
    case: EvalCase
    plan: TurnPlan
    called: str
    """What logs call the target."""
    max_retries: int
    has_sessions: bool
    """Whether the target gets only the new messages."""
    user: tuple[Target, Adapter] | None
    goes_on: GoesOn | None
    """None: after each turn."""
    fault_of_user: FaultOfUser | None
    """None: the user is not checked."""

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the whole conversation. If the user spoils it, it is held once more."""
        talk = await self._talk(request, _Talk([*self.case.messages]))
        if (fault := await self._fault(talk)) is not None:
            again = _Talk([*self.case.messages], costs=talk.costs, user_costs=talk.user_costs)
            # The store keeps the two conversations apart by the number.
            talk = await self._talk(request.replace(occurrence=(*request.occurrence, 1)), again)
            if (fault := await self._fault(talk)) is not None:
                talk.error = ProviderError(f"the simulated user is at fault, twice: {fault}", "user_at_fault")
        return self._whole(talk)

    async def _fault(self, talk: _Talk) -> str | None:
        """Return what the user did wrong; None: nothing."""
        if self.plan.user is None or self.fault_of_user is None or not talk.user_said or talk.error is not None:
            return None
        try:
            fault, costs = await self.fault_of_user(self.plan.user, "\n\n".join(talk.user_said))
        except ProviderError as error:
            talk.error = error
            return None
        talk.user_costs.append(costs)
        return fault

    async def _talk(self, request: ProviderRequest, talk: _Talk) -> _Talk:
        session = uuid4().hex if self.has_sessions else None
        try:
            while await self._user_speaks(talk, request):
                is_new = session is None or not talk.replies
                messages = talk.messages if is_new else talk.messages[-1:]
                prompt = build_prompt(self.case.replace(messages=tuple(messages)), self.mode)
                turn = len(talk.replies) + 1
                reply = await self._ask(talk, request.replace(prompt=prompt, turn=turn, session=session))
                talk.prompts.append(prompt)
                talk.replies.append(reply)
                talk.said += reply.output_messages or ()
                talk.messages.append(InputMessage("assistant", (TextPart(candidate_answer(reply.output_messages)),)))
                session = reply.session or session
                if self.goes_on is not None and not await self.goes_on(self._whole(talk)):
                    talk.stopped = "failure"
                    break
        except ProviderError as error:
            talk.stopped = "error"
            talk.error = ProviderError(f"turn {len(talk.replies) + 1}: {error}", error.kind)
        return talk

    async def _ask(self, talk: _Talk, request: ProviderRequest) -> ProviderResponse:
        """Return the reply of the target. Raises `ProviderError` without an answer."""
        retries = self.max_retries if request.session is None else 0  # a session would hear the message twice
        called = f"{self.called}, turn {request.turn}"
        attempts = await invoke_with_retries(self.adapter, request, retries, called)
        talk.costs.append(costs_of(attempts))
        reply = given = attempts.reply()
        if reply.trace_ref is not None:
            reply = await run_in_thread(lambda: with_trace(given), "agentv-trace")
        if reply.error is not None:
            raise ProviderError(reply.error, reply.error_kind)
        talk.prices.append(reply.cost_usd)
        if reply.duration_ms is None and not reply.cached:
            reply = reply.replace(duration_ms=attempts.duration_ms)
        return reply.replace(raw={}, trace_ref=None)

    async def _user_speaks(self, talk: _Talk, request: ProviderRequest) -> bool:
        """Add the next message of the user; False: there is none. Raises `ProviderError` if the user has none."""
        number, inputs = len(talk.replies), self.plan.inputs
        if number == 0 and talk.messages and talk.messages[-1].role == "user":  # of the case
            said = "\n".join(render_parts(talk.messages[-1], self.mode, with_guidelines=False))
        else:
            text = inputs[number] if number < len(inputs) else await self._of_user(talk, request)
            if text is None:
                return False
            said = text
            talk.messages.append(InputMessage("user", (TextPart(said),)))
        talk.said.append(Message("user", said))
        return True

    async def _of_user(self, talk: _Talk, request: ProviderRequest) -> str | None:
        """Return what the simulated user says next; None: it ends the conversation."""
        plan, number = self.plan.user, len(talk.replies)
        if plan is None or self.user is None:
            return None
        if number >= plan.max_turns:
            talk.stopped = "max_turns"
            return None
        if plan.max_cost_usd is not None and talk.replies:
            known = [each for each in talk.prices if each is not None]
            if len(known) < len(talk.prices):
                raise ProviderError("`max_cost_usd` cannot be kept: a reply does not tell what it costs", "config")
            if sum(known) >= plan.max_cost_usd:
                talk.stopped = "max_cost_usd"
                return None
        if self.user[0].kind == "mock" and talk.replies:  # as in a dry run: it never stops
            talk.stopped = "user"
            return None
        text = (await self._ask_user(talk, plan, *self.user, request)).strip()
        if STOP in text:
            talk.stopped = "user"
            if not talk.replies:
                raise ProviderError("the simulated user ended the conversation before it began", "user_at_fault")
            return None
        if not text:
            raise ProviderError("the simulated user said nothing", "user_at_fault")
        talk.user_said.append(text)
        return text

    async def _ask_user(
        self, talk: _Talk, plan: SimulatedUser, target: Target, adapter: Adapter, request: ProviderRequest
    ) -> str:
        rules = _ROLE.format(goal=plan.goal, persona=f"You are: {plan.persona}\n" if plan.persona else "", stop=STOP)
        talked = spoken(talk.said)
        shown = f"The conversation so far (you are the user):\n\n{talked}" if talked else "(Begin the conversation.)"
        asked = request.replace(**prompts_for(target, rules, shown), guideline_paths=(), input_paths=())
        attempts = await invoke_with_retries(adapter, asked, self.max_retries, f"user {target.name}")
        talk.user_costs.append(costs_of(attempts))
        try:
            reply = attempts.answer()
        except ProviderError as fault:
            raise ProviderError(f"the user {target.name!r} could not be asked: {fault}", fault.kind) from None
        talk.prices.append(reply.cost_usd)
        return candidate_answer(reply.output_messages)

    def _whole(self, talk: _Talk) -> ProviderResponse:
        """Return the conversation as one answer. Sums with an unknown part are unknown."""
        replies, error = talk.replies, talk.error
        traces = [extract_trace(reply) for reply in replies]
        usages = [reply.token_usage for reply in replies]
        costs, durations = [each.cost_usd for each in replies], [each.duration_ms for each in replies]
        warnings = [warning for reply in replies for warning in reply.warnings]
        warnings += ["the simulated user said the same twice"] * (len(set(talk.user_said)) < len(talk.user_said))
        figures = ConversationFigures(
            len(replies),
            talk.stopped,
            self.user[0].name if self.user and self.plan.user else None,
            Costs.added(talk.user_costs) if talk.user_costs else None,
            self.plan.lines,
        )
        return ProviderResponse(
            tuple(talk.said),
            None if any(trace is None for trace in traces) else tuple(e for trace in traces for e in trace or ()),
            token_usage=None if None in usages else added_usage(usages),
            cost_usd=None if None in costs or not costs else sum(each or 0 for each in costs),
            cost_source=next((each.cost_source for each in replies if each.cost_source), None),
            duration_ms=None if None in durations else sum(each or 0 for each in durations),
            error=None if error is None else str(error),
            error_kind="crash" if error is None else error.kind,
            finish_reason=replies[-1].finish_reason if replies else None,
            retrieved_context=tuple(text for reply in replies for text in reply.retrieved_context or ()) or None,
            warnings=tuple(dict.fromkeys(warnings)),
            cached=bool(replies) and all(reply.cached for reply in replies),
            is_text_only=any(reply.is_text_only for reply in replies),
            conversation=Conversation(tuple(replies), tuple(talk.prompts), Costs.added(talk.costs), figures),
        )
