"""The list of cases, worst first, with their judgements and their history."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from pytest_agentv.model.base import LARGEST, Json, JsonObject, Record, is_amount
from pytest_agentv.model.results import EvalResult, EvaluatorResult
from pytest_agentv.reports.figures import duration_of, evaluators_of, shortened, spent_of
from pytest_agentv.reports.judged_cases import CaseStatus, JudgedCase
from pytest_agentv.reports.read import case_in
from pytest_agentv.reports.view import Change, RunView
from pytest_agentv.stats.intervals import is_flaky

# Formats numbers and names for the report.

_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that move the cursor, change the direction of text, or are invisible."""


def spelled(text: str) -> str:
    """Return a text in which hidden characters are spelled out, as `[U+202E]`."""
    return _HIDDEN.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def listed(parts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def first_sentence(text: str, length: int = 160) -> str:
    """Return the first sentence of a text on one line, without its full stop."""
    line = " ".join(text.split())
    sentence = re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0].rstrip(".")
    return shortened(sentence, length, "…")


def filter_link(**filters: str) -> str:
    """Return the link to the cases that match some filters."""
    return f"#{urlencode(filters, errors='replace')}"


# The judgements of a result.

DEFAULT_JUDGE: Final = "default judge"

_SLACK: Final = 1e-9
_MOST_MISSES: Final = 3


@dataclass(frozen=True, slots=True)
class JudgementRow(Record):
    """The result of one evaluator, and how deep it is in composites: their members follow them."""

    result: EvaluatorResult
    depth: int = 0

    @property
    def name(self) -> str:
        return self.result.name

    @property
    def kind(self) -> str:
        """What evaluators have in common whose names say what they check: `contains` of `contains: 30 days`."""
        kind, colon, _ = self.name.partition(": ")
        return kind if colon and kind in (self.result.type, f"not-{self.result.type}") else self.name

    @property
    def score(self) -> float:
        """The score; 0 for one that is no number, and the largest float for one that is too large."""
        score = self.result.score
        return 0.0 if math.isnan(score) else max(-LARGEST, min(LARGEST, score))

    def is_low(self, threshold: float | None) -> bool:
        return bool(self.result.error) or self.score < (1.0 if threshold is None else threshold) - _SLACK

    @property
    def reason(self) -> str:
        """Why the score is not better, on one line."""
        if self.result.error:
            return first_sentence(self.result.error)
        misses = self.result.misses
        if not misses:
            return first_sentence(self.result.reasoning or "")
        shown = "; ".join(first_sentence(miss, 80) for miss in misses[:_MOST_MISSES])
        return f"{shown} and {len(misses) - _MOST_MISSES} more" if len(misses) > _MOST_MISSES else shown


def judgements_of(result: EvalResult) -> tuple[JudgementRow, ...]:
    """Return the judgements of a result's evaluators."""
    if result.evaluator_results:
        return tuple(JudgementRow(each, len(path) - 1) for path, each in evaluators_of(result.evaluator_results))
    if result.status == "error" or not (result.reasoning or result.hits or result.misses):
        return ()
    given = {"hits": result.hits, "misses": result.misses, "reasoning": result.reasoning, "judge_model": result.judge}
    return (JudgementRow(EvaluatorResult(DEFAULT_JUDGE, "llm_judge", result.score).replace(**given)),)


# The list of cases in the report, worst first.

STATUSES: Final[tuple[CaseStatus, ...]] = ("pass", "fail", "error", "scored")
BADGES: Final = {"pass": "✓ Passed", "fail": "✕ Failed", "error": "! Error", "scored": "○ Scored"}

NO_TARGET: Final = "(no target)"
"""Stands for the target of a result that names none."""

_LONGEST_WHY: Final = 220


@dataclass(frozen=True, slots=True)
class CaseRow(Record):
    """One row of the list."""

    judged: JudgedCase
    result: EvalResult
    judgements: tuple[JudgementRow, ...]
    answers: tuple[tuple[CaseStatus, EvalResult], ...]
    """Each answer with its status, with `--agentv-include-answers`."""
    change: Change | None
    key: str
    link: str
    """The link to the case within the report. It is the same in every run."""
    status: CaseStatus
    file: str
    target: str
    cost: float | None
    """US dollars that were paid; None for cached answers, which cost nothing now."""
    duration_ms: float | None
    """Milliseconds that the target took; None if not measured."""
    is_flaky: bool
    is_broken: bool

    @property
    def badge(self) -> str:
        return BADGES[self.status]

    @property
    def low(self) -> tuple[JudgementRow, ...]:
        """Evaluators below the threshold, without members of composites; none if no threshold is known."""
        if self.status == "scored":
            return ()
        threshold = self.judged.threshold
        return tuple(each for each in self.judgements if each.depth == 0 and each.is_low(threshold))

    @property
    def why(self) -> str:
        """On one line why it failed or broke, each reason once. For a flaky pass, what its failing answer lacks."""
        result = self.result
        if self.status == "error":
            return first_sentence(result.error or "", 200)
        if result.status == "pass" and self.status == "pass" and not self.is_flaky:
            return ""
        parts = [first_sentence(result.assertion)] if result.assertion else []
        parts += [f"required: {text}" for text in result.unmet_required or ()]
        threshold = self.judged.threshold
        low = [each for each in self.judgements if each.depth == 0 and each.is_low(threshold)]
        parts += [f"{each.name}: {each.reason}" if each.reason else f"{each.name} {each.score:.2f}" for each in low]
        return ("; ".join(dict.fromkeys(parts)) or first_sentence(result.reasoning or ""))[:_LONGEST_WHY]

    @property
    def marks(self) -> str:
        """A letter for each answer: `p` passed, `f` failed, `e` could not be judged, `s` has only a score.

        If their order is unknown, the passing ones come first.
        """
        case, repeat = self.judged, self.result.repeat
        if repeat is None or case.status == "scored":
            return "s" * case.judged if case.status == "scored" else "e" if case.is_error else "fp"[case.passes > 0]
        marks = "".join("p" if score >= (case.threshold or 0.0) - _SLACK else "f" for score in repeat.scores)
        if marks.count("p") != repeat.passes:  # a required rubric or a hook decided
            marks = "p" * repeat.passes + "f" * (len(marks) - repeat.passes)
        return marks + "e" * repeat.errors

    @property
    def rank(self) -> tuple[int, float]:
        """Its place in the list: broken, errors, failed, flaky, passed; the lowest scores first."""
        order = {"error": 1, "fail": 2, "scored": 2, "pass": 4}[self.status]
        if self.is_broken:
            order = 0
        elif self.is_flaky and self.status == "pass":
            order = 3
        return order, self.result.score


def cases_of(run: RunView) -> tuple[CaseRow, ...]:
    """Return the cases of a run, worst first, else in the order of the run."""
    cases = [_case(case, case.result, run.changes.get(case.label)) for case in run.cases]
    return tuple(sorted(cases, key=lambda case: case.rank))


def _case(judged: JudgedCase, result: EvalResult, change: Change | None) -> CaseRow:
    return CaseRow(
        judged,
        result,
        judgements_of(result),
        tuple(_answers(result)),
        change,
        key=judged.label,
        link=f"#case={quote(judged.label, safe='', errors='replace')}",
        status=judged.status,
        file=judged.eval_file or result.dataset or "(no file)",
        target=judged.target or NO_TARGET,
        cost=spent_of(result).answer.cost,
        duration_ms=duration_of(result),
        is_flaky=judged.status in ("pass", "fail") and is_flaky(judged.passes, judged.judged),
        is_broken=change is not None and change.word == "broken",
    )


def _answers(result: EvalResult) -> Iterator[tuple[CaseStatus, EvalResult]]:
    """Yield the answers of a result. Only their own values count: other tools may leave out any."""
    for each in result.answers or ():
        score: Json = each.get("score")
        case = case_in({**each, "eval_id": result.eval_id, "score": score if is_amount(score) else 0.0})
        yield case.status, case.result


# The history of several runs, as a whole and by case.


def in_order(runs: Iterable[RunView]) -> list[RunView]:
    """Return the runs whose results are known, oldest first."""
    return sorted((run for run in runs if run.results), key=lambda run: run.finished)


def past_of_cases(runs: Sequence[RunView]) -> dict[str, list[JsonObject]]:
    """Return the history of each case by its key, a mapping for each run; empty if there is only one run."""
    found: dict[str, list[JsonObject]] = {}
    for run in runs if len(runs) > 1 else ():
        of_run = {"run": run.name, "when": when_of(run)}
        for case in run.cases:
            past = {"status": case.status, "passes": case.passes, "judged": case.judged}
            score = {"score": math.fsum(case.scores) / case.judged} if case.scores else {}
            found.setdefault(case.label, []).append(of_run | past | score)
    return found


def when_of(run: RunView) -> str:
    """Return when a run ended, as `2026-11-22 06:00`, else the name of its file."""
    return run.finished[:16].replace("T", " ") or run.name
