"""Reads cases from results of any origin. Values of other tools under our keys must not crash or mislead us."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from pytest_agentv.loading.problems import Problem, describe_value
from pytest_agentv.models.base import Json, JsonObject, is_measure, text_or_none
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.figures import with_id
from pytest_agentv.reporting.readers import iter_foreign, skipped
from pytest_agentv.reporting.verdicts.cases import Confirmation, JudgedCase, limit_of, unique_names
from pytest_agentv.statistics.repeats import Verdict, passing

_STOPS: Final[Mapping[str, Verdict]] = {"certain pass": "pass", "certain fail": "fail"}
_HASHES: Final = ("case_hash", "grading_hash", "target_hash")
_NAMES: Final = ("target", "eval_file", "node_id", "judge", "in_baseline")
_FLAGS: Final = ("cached", "dry_run", "reruns")

_READ: Final = (
    *(*_NAMES, *_HASHES, "group", "conversation_id", "eval_id", "score", "status", "error", "threshold", "tags"),
    *("required", "cached", "dry_run", "timestamp"),
)


class CaseName(NamedTuple):
    """The names of a case and of its target. The last result of each name counts, for all who read a results file."""

    node_id: str | None
    eval_file: str | None
    eval_id: str
    target: str | None

    @property
    def label(self) -> str:
        """The name to show."""
        if self.node_id is not None:
            return with_id(self.node_id, self.eval_file, self.eval_id)
        return f"{self.eval_file}::{self.eval_id}" if self.eval_file else self.eval_id


def name_of(value: JsonObject) -> CaseName:
    """Return the name of a result in which `result_fault` found none."""
    node_id, eval_file, target = (text_or_none(value.get(key)) for key in ("node_id", "eval_file", "target"))
    return CaseName(node_id, eval_file, value["eval_id"], target)


def name_of_result(result: EvalResult) -> CaseName:
    return CaseName(result.node_id, result.eval_file, result.eval_id, result.target)


def cases_of_run(results: Iterable[EvalResult]) -> list[JudgedCase]:
    """Return the cases of a run. Cases of the same name get the names of their items."""
    return unique_names([case_of(_plain(result)) for result in results])


def read_cases(path: Path) -> tuple[list[JudgedCase], list[Problem]]:
    """Read the cases of a results file, and what could not be read. The last line of a case counts.

    Cases of the same name keep it, because other files of the run may have more of them.
    Raises `FileError` if the file cannot be opened.
    """
    cases: dict[CaseName, JudgedCase] = {}
    problems: list[Problem] = []
    for entry in iter_foreign(path):
        fault = None if isinstance(entry, Problem) else result_fault(entry.value)
        if isinstance(entry, Problem):
            problems.append(entry)
        elif fault is not None:
            problems.append(skipped(path, entry.line, fault))
        else:
            cases[name_of(entry.value)] = case_of(entry.value)
    return list(cases.values()), problems


def score_fault(value: JsonObject) -> str | None:
    """Return why a line holds no score of a case; None if it does."""
    eval_id, score = value.get("eval_id"), value.get("score")
    if not isinstance(eval_id, str):
        return f"the result has no eval_id: expected a text, got {describe_value(eval_id)}"
    if not is_measure(score):
        return (
            f"the result of {eval_id!r} has no score: expected a number{limit_of(score)}, got {describe_value(score)}"
        )
    return None


def result_fault(value: JsonObject) -> str | None:
    """Return why a line holds no result; None if it does."""
    if (fault := score_fault(value)) is not None:
        return fault
    eval_id, score = value["eval_id"], value["score"]
    scores = _repeat(value).get("scores", [score])
    if not isinstance(scores, list | tuple) or not all(map(is_measure, scores)):
        return f"the result of {eval_id!r} has no repeat.scores: expected a list of numbers"
    outside = [each for each in scores if not 0 <= each <= 1]
    if outside and not is_measure(value.get("threshold")) and not is_error_of(value):
        return f"the result of {eval_id!r} has the score {outside[0]:g} and no threshold: expected 0 to 1"
    return None


def is_part(value: JsonObject, key: str) -> bool:
    """Whether a figure covers only some answers of a result: `priced` for the cost, `metered` for tokens."""
    repeat = _repeat(value)
    confirm = repeat.get("confirm")
    return any(is_measure(part.get(key)) for part in (repeat, confirm) if isinstance(part, Mapping))


def ended_at(timestamp: Json) -> datetime | None:
    """Return when a case ended; None: the text of a result does not say so."""
    try:
        time = datetime.fromisoformat(timestamp) if isinstance(timestamp, str) else None
    except ValueError:
        return None
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time


def case_of(value: JsonObject) -> JudgedCase:
    """Return the case of a result in which `result_fault` found none."""
    texts = {name: text_or_none(value.get(name)) for name in (*_NAMES, *_HASHES)}
    repeat, is_error = _repeat(value), is_error_of(value)
    threshold = value["threshold"] if is_measure(value.get("threshold")) else None
    scores = () if is_error else tuple(float(score) for score in repeat.get("scores", [value["score"]]))
    return JudgedCase(
        name=_name(value["eval_id"], texts["eval_file"], texts["node_id"]),
        scores=scores,
        passes=_passes(value, repeat, scores, threshold),
        threshold=threshold,
        is_error=is_error,
        asked=_asked(repeat, len(scores)),
        stopped=_STOPS.get(text_or_none(repeat.get("stopped")) or ""),
        errors=_count(repeat.get("errors")) or 0,
        eval_id=value["eval_id"],
        group=_group(value),
        tags=tuple(filter(text_or_none, _items(value.get("tags")))),
        required=value.get("required") is True,
        confirmation=_confirmation(repeat.get("confirm")),
        flags=tuple(flag for flag in _FLAGS if value.get(flag) or repeat.get(flag)),
        has_same_texts=same if isinstance(same := repeat.get("same_text"), bool) else None,
        tools=_tools(repeat.get("tools")),
        ended=ended_at(value.get("timestamp")),
        **texts,
    )


def _plain(result: EvalResult) -> dict[str, Json]:
    """Return the keys of a result that `case_of` reads. Leaves out traces and texts, which are large."""
    plain = {key: getattr(result, key) for key in _READ}
    return plain | ({"repeat": result.repeat.to_plain()} if result.repeat is not None else {})


def _repeat(value: JsonObject) -> JsonObject:
    """Return the figures of several answers; empty where there are none, or only another tool's key of that name."""
    repeat = value.get("repeat")
    return repeat if isinstance(repeat, Mapping) else {}


def is_error_of(value: JsonObject) -> bool:
    """Whether a case could not be judged. AgentV's own results have no status, but may have an error."""
    return value.get("error") is not None or value.get("status") == "error"


def _name(eval_id: str, eval_file: str | None, node_id: str | None) -> str:
    return f"{eval_file}::{eval_id}" if eval_file else node_id or eval_id


def _group(value: JsonObject) -> str | None:
    """Return the group of a case, which other tools may count: cases of one group are never independent."""
    for found in (value.get("group"), value.get("conversation_id")):
        if found and (isinstance(found, str) or is_measure(found)):
            return str(found)
    return None


def _passes(value: JsonObject, repeat: JsonObject, scores: Sequence[float], threshold: float | None) -> int:
    """Return how many answers passed. The run's decisions (required rubrics, hooks) come before the scores."""
    passes = _count(repeat.get("passes"))
    if passes is not None:
        return min(passes, len(scores))
    if len(scores) == 1 and value.get("status") in ("pass", "fail"):
        return int(value["status"] == "pass")
    return 0 if threshold is None else passing(scores, threshold)


def _asked(repeat: JsonObject, judged: int) -> int:
    """Return how many answers were planned."""
    counts = (_count(repeat.get("planned")), _count(repeat.get("asked")), judged)
    return next(count for count in (*counts, 1) if count)


def _confirmation(value: Json) -> Confirmation | None:
    known = value if isinstance(value, Mapping) else {}
    asked, judged, passes = (_count(known.get(key)) for key in ("asked", "judged", "passes"))
    if asked is None or judged is None or passes is None or not passes <= judged <= asked:
        return None
    return Confirmation(asked, judged, passes)


def _tools(value: Json) -> tuple[tuple[str, ...], ...] | None:
    if not isinstance(value, list | tuple):
        return None
    return tuple(tuple(filter(text_or_none, _items(tools))) for tools in value)


def _items(value: Json) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _count(value: Json) -> int | None:
    return value if type(value) is int and value >= 0 else None
