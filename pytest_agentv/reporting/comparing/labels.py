"""People's labels of cases, and how far a judge agrees with them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from pytest_agentv.errors import FileError
from pytest_agentv.loading.problems import Problem, describe_value
from pytest_agentv.loading.tables.delimited import read_delimited
from pytest_agentv.models.base import JsonObject, Record, is_measure
from pytest_agentv.models.records import record
from pytest_agentv.reporting.readers import iter_entries
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.statistics.agreement import (
    Confusion,
    CorrectedRate,
    confusion,
    corrected_rate,
    kappa,
    krippendorff_alpha,
)
from pytest_agentv.statistics.repeats import passing

_WORDS: Final = {"pass": 1.0, "true": 1.0, "yes": 1.0, "good": 1.0, "fail": 0.0, "false": 0.0, "no": 0.0, "bad": 0.0}
_DIGITS: Final = 9
_HALF: Final = 0.5


@record
class Label(Record):
    """A person's label of a case."""

    eval_id: str
    """The id of the case, or its node id."""
    value: float
    """0 to 1."""
    path: Path
    """The file of labels."""
    line: int
    eval_file: str | None = None
    target: str | None = None
    rater: str = ""


@record
class Agreement(Record):
    """How far a judge agrees with labels."""

    cases: int
    """Judged cases that have a label."""
    confusion: Confusion
    kappa: float | None
    """None: both are constant."""
    linear_kappa: float | None
    """For labels on a scale; None for pass or fail."""
    quadratic_kappa: float | None
    alpha: float | None
    """Krippendorff's alpha of the people, where several label."""
    raters: int
    corrected: CorrectedRate | None
    """The pass rate of all cases, corrected by the labels; None: too few labels."""
    unlabelled: int
    unmatched: int
    """Labels of cases that have no result, or that could not be judged."""
    split: int = 0
    """Judged cases that as many people pass as fail: they have no label."""


def read_labels(path: Path, scale: tuple[float, float]) -> list[Label]:
    """Read labels: CSV, or results-like JSONL or YAML, with `eval_id` and `label`. Raises `FileError`."""
    labels = [_label(path, line, value, scale) for line, value in _entries(path)]
    if not labels:
        raise FileError(path, "holds no labels: expected lines with eval_id and label")
    return labels


def agree(labels: Sequence[Label], cases: Sequence[JudgedCase]) -> Agreement | None:
    """Compare the verdicts of a run with labels; None if no case is both judged and labelled.

    Raises `FileError` for a label that fits several cases: a label is of one answer, and it does not tell of which.
    """
    judged = [case for case in cases if case.scores]
    by_case, unmatched = _by_case(labels, judged)
    if not by_case:
        return None
    is_scale = any(label.value not in (0, 1) for label in labels)
    votes = {index: _majority(group, judged[index]) for index, group in by_case.items()}
    chosen = {index: vote for index, vote in votes.items() if vote is not None}
    labelled = [judged[index] for index in chosen]
    verdicts, said = [_passes(case) for case in labelled], list(chosen.values())
    scores = [round(math.fsum(case.scores) / case.judged, _DIGITS) for case in labelled]
    ratings = [round(fmean(label.value for label in by_case[index]), _DIGITS) for index in chosen]
    others = [float(_passes(case)) for index, case in enumerate(judged) if index not in by_case]
    ours, theirs = list(map(float, verdicts)), list(map(float, said))
    raters = sorted({label.rater for label in labels})
    return Agreement(
        cases=len(labelled),
        confusion=confusion(verdicts, said),
        kappa=kappa(ours, theirs),
        linear_kappa=kappa(scores, ratings, "linear") if is_scale else None,
        quadratic_kappa=kappa(scores, ratings, "quadratic") if is_scale else None,
        alpha=_alpha(by_case.values(), raters, is_scale=is_scale),
        raters=len(raters),
        corrected=corrected_rate(ours, theirs, others),
        unlabelled=len(others),
        unmatched=unmatched,
        split=len(votes) - len(chosen),
    )


def _by_case(labels: Sequence[Label], cases: Sequence[JudgedCase]) -> tuple[dict[int, list[Label]], int]:
    """Return the labels by the positions of their cases, and how many labels have no case."""
    named: dict[str | None, list[int]] = {}
    for index, case in enumerate(cases):
        for name in {case.eval_id, case.node_id}:
            named.setdefault(name, []).append(index)
    found: dict[int, list[Label]] = {}
    unmatched = 0
    for label in labels:
        indexes = [index for index in named.get(label.eval_id, ()) if _is_in(label, cases[index])]
        if len(indexes) > 1:
            raise FileError(label.path, _ambiguity(label, [cases[index] for index in indexes]), label.line)
        unmatched += not indexes
        for index in indexes:
            found.setdefault(index, []).append(label)
    return found, unmatched


def _ambiguity(label: Label, cases: Sequence[JudgedCase]) -> str:
    """Return what is wrong with a label that fits several cases, and what to write instead."""
    values = {key: sorted({str(getattr(case, key)) for case in cases}) for key in ("target", "eval_file")}
    missing = {key: texts for key, texts in values.items() if len(texts) > 1}
    node_ids = [case.node_id or case.name for case in cases]
    told = [f"{key} {', '.join(texts)}" for key, texts in missing.items()] or [", ".join(node_ids)]
    write = f"add {' and '.join(missing)}" if missing else f"write its node id as eval_id: {node_ids[0]}"
    fits = f"fits {len(cases)} results ({'; '.join(told)})"
    return f"eval_id {label.eval_id!r}: {fits}, but a label is of one answer: {write}"


def _entries(path: Path) -> Iterator[tuple[int, JsonObject]]:
    if path.suffix.lower() in (".csv", ".tsv"):
        for row in read_delimited(path):
            if row.fault is not None:
                raise FileError(path, row.fault, row.number)
            yield row.number, {key: text for key, text in row.values.items() if text}
        return
    for entry in iter_entries(path):
        if isinstance(entry, Problem):
            raise FileError(path, entry.message, entry.line)
        yield entry.line, entry.value


def _label(path: Path, line: int, value: JsonObject, scale: tuple[float, float]) -> Label:
    eval_id = value.get("eval_id", value.get("id"))
    if not isinstance(eval_id, str):
        raise FileError(path, f"eval_id: expected a text, got {describe_value(eval_id)}", line)
    texts: Mapping[str, Any] = {
        key: text for key in ("eval_file", "target", "rater") if isinstance(text := value.get(key), str)
    }
    return Label(eval_id, _value(path, line, value.get("label"), scale), path, line, **texts)


def _value(path: Path, line: int, label: object, scale: tuple[float, float]) -> float:
    low, high = scale
    if isinstance(label, bool):
        return float(label)
    word = label.strip().lower() if isinstance(label, str) else ""
    if word in _WORDS:
        return _WORDS[word]
    try:
        number = float(word) if word else label
    except ValueError:
        number = None
    if not is_measure(number) or not low <= number <= high:
        expected = f"expected pass, fail or a number from {low:g} to {high:g}"
        raise FileError(path, f"label: {expected}, got {describe_value(label)}", line)
    return (number - low) / (high - low)


def _is_in(label: Label, case: JudgedCase) -> bool:
    """Whether the file and the target of a label, if it names them, are those of a case."""
    same_file = label.eval_file is None or label.eval_file == case.eval_file
    return same_file and (label.target is None or label.target == case.target)


def _passes(case: JudgedCase) -> bool:
    """Whether a case passes; of several answers, whether most do."""
    if case.threshold is None:
        return sum(case.scores) / case.judged >= _HALF
    return 2 * case.passes > case.judged


def _majority(labels: Sequence[Label], case: JudgedCase) -> bool | None:
    """Whether most people pass a case; None: as many pass as fail it."""
    passes = sum(_is_good(label, case) for label in labels)
    return None if 2 * passes == len(labels) else 2 * passes > len(labels)


def _is_good(label: Label, case: JudgedCase) -> bool:
    """Whether a label passes a case: the upper end of the scale does, and what reaches the threshold of the scores.

    Without a threshold, the middle of the scale is the bar. The lower end never passes.
    """
    is_between = label.value not in (0, 1)
    bar = case.threshold if is_between and case.threshold is not None else _HALF
    return passing([label.value], bar) == 1


def _alpha(groups: Sequence[Sequence[Label]] | Any, raters: Sequence[str], *, is_scale: bool) -> float | None:
    if len(raters) < 2:
        return None
    ratings = []
    for group in groups:
        said = {label.rater: label.value for label in group}
        ratings.append([said.get(rater) for rater in raters])
    return krippendorff_alpha(ratings, "interval" if is_scale else "nominal")
