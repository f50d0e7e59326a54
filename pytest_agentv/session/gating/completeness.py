"""Whether a run left out evaluations, so that it gets no verdict, and whether it may become the baseline."""

import json
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from pytest_agentv.errors import AgentvError, FileError, locate, name_below
from pytest_agentv.model.base import JsonObject, counted
from pytest_agentv.model.options import OutputFormat, RunOptions
from pytest_agentv.reports.baseline import Baseline, baseline_of, baseline_text, read_baseline
from pytest_agentv.reports.judged_cases import JudgedCase
from pytest_agentv.reports.verdict import RunStatistics
from pytest_agentv.runtime.files import write_atomically
from pytest_agentv.session.gating.judged_cases import MAY_LEAVE_OUT_NONE, MarkedItems, narrowed_by, narrowing_option
from pytest_agentv.session.options import run_options
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.store.writers import amend, verdict_path

# Compares the cases of a run with those of its baseline: an incomplete run gets no verdict.


class Completeness:
    """Knows which cases a run left out, in the process that owns the terminal."""

    def __init__(self, config: pytest.Config, options: RunOptions, marked: MarkedItems) -> None:
        self._config = config
        self._options = options
        self._marked = marked
        self.baseline: Baseline | None = None
        """The baseline, once it is read."""

    def fault(self, node_ids: Collection[str]) -> str | None:
        """Return what shows, at collection, that cases are missing; None: nothing does."""
        missing = self._uncollected({node_id.partition("::")[0] for node_id in node_ids})
        return narrowed_by(self._config, self._options) or (f"{missing[0]} was not collected" if missing else None)

    def part(self, cases: Sequence[JudgedCase]) -> str | None:
        """Return why the run does not have all cases; None if it has all, as far as is known."""
        narrowed = narrowed_by(self._config, self._options)
        if narrowed is None and self._marked.unasked:
            narrowed = f"{self._marked.unasked:,} not asked for"
        missing = self._uncollected({case.eval_file for case in (*cases, *self.skipped(cases))})
        if narrowed is None and not missing:
            return None
        reason = narrowed or f"no case of {missing[0]} was run"
        if self.baseline is None:
            verb = "may be" if reason in MAY_LEAVE_OUT_NONE else "is" if len(cases) == 1 else "are"
            return f"{counted(len(cases), 'case')} {verb} a part of all ({reason})"
        known = {case.key for case in self.baseline.cases}
        found = sum(case.key in known for case in cases)
        return f"{found:,} of {len(known):,} cases ({reason})"

    def skipped(self, cases: Sequence[JudgedCase]) -> tuple[JudgedCase, ...]:
        """Return the cases of the baseline that were skipped by a mark."""
        return self._marked.skipped_of(self.baseline.cases, cases) if self.baseline is not None else ()

    def _uncollected(self, seen: Collection[str | None]) -> list[str]:
        """Return the eval files of the baseline that exist but are not among those seen."""
        files = {case.eval_file for case in self.baseline.cases} if self.baseline is not None else set()
        root = self._config.rootpath
        return sorted(file for file in files - set(seen) if file is not None and (root / file).is_file())


# Refuses a baseline that no run can be compared with: all its files are gone.

_SHOWN: Final = 3


def refuse_gone(config: pytest.Config) -> None:
    """Raise `pytest.UsageError` for a baseline of files that are no longer there, unless the run writes it anew.

    A baseline that cannot be read is told where it is used.
    """
    path = _compared(config)
    if path is None:
        return
    try:
        files = {case.eval_file for case in read_baseline(path).cases}
    except AgentvError:
        return
    folders = config.rootpath, path.parent  # a run with another root directory has other names for the files
    if not files or None in files or any((folder / str(file)).exists() for folder in folders for file in files):
        return
    shown = ", ".join(sorted(map(str, files))[:_SHOWN]) + (", …" if len(files) > _SHOWN else "")
    text = f"the baseline {name_below(path, config.rootpath)} is stale: the files of its cases are gone ({shown})"
    raise pytest.UsageError(f"{text}; --agentv-update-baseline writes it anew")


def _compared(config: pytest.Config) -> Path | None:
    """Return the baseline that the run is compared with, if it is there and the options are in order."""
    with suppress(pytest.UsageError):
        options = run_options(config)
        if options.baseline is not None and options.update_baseline is None and not options.dry_run:
            return options.baseline if options.baseline.is_file() else None
    return None


# Decides whether a run may become the baseline, and writes it.

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


def write_baseline(path: Path, cases: Sequence[JudgedCase], skipped: int) -> str:
    """Write the baseline and return a line about it. Raises `AgentvError` with the reason if the run may not become it.

    `skipped` cases of the old baseline are not in the new one.
    """
    named = {
        "could not be judged": [case for case in cases if case.is_error],
        "came from the cache": [case for case in cases if "cached" in case.flags],
        "were asked again until they passed (--reruns)": [case for case in cases if "reruns" in case.flags],
        "were asked only until the verdict was certain": [case for case in cases if case.stopped is not None],
    }
    for what, found in named.items():
        if found:
            raise AgentvError(f"{len(found)} of {len(cases)} cases {what}")
    new = baseline_of(cases)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, baseline_text(new))
    except OSError as error:
        raise FileError(path, f"the baseline cannot be written: {error.strerror or error}") from None
    text = f"Baseline written to: {locate(path, None)} ({len(new.cases):,} cases x {new.repeat})"
    return text + (f", without {skipped:,} that {'was' if skipped == 1 else 'were'} skipped" if skipped else "")


# Writes the verdict to a file of its own, and into the line of each case.


def write_verdict(contract: JsonObject, results_path: Path) -> str | None:
    """Write the verdict beside the results; return why it cannot be."""
    if not results_path.is_file():
        return None
    path = verdict_path(results_path)
    try:
        write_atomically(path, json.dumps(contract, ensure_ascii=False, indent=2, sort_keys=False) + "\n")
    except (AgentvError, OSError) as error:
        return f"the verdict was not written: {error}"
    return None


def amend_results(statistics: RunStatistics, identity: RunIdentity, output_format: OutputFormat) -> str | None:
    """Write into the results how each case did against the baseline; return why that cannot be."""
    additions = {
        (case.node_id, case.eval_id): {"baseline": figures.to_plain()} for case, figures in statistics.figures()
    }
    try:
        if additions and identity.results_path.is_file():
            amend(identity.results_path, identity.run_id, output_format, additions)
    except AgentvError as error:
        return f"the results do not say how cases did against the baseline: {error}"
    return None
