"""The keys of eval files with their synonyms, and checks that files and cases share (agentv-formats 1.2, 1.3)."""

import importlib.util
from collections.abc import Mapping
from functools import cache
from typing import Final

from pytest_agentv.loading.places import Place, first_key, number_at
from pytest_agentv.loading.problems import describe_value
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.options.values import MAX_REPEAT

CASE_LIST_KEYS: Final = ("evalcases", "eval_cases", "cases", "tests")
INCLUDE: Final = "include"
OUTCOME_KEYS: Final = ("expected_outcome", "outcome", "criteria")
INPUT_KEYS: Final = ("input_messages", "input")
EXPECTED_KEYS: Final = ("expected_messages", "expected_output")
EVALUATOR_LIST_KEYS: Final = ("evaluators", "assertions", "assert")
LEGACY_EVALUATOR_KEYS: Final = ("evaluator", "grader")

MARK_KEYS: Final = frozenset({"marks", "skip", "xfail", "fixtures", "tags"})
"""The keys for pytest."""

NO_REASONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("no", "n", "off", "false", "0"), "write {}: false"),
    **dict.fromkeys(
        ("null", "none", "nil", "nan", "nat", "na", "<na>", "n/a", "#n/a", "-"), "leave it empty if there is none"
    ),
}
"""What is no reason to skip a case or to expect its failure, in small letters, with what to write instead.

These are words for false in other YAML readers and in cells of CSV, and what Python, pandas, SQL and spreadsheets write
into a cell without a value. Such a column would skip all rows.
"""

_MARKS_WITH_ARGUMENTS: Final[Mapping[str, str]] = {
    "timeout": "timeout says nothing without seconds; write timeout_seconds: 60 at the target, or use --timeout=60",
    "skipif": "skipif says nothing without a condition; write skip: REASON",
    "parametrize": "parametrize says nothing without values; write cases in a table, with `from:`",
    "usefixtures": "usefixtures says nothing without names; write fixtures: [NAME]",
    "filterwarnings": "filterwarnings says nothing without a filter; write it in the ini file",
}
"""Marks that need arguments, which an eval file cannot give.

`skipif` would skip every case, and `timeout` would crash.
"""

EXECUTION_KEYS: Final = ("target", "threshold", *EVALUATOR_LIST_KEYS)
FILE_EXECUTION_KEYS: Final = (*EXECUTION_KEYS, "targets")
_SHARED_KEYS: Final = (
    *("execution", "target", "threshold", "description", "tags", "metadata", "marks", "skip", "xfail", "fixtures"),
    *("vars", "input_files", "repeat", "min_pass_rate"),
    *EVALUATOR_LIST_KEYS,
    *LEGACY_EVALUATOR_KEYS,
)
HEADER_KEYS: Final = frozenset(
    (
        *("$schema", "name", "version", "author", "license", "dataset", INCLUDE, "defaults", "case", "matrix"),
        *CASE_LIST_KEYS,
        *_SHARED_KEYS,
    )
)
"""At file level, or in the sidecar of a JSONL file."""
_UNTURNED: Final = "nothing turns the answer into another one: `path` judges a part of a JSON answer, `python` any part"
REFUSED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("assert_scoring_function", "assertScoringFunction"), "`composite` has aggregators beside the mean"
    ),
    **dict.fromkeys(
        ("default_test", "defaultTest"), "write `defaults` for keys of all cases, `assert` for their checks"
    ),
    "depends_on": "no case waits for another one: prepare what it needs in a fixture",
    **dict.fromkeys(("derived_metrics", "derivedMetrics"), "a name for several checks: `composite`"),
    "env": "write ${{ NAME }} at the target in targets.yaml, and the value into .env",
    **dict.fromkeys(("environment", "workspace"), "prepare the folder in a fixture, and name it under `fixtures`"),
    **dict.fromkeys(
        ("evaluate_options", "evaluateOptions"), "write `repeat`, or give --agentv-workers, --agentv-timeout"
    ),
    **dict.fromkeys(LEGACY_EVALUATOR_KEYS, "write `evaluators`, with an s"),
    "extensions": "write a fixture, or a hook in conftest.py",
    "input": "write it in the cases, or under `defaults`",
    "options": f"`repeat` is a key of the case itself; {_UNTURNED}",
    "preprocessors": _UNTURNED,
    "prompts": "write the prompt as `input` under `defaults`, or several as `matrix: {prompt: [a.md, b.md]}`",
    "providers": "write `matrix: {target: [a, b]}`, and the providers in targets.yaml",
    "targets": "write `matrix: {target: [a, b]}`, and the targets themselves in targets.yaml",
    "timeout_seconds": "write it at the target in targets.yaml, or give --agentv-timeout",
    "trials": "write `repeat`",
    "turns": "the target is asked once: write the messages before its answer as `input`, and the checks under `assert`",
}
"""Keys that say what is asked or checked and that nobody reads, with what to write instead: errors of the case."""
FOREIGN_KEYS: Final = ("prompts", "providers")
"""The keys by which a file of promptfoo or AgentV 5 is told."""
CASE_KEYS: Final = frozenset(
    (
        *("id", "conversation_id", "group", "required", "rubrics", "note", "question", "reference_answer"),
        *OUTCOME_KEYS,
        *INPUT_KEYS,
        *EXPECTED_KEYS,
        *_SHARED_KEYS,
    )
)


def threshold_at(mapping: JsonObject, place: Place) -> float | None:
    """Return the threshold in a mapping. Notes an error if it is outside 0 to 1."""
    return number_at(mapping, "threshold", place, "a number from 0 to 1", most=1)


def repeat_at(mapping: JsonObject, place: Place) -> int | None:
    """Return how many answers a mapping asks for. Notes an error unless it is 1 to 100."""
    value = mapping.get("repeat")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_REPEAT:
        place.at("repeat").expected(f"a whole number from 1 to {MAX_REPEAT}", value)
        return None
    return value


def min_pass_rate_at(mapping: JsonObject, place: Place) -> float | None:
    """Return the share of answers that have to pass. Notes an error if it is outside 0 to 1."""
    return number_at(mapping, "min_pass_rate", place, "a number from 0 to 1, such as 0.8 for 4 of 5", most=1)


def flag_at(mapping: JsonObject, key: str, place: Place) -> bool:
    """Return whether a key is true. Notes an error unless it is true or false."""
    value = mapping.get(key)
    if not isinstance(value, bool | None):
        place.at(key).expected("true or false", value)
    return value is True


def is_reason(value: Json) -> bool:
    """Whether the value of `skip` or `xfail` is a reason or true."""
    if isinstance(value, str):
        return (word := value.strip().lower()) != "" and word not in NO_REASONS
    return value is True


def is_mark(name: str) -> bool:
    """Whether a mark has a meaning without arguments."""
    return mark_fault(name) is None


def mark_fault(name: str) -> str | None:
    """Return what to write instead of a name that cannot be a mark; None: it can."""
    if name.startswith("_"):
        return "names of marks do not begin with an underscore"
    return None if name == "timeout" and not _has_pytest_timeout() else _MARKS_WITH_ARGUMENTS.get(name)


@cache
def _has_pytest_timeout() -> bool:
    """Whether the mark `timeout` is that of pytest-timeout, which crashes without arguments.

    Without pytest-timeout, it may be a mark of the project.
    """
    return importlib.util.find_spec("pytest_timeout") is not None


def check_reason(mapping: JsonObject, key: str, place: Place) -> None:
    """Note an error for a value of `skip` or `xfail` that is neither a reason nor true or false."""
    value = mapping.get(key)
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in NO_REASONS or not isinstance(value, str | bool | None):
        hint = NO_REASONS.get(word)
        place.at(key).expected("a reason (a text), or true", value, hint and hint.format(key))


def is_refused(key: str, value: Json) -> bool:
    """Whether a key that nobody reads is an error. `options` may be data of a case, and an evaluator is a word."""
    if key in LEGACY_EVALUATOR_KEYS:
        return isinstance(value, list | dict)
    return key in REFUSED and (key != "options" or (isinstance(value, dict) and "transform" in value))


def warn_of_evaluator_word(mapping: JsonObject, place: Place) -> None:
    """Warn about an `evaluator: WORD` other than `llm_judge`. The default judge judges then, as in AgentV."""
    key = first_key(mapping, LEGACY_EVALUATOR_KEYS)
    if key is not None and is_refused(key, mapping[key]):
        place.at(key).unread(f"expected a word, got {describe_value(mapping[key])}", REFUSED[key])
    elif key is not None and mapping[key] != "llm_judge":
        place.at(key).warn(
            f"expected 'llm_judge', got {describe_value(mapping[key])}; falling back to the default judge",
            "other kinds go into a list under `evaluators:`",
        )


def evaluator_lists(mapping: JsonObject) -> list[tuple[tuple[str, ...], Json]]:
    """Return the lists of evaluators of a file or a case, with their keys. The first is read."""
    execution = mapping.get("execution")
    places = ((("execution",), execution if isinstance(execution, dict) else {}), ((), mapping))
    return [((*at, key), each[key]) for at, each in places for key in EVALUATOR_LIST_KEYS if each.get(key) is not None]


def warn_of_unread_lists(mapping: JsonObject, place: Place) -> None:
    """Warn about lists of evaluators that are not read because there is another one. That of `execution` wins."""
    found = evaluator_lists(mapping)
    for keys, value in found[1:]:
        if value != []:
            place.at(*keys).warn(f"is not read, because {'.'.join(found[0][0])!r} is there as well")


def warn_of_unread_twins(mapping: JsonObject, place: Place) -> None:
    """Warn about a target or a threshold that is not read because there is another one, unless both are equal.

    For the target, `execution` wins; for the threshold, the key beside it. Source: agentv-formats 1.2.
    """
    execution = mapping.get("execution")
    if not isinstance(execution, dict):
        return
    for key, unread, read in (
        ("target", ("target",), "execution.target"),
        ("threshold", ("execution", "threshold"), "threshold"),
    ):
        values = _given(mapping.get(key)), _given(execution.get(key))
        if None not in values and values[0] != values[1]:
            place.at(*unread).warn(f"is not read, because {read!r} is there as well")


def _given(value: Json) -> Json:
    """Return the value of a key; None if it is blank."""
    return value.strip() or None if isinstance(value, str) else value
