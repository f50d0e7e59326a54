"""The list of cases in the report, worst first."""

from collections.abc import Mapping
from typing import Final

from pytest_agentv.models.base import JsonObject, Record, is_measure
from pytest_agentv.models.records import record
from pytest_agentv.reporting.html.compared import Change, Compared
from pytest_agentv.reporting.html.judgements import Judgement, judgements_of, why_of
from pytest_agentv.reporting.html.reading import Result, Run
from pytest_agentv.reporting.html.texts import case_link
from pytest_agentv.reporting.html.values import amount_of, cost_of, list_of, mapping_of, number_of, text_of
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.statistics.repeats import is_flaky

SCORED: Final = "scored"
"""The status of a case that has a score, and no threshold: nobody knows whether it passes."""
STATUSES: Final = ("pass", "fail", "error", SCORED)
WORDS: Final[Mapping[str, str]] = {"pass": "Passed", "fail": "Failed", "error": "Error", SCORED: "Scored"}
SIGNS: Final[Mapping[str, str]] = {"pass": "✓", "fail": "✕", "error": "!", SCORED: "○"}

NO_TARGET: Final = "(no target)"
"""Stands for the target of a result that names none."""

_SLACK: Final = 1e-9
_MOST_MARKS: Final = 10_000
"""The most answers of a case that are shown one by one. A file of another tool may hold any number."""

_LONGEST_WHY: Final = 220


@record
class Case(Record):
    """One row of the list."""

    result: Result
    status: str
    """One of `STATUSES`."""
    score: float
    marks: str
    """A letter for each answer: `p` passed, `f` failed, `e` could not be judged, `s` has only a score."""
    cost: float | None
    """US dollars; None for cached answers, which cost nothing now."""
    duration_ms: float | None
    """Milliseconds; None if not measured, or if the case never called its target."""
    judgements: tuple[Judgement, ...]
    why: str
    change: Change | None = None

    @property
    def judged(self) -> JudgedCase:
        return self.result.case

    @property
    def key(self) -> str:
        return self.result.key

    @property
    def link(self) -> str:
        return case_link(self.key)

    @property
    def id(self) -> str:
        return self.judged.eval_id

    @property
    def file(self) -> str:
        return self.judged.eval_file or text_of(self.result.value, "dataset") or "(no file)"

    @property
    def target(self) -> str:
        return self.judged.target or NO_TARGET

    @property
    def word(self) -> str:
        return WORDS[self.status]

    @property
    def sign(self) -> str:
        return SIGNS[self.status]

    @property
    def is_flaky(self) -> bool:
        return self.status not in ("error", SCORED) and is_flaky(self.judged.passes, self.judged.judged)

    @property
    def is_broken(self) -> bool:
        return self.change is not None and self.change.word == "broken"

    @property
    def low(self) -> tuple[Judgement, ...]:
        """Evaluators below the threshold, without members of composites; none if no threshold is known."""
        if self.status == SCORED:
            return ()
        threshold = self.judged.threshold
        return tuple(each for each in self.judgements if each.depth == 0 and each.is_low(threshold))

    @property
    def rank(self) -> tuple[int, float]:
        """Its place in the list: broken, errors, failed, flaky, passed; the lowest scores first."""
        order = {"error": 1, "fail": 2, SCORED: 2, "pass": 4}[self.status]
        if self.is_broken:
            order = 0
        elif self.is_flaky and self.status == "pass":
            order = 3
        return order, self.score


def cases_of(run: Run, compared: Compared) -> tuple[Case, ...]:
    """Return the cases of a run, worst first, else in the order of the run."""
    return tuple(sorted((_case(result, compared) for result in run.results), key=lambda case: case.rank))


def _case(result: Result, compared: Compared) -> Case:
    value, case = result.value, result.case
    judgements, status = judgements_of(value), status_of(value, case)
    return Case(
        result=result,
        status=status,
        score=number_of(value, "score") or 0.0,
        marks=_marks(result, status),
        cost=cost_of(value),
        duration_ms=_duration(value, case),
        judgements=judgements,
        why=why_of(value, judgements, case.threshold)[:_LONGEST_WHY],
        change=compared.changes.get(result.key),
    )


def _duration(value: JsonObject, case: JudgedCase) -> float | None:
    if case.is_error and value.get("attempts") == 0:
        return None
    duration = amount_of(value, "duration_ms")
    return amount_of(mapping_of(value, "execution_metrics"), "duration_ms") if duration is None else duration


def status_of(value: JsonObject, case: JudgedCase) -> str:
    """Return the status of a result, of this run or of another one. Only a threshold, or the results, tell a pass."""
    if case.is_error:
        return "error"
    written = value.get("status")
    if written in ("pass", "fail"):
        return str(written)
    if case.threshold is None:
        return SCORED
    return "pass" if case.passes == case.judged else "fail"


def status_of_answer(answer: JsonObject) -> str:
    """Return the status of one of several answers, which other tools do not write."""
    written = "error" if answer.get("error") is not None else answer.get("status")
    return str(written) if written in STATUSES else SCORED


def _marks(result: Result, status: str) -> str:
    """Return the outcomes of the answers in order; if the order is unknown, the passing ones first."""
    case, value = result.case, result.value
    repeat = mapping_of(value, "repeat")
    if not repeat or status == SCORED:
        return "s" * case.judged if status == SCORED else "e" if case.is_error else "p" if case.passes else "f"
    scores = [score for score in list_of(repeat, "scores") if is_measure(score)]
    passes, errors = (min(_MOST_MARKS, int(amount_of(repeat, key) or 0)) for key in ("passes", "errors"))
    marks = "".join("p" if score >= (case.threshold or 0.0) - _SLACK else "f" for score in scores)
    if marks.count("p") != passes:  # a required rubric or a hook decided
        marks = "p" * passes + "f" * (len(scores) - passes)
    return marks + "e" * errors
