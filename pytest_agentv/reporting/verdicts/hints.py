"""Finds a tool that only the failing or only the passing answers of a case call: a hint, not a test."""

from collections.abc import Sequence

from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.statistics.repeats import passing


def tool_hint(case: JudgedCase) -> str | None:
    """Return the tool that separates all failing from all passing answers of a case; None: no tool does."""
    if case.tools is None or case.threshold is None or len(case.tools) != case.judged:
        return None
    is_pass = [passing([score], case.threshold) == 1 for score in case.scores]
    if sum(is_pass) != case.passes:
        return None  # a rule beside the scores decided, so it is unknown which answers passed
    passed = [set(tools) for tools, good in zip(case.tools, is_pass, strict=True) if good]
    failed = [set(tools) for tools, good in zip(case.tools, is_pass, strict=True) if not good]
    if not passed or not failed:
        return None
    for tool in sorted(set.union(*passed, *failed)):
        if _all_or_none(tool, passed, failed):
            verb = "call" if tool in failed[0] else "skip"
            return f"failing answers {verb} `{tool}` ({_all(failed)}), passing ones never (0 of {len(passed)})"
    return None


def _all_or_none(tool: str, passed: Sequence[set[str]], failed: Sequence[set[str]]) -> bool:
    """Whether all answers of one group call a tool, and none of the other group."""
    in_passed, in_failed = [tool in tools for tools in passed], [tool in tools for tools in failed]
    return (all(in_passed) and not any(in_failed)) or (all(in_failed) and not any(in_passed))


def _all(answers: Sequence[object]) -> str:
    return f"{len(answers)} of {len(answers)}"
