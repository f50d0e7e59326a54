"""Reads results files of any origin, and baselines, as the view of a run, and compares two views.

Values of other tools under our keys neither end a report nor mislead it: what has another shape counts as missing.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pytest_agentv.errors import FileError
from pytest_agentv.files.problems import Problem, describe_value
from pytest_agentv.model.base import LARGEST, Json, JsonObject, is_measure, text_or_none
from pytest_agentv.model.options import DEFAULT_MARGIN
from pytest_agentv.model.results import RESULT_FIELDS, EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.baseline import baseline_of, read_baseline
from pytest_agentv.reports.judged_cases import (
    CaseComparison,
    CaseKey,
    JudgedCase,
    Pair,
    case_of,
    pair_cases,
    shared_key,
    unique_names,
)
from pytest_agentv.reports.verdict import RunStatistics, compare_runs, compare_with_baseline, judge_run, run_statistics
from pytest_agentv.reports.view import Change, ChangeWord, RunView
from pytest_agentv.stats.intervals import passing
from pytest_agentv.store.readers import iter_foreign, skipped
from pytest_agentv.store.writers import masked_result

_BLANK: Final[JsonObject] = {
    "timestamp": "", "dataset": "", "hits": (), "misses": (), "candidate_answer": "", "target": "",
}  # fmt: skip
"""What stands for required fields that another tool leaves out."""
_MOST_FAULTS: Final = 20
"""Parts of a result that are left out one by one. If there are more, whole fields are."""
_FRESH: Final = ("asked", "judged", "passes")
_COUNTS: Final = ("planned", "asked", "judged", "passes", "errors", "needed")
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
    scores = _mapping(value.get("repeat")).get("scores", [score])
    if not isinstance(scores, list | tuple) or not all(map(is_measure, scores)):
        return f"the result of {eval_id!r} has no repeat.scores: expected a list of numbers"
    outside = [each for each in scores if not 0 <= each <= 1]
    if outside and not is_measure(value.get("threshold")) and not is_error(value):
        return f"the result of {eval_id!r} has the score {outside[0]:g} and no threshold: expected 0 to 1"
    return None


def is_error(value: JsonObject) -> bool:
    """Whether a case could not be judged. AgentV's own results have no status, but may have an error."""
    return value.get("error") is not None or value.get("status") == "error"


def case_in(value: JsonObject, without: Collection[str] = ()) -> JudgedCase:
    """Return the case of a result in which `result_fault` found none, `without` some of its fields."""
    threshold = value["threshold"] if is_measure(value.get("threshold")) else None
    written = value.get("status") if value.get("status") in ("pass", "fail") else None
    repeat = _repeat(_mapping(value.get("repeat")), value["score"], threshold, written)
    status = "error" if is_error(value) else written
    if status is None:
        counts = (repeat["passes"], repeat["judged"]) if repeat else (passing([value["score"]], threshold or 1.0), 1)
        status = "pass" if counts[0] == counts[1] else "fail"
    group = value.get("group")
    own = {
        "status": status,
        "threshold": threshold,
        "repeat": repeat,
        "group": str(group) if is_measure(group) else group,  # other tools may number them
    }
    fields = {key: item for key, item in value.items() if key in RESULT_FIELDS and key not in without}
    result = _result({**_BLANK, **fields, **own})
    return case_of(result, has_status=written is not None or threshold is not None)


def _result(fields: Mapping[str, Any]) -> EvalResult:
    """Return the result of some fields, without the parts that have another shape."""
    known: Any = fields
    for number in itertools.count():
        try:
            return EvalResult.from_plain(known)
        except ValueError as error:  # pydantic's, which is not imported for this
            faults: Any = error
            fault = faults.errors(include_url=False, include_input=False)[0]
            place = fault["loc"][:-1] if fault["type"].startswith("missing") else fault["loc"]
            known = {**_BLANK, **_without(known, place if number < _MOST_FAULTS else place[:1])}
    raise AssertionError


def _without(value: Json, place: Sequence[str | int]) -> Json:
    """Return data without what stands at a place, or without the part of it that is there."""
    name, *rest = place
    if isinstance(value, Mapping):
        kept = {key: item for key, item in value.items() if key != name}
        inner = value.get(name)
        return {**kept, name: _without(inner, rest)} if rest and isinstance(inner, Mapping | list | tuple) else kept
    if isinstance(name, int) and name < len(value):
        whole = [_without(value[name], rest)] if rest and isinstance(value[name], Mapping | list | tuple) else []
        return [*value[:name], *whole, *value[name + 1 :]]
    return [] if isinstance(value, list | tuple) else value


def _repeat(repeat: JsonObject, score: float, threshold: float | None, status: str | None) -> JsonObject | None:
    """Return the figures of several answers, with those that another tool leaves out; None: there are none."""
    counts = {name: count for name in _COUNTS if type(count := repeat.get(name)) is int and count >= 0}
    if not counts and "scores" not in repeat:
        return None
    scores = [float(each) for each in repeat.get("scores", [score])]
    passes = passing(scores, threshold) if threshold is not None else 0
    if len(scores) == 1 and status is not None:  # a required rubric or a hook may have decided
        passes = int(status == "pass")
    fresh = _mapping(repeat.get("confirm"))
    asked, judged, passed = (count if type(count := fresh.get(name)) is int else -1 for name in _FRESH)
    planned = counts.get("planned") or counts.get("asked") or len(scores)
    others: dict[str, Json] = {
        "asked": planned,
        "judged": len(scores),
        "errors": 0,
        "needed": planned,
        "min_pass_rate": 1.0,
    }
    others |= {"min_pass_rate_source": "", "scores": scores}
    return {
        **others,
        **repeat,
        **counts,
        "planned": planned,
        "passes": min(counts.get("passes", passes), len(scores)),
        "confirm": {**others, "planned": asked, "scores": [], **fresh} if 0 <= passed <= judged <= asked else None,
    }


def _mapping(value: Json) -> JsonObject:
    return value if isinstance(value, Mapping) else {}


def read_view(path: Path, masker: Masker | None = None, without: Collection[str] = ()) -> RunView:
    """Read a results file or a baseline. Raises `FileError` if it cannot be read or holds no results.

    Args:
        path: The file.
        masker: Masks secrets that the run did not know.
        without: Fields that nobody needs, such as long texts.
    """
    cases: dict[CaseKey, JudgedCase] = {}
    dropped, problems = 0, list[str]()
    for entry in iter_foreign(path):
        if isinstance(entry, Problem):
            problems.append(str(entry))
        elif "agentv_baseline" in entry.value and not cases and not problems:
            baseline = read_baseline(path)
            return RunView(name=path.name, cases=baseline.cases, baseline=baseline)
        elif (fault := result_fault(entry.value)) is not None:
            problems.append(str(skipped(path, entry.line, fault)))
        else:
            value = entry.value if masker is None else masked_result(entry.value, masker)
            key = key_of(value)
            dropped += cases.pop(key, None) is not None  # keeps cases in the order of their last results
            cases[key] = case_in(value, without)
    if not cases:
        raise FileError(path, "holds no results: expected lines of JSON, or YAML documents, with eval_id and score")
    return view_of(path.name, cases.values()).replace(dropped=dropped, problems=tuple(problems))


def view_of(name: str, cases: Iterable[JudgedCase]) -> RunView:
    """Return the view of some cases. Cases of the same name get the names of their items."""
    known = unique_names(list(cases))
    return RunView(tuple(case.result for case in known if case.result is not None), name=name, cases=tuple(known))


# Compares a run with an earlier one, case by case, in the same way as the gates.

_NOT_COMPARED: Final[Mapping[str, Change]] = {
    "new": Change("new", "the baseline has no such case"),
    "changed": Change("changed", "its text, evaluators or threshold are others, so it is not compared"),
    "error": Change("error", "one of the two runs could not judge it"),
}


def compared(
    run: RunView, base: RunView | None, *, margin: float = DEFAULT_MARGIN, is_confirming: bool | None = None
) -> RunView:
    """Return a run with its statistics and, if there is a base, what changed.

    `is_confirming`: whether suspects were asked again; None: decide by the results.
    """
    if base is None:
        return run.replace(statistics=run_statistics(run.cases))
    cases = run.cases
    key = shared_key(cases, base.cases) if base.baseline is None else None
    if is_confirming is None:
        is_confirming = any(case.confirmation is not None for case in cases)
    found = {case.key for case in cases}
    left = [old for old in base.cases if (old.name, old.target) in run.ending.skipped and old.key not in found]
    if base.baseline is not None:
        statistics = compare_with_baseline(
            cases, base.baseline, base.name, skipped=left, margin=margin, is_confirming=is_confirming
        )
    else:
        pairing = pair_cases(cases, base.cases, shared_key(cases, base.cases), left)
        comparison = compare_runs(cases, base.cases, margin=margin, is_confirming=is_confirming, pairing=pairing)
        baseline = baseline_of(base.cases)
        statistics = judge_run(comparison.replace(baseline=baseline, baseline_name=base.name), cases)
    return run.replace(statistics=statistics, base=base, changes=_changes(run, base, statistics, key))


def _changes(
    run: RunView, base: RunView, statistics: RunStatistics, key: Callable[[JudgedCase], CaseKey] | None
) -> dict[str, Change]:
    """Return how each case changed, by its label. `key` matches results; None: a baseline holds none."""
    comparison = statistics.comparison
    if comparison is None:
        return {}
    pairs = {pair.new.label: pair for pair in (*comparison.pairing.pairs, *comparison.pairing.errors)}
    known = {(each.case, each.target): each for each in comparison.cases if each.state not in ("gone", "skipped")}
    before = {} if key is None else {key(case): case.result for case in base.cases}
    changes: dict[str, Change] = {}
    for case in run.cases:
        if (each := known.get((case.name, case.target))) is not None:
            earlier = None if key is None else before.get(key(case))
            changes[case.label] = _change(each, pairs.get(case.label), earlier)
    return changes


def _change(comparison: CaseComparison, pair: Pair | None, before: EvalResult | None) -> Change:
    if pair is None or comparison.state != "compared":
        return _NOT_COMPARED[comparison.state].replace(before=before)
    delta = comparison.delta or 0.0
    word: ChangeWord = "broken" if comparison.broke else "worse" if delta < 0 else "better" if delta > 0 else "same"
    chance = {"broken": f"; unlikely to be chance (q {comparison.q or 0:.2g})", "same": ""}.get(word, "; may be chance")
    again = f"{pair.new.confirmation.passes}/{pair.new.confirmation.judged}" if pair.new.confirmation else ""
    old, new = _tally(pair.old), _tally(pair.new)
    asked, short = (f", asked again {again}", f", again {again}") if again else ("", "")
    return Change(word, f"baseline {old}, now {new}{asked}{chance}", f"{old} → {new}{short}", delta, before)


def _tally(case: JudgedCase) -> str:
    return f"{case.value:.2f}" if case.threshold is None else f"{case.passes}/{case.judged}"
