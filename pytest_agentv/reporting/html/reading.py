"""Reads the runs that a report shows. The last line of a case counts."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from pytest_agentv.errors import FileError
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.records import record
from pytest_agentv.reporting.baselines.reading import read_baseline
from pytest_agentv.reporting.html.values import asked_nothing, mapping_of, text_of
from pytest_agentv.reporting.merging.replaced import Attempt, Replaced
from pytest_agentv.reporting.readers import Entry, iter_foreign
from pytest_agentv.reporting.serialization import masked_result
from pytest_agentv.reporting.verdicts.baseline import Baseline
from pytest_agentv.reporting.verdicts.case_reading import CaseName, case_of, name_of, result_fault
from pytest_agentv.reporting.verdicts.cases import JudgedCase, unique_names


@record
class Result(Record):
    """A case of a run, and its line in the file."""

    case: JudgedCase
    value: JsonObject

    @property
    def key(self) -> str:
        """Identifies the case in links, and is the same in the next run."""
        return f"{self.case.name}@{self.case.target}" if self.case.target else self.case.name


@record
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
    earlier: tuple[JsonObject, ...] = ()
    """Results of this run that later ones replaced, unless these include their figures. They were paid for."""

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


def run_of(
    name: str, values: Iterable[JsonObject], *, earlier: Sequence[JsonObject] = (), problems: Iterable[str] = ()
) -> Run:
    """Return a run with results that `result_fault` has accepted.

    `earlier` are results that these replaced, if known.
    """
    replaced: Replaced[CaseName, JsonObject] = Replaced(attempt_of)
    dropped = len(earlier)
    latest: dict[CaseName, tuple[JudgedCase, JsonObject]] = {}
    for value in values:
        case = case_of(value)
        key = name_of(value)
        if key in latest:
            replaced.add(key, latest[key][1], value)
            dropped += 1
        latest[key] = case, value
    cases = unique_names([case for case, _ in latest.values()])
    results = tuple(Result(case, value) for case, (_, value) in zip(cases, latest.values(), strict=True))
    runs = {key: text_of(value, "run_id") for key, (_, value) in latest.items()}
    own = (value for key, value in replaced.results() if runs[key] and text_of(value, "run_id") == runs[key])
    return Run(name, results, dropped, tuple(problems), earlier=(*earlier, *own))


def attempt_of(value: JsonObject) -> Attempt:
    """Return what of a result tells whether a later one includes its figures."""
    repeat = mapping_of(value, "repeat")
    return Attempt(
        moment=(str(value.get("timestamp")), str(value.get("duration_ms"))),
        hashes=tuple(text_of(value, name) or None for name in ("case_hash", "target_hash", "grading_hash")),
        goes_on=bool(repeat.get("carried") or repeat.get("lost")),
        is_rerun=bool(repeat.get("reruns")),
        asked_nothing=asked_nothing(value),
        is_single_error=not repeat and value.get("status") == "error",
    )
