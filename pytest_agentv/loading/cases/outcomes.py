"""Cases without an expected outcome: those whose evaluators do not ask for one."""

from typing import Final

from pytest_agentv.models.cases import AnyEvaluator

NO_OUTCOME: Final = "The evaluators are content with the answer."
"""The expected outcome of a case that says none."""

_OWN_WORDS: Final = ("rubrics", "prompt", "prompt_path")


def wants_outcome(evaluator: AnyEvaluator) -> bool:
    """Whether an evaluator, or one within it, holds the answer against the expected outcome."""
    return any(each.kind == "llm_judge" and not any(map(each.to_plain().get, _OWN_WORDS)) for each in evaluator.walk())
