"""The answers of cases, read from results of any origin."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_agentv.loading.problems import Problem, describe_value
from pytest_agentv.models.base import Json, JsonObject, Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.readers import iter_entries
from pytest_agentv.statistics.repeats import Verdict, pass_rate, passing

_STOPS: Final[Mapping[str, Verdict]] = {"certain pass": "pass", "certain fail": "fail"}
_HASHES: Final = ("case_hash", "grading_hash", "target_hash")
_NAMES: Final = ("target", "eval_file", "node_id", "group", "judge")

_READ: Final = (
    *(*_NAMES, *_HASHES, "conversation_id", "eval_id", "score", "status", "error", "threshold", "tags", "required"),
    *("cached", "dry_run"),
)


@record
class Confirmation(Record):
    """Fresh answers of a case that looked broken."""

    asked: int
    judged: int
    passes: int


@record
class JudgedCase(Record):
    """A case of a run or a baseline, and what its answers scored."""

    name: str
    """`<eval file>::<id>`, or what the results know of it."""
    scores: tuple[float, ...] = ()
    """The scores of the judged answers; empty if the case could not be judged."""
    passes: int = 0
    threshold: float | None = None
    """None: unknown, so that scores are compared instead of passes."""
    is_error: bool = False
    asked: int = 1
    """Answers that were to be asked; an early stop leaves some out."""
    stopped: Verdict | None = None
    """The verdict that ended the questions early."""
    eval_id: str = ""
    eval_file: str | None = None
    node_id: str | None = None
    target: str | None = None
    group: str | None = None
    """Cases of one group are not independent."""
    tags: tuple[str, ...] = ()
    required: bool = False
    case_hash: str | None = None
    grading_hash: str | None = None
    target_hash: str | None = None
    judge: str | None = None
    confirmation: Confirmation | None = None
    flags: tuple[str, ...] = ()
    """Why the answers are no base for later runs: `cached`, `dry_run`, `reruns`."""
    has_same_texts: bool | None = None
    """Whether all answers were the same text; None: not known."""
    tools: tuple[tuple[str, ...], ...] | None = None
    """The tools that each judged answer called; None: not known."""

    @property
    def judged(self) -> int:
        return len(self.scores)

    @property
    def value(self) -> float:
        """The pass rate, or the mean score where no threshold is known."""
        if self.threshold is None:
            return sum(self.scores) / len(self.scores)
        return pass_rate(self.passes, self.judged, self.stopped)

    @property
    def outcomes(self) -> tuple[float, ...]:
        """One number for each answer: 1 if it passed, else 0; its score where no threshold is known."""
        if self.threshold is None:
            return self.scores
        return (1.0,) * self.passes + (0.0,) * (self.judged - self.passes)


def cases_of_run(results: Iterable[EvalResult]) -> list[JudgedCase]:
    """Return the cases of a run. Cases of one name are told apart by their items."""
    return unique_names([case_of(_plain(result)) for result in results])


def read_cases(path: Path) -> tuple[list[JudgedCase], list[Problem]]:
    """Read the cases of a results file, and what could not be read. The last line of a case counts.

    Raises `FileError` if the file cannot be opened.
    """
    cases: dict[tuple[object, ...], JudgedCase] = {}
    problems: list[Problem] = []
    for entry in iter_entries(path):
        fault = None if isinstance(entry, Problem) else result_fault(entry.value)
        if isinstance(entry, Problem):
            problems.append(entry)
        elif fault is not None:
            problems.append(Problem(path, entry.line, "", f"{fault}; it was skipped", level="warning"))
        else:
            case = case_of(entry.value)
            cases[case.name, case.target, case.node_id] = case
    return unique_names(list(cases.values())), problems


def result_fault(value: JsonObject) -> str | None:
    """Return why a line holds no result; None if it does."""
    eval_id, score = value.get("eval_id"), value.get("score")
    if not isinstance(eval_id, str):
        return f"the result has no eval_id: expected a text, got {describe_value(eval_id)}"
    if not is_number(score):
        return f"the result of {eval_id!r} has no score: expected a number, got {describe_value(score)}"
    repeat = value.get("repeat")
    scores = repeat.get("scores") if isinstance(repeat, Mapping) else []
    if not isinstance(scores, list | tuple) or not all(map(is_number, scores)):
        return f"the result of {eval_id!r} has no repeat.scores: expected a list of numbers"
    return None


def case_of(value: JsonObject) -> JudgedCase:
    """Return the case of a result in which `result_fault` found none."""
    names = {name: value.get(name) for name in (*_NAMES, *_HASHES)}
    texts: dict[str, Any] = {name: text if isinstance(text, str) else None for name, text in names.items()}
    texts["group"] = texts["group"] or value.get("conversation_id")
    repeat = value.get("repeat") or {}
    is_error = value.get("error") is not None or value.get("status") == "error"
    threshold = value["threshold"] if is_number(value.get("threshold")) else None
    scores = tuple(float(score) for score in repeat.get("scores", [value["score"]])) if not is_error else ()
    return JudgedCase(
        name=_name(value["eval_id"], texts["eval_file"], texts["node_id"]),
        scores=scores,
        passes=_passes(value, repeat, scores, threshold),
        threshold=threshold,
        is_error=is_error,
        asked=repeat.get("planned", repeat.get("asked", 1)),
        stopped=_STOPS.get(repeat.get("stopped") or ""),
        eval_id=value["eval_id"],
        tags=tuple(tag for tag in value.get("tags") or () if isinstance(tag, str)),
        required=bool(value.get("required")),
        confirmation=_confirmation(repeat.get("confirm")),
        flags=tuple(flag for flag in ("cached", "dry_run", "reruns") if value.get(flag) or repeat.get(flag)),
        has_same_texts=repeat.get("same_text"),
        tools=tuple(map(tuple, tools)) if (tools := repeat.get("tools")) is not None else None,
        **texts,
    )


def unique_names(cases: Sequence[JudgedCase]) -> list[JudgedCase]:
    """Give cases of one file, id and target the names of their items."""
    counts: dict[tuple[str, str | None], int] = {}
    for case in cases:
        counts[case.name, case.target] = counts.get((case.name, case.target), 0) + 1
    return [case.replace(name=_item_name(case)) if counts[case.name, case.target] > 1 else case for case in cases]


def groups_of(cases: Sequence[JudgedCase]) -> list[str] | None:
    """Return the group of each case, its own where it has none; None where no two cases share one."""
    groups = Counter(case.group for case in cases if case.group is not None)
    if max(groups.values(), default=0) < 2:
        return None
    return [f"group {case.group}" if case.group is not None else f"case {i}" for i, case in enumerate(cases)]


def is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and abs(value) <= sys.float_info.max


def _plain(result: EvalResult) -> dict[str, Json]:
    """Return the keys of a result that `case_of` reads: its traces and texts are large."""
    plain = {key: getattr(result, key) for key in _READ}
    return plain | ({"repeat": result.repeat.to_plain()} if result.repeat is not None else {})


def _name(eval_id: str, eval_file: str | None, node_id: str | None) -> str:
    return f"{eval_file}::{eval_id}" if eval_file else node_id or eval_id


def _item_name(case: JudgedCase) -> str:
    if case.node_id is None or case.node_id.endswith(f"::{case.eval_id}"):
        return case.node_id or case.name
    return f"{case.node_id}::{case.eval_id}"


def _passes(value: JsonObject, repeat: JsonObject, scores: Sequence[float], threshold: float | None) -> int:
    """Return how many answers passed: what the run decided (required rubrics, hooks) comes before the scores."""
    if "passes" in repeat:
        return min(int(repeat["passes"]), len(scores))
    if len(scores) == 1 and value.get("status") in ("pass", "fail"):
        return int(value["status"] == "pass")
    return 0 if threshold is None else passing(scores, threshold)


def _confirmation(value: JsonObject | None) -> Confirmation | None:
    return Confirmation(value["asked"], value["judged"], value["passes"]) if value else None
