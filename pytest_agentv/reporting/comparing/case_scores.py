"""The scores of a results file by case, ready to compare with those of another file."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.figures import with_id
from pytest_agentv.reporting.readers import iter_foreign, skipped
from pytest_agentv.reporting.verdicts.case_reading import is_error_of, score_fault

_DISTINGUISHING: Final = ("target", "node_id")
"""Names that count only if a file has several of them for one case."""


@record
class CaseKey(Record):
    """The names that identify a case in a results file; None: the file does not hold that name."""

    eval_id: str
    eval_file: str | None = None
    target: str | None = None
    node_id: str | None = None

    @property
    def label(self) -> str:
        """The name to show. A node id contains the file, and the id unless a Python test has several cases."""
        name = f"{self.eval_file}::{self.eval_id}" if self.eval_file else self.eval_id
        if self.node_id is not None:
            name = with_id(self.node_id, self.eval_file, self.eval_id)
        return f"{name} (target {self.target})" if self.target else name

    def only(self, names: Iterable[str]) -> "CaseKey":
        """Return the key with only some of its names."""
        return CaseKey(**{name: getattr(self, name) for name in names})


@record
class Scores:
    """The scores of a results file by case. The last of several results of one case counts."""

    by_key: Mapping[CaseKey, float | None]
    """None: the case could not be judged, so it has no score."""
    counts: Mapping[CaseKey, int]
    """The number of results that the file holds for each case."""
    problems: tuple[Problem, ...]
    """One for each result that could not be read."""


def read_scores(path: Path) -> Scores:
    """Read only names and scores of a results file. Raises `FileError` if the file cannot be opened."""
    scores: dict[CaseKey, float | None] = {}
    counts: Counter[CaseKey] = Counter()
    problems: list[Problem] = []
    for entry in iter_scored(path):
        if isinstance(entry, Problem):
            problems.append(entry)
            continue
        key = key_of(entry)
        scores.pop(key, None)  # keeps cases in the order of their last results
        scores[key] = None if is_error(entry) else float(entry["score"])
        counts[key] += 1
    return Scores(scores, counts, tuple(problems))


def iter_scored(path: Path) -> Iterator[JsonObject | Problem]:
    """Yield the results of a file that have an id and a score, and a problem for each other one."""
    for entry in iter_foreign(path):
        if isinstance(entry, Problem):
            yield entry
        else:
            fault = score_fault(entry.value)
            yield entry.value if fault is None else skipped(path, entry.line, fault)


def align(first: Scores, second: Scores) -> tuple[Scores, Scores]:
    """Return the scores of two files under keys that match across the files.

    The eval file is part of the keys if both files hold it. Target and node id are part of the keys only if a file
    has several of them for one case, so that a run of one target can be compared with a run of another.
    """
    shorten = shortening((first.by_key, second.by_key), _DISTINGUISHING)
    return _shorten(first, shorten), _shorten(second, shorten)


def matching_key(first: Sequence[EvalResult], second: Sequence[EvalResult]) -> Callable[[EvalResult], CaseKey]:
    """Return the key by which the results of two runs match, in the same way as the scores of two files."""
    shorten = shortening((list(map(_key_of_result, first)), list(map(_key_of_result, second))), _DISTINGUISHING)
    return lambda result: shorten(_key_of_result(result))


def shortening(runs: Iterable[Collection[CaseKey]], distinguishing: Sequence[str]) -> Callable[[CaseKey], CaseKey]:
    """Return a function that leaves out the names that do not distinguish cases, or are not known in all runs.

    If a run names no eval files, cases match by id. But cases of several files that share an id keep their files: which
    of them that run means is unknown, so they match none of its cases.

    `distinguishing` are names that are used only if a run needs them.
    """
    runs = list(runs)
    by_file = all(any(key.eval_file is not None for key in keys) for keys in runs)
    names = ["eval_id", *(["eval_file"] if by_file else [])]
    ambiguous = frozenset[str]() if by_file else frozenset(chain.from_iterable(map(_ids_of_several_files, runs)))

    def shorten(key: CaseKey) -> CaseKey:
        return key.only((*names, "eval_file") if key.eval_id in ambiguous else names)

    for name in distinguishing:
        names += [name] if any(_tells_apart(keys, shorten, name) for keys in runs) else []
    return shorten


def key_of(value: JsonObject) -> CaseKey:
    """Return the names of a result's case."""
    names = {name: value.get(name) for name in ("eval_file", "target", "node_id")}
    return CaseKey(value["eval_id"], **{name: text if isinstance(text, str) else None for name, text in names.items()})


def _key_of_result(result: EvalResult) -> CaseKey:
    return CaseKey(result.eval_id, result.eval_file, result.target, result.node_id)


def is_error(value: JsonObject) -> bool:
    """Return whether a case could not be judged, or was not: a dry run judges nothing."""
    return is_error_of(value) or value.get("dry_run") is True


def _ids_of_several_files(keys: Iterable[CaseKey]) -> Iterator[str]:
    """Yield the ids that cases of several eval files share."""
    files: dict[str, str | None] = {}
    for key in keys:
        if files.setdefault(key.eval_id, key.eval_file) != key.eval_file:
            yield key.eval_id


def _tells_apart(keys: Iterable[CaseKey], shorten: Callable[[CaseKey], CaseKey], name: str) -> bool:
    """Whether two keys are equal when they are short, but differ in `name`."""
    found: dict[CaseKey, str | None] = {}
    return any(found.setdefault(shorten(key), getattr(key, name)) != getattr(key, name) for key in keys)


def _shorten(scores: Scores, shorten: Callable[[CaseKey], CaseKey]) -> Scores:
    """Return scores under short keys. The last result of a case counts."""
    by_key: dict[CaseKey, float | None] = {}
    counts: Counter[CaseKey] = Counter()
    for key, score in scores.by_key.items():
        short = shorten(key)
        by_key[short] = score
        counts[short] += scores.counts[key]
    return Scores(by_key, counts, scores.problems)
