"""Turns cases written in Python into eval files for the loader."""

import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from os import PathLike, fspath
from os.path import normpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest

from pytest_agentv.loading.files.entries import CaseEntry
from pytest_agentv.loading.files.source import Source
from pytest_agentv.loading.files.suite_source import SuiteSource
from pytest_agentv.loading.files.yaml_values import KeyPath
from pytest_agentv.loading.keys import EVALUATOR_LIST_KEYS, EXPECTED_KEYS, INPUT_KEYS, OUTCOME_KEYS
from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.models.cases import AnyEvaluator
from pytest_agentv.models.records import record

if TYPE_CHECKING:  # costs pydantic
    from pytest_agentv.evaluators.base import Evaluator

_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "xfail": "mark the test with pytest.mark.xfail",
    "marks": "mark the test",
    "fixtures": "let the test request them",
}
"""Keys of a case that pytest would have to know before the test begins, and what to do instead."""

EvalInput: TypeAlias = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""The prompt's text, messages, or a case as in an eval file."""


@record
class CaseWords:
    """The arguments of a test beside the prompt. Each overrides the same key of the case."""

    eval_id: str | None = None
    expected_outcome: str | None = None
    reference_answer: str | None = None
    expected_messages: Sequence[Mapping[str, Any]] | None = None
    evaluators: "Sequence[str | Mapping[str, Any] | AnyEvaluator | Evaluator] | None" = None
    rubrics: Sequence[Any] | None = None
    threshold: float | None = None
    files: Sequence[str | PathLike[str]] = ()
    repeat: int | None = None
    min_pass_rate: float | None = None


class PythonSource(Source):
    """A case written in Python: all of it stands on the line of its test."""

    def __init__(self, path: Path, value: Json, line: int) -> None:
        super().__init__(path, value, "", {})
        self._line = line

    @property
    def tells_case_by_line(self) -> bool:
        return True

    def line_of(self, key_path: KeyPath = ()) -> int:  # noqa: ARG002 - all of the case is on one line
        return self._line


def python_case(prompt: EvalInput, words: CaseWords) -> dict[str, Json]:
    """Return the case that a test describes, in the form of an eval file. Its id may be missing.

    Raises `TypeError` for an invalid prompt, or for files with a prompt that is not a text.
    """
    __tracebackhide__ = True
    case = _case_of(prompt, words.files)
    case |= {} if words.eval_id is None else {"id": words.eval_id}
    expected = words.expected_messages
    if words.reference_answer is not None:
        expected = [{"role": "assistant", "content": words.reference_answer}]
    _set(case, OUTCOME_KEYS, words.expected_outcome)
    _set(case, EXPECTED_KEYS, expected)
    _set(case, ("threshold",), words.threshold)
    _set(case, ("rubrics",), words.rubrics)
    _set(case, ("repeat",), words.repeat)
    _set(case, ("min_pass_rate",), words.min_pass_rate)
    if words.evaluators is not None:
        execution = case.get("execution")
        if isinstance(execution, dict):
            case["execution"] = {key: value for key, value in execution.items() if key not in EVALUATOR_LIST_KEYS}
        _set(case, EVALUATOR_LIST_KEYS, words.evaluators)
    return case


def line_of(item: pytest.Item) -> int:
    """Return the line of a test in its file, from 1. An inherited test has none there: then that of its class."""
    file, line, _ = item.location
    if normpath(item.config.rootpath / file) == str(item.path):
        return (line or 0) + 1
    cls = getattr(item, "cls", None)
    with suppress(OSError, TypeError):
        if cls is not None and Path(inspect.getfile(cls)) == item.path:
            return inspect.getsourcelines(cls)[1]
    return 1


def python_suite(
    path: Path, line: int, case: JsonObject, target: str, *, is_asked: bool = True, hashed_id: Json = None
) -> SuiteSource:
    """Return an eval file that holds one case, written at a line of a test file.

    Args:
        path: That of the test file.
        line: The line of the test.
        case: The case, as in an eval file.
        target: The target of the test.
        is_asked: Whether no answer is there yet.
        hashed_id: The id without the number that tells the case from others of its test.
    """
    source = PythonSource(path, [case], line)
    return SuiteSource(
        path=path,
        dataset=path.stem,
        entries=(CaseEntry(0, case["id"] if isinstance(case["id"], str) else None, line, case),),
        header={},
        source=source,
        header_source=source,
        cases_key=None,
        target=target,
        threshold=None,
        problems=(),
        is_asked=is_asked,
        hashed_id=hashed_id,
        without_effect=_WITHOUT_EFFECT,
    )


def _case_of(prompt: EvalInput, files: Sequence[str | PathLike[str]]) -> dict[str, Json]:
    __tracebackhide__ = True
    if isinstance(files, str | PathLike) or not isinstance(files, Iterable):  # a text is a sequence, too
        raise TypeError(f"files: expected a list of paths, got {files!r}")
    if isinstance(prompt, str):
        parts: list[dict[str, Json]] = [{"type": "text", "value": prompt}]
        for file in files:  # A comprehension would appear as a frame in the traceback.
            parts.append({"type": "file", "value": fspath(file)})  # noqa: PERF401
        return {INPUT_KEYS[0]: [{"role": "user", "content": parts}] if files else prompt}
    if files:
        raise TypeError("files= goes with a prompt that is a text; messages name their files themselves")
    if isinstance(prompt, Mapping):
        return {str(key): _plain(value) for key, value in prompt.items()}
    if isinstance(prompt, Sequence):
        return {INPUT_KEYS[0]: _plain(prompt)}
    raise TypeError(f"expected a text, a list of messages or a case, got {type(prompt).__name__}")


def _set(case: dict[str, Json], synonyms: Collection[str], value: object) -> None:
    if value is not None:
        for key in synonyms:
            case.pop(key, None)
        case[next(iter(synonyms))] = _plain(value)


def _plain(value: Any) -> Json:
    """Return lists and mappings in the types of a YAML file. The loader reports faults in them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return fspath(value) if isinstance(value, PathLike) else value
