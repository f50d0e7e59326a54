"""Reads the runs that a report shows, and formats their values."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from pytest_agentv.errors import FileError
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import LARGEST, Json, JsonObject, Record, is_amount, is_measure, is_number
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.baseline import Baseline, read_baseline
from pytest_agentv.reports.figures import format_cost, shortened, spent_in
from pytest_agentv.reports.judged_cases import (
    CaseName,
    JudgedCase,
    case_of,
    name_of,
    result_fault,
    unique_names,
)
from pytest_agentv.store.readers import Entry, iter_foreign
from pytest_agentv.store.writers import masked_result

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
