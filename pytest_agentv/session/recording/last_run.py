"""Finds the results file that a run resumes."""

import os
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import pytest

from pytest_agentv.errors import AgentvError, locate
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.serialization import stored_name
from pytest_agentv.reporting.writers import kept_folder, unjudged_folder

if TYPE_CHECKING:
    from pytest_agentv.reporting.checked import RecordedResult

RESUME: Final = "--agentv-resume"
_Item: TypeAlias = tuple[str, str, str]
"""Eval file, id and node id."""
_SHOWN: Final = 3
"""How many names of files a message lists."""


@record
class ResumedFile(Record):
    """A results file whose finished cases are carried over, from all its runs."""

    path: Path
    """Absolute."""
    run_id: str
    """The id of the last run in the file."""
    last_line: int = 0
    """The last line before this run appends its own."""
    eval_files: tuple[str, ...] = ()
    """The eval files of its results."""
    node_files: tuple[str, ...] = ()
    """The same files by their names in node ids, which differ for files outside of pytest's root directory."""
    broken: tuple[tuple[str, str], ...] = ()
    """Eval file and id of the cases that ended as errors."""
    broken_items: tuple[str, ...] = ()
    """Node ids of the items with such a case, or with an evaluation that ended as an error."""
    unbroken: tuple[str, ...] = ()
    """Node ids of items that did not break, although their file and id are in `broken`: other targets of a matrix."""
    foreign: tuple[tuple[str, str, str], ...] = ()
    """Node id, id and target of the results that are of other targets than this run's, where a case has both. They
    do not count for items that this run does not ask."""
    remarks: tuple[str, ...] = ()
    """Warnings about the file: skipped lines, results that are too old."""
    is_dry: bool | None = False
    """Whether its last result is mocked; None: it is empty."""

    def mixing_fault(self, *, dry_run: bool) -> str | None:
        """Return why a run must not write to the file: mocked results and real ones must not be mixed."""
        if self.is_dry in {dry_run, None}:
            return None
        held, other = ("of a dry run", "a run with calls") if self.is_dry else ("of calls", "a dry run")
        return f"{locate(self.path, None)} holds results {held}, with which {other} cannot go on"

    def foreign_fault(self, collected: set[str], root: Path) -> str | None:
        """Return why the file seems to belong to another project: none of its results is from a collected file."""
        if not collected or not all(collected):  # outside of the root directory, node ids may have no file name
            return None
        known = {os.path.normpath(root / name) for name in (*self.eval_files, *self.node_files)}
        names = {os.path.normpath(root / stored_name(name)) for name in collected}
        if not known or known & names:  # only answers have no names
            return None
        return (
            f"{locate(self.path, None)} holds results of {_named(self.eval_files)}, and none of what was collected: "
            f"{_named(sorted(collected))}; is it the file of another project?"
        )


def find_last_run(
    path: Path,
    flag: str,
    executor: str | None = None,
    *,
    dry_run: bool = False,
    own_target: Callable[[str], str] | None = None,
) -> ResumedFile:
    """Return a results file, or the newest results file of a folder, to resume.

    In a folder, dry runs and real runs see only files of their own kind. Otherwise a dry run in between would make the
    next run pay for all answers again.

    Adds the results that workers keep. Those of a cluster are fetched through `executor`, if that is a cluster.

    `own_target` returns the name that this run's target of an item has in results, as far as files and options tell.
    An item broke if its last result of this target is an error, or its last one of any target. None: the latter tells.

    Raises `pytest.UsageError` that names `flag` if there is no file.
    """
    file = _newest_file(path, dry_run=dry_run) if path.is_dir() else path
    if file is None or not (file.is_file() or kept_folder(file).is_dir()):
        raise pytest.UsageError(f"{flag}: {locate(path, None)} holds no results file to go on from")
    try:
        if kept_folder(file).is_dir():
            from pytest_agentv.session.recording.left_results import add_left_results, fetch_left  # noqa: PLC0415 - rare

            fetch_left(file, executor)
            add_left_results(file)
        return _read(file, flag, own_target)
    except AgentvError as error:
        raise pytest.UsageError(f"{flag}: {error}") from None


class _Reading:
    """What a results file tells of the run to go on with: its last one."""

    def __init__(self) -> None:
        self.remarks: list[str] = []
        self.by_target: dict[_Item, dict[str, str]] = {}
        """The last status of each item with each of its targets. That of its last result is the last one."""
        self.node_files: dict[str, None] = {}
        self.run_id: str | None = None
        self.last_line = self.unsigned = 0
        self.is_dry: bool | None = False

    def add_entry(self, entry: "RecordedResult | Problem") -> None:
        self.last_line = entry.line or self.last_line
        if isinstance(entry, Problem):
            self.remarks.append(str(entry))
        elif entry.result.run_id is not None:
            result = entry.result
            self.run_id, self.is_dry = result.run_id or self.run_id, result.dry_run is True
            by_target = self._by_target(result)
            by_target.pop(result.target, None)
            by_target[result.target] = result.status
            self.unsigned += result.status != "error" and (result.target_hash is None or result.grading_hash is None)

    def add_answer(self, answer: EvalResult) -> None:
        """Add an answer of a case that was unfinished at the end of the run."""
        self.run_id, self.is_dry = self.run_id or answer.run_id, answer.dry_run is True
        self._by_target(answer).setdefault(answer.target, "open")

    def _by_target(self, result: EvalResult) -> dict[str, str]:
        self.node_files[(result.node_id or "").partition("::")[0]] = None
        return self.by_target.setdefault((result.eval_file or "", result.eval_id, result.node_id or ""), {})


def _read(file: Path, flag: str, own_target: Callable[[str], str] | None) -> ResumedFile:
    from pytest_agentv.reporting.answers import iter_answers  # noqa: PLC0415 - pydantic, only for resumed runs
    from pytest_agentv.reporting.checked import iter_recorded  # noqa: PLC0415 - as above

    found = _Reading()
    for entry in iter_recorded(file):
        found.add_entry(entry)
    for _, answer in iter_answers(file):
        found.add_answer(answer)
    run_id = found.run_id
    if run_id is None and flag == RESUME:
        run_id, found.is_dry = _without_results(file)
    if run_id is None:
        text = f"{flag}: {locate(file, None)} holds no results of a run of pytest-agentv"
        raise pytest.UsageError("; ".join([text, *found.remarks[:1]]))
    if found.unsigned:
        found.remarks.append(_unsigned_text(file, found.unsigned))
    statuses, foreign = _statuses(found.by_target, own_target)
    broken = dict.fromkeys(item[:2] for item, status in statuses.items() if status == "error")
    return ResumedFile(
        file.absolute(),
        run_id,
        found.last_line,
        tuple(dict.fromkeys(eval_file for eval_file, _, _ in statuses)),
        tuple(filter(None, found.node_files)),
        tuple(broken),
        tuple(dict.fromkeys(item[2] for item, status in statuses.items() if status == "error" and item[2])),
        tuple(item[2] for item, status in statuses.items() if status != "error" and item[:2] in broken),
        tuple(foreign),
        tuple(found.remarks),
        found.is_dry,
    )


def _statuses(
    by_target: dict[_Item, dict[str, str]], own_target: Callable[[str], str] | None
) -> tuple[dict[_Item, str], list[tuple[str, str, str]]]:
    """Return the status of each item that counts for this run, and node id, id and target of results that do not."""
    statuses: dict[_Item, str] = {}
    foreign: list[tuple[str, str, str]] = []
    for item, known in by_target.items():
        _, eval_id, node_id = item
        judged = [status for status in known.values() if status != "open"]
        last = statuses[item] = judged[-1] if judged else "open"
        own = own_target(node_id) if own_target is not None and len(known) > 1 else None
        if own not in known or last == "error":
            continue  # a hook or a fixture may choose another target: then the one of the last result counts
        statuses[item] = known[own]
        foreign += [(node_id, eval_id, target) for target in known if target != own]
    return statuses, foreign


def _without_results(file: Path) -> tuple[str | None, bool | None]:
    """Return a new run id, and whether the run was dry, for a file whose run was killed before its first result.

    Such a file is empty, or there are answers that nobody judged. The id is None for other files.
    """
    if any(unjudged_folder(file).glob("*.json")):
        return new_run_id(datetime.now(UTC)), False
    is_empty = file.is_file() and file.stat().st_size == 0
    return (new_run_id(datetime.now(UTC)) if is_empty else None), None


def new_run_id(started: datetime) -> str:
    """Return a new unique id."""
    return f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"


def _unsigned_text(file: Path, count: int) -> str:
    results = counted(count, "result does", "results do")
    return (
        f"{locate(file, None)}: {results} not tell with which target and evaluators it came about (no target_hash, no "
        f"grading_hash), as those of older versions: such cases are run again"
    )


def _named(files: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return ", ".join(file or "an unknown file" for file in files[:_SHOWN]) + more


def _newest_file(folder: Path, *, dry_run: bool) -> Path | None:
    files = [path for path in folder.glob("eval_*") if path.suffix in {".jsonl", ".yaml"}]
    newest_first = sorted(files, key=lambda path: path.stat().st_mtime_ns, reverse=True)
    return next((path for path in newest_first if _is_dry(path) in (dry_run, None)), None)


def _is_dry(file: Path) -> bool | None:
    """Return whether the first result of a file is mocked; None: there is none yet, or it cannot be read."""
    from pytest_agentv.reporting.checked import iter_recorded  # noqa: PLC0415 - pydantic, only for resumed runs

    try:
        found = next((entry for entry in iter_recorded(file) if not isinstance(entry, Problem)), None)
    except AgentvError:
        return None
    return None if found is None else found.result.dry_run is True
