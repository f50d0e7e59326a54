"""The list of cases, worst first, with their judgements, their comparison and their history."""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import quote, urlencode

from pytest_agentv.errors import FileError
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import LARGEST, Json, JsonObject, Record, is_amount, is_measure, is_number
from pytest_agentv.model.messages import Costs
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.baseline import Baseline, read_baseline
from pytest_agentv.reports.figures import format_cost, shortened, spent_in
from pytest_agentv.reports.judged_cases import (
    CaseComparison,
    CaseName,
    JudgedCase,
    Pair,
    case_of,
    name_of,
    pair_cases,
    result_fault,
    shared_key,
    unique_names,
)
from pytest_agentv.reports.verdict import (
    PassRate,
    RunComparison,
    RunStatistics,
    compare_runs,
    compare_with_baseline,
    judge_run,
    pass_rate_of,
    run_statistics,
)
from pytest_agentv.stats.intervals import is_flaky
from pytest_agentv.store.readers import Entry, iter_foreign
from pytest_agentv.store.writers import masked_result

# Reads the runs that a report shows, and formats their values.

# Reads values of results of any origin. A value of an unexpected shape counts as missing.


def text_of(value: JsonObject, key: str) -> str:
    """Return a text; empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, str) else ""


def number_of(value: JsonObject, key: str) -> float | None:
    """Return a finite number; None if there is none."""
    found = value.get(key)
    return found if is_measure(found) else None


def score_of(value: JsonObject) -> float:
    """Return the score of an evaluator; 0 if there is none, and the largest float for one that is too large."""
    found = value.get("score")
    if not is_number(found) or found != found:  # noqa: PLR0124 - NaN; `math.isnan` fails for huge integers
        return 0.0
    return max(-LARGEST, min(LARGEST, found))


def amount_of(value: JsonObject, key: str) -> float | None:
    """Return a finite number of 0 or more; None if there is none."""
    found = value.get(key)
    return found if is_amount(found) else None


def mapping_of(value: JsonObject, key: str) -> JsonObject:
    """Return a mapping; empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def list_of(value: JsonObject, key: str) -> Sequence[Json]:
    """Return a list; empty if there is none."""
    found = value.get(key)
    return found if isinstance(found, list | tuple) else ()


def mappings_of(value: JsonObject, key: str) -> list[JsonObject]:
    """Return the mappings of a list."""
    return [each for each in list_of(value, key) if isinstance(each, Mapping)]


def texts_of(value: JsonObject, key: str) -> list[str]:
    """Return the texts of a list."""
    return [each for each in list_of(value, key) if isinstance(each, str)]


def cost_of(value: JsonObject) -> float | None:
    """Return what was paid for the answers of a result in US dollars; None: nothing is known, or no call was made."""
    return spent_in(value).answer.cost


def whole_cost_of(value: JsonObject) -> float | None:
    """Return the cost of the answers that a result shows; None if it is unknown, or known only for some."""
    metrics = (mapping_of(value, key) for key in ("execution_metrics", "trace_summary"))
    return next((cost for each in metrics if (cost := amount_of(each, "cost_usd")) is not None), None)


def is_cached(value: JsonObject) -> bool:
    """Whether the answers of a result came from the cache, so that they cost nothing now."""
    return value.get("cached") is True


# Reads the runs that a report shows. The last line of a case counts.


@dataclass(frozen=True, slots=True)
class Result(Record):
    """A case of a run, and its line in the file."""

    case: JudgedCase
    value: JsonObject

    @property
    def key(self) -> str:
        """Identifies the case in links, and is the same in the next run."""
        return f"{self.case.name}@{self.case.target}" if self.case.target else self.case.name


@dataclass(frozen=True, slots=True)
class Run(Record):
    """A run, or a baseline, whose cases have no lines."""

    name: str
    """The name of its file."""
    results: tuple[Result, ...] = ()
    dropped: int = 0
    """Lines that a later line of the same case replaced."""
    problems: tuple[str, ...] = ()
    """What could not be read."""
    baseline: Baseline | None = None

    @property
    def cases(self) -> tuple[JudgedCase, ...]:
        return self.baseline.cases if self.baseline is not None else tuple(result.case for result in self.results)

    @property
    def finished(self) -> str:
        """When the last case ended, in ISO 8601; empty if unknown."""
        return max((text_of(result.value, "timestamp") for result in self.results), default="")


def read_run(path: Path, masker: Masker | None = None) -> Run:
    """Read a results file or a baseline. Raises `FileError` if it cannot be read or holds no results.

    The `masker` masks secrets that the run did not know.
    """
    entries = list(iter_foreign(path))
    first = entries[0] if entries else None
    if isinstance(first, Entry) and "agentv_baseline" in first.value:
        return Run(path.name, baseline=read_baseline(path))
    problems = [str(entry) for entry in entries if isinstance(entry, Problem)]
    values: list[JsonObject] = []
    for entry in entries:
        if isinstance(entry, Problem):
            continue
        if (fault := result_fault(entry.value)) is None:
            values.append(entry.value if masker is None else masked_result(entry.value, masker))
        else:
            problems.append(str(Problem(path, entry.line, "", f"{fault}; it was skipped", level="warning")))
    if not values:
        raise FileError(path, "holds no results: expected lines of JSON, or YAML documents, with eval_id and score")
    return run_of(path.name, values, problems=problems)


def run_of(name: str, values: Iterable[JsonObject], *, dropped: int = 0, problems: Iterable[str] = ()) -> Run:
    """Return a run with results that `result_fault` has accepted. `dropped` are lines that these replaced, if known."""
    latest: dict[CaseName, tuple[JudgedCase, JsonObject]] = {}
    for value in values:
        key = name_of(value)
        dropped += key in latest
        latest[key] = case_of(value), value
    cases = unique_names([case for case, _ in latest.values()])
    results = tuple(Result(case, value) for case, (_, value) in zip(cases, latest.values(), strict=True))
    return Run(name, results, dropped, tuple(problems))


# Formats numbers and names for the report.

_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)
"""Characters that move the cursor, change the direction of text, or are invisible."""

_HOUR: Final = 3_600_000
_MINUTE: Final = 60_000
_SECOND: Final = 1_000


def spelled(text: str) -> str:
    """Return a text in which hidden characters are spelled out, as `[U+202E]`."""
    return _HIDDEN.sub(lambda match: f"[U+{ord(match[0]):04X}]", text)


def points(share: float) -> str:
    """Return `+0.1`, in percentage points, with a true minus sign."""
    return f"{100 * share:+z.1f}".replace("-", "\N{MINUS SIGN}")


def dollars(amount: float | None) -> str:
    """Return an amount as the summary of the run writes it; empty if unknown."""
    return "" if amount is None else format_cost(amount)


def duration(milliseconds: float | None) -> str:
    """Return `250 ms`, `3.7 s`, `2.5 min` or `1.2 h`; empty if unknown."""
    if milliseconds is None:
        return ""
    if round(milliseconds) < _SECOND:
        return f"{milliseconds:.0f} ms"
    if round(milliseconds / _SECOND, 1) < _MINUTE / _SECOND:
        return f"{milliseconds / _SECOND:.1f} s"
    if round(milliseconds / _MINUTE, 1) < _HOUR / _MINUTE:
        return f"{milliseconds / _MINUTE:.1f} min"
    return f"{milliseconds / _HOUR:.1f} h"


def listed(parts: Sequence[str]) -> str:
    """Return `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def first_sentence(text: str, length: int = 160) -> str:
    """Return the first sentence of a text on one line, without its full stop."""
    line = " ".join(text.split())
    sentence = re.split(r"(?<=[.!?])\s", line, maxsplit=1)[0].rstrip(".")
    return shortened(sentence, length, "…")


def case_link(key: str) -> str:
    """Return the link to a case within the report. It is the same in every run."""
    return f"#case={quote(key, safe='', errors='replace')}"


def filter_link(**filters: str) -> str:
    """Return the link to the cases that match some filters."""
    return f"#{urlencode(filters, errors='replace')}"


DEFAULT_JUDGE: Final = "default judge"

_SLACK: Final = 1e-9
_MOST_MISSES: Final = 3


@dataclass(frozen=True, slots=True)
class Judgement(Record):
    """The result of one evaluator."""

    name: str
    type: str
    score: float
    weight: float | None = None
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    reasoning: str = ""
    model: str = ""
    error: str = ""
    duration_ms: float | None = None
    rubrics: tuple[JsonObject, ...] = ()
    """`{"text": …, "met": true}`."""
    depth: int = 0
    """The depth of a composite's members is one more than its own."""

    def is_low(self, threshold: float | None) -> bool:
        return bool(self.error) or self.score < (1.0 if threshold is None else threshold) - _SLACK

    @property
    def reason(self) -> str:
        """Why the score is not better, on one line."""
        if self.error:
            return first_sentence(self.error)
        if not self.misses:
            return first_sentence(self.reasoning)
        shown = "; ".join(first_sentence(miss, 80) for miss in self.misses[:_MOST_MISSES])
        more = len(self.misses) - _MOST_MISSES
        return f"{shown} and {more} more" if more > 0 else shown


def judgements_of(value: JsonObject) -> tuple[Judgement, ...]:
    """Return the judgements of a result's evaluators. Members follow their composite."""
    written = mappings_of(value, "evaluator_results")
    if written:
        return tuple(_walk(written, 0))
    if value.get("error") is not None or not (value.get("reasoning") or value.get("hits") or value.get("misses")):
        return ()
    return (_judgement({**value, "name": DEFAULT_JUDGE, "type": "llm_judge", "judge_model": value.get("judge")}, 0),)


def _walk(written: Iterable[JsonObject], depth: int) -> Iterator[Judgement]:
    for each in written:
        yield _judgement(each, depth)
        yield from _walk(mappings_of(each, "evaluator_results"), depth + 1)


def _judgement(value: JsonObject, depth: int) -> Judgement:
    return Judgement(
        name=text_of(value, "name"),
        type=text_of(value, "type"),
        score=score_of(value),
        weight=number_of(value, "weight"),
        hits=tuple(texts_of(value, "hits")),
        misses=tuple(texts_of(value, "misses")),
        reasoning=text_of(value, "reasoning"),
        model=text_of(value, "judge_model"),
        error=text_of(value, "error"),
        duration_ms=number_of(value, "duration_ms"),
        depth=depth,
    )


def why_of(value: JsonObject, judgements: Sequence[Judgement], threshold: float | None) -> str:
    """Return on one line why a case failed or broke. For a flaky pass, return what its failing answer lacks."""
    if value.get("status") == "error" or value.get("error") is not None:
        return first_sentence(text_of(value, "error"), 200)
    if value.get("status") == "pass" and not mapping_of(value, "repeat").get("flaky"):
        return ""
    parts = [first_sentence(text)] if (text := text_of(value, "assertion")) else []
    parts += [f"required: {text}" for text in texts_of(value, "unmet_required")]
    low = [each for each in judgements if each.depth == 0 and each.is_low(threshold)]
    parts += [f"{each.name}: {each.reason}" if each.reason else f"{each.name} {each.score:.2f}" for each in low]
    return "; ".join(parts) or first_sentence(text_of(value, "reasoning"))


# Compares the cases of a run with those of an earlier run.

Word: TypeAlias = Literal["broken", "worse", "better", "same", "new", "changed", "error"]

_SAYS: Final[Mapping[Word, str]] = {
    "broken": "Broken",
    "worse": "Worse",
    "better": "Better",
    "same": "As before",
    "new": "New case",
    "changed": "Case changed",
    "error": "Not compared",
}


@dataclass(frozen=True, slots=True)
class Change(Record):
    """How one case changed."""

    word: Word
    text: str
    """`baseline 5/5, now 0/5, asked again 0/10; unlikely to be chance (q 0.03)`."""
    short: str = ""
    """`5/5 → 0/5, again 0/10`."""
    delta: float | None = None
    before: Result | None = None
    """The earlier result; None: a baseline holds only scores, or the case is new."""

    @property
    def title(self) -> str:
        return _SAYS[self.word]


@dataclass(frozen=True, slots=True)
class Compared(Record):
    """A run with its comparison."""

    statistics: RunStatistics
    changes: Mapping[str, Change]
    """By the key of the case."""
    base: Run | None = None

    @property
    def comparison(self) -> RunComparison | None:
        return self.statistics.comparison

    def count(self, *words: Word) -> int:
        return sum(change.word in words for change in self.changes.values())


_NOT_COMPARED: Final[Mapping[str, Change]] = {
    "new": Change("new", "the baseline has no such case"),
    "changed": Change("changed", "its text, evaluators or threshold are others, so it is not compared"),
    "error": Change("error", "one of the two runs could not judge it"),
}


def compare(
    run: Run,
    base: Run | None,
    *,
    margin: float,
    is_confirming: bool | None = None,
    skipped: Collection[tuple[str, str | None]] = (),
) -> Compared:
    """Compare a run in the same way as the gates.

    `is_confirming`: whether suspects were asked again; None: decide by the results. `skipped`: cases that the run
    skipped.
    """
    if base is None:
        return Compared(run_statistics(run.cases), {})
    confirming = is_confirming
    if confirming is None:
        confirming = any(case.confirmation is not None for case in run.cases)
    statistics = _statistics(run, base, margin, skipped, is_confirming=confirming)
    comparison = statistics.comparison
    assert comparison is not None
    pairs = {_name(pair.new): pair for pair in (*comparison.pairing.pairs, *comparison.pairing.errors)}
    before = {_name(result.case): result for result in base.results}
    by_name = {(each.case, each.target): each for each in comparison.cases if each.state not in ("gone", "skipped")}
    # Changed cases are not compared, but show what they were before.
    matched: dict[tuple[str, str | None], JudgedCase] = {}
    if comparison.pairing.changed:
        key = shared_key(run.cases, base.cases)
        known = {key(case): case for case in base.cases}
        matched = {_name(case): known[key(case)] for case in run.cases if key(case) in known}
    changes: dict[str, Change] = {}
    for result in run.results:
        name = _name(result.case)
        if name in by_name:
            pair = pairs.get(name)
            old = pair.old if pair is not None else matched.get(name)
            earlier = before.get(_name(old)) if old is not None else None
            changes[result.key] = _change(by_name[name], pair, earlier)
    return Compared(statistics, changes, base)


def _statistics(
    run: Run, base: Run, margin: float, skipped: Collection[tuple[str, str | None]], *, is_confirming: bool
) -> RunStatistics:
    cases = run.cases
    found = {_name(case) for case in cases}
    left = [case for case in base.cases if _name(case) in skipped and _name(case) not in found]
    if base.baseline is not None:
        return compare_with_baseline(
            cases, base.baseline, base.name, skipped=left, margin=margin, is_confirming=is_confirming
        )
    pairing = pair_cases(cases, base.cases, shared_key(cases, base.cases), left)
    comparison = compare_runs(cases, base.cases, margin=margin, is_confirming=is_confirming, pairing=pairing)
    return judge_run(comparison.replace(baseline_name=base.name), cases)


def _change(comparison: CaseComparison, pair: Pair | None, before: Result | None) -> Change:
    if (change := _NOT_COMPARED.get(comparison.state)) is not None:
        return change if comparison.state == "new" else change.replace(before=before)
    assert pair is not None
    delta = comparison.delta or 0.0
    word: Word = "broken" if comparison.broke else "worse" if delta < 0 else "better" if delta > 0 else "same"
    chance = {"broken": f"; unlikely to be chance (q {comparison.q or 0:.2g})", "same": ""}.get(word, "; may be chance")
    again = f"{pair.new.confirmation.passes}/{pair.new.confirmation.judged}" if pair.new.confirmation else ""
    old, new = _tally(pair.old), _tally(pair.new)
    asked, short = (f", asked again {again}", f", again {again}") if again else ("", "")
    return Change(word, f"baseline {old}, now {new}{asked}{chance}", f"{old} → {new}{short}", delta, before)


def _tally(case: JudgedCase) -> str:
    if case.threshold is None:
        return f"{case.value:.2f}"
    return f"{case.passes}/{case.judged}"


def _name(case: JudgedCase) -> tuple[str, str | None]:
    return case.name, case.target


# The list of cases in the report, worst first.

SCORED: Final = "scored"
"""The status of a case that has a score, and no threshold: nobody knows whether it passes."""
STATUSES: Final = ("pass", "fail", "error", SCORED)
WORDS: Final[Mapping[str, str]] = {"pass": "Passed", "fail": "Failed", "error": "Error", SCORED: "Scored"}
SIGNS: Final[Mapping[str, str]] = {"pass": "✓", "fail": "✕", "error": "!", SCORED: "○"}

NO_TARGET: Final = "(no target)"
"""Stands for the target of a result that names none."""

_MOST_MARKS: Final = 10_000
"""The most answers of a case that are shown one by one. A file of another tool may hold any number."""

_LONGEST_WHY: Final = 220


@dataclass(frozen=True, slots=True)
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
    cases: list[Case] = []
    for result in run.results:
        value, case = result.value, result.case
        judgements, status = judgements_of(value), status_of(value, case)
        cases.append(
            Case(
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
        )
    return tuple(sorted(cases, key=lambda case: case.rank))


def _duration(value: JsonObject, case: JudgedCase) -> float | None:
    if case.is_error and value.get("attempts") == 0:
        return None
    duration = amount_of(value, "duration_ms")
    return amount_of(mapping_of(value, "execution_metrics"), "duration_ms") if duration is None else duration


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


# The history of several runs, as a whole and by case.


@dataclass(frozen=True, slots=True)
class Past(Record):
    """A case in one of the runs."""

    run: str
    when: str
    status: str
    passes: int
    judged: int
    score: float | None
    """The mean score of its answers; None: it could not be judged."""


@dataclass(frozen=True, slots=True)
class PastRun(Record):
    """A run as a whole."""

    name: str
    when: str
    """A date and a time, or the name of the file."""
    rate: PassRate
    cost: float | None
    """US dollars of its answers; None: unknown."""
    cost_known: int
    """How many of the calls report their cost."""
    calls: int
    """The calls of targets."""


def in_order(runs: Sequence[Run]) -> list[Run]:
    """Return the runs whose results are known, oldest first."""
    return sorted((run for run in runs if run.results), key=lambda run: run.finished)


def past_runs(runs: Sequence[Run]) -> tuple[PastRun, ...]:
    """Return the figures of each run; empty if there is only one."""
    found: list[PastRun] = []
    for run in runs:
        if (rate := pass_rate_of(run.cases)) is not None:
            costs = Costs.added(spent_in(result.value).answer for result in run.results)
            found.append(PastRun(run.name, when_of(run), rate, costs.cost, costs.cost_known, costs.calls))
    return tuple(found) if len(found) > 1 else ()


def past_of_cases(runs: Sequence[Run]) -> dict[str, list[Past]]:
    """Return the history of each case by its key; empty if there is only one run."""
    found: dict[str, list[Past]] = {}
    for run in runs if len(runs) > 1 else ():
        when = when_of(run)
        for result in run.results:
            case = result.case
            score = None if case.is_error else math.fsum(case.scores) / case.judged
            past = Past(run.name, when, status_of(result.value, case), case.passes, case.judged, score)
            found.setdefault(result.key, []).append(past)
    return found


def when_of(run: Run) -> str:
    """Return when a run ended, as `2026-11-22 06:00`, else the name of its file."""
    return run.finished[:16].replace("T", " ") or run.name
