"""The keys of eval files with their synonyms, and checks that files and cases share (agentv-formats 1.2, 1.3)."""

from typing import Final

from pytest_agentv.loading.places import Place, first_key, number_at
from pytest_agentv.loading.problems import describe_value
from pytest_agentv.models.base import JsonObject

CASE_LIST_KEYS: Final = ("evalcases", "eval_cases", "cases", "tests")
INCLUDE: Final = "include"
OUTCOME_KEYS: Final = ("expected_outcome", "outcome", "criteria")
INPUT_KEYS: Final = ("input_messages", "input")
EXPECTED_KEYS: Final = ("expected_messages", "expected_output")
EVALUATOR_LIST_KEYS: Final = ("evaluators", "assertions", "assert")
LEGACY_EVALUATOR_KEYS: Final = ("evaluator", "grader")

MARK_KEYS: Final = frozenset({"marks", "skip", "xfail", "fixtures", "tags"})
"""What pytest is to know of a case."""

EXECUTION_KEYS: Final = ("target", "threshold", *EVALUATOR_LIST_KEYS)
_SHARED_KEYS: Final = (
    *("execution", "target", "threshold", "description", "tags", "metadata", "marks", "skip", "xfail", "fixtures"),
    *("vars", "input_files"),
    *EVALUATOR_LIST_KEYS,
    *LEGACY_EVALUATOR_KEYS,
)
HEADER_KEYS: Final = frozenset(
    (
        *("$schema", "name", "version", "author", "license", "dataset", INCLUDE, "defaults", "case"),
        *CASE_LIST_KEYS,
        *_SHARED_KEYS,
    )
)
"""At file level, or in the sidecar of a JSONL file."""
CASE_KEYS: Final = frozenset(
    (
        *("id", "conversation_id", "rubrics", "note", "question", "reference_answer"),
        *OUTCOME_KEYS,
        *INPUT_KEYS,
        *EXPECTED_KEYS,
        *_SHARED_KEYS,
    )
)


def threshold_at(mapping: JsonObject, place: Place) -> float | None:
    """Return the threshold in a mapping. Notes an error if it is outside 0 to 1."""
    return number_at(mapping, "threshold", place, "a number from 0 to 1", most=1)


def warn_of_evaluator_word(mapping: JsonObject, place: Place) -> None:
    """Warn about an `evaluator: WORD` other than `llm_judge`. The default judge judges then, as in AgentV."""
    key = first_key(mapping, LEGACY_EVALUATOR_KEYS)
    if key is not None and mapping[key] != "llm_judge":
        place.at(key).warn(
            f"expected 'llm_judge', got {describe_value(mapping[key])}; falling back to the default judge",
            "other kinds go into a list under `evaluators:`",
        )
