"""Makes the results of cases on which a worker died, in the controller."""

from pathlib import Path

import pytest

from pytest_agentv.engine.jobs import CaseIdentity
from pytest_agentv.engine.results import error_result
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.session.recording.case_files import CaseFiles
from pytest_agentv.session.recording.identity import RunIdentity


class CrashResults:
    """Builds results of cases by their node ids, which are all that the controller knows.

    Skips items of other plugins.
    """

    def __init__(self, config: pytest.Config, run: RunIdentity, options: RunOptions) -> None:
        self._root = config.rootpath
        self._run = run
        self._options = options
        self._files = CaseFiles(config, options)

    def is_case(self, node_id: str) -> bool:
        """Whether an item is a case of an eval file."""
        file = self._files.file(node_id)
        return file is not None and (file.suite is None or file.entry(node_id) is not None)

    def of(self, node_id: str, message: str) -> EvalResult | None:
        """Return the error of a case; None for an item of another plugin."""
        file = self._files.file(node_id)
        if file is None or not self.is_case(node_id):
            return None
        entry = file.entry(node_id)
        path, _, name = node_id.partition("::")
        identity = CaseIdentity(
            eval_id=entry.eval_id if entry and entry.eval_id else name,
            dataset=file.suite.dataset if file.suite else Path(path).stem,
            target=self._files.target_of(node_id),
            eval_file=path,
            line=entry.line if entry else 1,
            node_id=node_id,
            run_id=self._run.run_id,
            combination=entry.combination.name if entry and entry.combination else None,
            row=entry.row.shown_from(self._root) if entry and entry.row else None,
        )
        return error_result(identity, "setup", "crash", message, dry_run=self._options.dry_run)


def of_crash(older: EvalResult, run: RunIdentity, message: str) -> EvalResult:
    """Return the error of an evaluation in a test, whose older result must not stand for it."""
    identity = CaseIdentity(
        eval_id=older.eval_id,
        dataset=older.dataset,
        target=older.target,
        eval_file=older.eval_file or "",
        line=older.line or 1,
        node_id=older.node_id or "",
        run_id=run.run_id,
    )
    return error_result(identity, "setup", "crash", message, dry_run=older.dry_run is True).replace(target=older.target)
