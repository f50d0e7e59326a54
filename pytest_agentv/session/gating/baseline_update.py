"""Decides whether a run may become the baseline, and writes it."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from pytest_agentv.errors import AgentvError, FileError, locate
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.baselines.reading import read_baseline
from pytest_agentv.reporting.baselines.writing import baseline_text
from pytest_agentv.reporting.verdicts.baseline import Baseline, baseline_of, held_by, left_out, pooled, updated
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.runtime.files import write_atomically
from pytest_agentv.runtime.locks import FolderLock
from pytest_agentv.session.gating.completeness import Completeness
from pytest_agentv.session.gating.selection import narrowing_option

FLAG = "--agentv-update-baseline"
_LOCK_SECONDS: Final = 30.0
"""Writing takes milliseconds. A process that holds the lock for longer hangs."""


def refuse_before(config: pytest.Config, options: RunOptions) -> None:
    """Refuse options that rule out a baseline, before anything is paid for. Raises `pytest.UsageError`."""
    given = {
        "--agentv-dry-run (its scores mean nothing)": options.dry_run,
        "--agentv-cache (a baseline needs fresh answers)": options.cache,
        "--agentv-stop=certain (a baseline needs all answers)": options.stop == "certain",
        "-k": config.getoption("keyword", ""),
        "-m": config.getoption("markexpr", ""),
        "-x or --maxfail": config.getoption("maxfail", 0),
        "--deselect": config.getoption("deselect", None),
        "--agentv-sample": options.sample is not None,
        "--reruns (a case that is asked until it passes tells nothing)": config.getoption("reruns", 0),
    }
    found = [name for name, value in given.items() if value]
    narrowing = narrowing_option(config, options)
    if narrowing is not None:
        found.append(narrowing)
    if found:
        raise pytest.UsageError(f"{FLAG} does not go with {', '.join(found)}")
    if os.environ.get("CI") and options.update_baseline != "force":
        text = "is refused where CI is set: write the baseline on your machine and commit it"
        raise pytest.UsageError(f"{FLAG} {text} (or use {FLAG}=force)")


def refusal_after(
    cases: Sequence[JudgedCase], trouble: str | None, old: Baseline | None, how: str, name: str
) -> str | None:
    """Return why a run does not become the baseline of this name; None if it may."""
    if trouble is not None:
        return trouble
    named = {
        "could not be judged": [case for case in cases if case.is_error],
        "came from the cache": [case for case in cases if "cached" in case.flags],
        "were asked again until they passed (--reruns)": [case for case in cases if "reruns" in case.flags],
        "were asked only until the verdict was certain": [case for case in cases if case.stopped is not None],
    }
    for what, found in named.items():
        if found:
            return f"{len(found)} of {len(cases)} cases {what}"
    if how != "add" or old is None:
        return None
    if old.target_hash != baseline_of(cases).target_hash:
        return "the target changed, so its answers cannot be added to those of the baseline: write it anew"
    if held := held_by(old, cases, name):
        return (
            f"the answers of {len(held)} of {len(cases)} cases are in {name} already: run without --agentv-resume to "
            f"add new ones"
        )
    return None


def update_baseline(path: Path, name: str, cases: Sequence[JudgedCase], how: str, whole: Completeness) -> str:
    """Write the baseline of this name, and return a line about it. Raises `AgentvError` with the reason if it may not.

    Others may have written the file since the run read it. So it is locked, read again and checked again.
    """
    read = whole.baseline
    with _writing(path):
        now = whole.baseline = read_baseline(path) if path.exists() else None
        is_other = now is not None and (read is None or now.sha256 != read.sha256)
        skipped = whole.skipped(cases)
        refused = refusal_after(cases, whole.part(cases), now, how, name)
        lost = left_out(now, read, cases, skipped) if now is not None and how == "add" else ()
        if refused is None and lost:
            what = f"it holds answers of {counted(len(lost), 'case')} that this run did not ask, or asked differently"
            refused = f"{what} (a run with --agentv-resume pays for no answer twice)"
        if refused is not None:
            raise AgentvError(f"{name} was changed during the run: {refused}" if is_other else refused)
        return write_baseline(path, cases, now, how, skipped)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Shut out other runs that write the baseline. Raises `FileError` if one of them does not end."""
    folder = Path(os.path.realpath(path)).parent
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FolderLock(folder).hold(_LOCK_SECONDS))
        except TimeoutError:
            text = f"the baseline cannot be written: another process has locked its folder for {_LOCK_SECONDS:g} s"
            raise FileError(path, text) from None
        except OSError:
            pass  # a file system without locks; what else is wrong with the folder, writing tells
        yield


def write_baseline(
    path: Path, cases: Sequence[JudgedCase], old: Baseline | None, how: str, skipped: Sequence[JudgedCase] = ()
) -> str:
    """Write the baseline and return a line about it; `skipped` are skipped cases of the old one. Raises `FileError`.

    A run that was killed between this and the marks in its results may be resumed: its answers are not added again.
    """
    run = baseline_of(cases).replace(runs=(_run_name(cases),))
    if how == "add" and old is not None and run.runs[0] in old.runs:
        return f"Baseline not changed: {locate(path, None)} holds the answers of this run already"
    new = run if old is None else pooled(old, run, skipped) if how == "add" else updated(old, run)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, baseline_text(new))
    except OSError as error:
        raise FileError(path, f"the baseline cannot be written: {error.strerror or error}") from None
    text = f"Baseline written to: {locate(path, None)} ({len(new.cases):,} cases x {new.repeat})"
    if skipped:
        count, were = f"{len(skipped):,}", "was" if len(skipped) == 1 else "were"
        text += f", {count} of them skipped" if how == "add" else f", without {count} that {were} skipped"
    if new.rolls > 1:
        text += (
            f"; written {new.rolls} times for the same cases and target: the luckiest of several runs makes false "
            f"alarms, so add answers instead ({FLAG}=add)"
        )
    return text


def _run_name(cases: Sequence[JudgedCase]) -> str:
    """Return a name for the answers of a run. A run that is resumed with nothing to ask has the same one."""
    facts = sorted(repr((case.key, case.scores, case.ended)) for case in cases)
    return hashlib.sha256("\n".join(facts).encode("utf-8", "surrogatepass")).hexdigest()[:12]
