"""How far a judge agrees with people's labels, and how many cases and repeats show a drop."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from pytest_agentv.cases.tables import read_delimited
from pytest_agentv.errors import FileError
from pytest_agentv.files.problems import Problem, describe_value
from pytest_agentv.model.base import Json, JsonObject, Record, is_measure
from pytest_agentv.model.results import EvalResult, EvaluatorResult
from pytest_agentv.reports.figures import evaluators_of
from pytest_agentv.reports.judged_cases import JudgedCase, deltas_of, groups_of, pair_cases, pairs_of, shared_key
from pytest_agentv.reports.verdict import answers_of_both, difference_of
from pytest_agentv.stats.comparison import (
    NO_DEVIATION,
    Confusion,
    CorrectedRate,
    best_threshold,
    cases_to_see,
    confusion,
    corrected_rate,
    kappa,
    kappa_interval,
    krippendorff_alpha,
    most_within,
    variance_between,
    variance_within,
)
from pytest_agentv.stats.intervals import passing
from pytest_agentv.store.readers import iter_entries

_WORDS: Final = {"pass": 1.0, "true": 1.0, "yes": 1.0, "good": 1.0, "fail": 0.0, "false": 0.0, "no": 0.0, "bad": 0.0}
_HALF: Final = 0.5
DEFAULT_JUDGE: Final = "llm_judge"
"""The name of the judge of a case that names no evaluators."""
LEAST_TO_CHOOSE: Final = 50
"""The least number of labels to choose a threshold from: each half needs some."""


@dataclass(frozen=True, slots=True)
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
    answer_hash: str | None = None
    """That of the answer which the person saw; None: unknown."""


@dataclass(frozen=True, slots=True)
class LabelledJudgement(Record):
    """What a judge said of a case, and people."""

    case: str
    passes: bool
    score: float
    reasoning: str = ""
    answer: str = ""
    label: bool | None = None
    """What most people said; None: nobody, or as many that as the other."""
    judge: str = ""
    """The models that judged."""
    prompt: Json = None
    """What they were asked."""
    grading_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Agreement(Record):
    """How far a judge agrees with labels."""

    cases: int
    """Judged cases that have a label."""
    confusion: Confusion
    kappa: float | None
    """None: both are constant."""
    kappa_low: float
    """The lower end of its 95 % interval."""
    kappa_high: float
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
    other_answers: int = 0
    """Labels of other answers of these cases than those that were judged."""
    threshold: float | None = None
    """The threshold that was chosen on the other half of the labels; None: that of each case counts."""
    replies: int = 0
    """What the models replied that judge the run."""
    unreadable: int = 0
    """How many of these replies held no judgement."""
    judged: tuple[LabelledJudgement, ...] = ()
    """The cases that have a label."""


def read_labels(path: Path, scale: tuple[float, float]) -> list[Label]:
    """Read labels: CSV, or results-like JSONL or YAML, with `eval_id` and `label`. Raises `FileError`."""
    labels = [_label(path, line, value, scale) for line, value in _entries(path)]
    if not labels:
        raise FileError(path, "holds no labels: expected lines with eval_id and label")
    return labels


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
    label, (low, high) = value.get("label"), scale
    word = label.strip().lower() if isinstance(label, str) else ""
    share = _WORDS.get(word) if not isinstance(label, bool) else float(label)
    if share is None:
        try:
            number = float(word) if word else label
        except ValueError:
            number = None
        if not is_measure(number) or not low <= number <= high:
            expected = f"expected pass, fail or a number from {low:g} to {high:g}"
            raise FileError(path, f"label: {expected}, got {describe_value(label)}", line)
        share = (number - low) / (high - low)
    names = ("eval_file", "target", "rater", "answer_hash")
    texts: Mapping[str, Any] = {key: text for key in names if isinstance(text := value.get(key), str)}
    return Label(eval_id, share, path, line, **texts)


def agree(
    labels: Sequence[Label], cases: Sequence[JudgedCase], evaluator: str | None = None, *, choose: bool = False
) -> Agreement | None:
    """Compare the verdicts of a run, or of one of its evaluators, with labels; None if no case is judged and labelled.

    `choose`: choose a threshold on one half of the labels; the agreement is that of the other half.

    Raises `FileError` for a label that fits several cases: a label is of one answer, and it does not tell of which.
    Raises `ValueError` if there are too few labels to choose a threshold, or none to choose.
    """
    found = [(case, _judgement(case, evaluator)) for case in cases]
    judged = [(case, judgement) for case, judgement in found if judgement is not None]
    by_case, unmatched, others = _by_case(labels, [case for case, _ in judged])
    if not by_case:
        return None
    is_scale = any(label.value not in (0, 1) for label in labels)
    labelled: dict[int, LabelledJudgement] = {}  # not those that as many people pass as fail
    for index, group in by_case.items():
        case, judgement = judged[index]
        passes = sum(_is_good(label, case) for label in group)
        if 2 * passes != len(group):
            labelled[index] = judgement.replace(label=2 * passes > len(group))
    split = len(by_case) - len(labelled)
    unlabelled = [judgement for index, (_, judgement) in enumerate(judged) if index not in by_case]
    threshold = None
    if choose:
        threshold, labelled = _chosen(labelled)
        unlabelled = [each.replace(passes=each.score >= threshold) for each in unlabelled]
    verdicts = [each.passes for each in labelled.values()]
    said = [each.label is True for each in labelled.values()]
    # Rounded: the noise of further digits would make two values of equal means.
    scores = [round(each.score, 9) for each in labelled.values()]
    ratings = [round(fmean(label.value for label in by_case[index]), 9) for index in labelled]
    ours, theirs = list(map(float, verdicts)), list(map(float, said))
    raters = sorted({label.rater for label in labels})
    by_rater = [{label.rater: label.value for label in group} for group in by_case.values()]
    table = [[ratings_of.get(rater) for rater in raters] for ratings_of in by_rater]
    counts, agreed = confusion(verdicts, said), kappa(ours, theirs)
    interval = kappa_interval(counts, agreed)
    asked = [each for case in cases for _, each in _evaluators(case, evaluator) if each.judge_model is not None]
    replied = [each for each in asked if each.evaluator_provider_request is not None]
    retries = sum(each.judge_retries or 0 for each in replied)
    return Agreement(
        cases=len(labelled),
        confusion=counts,
        kappa=agreed,
        kappa_low=interval.low,
        kappa_high=interval.high,
        linear_kappa=kappa(scores, ratings, "linear") if is_scale else None,
        quadratic_kappa=kappa(scores, ratings, "quadratic") if is_scale else None,
        alpha=krippendorff_alpha(table, "quadratic" if is_scale else "none") if len(raters) > 1 else None,
        raters=len(raters),
        corrected=corrected_rate(ours, theirs, [float(each.passes) for each in unlabelled]),
        unlabelled=len(unlabelled),
        unmatched=unmatched,
        split=split,
        other_answers=others,
        threshold=threshold,
        replies=len(replied) + retries,
        unreadable=retries + sum(each.error is not None and each.raw_output is not None for each in replied),
        judged=tuple(labelled.values()),
    )


def _chosen(labelled: Mapping[int, LabelledJudgement]) -> tuple[float, dict[int, LabelledJudgement]]:
    """Return a threshold that one half of the cases, chosen by their names, finds, and the other half judged by it."""
    if len(labelled) < LEAST_TO_CHOOSE:
        text = f"a threshold is chosen from {LEAST_TO_CHOOSE} labelled cases on, here are {len(labelled)}"
        raise ValueError(f"{text}: with fewer, it claims more than it has")
    order = sorted(labelled, key=lambda index: hashlib.sha256(labelled[index].case.encode()).digest())
    chosen = [labelled[index] for index in order[::2]]
    threshold = best_threshold([each.score for each in chosen], [each.label is True for each in chosen])
    if threshold is None:
        raise ValueError("there is no threshold to choose: all scores are the same")
    others = {index: labelled[index] for index in sorted(order[1::2])}
    return threshold, {index: each.replace(passes=each.score >= threshold) for index, each in others.items()}


def changed_judge(before: Agreement, now: Agreement) -> tuple[str, ...]:
    """Return how the judge of one run differs from that of another, as texts; empty: it does not.

    What a judge is asked holds the answer. So prompts are compared where the answer is the same, else the hashes of
    the grading.
    """
    known = {each.case: each for each in before.judged}
    pairs = [(known[each.case], each) for each in now.judged if each.case in known]
    models = dict.fromkeys((old.judge, new.judge) for old, new in pairs if old.judge != new.judge)
    is_other = any(
        old.prompt != new.prompt
        if old.answer == new.answer
        else old.judge == new.judge and old.grading_hash != new.grading_hash
        for old, new in pairs
    )
    return (*(f"model {old or 'none'} -> {new or 'none'}" for old, new in models), *(["prompt"] if is_other else []))


def evaluator_names(cases: Sequence[JudgedCase]) -> list[str]:
    """Return the names of all evaluators that judged some case, and their paths where they are members."""
    return list(dict.fromkeys(n for case in cases for path, each in _evaluators(case, None) for n in (each.name, path)))


def _evaluators(case: JudgedCase, name: str | None) -> list[tuple[str, EvaluatorResult]]:
    """Return the evaluators of a case, members too, each with its path; only those of a name, unless it is None."""
    result = case.result
    if result.evaluator_results is None and result.evaluator_provider_request is not None:
        words = result.score, 1.0, "fail", result.hits, result.misses, result.reasoning
        only = EvaluatorResult(DEFAULT_JUDGE, DEFAULT_JUDGE, *words, result.evaluator_provider_request)  # type: ignore[arg-type]
        members = [(DEFAULT_JUDGE, only.replace(judge_retries=result.judge_retries, judge_model=result.judge))]
    else:
        members = [(".".join(path), each) for path, each in evaluators_of(result.evaluator_results)]
    return [(path, each) for path, each in members if name is None or name in (path, each.name)]


def _judgement(case: JudgedCase, evaluator: str | None) -> LabelledJudgement | None:
    """Return what an evaluator said of a case, or all of them; None: it could not be judged. Raises `ValueError`."""
    result, found = case.result, _evaluators(case, evaluator)
    if len(found) > 1 and evaluator is not None:
        paths = ", ".join(path for path, _ in found)
        raise ValueError(f"--evaluator={evaluator}: {case.name} has several evaluators of that name: {paths}")
    only = found[0][1] if found and evaluator is not None else None
    if (only is None or only.error is not None) if evaluator is not None else not case.scores:
        return None
    models = [each for _, each in found if each.judge_model is not None]
    asked = [each.evaluator_provider_request or {} for each in models]
    judge = (result.judge, *(each.judge_model for each in models))
    score = math.fsum(case.scores) / case.judged if only is None else only.score
    bar = _HALF if case.threshold is None else case.threshold
    return LabelledJudgement(
        case.label,
        _passes(case) if only is None else passing([score], bar) == 1 and not only.unmet_required,
        score,
        (result if only is None else only).reasoning or "",
        result.candidate_answer,
        judge=" + ".join(dict.fromkeys(filter(None, judge))),
        prompt=[[each.get("system_prompt"), each.get("user_prompt")] for each in asked],
        grading_hash=result.grading_hash,
    )


def hash_of_answer(result: EvalResult) -> str | None:
    """Return what identifies the answer that a result shows; None: there is none."""
    text = result.candidate_answer
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16] if text else None


def _by_case(labels: Sequence[Label], cases: Sequence[JudgedCase]) -> tuple[dict[int, list[Label]], int, int]:
    """Return the labels by the positions of their cases, how many have no case, and how many are of other answers."""
    named: dict[str | None, list[int]] = {}
    for index, case in enumerate(cases):
        for name in {case.eval_id, case.node_id}:
            named.setdefault(name, []).append(index)
    found: dict[int, list[Label]] = {}
    unmatched = others = 0
    for label in labels:
        indexes = [
            index
            for index in named.get(label.eval_id, ())
            if label.eval_file in (None, cases[index].eval_file) and label.target in (None, cases[index].target)
        ]
        if len(indexes) > 1:
            raise FileError(label.path, _ambiguity(label, [cases[index] for index in indexes]), label.line)
        unmatched += not indexes
        for index in indexes:
            if label.answer_hash in (None, hash_of_answer(cases[index].result)):
                found.setdefault(index, []).append(label)
            else:
                others += 1
    return found, unmatched, others


def _ambiguity(label: Label, cases: Sequence[JudgedCase]) -> str:
    """Return what is wrong with a label that fits several cases, and what to write instead."""
    values = {key: sorted({str(getattr(case, key)) for case in cases}) for key in ("target", "eval_file")}
    missing = {key: f"{key} {', '.join(texts)}" for key, texts in values.items() if len(texts) > 1}
    node_ids = [case.node_id or case.name for case in cases]
    told = "; ".join(missing.values()) or ", ".join(node_ids)
    write = f"add {' and '.join(missing)}" if missing else f"write its node id as eval_id: {node_ids[0]}"
    return f"eval_id {label.eval_id!r}: fits {len(cases)} results ({told}), but a label is of one answer: {write}"


def _passes(case: JudgedCase) -> bool:
    """Whether a case passes; of several answers, whether most do."""
    if case.threshold is None:
        return sum(case.scores) / case.judged >= _HALF
    return 2 * case.passes > case.judged


def _is_good(label: Label, case: JudgedCase) -> bool:
    """Whether a label passes a case: one between the ends of the scale does by the threshold, or from the middle on."""
    is_between = label.value not in (0, 1)
    bar = case.threshold if is_between and case.threshold is not None else _HALF
    return passing([label.value], bar) == 1


# Plans runs from the variances of an earlier run: how many cases and repeats show a drop.


@dataclass(frozen=True, slots=True)
class Plan(Record):
    """The variances that a run showed, and the drop that later runs should show."""

    cases: int
    """Judged cases."""
    answers: int
    """Answers of most cases, at most: an early stop asks for fewer."""
    drop: float
    within: float
    """Variance of the answers of one case."""
    between: float
    """Variance of the true differences between two runs: of cases, or of groups of cases."""
    remarks: tuple[str, ...]
    """Where the variances come from."""
    size: float = 1.0
    """Cases per group; 1: no two cases share one."""

    def cases_for(self, repeats: int) -> int:
        """Return how many cases show the drop with so many answers per case."""
        return cases_to_see(self.drop, self.within, self.between, repeats, self.size)


def plan_of(cases: Sequence[JudgedCase], earlier: Sequence[JudgedCase] | None, drop: float) -> Plan:
    """Return the plan from a run and, if given, another run of the same cases."""
    judged = [case for case in cases if case.scores]
    groups = groups_of(judged)
    size = 1.0 if groups is None else len(groups) / len(set(groups))
    pairs = [] if earlier is None else pairs_of(pair_cases(judged, earlier, shared_key(judged, earlier)))
    difference = difference_of(pairs) if pairs else None
    deviation = at_most = 0.0
    repeats = 1
    if difference is None or difference.estimate.units < 2:
        difference = None
    else:
        deviation, repeats, size = difference.error, answers_of_both(pairs), len(pairs) / difference.estimate.units
        at_most = most_within(deltas_of(pairs), deviation, repeats, size)
    within, source = _within(judged, None if difference is None else at_most)
    if within <= NO_DEVIATION and not deviation:
        # All cases would have to be sure to lose as much: an assumption that leaves no chance at all.
        within, between = 0.0, 0.0
        remarks = ["All answers of a case went the same way, so chance is not known: that takes more cases."]
    else:
        units = "groups of cases" if size > 1 else "single cases"
        between = variance_between(deviation, within, repeats, size) if difference is not None else drop**2
        assumed = f"is not known: {drop * 100:g} points are assumed (--against=FILE tells)."
        told = "is that between the two runs." if difference is not None else assumed
        remarks = [source, f"How far {units} change {told}"]
    remarks += [f"Cases in groups: {size:.3g} a group, as now."] if size > 1 else []
    answers = Counter(case.asked for case in judged).most_common(1)
    return Plan(len(judged), answers[0][0] if answers else 0, drop, within, between, tuple(remarks), size)


def _within(cases: Sequence[JudgedCase], at_most: float | None) -> tuple[float, str]:
    """Return the variance of the answers of one case, and where it comes from; `at_most`: what two runs tell of it."""
    within = variance_within(case.variance for case in cases)
    if within is not None:
        return within, "The variance within cases is that of their answers."
    bound = "One answer per case: the variance within cases is an upper bound"
    if at_most is not None:
        return at_most, f"{bound}, half of that of the differences."
    rates = [case.value for case in cases]
    rate = sum(rates) / len(rates) if rates else 0.5
    return rate * (1 - rate), f"{bound}, as if all cases were alike."
