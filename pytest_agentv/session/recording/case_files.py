"""Reads eval files for cases that did not run here: those of a crashed worker, and those to retry."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_agentv.cases.discovery import is_eval_file
from pytest_agentv.cases.entries import CaseEntry, SuiteSource
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.engine.jobs import CaseIdentity, choose_target
from pytest_agentv.engine.results import effective_target_name, error_result
from pytest_agentv.errors import AgentvError
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.providers.row_makers import call_row_maker
from pytest_agentv.session.outcomes import unique_names
from pytest_agentv.session.recording.identity import RunIdentity

# Finds cases in eval files by their node ids, for a process that has not collected them.


@dataclass(frozen=True, slots=True)
class CaseFile:
    """An eval file, as far as it can be read."""

    suite: SuiteSource | None
    by_name: dict[str, CaseEntry]

    def entry(self, node_id: str) -> CaseEntry | None:
        return next((self.by_name[name] for name in _names(node_id) if name in self.by_name), None)


class CaseFiles:
    """Reads each eval file once."""

    def __init__(self, config: pytest.Config, options: RunOptions) -> None:
        self._config = config
        self._options = options
        self._files: dict[str, CaseFile | None] = {}

    def file(self, node_id: str) -> CaseFile | None:
        """Return the eval file of an item; None: the file is not an eval file."""
        name = node_id.partition("::")[0]
        if name not in self._files:
            self._files[name] = self._read(self._config.rootpath / name)
        return self._files[name]

    def target_of(self, node_id: str) -> str:
        """Return the name of the target that this run chooses for an item, as far as its file tells."""
        file = self.file(node_id)
        if file is None or file.suite is None:
            return choose_target(self._options, None)
        return choose_target(self._options, file.suite.target_of(file.entry(node_id)))

    def target_in_results(self, node_id: str) -> str:
        """Return the name that this target has in results."""
        return effective_target_name(self.target_of(node_id), dry_run=self._options.dry_run)

    def _read(self, path: Path) -> CaseFile | None:
        root, globs = self._config.rootpath, self._config.getini("agentv_files")
        try:
            if not is_eval_file(path, root=root, is_named=self._is_named(path), globs=globs):
                return None
            suite = read_suite(path, call_row_maker, self._options.chosen_targets)
        except (AgentvError, OSError):
            return CaseFile(None, {})
        names = unique_names(entry.base_name for entry in suite.entries)
        return CaseFile(suite, dict(zip(names, suite.entries, strict=True)))

    def _is_named(self, path: Path) -> bool:
        folder = self._config.invocation_params.dir
        return any(folder / arg.partition("::")[0] == path for arg in self._config.args)


def _names(node_id: str) -> tuple[str, str]:
    """Return the possible names of the item: `--dist=loadgroup` appends its group."""
    name = node_id.partition("::")[2]
    return name.rpartition("@")[0] or name, name


# Makes the results of cases on which a worker died, in the controller.


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
