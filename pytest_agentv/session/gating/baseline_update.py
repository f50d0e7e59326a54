"""Decides whether a run may become the baseline, and writes it."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_agentv.errors import FileError, locate
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.reporting.baselines.writing import baseline_text
from pytest_agentv.reporting.verdicts.baseline import Baseline, baseline_of, held_by, pooled, updated
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.runtime.files import write_atomically
from pytest_agentv.session.gating.selection import narrowing_option

FLAG = "--agentv-update-baseline"


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
