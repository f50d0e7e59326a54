"""Tells whether a coding agent failed, and why. The exit code alone does not tell."""

import math
from typing import Final

from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.masking.secrets import masked
from pytest_agentv.providers.agents.events import guess_kind
from pytest_agentv.providers.agents.output import MOST_KEPT, AgentOutput
from pytest_agentv.providers.agents.program import AgentAnswer
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.runtime.processes.process import ProcessResult

_NO_ANSWER: Final = "ended without a word and without a call of a tool"
_LONGEST_HEADLINE: Final = 1000
"""The most characters of each text of a program."""


def check_failure(
    response: ProviderResponse,
    title: str,
    result: ProcessResult,
    output: AgentOutput,
    answer: AgentAnswer,
    *,
    limit: float | None,
) -> ProviderResponse:
    """Return the response of a call. It has an error if the call failed, or timed out, and reports its cost.

    Raises `ProviderError` for any other failure. Source: evaluation-2026-01, "Claude Code error handling" and "Codex
    CLI provider".
    """
    fault = _fault(result, output, answer, limit)
    if fault is None:
        return response
    if fault == _NO_ANSWER:
        answer = answer.replace(failure_kind="no_answer")
    error = _explain(f"{title} {fault}", result, output, answer, response.raw)
    if not (answer.token_usage or answer.cost_usd):
        raise error
    return response.replace(error=str(error), error_kind=error.kind, raw=error.raw)


def _explain(
    headline: str, result: ProcessResult, output: AgentOutput, answer: AgentAnswer, raw: JsonObject
) -> ProviderError:
    said = _said(output, answer)
    kind: ErrorKind = "timeout" if result.timed_out else answer.failure_kind or guess_kind(answer.failure or said)
    where = f"\nlog: {raw['log_file']}" if "log_file" in raw else ""
    text = f"{headline}{': ' if said else ''}{said}{where}"
    return ProviderError(text, kind, {**raw, "stdout": output.stdout})


def _fault(result: ProcessResult, output: AgentOutput, answer: AgentAnswer, limit: float | None) -> str | None:
    if result.timed_out:
        return f"timed out after {math.ceil(limit or 0)}s"
    if output.overflowed:
        return f"wrote more than {MOST_KEPT // 2**20} MiB of events"
    if result.exit_code < 0:
        return f"was ended by signal {-result.exit_code}"
    if result.exit_code > 0:
        return f"exited with code {result.exit_code}"
    if answer.failure:
        return "failed"
    if not output.events:
        return "wrote no events"
    if not answer.is_complete:
        return "ended without a result"
    return None if answer.messages else _NO_ANSWER


def _said(output: AgentOutput, answer: AgentAnswer) -> str:
    """Return the program's texts about its failure: in events, on standard error, and beside its events."""
    texts = {"": answer.failure or "", "stderr: ": output.stderr, "stdout: ": output.noise}
    found = [f"{label}{_shortened(masked(text))}" for label, text in texts.items() if text]
    return found[0].removeprefix("stderr: ") if len(found) == 1 else "\n".join(found)


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_HEADLINE else f"{text[:_LONGEST_HEADLINE]}…"
