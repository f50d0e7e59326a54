"""Writes a baseline: a header and one line for each case, sorted, so that a diff shows cases."""

import json
from collections.abc import Mapping
from typing import Any

from pytest_agentv.models.base import Json, JsonObject
from pytest_agentv.reporting.verdicts.baseline import FORMAT, Baseline
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.statistics.repeats import passing


def baseline_text(baseline: Baseline) -> str:
    """Return the text of the file: LF, sorted keys, no answers, dates or durations."""
    header = {
        "agentv_baseline": FORMAT,
        "judge": baseline.judge,
        "repeat": baseline.repeat,
        "rolls": baseline.rolls,
        "runs": baseline.runs or None,
        "target": baseline.target,
        "target_hash": baseline.target_hash,
    }
    lines = [header, *(_line(case, baseline) for case in baseline.cases)]
    return "".join(f"{_json(line)}\n" for line in lines)


def _line(case: JudgedCase, baseline: Baseline) -> JsonObject:
    line: dict[str, Json] = {
        "case": case.name,
        "grading": case.grading_hash,
        "group": case.group,
        "hash": case.case_hash,
        "scores": [_number(score) for score in case.scores],
        "threshold": None if case.threshold is None else _number(case.threshold),
    }
    if case.threshold is not None and case.passes != passing(case.scores, case.threshold):
        line["passes"] = case.passes  # a required rubric or a hook decided
    if case.node_id != case.name and (case.eval_file or "").endswith(".py"):
        line["test"] = case.node_id  # a test, which may evaluate more than one case
    if (case.target, case.target_hash) != (baseline.target, baseline.target_hash):
        line |= {"target": case.target, "target_hash": case.target_hash}
    return line


def _number(value: float) -> float:
    return int(value) if float(value).is_integer() else value


def _json(value: Mapping[str, Any]) -> str:
    known = {key: item for key, item in value.items() if item is not None}
    return json.dumps(known, ensure_ascii=False, sort_keys=True)
