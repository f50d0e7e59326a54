"""The targets that judge scripts may call through their proxy."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

from pytest_agentv.engine.attempts import Attempts, invoke_with_retries
from pytest_agentv.engine.targets.judging import EqualQuestions, Tell, tell_of_replies
from pytest_agentv.errors import ProviderError
from pytest_agentv.evaluators.context import ProxiedQuestion
from pytest_agentv.models.targets import Target
from pytest_agentv.prompts.prompt import Prompt
from pytest_agentv.providers.base import Adapter, ProviderRequest, ProviderResponse

OpenTarget: TypeAlias = Callable[[str], tuple[Target, Adapter]]
"""Resolves a target by its name; raises `TargetError`."""
CheckTarget: TypeAlias = Callable[[Target, Adapter], Awaitable[None]]
"""Checks a target before its first call of the run; raises `ProviderError`."""


async def _is_checked(_target: Target, _provider: Adapter) -> None:
    """Do nothing: the target is a mock."""


class CallableTargets:
    """The targets of a targets file. The first call of a target resolves it."""

    def __init__(
        self,
        primary: str,
        others: Sequence[str],
        default_name: str,
        open_target: OpenTarget,
        *,
        asked: EqualQuestions | None = None,
        check: CheckTarget = _is_checked,
        tell: Tell | None = None,
    ) -> None:
        """Resolve the default target now, so that `TargetError` is raised before anything is paid for.

        Args:
            primary: The target under test.
            others: All names of its targets file.
            default_name: The target of calls that name no other.
            open_target: Resolves a target.
            asked: Counts the questions of the case; None: none was asked before.
            check: Checks a target before it is called.
            tell: Hears what is odd about the replies.
        """
        self.default_name = default_name
        self.names = tuple(dict.fromkeys((primary, *others)))
        self._open = open_target
        self._asked = asked or EqualQuestions()
        self._check = check
        self._tell = tell
        self.default = open_target(default_name)
        """The default target, to be checked before anything is paid for."""

    def resolve(self, name: str) -> Callable[[ProxiedQuestion], Awaitable[ProviderResponse]]:
        """Return a function that calls a target. Raises `TargetError` if the target cannot be used."""
        return partial(self._ask, *self._open(name))

    async def _ask(self, target: Target, provider: Adapter, asked: ProxiedQuestion) -> ProviderResponse:
        """Raises `ProviderError` if there is no reply. A response with an error may hold the metrics of the call."""
        await self._check(target, provider)  # a script may name a target that no case has
        attempts = await _ask(target, provider, self._asked, asked)
        tell_of_replies(target.name, attempts, self._tell)
        if attempts.response is None:
            raise attempts.error or ProviderError("the provider gave no response")
        return attempts.response


async def _ask(target: Target, provider: Adapter, questions: EqualQuestions, asked: ProxiedQuestion) -> Attempts:
    """Call a target once, without retries, because the script has the time limit of one call."""
    system_prompt, question = asked.system_prompt, asked.question
    if system_prompt and not getattr(target.settings, "takes_system_prompt", False):
        system_prompt, question = None, f"{system_prompt}\n\n{question}"
    request = ProviderRequest(
        Prompt(question),
        eval_id=asked.eval_id,
        attempt=asked.attempt,
        answer=asked.answer,
        reruns=asked.reruns,
        system_prompt=system_prompt,
        timeout_seconds=asked.timeout_seconds,
    )
    request = questions.next(provider, request, asked.twin)
    return await invoke_with_retries(provider, request, 0, f"target {target.name}")
