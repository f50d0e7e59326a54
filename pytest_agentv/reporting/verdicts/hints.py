"""What failing answers of a case do that passing ones do not: a hint, no test."""

from collections.abc import Sequence

from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.statistics.repeats import passing


def tool_hint(case: JudgedCase) -> str | None:
    """Return by which tool all failing and all passing answers of a case part; None where none does."""
    if case.tools is None or case.threshold is None or len(case.tools) != case.judged:
        return None
    is_pass = [passing([score], case.threshold) == 1 for score in case.scores]
    if sum(is_pass) != case.passes:
        return None  # more than the scores decided, and which answers passed is not known
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
    """Whether all answers of one kind call a tool, and none of the other kind."""
    in_passed, in_failed = [tool in tools for tools in passed], [tool in tools for tools in failed]
    return (all(in_passed) and not any(in_failed)) or (all(in_failed) and not any(in_passed))


def _all(answers: Sequence[object]) -> str:
    return f"{len(answers)} of {len(answers)}"
