"""`code_judge`: a script that is given the case as JSON and prints its judgement as JSON (agentv-formats 6.5).

A judge that prints something else than a result, cannot be started, takes too long or exits with an error has not
judged. That says nothing about the answer: the case becomes an error, and the message says how to mend the script.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pytest_agentv.errors import EvaluatorError
from pytest_agentv.evaluators.base import EvaluationContext, Evaluator, EvaluatorServices, ProxiedTargets
from pytest_agentv.evaluators.grading import feedback, has_score, reasoning_of
from pytest_agentv.evaluators.json_text import json_object
from pytest_agentv.evaluators.judge_payload import build_payload
from pytest_agentv.evaluators.judge_reply import off_loop
from pytest_agentv.evaluators.judge_script import cut, run_judge_script
from pytest_agentv.evaluators.target_proxy import TargetProxy
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.evaluator_configs import CodeJudgeConfig
from pytest_agentv.models.scores import Score
from pytest_agentv.models.secrets import Masker, masked
from pytest_agentv.models.text import compact_json, trim

SHOWN_OUTPUT: Final = 200
"""Characters of wrong output that a message shows."""

_EXPECTED: Final = (
    'print exactly one JSON object such as {"score": 0.5, "hits": [], "misses": [], "reasoning": ""} '
    "on standard output, and everything else on standard error"
)


def create_code_judge(name: str, config: CodeJudgeConfig, services: EvaluatorServices) -> Evaluator:
    """Create a judge; raises `EvaluatorError` (kind `config`) when its script may call targets and there are none."""
    if config.target is not None and services.targets is None:
        message = f"evaluator {name!r} has `target`, but there are no targets that its script could call"
        raise EvaluatorError(message, kind="config")
    return CodeJudge(config, services.environment, services.targets)


@dataclass(frozen=True, slots=True)
class CodeJudge:
    """Runs a judge script, without a shell of ours, once per answer."""

    config: CodeJudgeConfig
    environment: Mapping[str, str]
    """The script's variables, all but those of its target proxy."""
    targets: ProxiedTargets | None = None

    async def evaluate(self, context: EvaluationContext) -> Score:
        """Raises `EvaluatorError` when the script could not be started, took too long or failed."""
        request = {"script": list(self.config.script), "cwd": self.config.cwd}
        if self.config.target is None or self.targets is None:
            return (await self._judge(context, {}, Masker())).replace(request=request)
        async with TargetProxy(self.targets, self.config.target.max_calls, context.timeout_seconds) as proxy:
            score = await self._judge(context, proxy.environment, Masker([proxy.token]))
        calls = {"call_count": proxy.call_count, "max_calls": proxy.max_calls}
        return score.replace(request={**request, "target_proxy": calls})

    async def _judge(self, context: EvaluationContext, variables: Mapping[str, str], masker: Masker) -> Score:
        stdout = await run_judge_script(
            self.config.script,
            build_payload(context, self.config.config),
            cwd=self.config.cwd,
            environment={**self.environment, **variables},
            timeout_seconds=context.timeout_seconds,
            masker=masker,
        )
        return await off_loop(len(stdout), parse_judgement, stdout)


def parse_judgement(stdout: str) -> Score:
    """Turn what a judge printed into a score.

    What is no result scores 0 and has `error`, which says what was expected. A score outside 0..1 is left as it is:
    `build_result` clamps it and warns.
    """
    text = trim(stdout)
    try:
        found = _result(text)
        details = _details(found.get("details"))
    except ValueError as error:
        message = str(error)
        return Score(
            0.0, misses=(message,), reasoning=message, raw_output=cut(stdout), error=message, error_kind="process"
        )
    return Score(
        found["score"],
        hits=feedback(found.get("hits")),
        misses=feedback(found.get("misses")),
        reasoning=reasoning_of(found),
        details=details,
    )


def _result(text: str) -> JsonObject:
    if not text:
        raise ValueError(f"Code evaluator printed nothing: {_EXPECTED}")
    found = json_object(text)
    if found is None:
        raise ValueError(f"Code evaluator did not print one JSON object: {_EXPECTED}; it printed: {_head(text)}")
    if "score" not in found:
        raise ValueError(f"Code evaluator printed no `score`: {_EXPECTED}; it printed: {_head(text)}")
    if not has_score(found):
        given = _head(compact_json(found["score"]))
        raise ValueError(f"Code evaluator printed a `score` that is no number: {given}; print one from 0 to 1")
    return found


def _details(value: Json) -> JsonObject | None:
    """Return the details as they came; a text that holds a JSON object counts as that object."""
    details = json_object(value) if isinstance(value, str) else value
    if value is None or isinstance(details, dict):
        return details
    given = _head(compact_json(value))
    raise ValueError(
        f"Code evaluator printed `details` that are no JSON object: {given}; "
        'print a mapping such as {"reason": "…"}, or leave them out'
    )


def _head(text: str) -> str:
    return text if len(text) <= SHOWN_OUTPUT else f"{masked(text)[:SHOWN_OUTPUT]}…"
