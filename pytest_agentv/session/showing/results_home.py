"""Writes and checks the results file in the process that owns the terminal."""

import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_agentv.errors import AgentvError, locate
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.readers import REPORT, RESULTS, foreign_fault
from pytest_agentv.reporting.writers import ResultSink, answers_path, unjudged_folder, verdict_path
from pytest_agentv.runtime.files import remove_leftovers
from pytest_agentv.runtime.locks import InUse
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.session.recording.run_results import RunResults, judged_versions, read_run, recorded_now
from pytest_agentv.session.showing.item_outcomes import ItemOutcomes

if TYPE_CHECKING:  # only for runs with workers
    from pytest_agentv.session.workers.crashes import CrashWatch


class ResultsHome:
    """Writes the lines that workers could not write, and checks that all results are in the file."""

    def __init__(
        self, identity: RunIdentity, options: RunOptions, at_end: Callable[[Callable[[], None]], None]
    ) -> None:
        """`at_end` takes what is to be called when pytest ends."""
        self._identity = identity
        self._options = options
        self._sink = ResultSink(identity.results_path, options.output_format, Masker())
        self.write_errors: list[str] = []
        """Why results were lost."""
        self.late_crashes: tuple[str, ...] = ()
        """Texts on cases whose worker crashed after their results were recorded."""
        self._crashes: CrashWatch | None = None
        self._in_use = InUse()
        at_end(self._in_use.end)

    def check(self, ids: Iterable[str], root: Path) -> None:
        """Check that the run may resume its file, and delete the unjudged answers of an earlier run with this file.

        Raises `pytest.UsageError`.
        """
        resumed = self._identity.resumed
        files = {node_id.partition("::")[0] for node_id in ids}
        if resumed is not None and (fault := resumed.foreign_fault(files, root)):
            raise pytest.UsageError(fault)
        self._check_places({root / file for file in files})
        if not self._identity.goes_on:
            shutil.rmtree(unjudged_folder(self._identity.results_path), ignore_errors=True)

    def _check_places(self, collected: Collection[Path]) -> None:
        """Check that the run writes to none of its inputs. Raises `pytest.UsageError`."""
        out, html = self._options.out, self._options.html
        for flag, path, begin in (("--agentv-out", out, RESULTS), ("--agentv-html", html, REPORT)):
            if path is not None:
                fault = "is an eval file of this run" if path.absolute() in collected else foreign_fault(path, begin)
                if fault is not None:
                    raise pytest.UsageError(f"{flag}: {locate(path, None)} {fault}, which this would spoil")

    def begin(self) -> None:
        """Delete the verdict on an earlier run. Raises `pytest.UsageError` if no results can be written."""
        try:
            self._sink.probe()
        except AgentvError as error:
            hint = "" if self._options.out or self._options.resume else " (--agentv-out names a file)"
            raise pytest.UsageError(f"no results can be recorded: {error}{hint}") from None
        finally:
            self._sink.close()  # another process may write the results
        self._in_use.begin(self._identity.results_path)  # a run that resumed it now would pay for the same cases
        self.drop_verdict()  # a failure is reported at the end of the run
        remove_leftovers(self._identity.results_path.parent)

    def append(self, texts: Sequence[str]) -> None:
        if texts:
            try:
                self._sink.write_texts(texts)
            except AgentvError as error:
                self.write_errors.append(str(error))

    def close(self, crashes: "CrashWatch | None") -> None:
        """Write an error for each case that a worker died on, because the worker could not, and close the file."""
        self._crashes = crashes
        if crashes is not None and crashes.has_crashes:
            recorded = list(recorded_now(self._identity))
            self.late_crashes = tuple(crashes.late({result.node_id or "": result.status for result in recorded}))
            written = {(result.node_id, result.eval_id) for result in recorded}
            older = [each for each in read_run(self._identity).results if (each.node_id, each.eval_id) not in written]
            masker = Masker.of_environment()
            sink = ResultSink(self._identity.results_path, self._options.output_format, masker)
            self.append(tuple(map(sink.serialize, crashes.crash_results(node_ids(recorded), older))))
        self._sink.close()

    def lost(self, run: RunResults) -> tuple[str, ...]:
        """Return the node ids of cases that were lost with crashed workers."""
        return tuple(self._crashes.lost(node_ids(run.results))) if self._crashes is not None else ()

    def find_loss(self, run: RunResults, outcomes: ItemOutcomes) -> None:
        """Check that the results of all cases that ran are in the file."""
        path = self._identity.results_path
        is_readable = path.is_file() or not path.exists()  # a device cannot be read back
        if (
            is_readable
            and not self.write_errors
            and (fault := outcomes.unrecorded(node_ids(run.all), locate(path, None)))
        ):
            self.write_errors.append(fault)

    def drop_verdict(self) -> str | None:
        """Delete the verdict on an earlier run. Return why it cannot be deleted."""
        path = verdict_path(self._identity.results_path)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            return f"{locate(path, None)}: the verdict on an earlier run cannot be deleted: {error.strerror}"
        return None

    def drop_answers(self, *, is_broken_off: bool) -> None:
        """Delete kept answers that no resumed run needs: single answers of repeated cases, and unjudged answers."""
        if is_broken_off and self._options.baseline is not None:
            return  # some suspects may have fresh answers, but not all
        self._drop_unjudged()
        if not self.write_errors and answers_path(self._identity.results_path).is_file():
            from pytest_agentv.session.recording.answers import drop_answers  # noqa: PLC0415 - only for repeated cases

            drop_answers(self._identity.results_path, judged_versions(self._identity))

    def _drop_unjudged(self) -> None:
        folder = unjudged_folder(self._identity.results_path)
        if folder.is_dir():
            from pytest_agentv.engine.targets.waiting import drop_waiting  # noqa: PLC0415 - only if answers waited

            drop_waiting(folder, lambda: judged_versions(self._identity))


def node_ids(results: Iterable[EvalResult]) -> set[str]:
    return {result.node_id for result in results if result.node_id is not None}
