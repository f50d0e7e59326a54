"""Reads results files of any origin, and reads and writes baselines.

Values of other tools under our keys neither end a report nor mislead it: what has another shape counts as missing.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pytest_agentv.errors import FileError
from pytest_agentv.files.problems import Problem, describe_value
from pytest_agentv.model.base import LARGEST, Json, JsonObject, Record, is_measure, text_or_none
from pytest_agentv.model.results import RESULT_FIELDS, EvalResult, RepeatFigures
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.figures import whole
from pytest_agentv.reports.judged_cases import CaseKey, JudgedCase, case_of, unique_names
from pytest_agentv.reports.view import RunView
from pytest_agentv.stats.intervals import passing
from pytest_agentv.store.readers import holds_baseline, iter_foreign, skipped
from pytest_agentv.store.writers import masked_result

# Results files.

_BLANK: Final[dict[str, Any]] = {
    "timestamp": "", "dataset": "", "hits": (), "misses": (), "candidate_answer": "", "target": "",
}  # fmt: skip
"""What stands for required fields that another tool leaves out."""
TEXTS: Final = frozenset(name for name, field in RESULT_FIELDS.items() if field.size == "text")
FINDINGS: Final = frozenset(name for name, field in RESULT_FIELDS.items() if field.size == "finding")


def key_of(value: JsonObject) -> CaseKey:
    """Return the names of a result in which `result_fault` found none. The last result of each key counts."""
    names = {name: text_or_none(value.get(name)) for name in ("eval_file", "target", "node_id")}
    return CaseKey(value["eval_id"], **names)


def result_fault(value: JsonObject) -> str | None:
    """Return why a line holds no result; None if it does."""
    eval_id, score = value.get("eval_id"), value.get("score")
    if not isinstance(eval_id, str):
        return f"the result has no eval_id: expected a text, got {describe_value(eval_id)}"
    if not is_measure(score):
        is_large = isinstance(score, int | float) and LARGEST < abs(score) < math.inf
        expected = f"expected a number{f' of at most {LARGEST:g}' if is_large else ''}"
        return f"the result of {eval_id!r} has no score: {expected}, got {describe_value(score)}"
    if not 0 <= score <= 1 and not is_measure(value.get("threshold")) and not is_error(value):
        return f"the result of {eval_id!r} has the score {score:g} and no threshold: expected 0 to 1"
    return None


def is_error(value: JsonObject) -> bool:
    """Whether a case could not be judged. AgentV's own results have no status, but may have an error."""
    return value.get("error") is not None or value.get("status") == "error"


def case_in(value: JsonObject, without: Collection[str] = ()) -> JudgedCase:
    """Return the case of a result in which `result_fault` found none, `without` some of its fields."""
    threshold = value["threshold"] if is_measure(value.get("threshold")) else None
    written = value.get("status") if value.get("status") in ("pass", "fail") else None
    judged = "pass" if passing([value["score"]], threshold or 1.0) else "fail"
    group = value.get("group")
    own = {
        "status": "error" if is_error(value) else written or judged,
        "threshold": threshold,
        "group": str(group) if is_measure(group) else group,  # other tools may number them
    }
    fields = {key: item for key, item in value.items() if key in RESULT_FIELDS and key not in without}
    result = _result({**_BLANK, **fields, **own})
    if result.repeat is not None and not _adds_up(result.repeat):
        result = result.replace(repeat=None)
    return case_of(result, has_status=written is not None or threshold is not None)


def _result(fields: Mapping[str, Any]) -> EvalResult:
    """Return the result of some fields, without those that have another shape."""
    try:
        return EvalResult.from_plain(fields)
    except ValueError as error:  # pydantic's, which is not imported for this
        faults: Any = error
        foreign = {fault["loc"][0] for fault in faults.errors(include_url=False, include_input=False)}
        return EvalResult.from_plain({**_BLANK, **{key: each for key, each in fields.items() if key not in foreign}})


def _adds_up(repeat: RepeatFigures) -> bool:
    known = all(map(is_measure, repeat.scores)) and 0 <= repeat.passes <= len(repeat.scores) == repeat.judged
    fresh = repeat.confirm
    return known and (fresh is None or 0 <= fresh.passes <= fresh.judged <= fresh.asked)


def read_view(path: Path, masker: Masker | None = None, without: Collection[str] = ()) -> RunView:
    """Read a results file or a baseline, `without` some fields. Raises `FileError` if it holds no results."""
    if holds_baseline(path):
        baseline = read_baseline(path)
        return RunView(name=path.name, cases=baseline.cases, baseline=baseline)
    cases: dict[CaseKey, JudgedCase] = {}
    dropped, problems = 0, list[str]()
    for found in iter_cases(path, masker, without):
        if isinstance(found, Problem):
            problems.append(str(found))
            continue
        _, key, case = found
        dropped += cases.pop(key, None) is not None  # keeps cases in the order of their last results
        cases[key] = case
    if not cases:
        raise FileError(path, "holds no results: expected lines of JSON, or YAML documents, with eval_id and score")
    return view_of(path.name, cases.values()).replace(dropped=dropped, problems=tuple(problems))


def iter_cases(
    path: Path, masker: Masker | None = None, without: Collection[str] = ()
) -> Iterator[tuple[int, CaseKey, JudgedCase] | Problem]:
    """Yield each result with its line, and a problem for each part that holds none. Raises `FileError`."""
    for entry in iter_foreign(path):
        if isinstance(entry, Problem):
            yield entry
        elif (fault := result_fault(entry.value)) is not None:
            yield skipped(path, entry.line, fault)
        else:
            value = entry.value if masker is None else masked_result(entry.value, masker)
            yield entry.line, key_of(value), case_in(value, without)


def view_of(name: str, cases: Iterable[JudgedCase]) -> RunView:
    """Return the view of some cases. Cases of the same name get the names of their items."""
    known = unique_names(list(cases))
    return RunView(tuple(case.result for case in known), name=name, cases=tuple(known))


# Baselines, which runs are compared with.

FORMAT: Final = 1
"""The version of the file's format."""
_BETWEEN: Final = ", "
"""Between the names of judges."""


@dataclass(frozen=True, slots=True)
class Baseline(Record):
    """The answers of an earlier run that later runs are compared with."""

    cases: tuple[JudgedCase, ...]
    repeat: int = 1
    """Answers per case, of most cases."""
    target: str | None = None
    """The target of all cases; None: there are several, and the cases name them."""
    target_hash: str | None = None
    judge: str | None = None
    """The judges' names with their hashes; None: no model judged."""
    sha256: str | None = None
    """The hash of the file that it was read from."""


def baseline_of(cases: Sequence[JudgedCase]) -> Baseline:
    """Return the baseline that a run's judged cases make."""
    judged = [case for case in cases if case.scores]
    targets = sorted({(case.target, case.result.target_hash) for case in judged}, key=str)
    target, target_hash = targets[0] if len(targets) == 1 else (None, None)
    repeat = Counter(case.judged for case in judged).most_common(1)
    return Baseline(
        tuple(sorted(judged, key=lambda case: (case.name, case.target or ""))),
        repeat=repeat[0][0] if repeat else 1,
        target=target,
        target_hash=target_hash,
        judge=judges_of(judged),
    )


def judges_of(cases: Iterable[JudgedCase]) -> str | None:
    """Return the names of the judges of cases; None: no model judged."""
    judges = (case.result.judge or "" for case in cases)
    return _BETWEEN.join(sorted({name for judge in judges for name in judge.split(_BETWEEN) if name})) or None


def has_other_judge(cases: Sequence[JudgedCase], baseline: Baseline) -> bool:
    """Whether a case of a baseline has a judge that the baseline does not name."""
    known = {case.key[0] for case in baseline.cases}
    judges = (judges_of(case for case in cases if case.key[0] in known) or "").split(_BETWEEN)
    return baseline.judge is not None and not {*judges} <= {"", *baseline.judge.split(_BETWEEN)}


_SLACK: Final = 1e-9
"""A mean of ones may come out a little above 1."""


def read_baseline(path: Path) -> Baseline:
    """Read a baseline. Raises `FileError` that names the line at fault."""
    try:
        data = path.read_bytes()
        lines = data.decode("utf-8-sig").split("\n")  # not at other line separators, which ids may contain
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise FileError(path, f"the baseline cannot be read: {reason}") from None
    values = [(number, _parse(path, number, line)) for number, line in enumerate(lines, start=1) if line.strip()]
    header = _header(path, values[0][1] if values else {}).replace(sha256=hashlib.sha256(data).hexdigest())
    cases: dict[tuple[str, str | None], JudgedCase] = {}
    for number, value in values[1:]:
        case = _case(path, number, value, header)
        if case.key in cases:
            raise FileError(path, f"the case {case.name!r} is there twice", number)
        cases[case.key] = case
    return header.replace(cases=tuple(cases.values()))


def _parse(path: Path, number: int, line: str) -> dict[str, Any]:
    if line.startswith(("<<<<<<<", "=======", ">>>>>>>", "|||||||")):
        raise FileError(path, "holds the marks of a merge conflict: resolve it", number)
    try:
        value = json.loads(line)
    except ValueError as error:
        raise FileError(path, f"invalid JSON: {error}", number) from None
    if not isinstance(value, dict):
        raise FileError(path, "expected a JSON object", number)
    return value


def _header(path: Path, value: JsonObject) -> Baseline:
    """Return the first line as a header. Checks that this version can read it."""
    version = value.get("agentv_baseline")
    if type(version) is int and version > FORMAT:
        text = f"is a baseline of a later version of pytest-agentv: its format is {version}, this one reads {FORMAT}"
        raise FileError(path, text, 1)
    if type(version) is not int or version != FORMAT:
        expected = f'{{"agentv_baseline": {FORMAT}, ...}}'
        raise FileError(path, f"is not a baseline: expected a first line {expected}", 1)
    repeat = value.get("repeat", 1)
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
        raise FileError(path, "repeat: expected a whole number from 1", 1)
    return Baseline(
        (),
        repeat=repeat,
        target=_text(path, 1, value, "target"),
        target_hash=_text(path, 1, value, "target_hash"),
        judge=_text(path, 1, value, "judge"),
    )


def _case(path: Path, number: int, value: JsonObject, header: Baseline) -> JudgedCase:
    name, scores, threshold = value.get("case"), value.get("scores"), value.get("threshold")
    if not isinstance(name, str):
        raise FileError(path, "case: expected a text", number)
    if not isinstance(scores, list) or not scores or not all(map(_is_share, scores)):
        raise FileError(path, "scores: expected a list of numbers from 0 to 1", number)
    if threshold is not None and not _is_share(threshold):
        raise FileError(path, "threshold: expected a number from 0 to 1", number)
    counted = 0 if threshold is None else passing(scores, threshold)
    passes = value.get("passes", counted)
    if isinstance(passes, bool) or not isinstance(passes, int) or not 0 <= passes <= len(scores):
        raise FileError(path, f"passes: expected a number from 0 to {len(scores)}", number)
    eval_file, _, eval_id = name.partition("::")
    node_id = _text(path, number, value, "test")
    if node_id is not None and name.startswith(f"{node_id}::"):
        eval_id = name.removeprefix(f"{node_id}::")
    judged = len(scores)
    result = EvalResult(
        **_BLANK | {"target": _text(path, number, value, "target") or header.target or ""},
        eval_id=eval_id,
        eval_file=eval_file,
        node_id=node_id,
        score=math.fsum(scores) / judged,
        threshold=threshold,
        target_hash=_text(path, number, value, "target_hash") or header.target_hash,
        group=_text(path, number, value, "group"),
        case_hash=_text(path, number, value, "hash"),
        grading_hash=_text(path, number, value, "grading"),
        repeat=RepeatFigures(judged, judged, judged, passes, 0, 0, 0.0, "default", tuple(map(float, scores))),
    )
    return case_of(result).replace(name=name)


def _text(path: Path, number: int, value: JsonObject, key: str) -> str | None:
    text = value.get(key)
    if text is not None and not isinstance(text, str):
        raise FileError(path, f"{key}: expected a text", number)
    return text


def _is_share(value: object) -> bool:
    return is_measure(value) and -_SLACK <= value <= 1 + _SLACK


# Writes a baseline: a header and one line for each case, sorted, so that a diff shows cases.


def baseline_text(baseline: Baseline) -> str:
    """Return the text of the file: LF, sorted keys, no answers, dates or durations."""
    header = {
        "agentv_baseline": FORMAT,
        "judge": baseline.judge,
        "repeat": baseline.repeat,
        "target": baseline.target,
        "target_hash": baseline.target_hash,
    }
    lines = [header, *(_line(case, baseline) for case in baseline.cases)]
    known = ({key: item for key, item in line.items() if item is not None} for line in lines)
    return "".join(f"{json.dumps(line, ensure_ascii=False, sort_keys=True)}\n" for line in known)


def _line(case: JudgedCase, baseline: Baseline) -> JsonObject:
    line: dict[str, Json] = {
        "case": case.name,
        "grading": case.result.grading_hash,
        "group": case.result.group or case.result.conversation_id or None,
        "hash": case.result.case_hash,
        "scores": [whole(score) for score in case.scores],
        "threshold": None if case.threshold is None else whole(case.threshold),
    }
    if case.threshold is not None and case.passes != passing(case.scores, case.threshold):
        line["passes"] = case.passes  # a required rubric or a hook decided
    if case.node_id != case.name and (case.eval_file or "").endswith(".py"):
        line["test"] = case.node_id  # a test, which may evaluate more than one case
    own = {"target": case.target, "target_hash": case.result.target_hash}
    if own != {"target": baseline.target, "target_hash": baseline.target_hash}:
        line |= own
    return line
