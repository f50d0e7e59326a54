"""Recovers the results that the workers of a killed run kept, before another run resumes it."""

from pathlib import Path
from typing import TypeAlias

from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.kept import KeptResult, KeptResults, LeftRuns, clear_leash, missing_text
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.options import is_cluster
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.model.text import compact_json
from pytest_agentv.runtime.files import LockedAppender
from pytest_agentv.store.readers import iter_recorded
from pytest_agentv.store.writers import NUMBER, ResultSink, answers_path, iter_answers, kept_folder

_Asked: TypeAlias = tuple[object, ...]
"""What a result answers. A clock that was set back says nothing of answers to another question."""


def add_left_results(results_path: Path) -> int:
    """Write the results that workers keep to the files of their run, and return how many were missing there.

    Raises `AgentvError` if they cannot be written. Then they are still kept.
    """
    folder = kept_folder(results_path)
    kept_results = KeptResults(folder)
    added = 0
    known = _known(results_path)
    for kept in kept_results.all():
        try:
            result = EvalResult.from_plain(kept.result)
        except ValueError:
            continue
        if known.get(_asked(kept.answer, result), "") < result.timestamp:
            _write(results_path, kept, result)
            added += 1
        kept_results.drop(kept.ticket)
    clear_leash(folder)
    kept_results.close()
    return added


def fetch_left(results_path: Path, executor: str | None) -> None:
    """Fetch the results that the workers of a cluster keep from a killed run, for `add_left_results`.

    Raises `AgentvError` if a cluster cannot be reached.
    """
    lefts = LeftRuns(kept_folder(results_path))
    found = lefts.all()
    if not found:
        return
    address = executor if is_cluster(executor) else None
    try:
        from pytest_agentv.executors.dask_cluster import bring_home  # noqa: PLC0415 - only for runs on a cluster
    except ModuleNotFoundError as error:
        raise AgentvError(missing_text(address or found[0].address, error)) from None
    bring_home(lefts, address)


def _known(results_path: Path) -> dict[_Asked, str]:
    """Return when each case and each answer was last judged, to skip kept results that are not newer."""
    found: list[tuple[int | None, EvalResult]] = list(iter_answers(results_path))
    if results_path.is_file():
        entries = [entry for entry in iter_recorded(results_path) if not isinstance(entry, Problem)]
        found += [(None, entry.result) for entry in entries]
    known: dict[_Asked, str] = {}
    for answer, result in found:
        if result.status != "error":
            key = _asked(answer, result)
            known[key] = max(known.get(key, ""), result.timestamp)
    return known


def _asked(answer: int | None, result: EvalResult) -> _Asked:
    hashes = result.case_hash, result.target_hash, result.grading_hash
    return answer, result.run_id, result.node_id, result.eval_id, result.target, *hashes


def _write(results_path: Path, kept: KeptResult, result: EvalResult) -> None:
    """Append a result, whose secrets were masked before it was kept."""
    if kept.answer is None:
        sink = ResultSink(results_path, "jsonl", Masker())
        try:
            sink.write(result)
        finally:
            sink.close()
        return
    appender = LockedAppender(answers_path(results_path))
    try:
        line = compact_json({NUMBER: kept.answer, **kept.result})
        appender.append(f"{line}\n".encode())
    finally:
        appender.close()
