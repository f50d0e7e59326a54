"""The results of cases on which a worker died. The controller has not collected them: it reads their eval files."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import pytest

from pytest_agentv.cases.discovery import is_eval_file
from pytest_agentv.cases.entries import CaseEntry, SuiteSource
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.engine.jobs import CaseIdentity, choose_target
from pytest_agentv.engine.results import error_result
from pytest_agentv.errors import AgentvError
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.results import EvalResult
from pytest_agentv.providers.user_modules import call_row_maker
from pytest_agentv.session.identity import RunIdentity
from pytest_agentv.session.outcomes import unique_names

_CaseFile: TypeAlias = tuple[SuiteSource | None, Mapping[str, CaseEntry]]
"""An eval file, None if it cannot be read, and its cases by the names of their items."""


class CrashResults:
    """Builds results of cases by their node ids, which are all that the controller knows. Reads each eval file once.

    Skips items of other plugins.
    """

    def __init__(self, config: pytest.Config, run: RunIdentity, options: RunOptions) -> None:
        self._config = config
        self._run = run
        self._options = options
        self._files: dict[str, _CaseFile | None] = {}

    def is_case(self, node_id: str) -> bool:
        """Whether an item is a case of an eval file."""
        return self._find(node_id) is not None

    def of(self, node_id: str, message: str) -> EvalResult | None:
        """Return the error of a case; None for an item of another plugin."""
        found = self._find(node_id)
        if found is None:
            return None
        suite, entry = found
        path, _, name = node_id.partition("::")
        identity = CaseIdentity(
            eval_id=entry.eval_id if entry and entry.eval_id else name,
            dataset=suite.dataset if suite else Path(path).stem,
            target=choose_target(self._options, suite.target_of(entry) if suite else None),
            eval_file=path,
            line=entry.line if entry else 1,
            node_id=node_id,
            run_id=self._run.run_id,
            combination=entry.combination.name if entry and entry.combination else None,
            row=entry.row.shown_from(self._config.rootpath) if entry and entry.row else None,
        )
        return error_result(identity, "setup", "crash", message, dry_run=self._options.dry_run)

    def of_test(self, older: EvalResult, message: str) -> EvalResult:
        """Return the error of an evaluation in a test, whose older result must not stand for it."""
        identity = CaseIdentity(
            eval_id=older.eval_id,
            dataset=older.dataset,
            target=older.target,
            eval_file=older.eval_file or "",
            line=older.line or 1,
            node_id=older.node_id or "",
            run_id=self._run.run_id,
        )
        result = error_result(identity, "setup", "crash", message, dry_run=older.dry_run is True)
        return result.replace(target=older.target)

    def _find(self, node_id: str) -> tuple[SuiteSource | None, CaseEntry | None] | None:
        """Return the eval file and the case of an item, as far as the file can be read; None: it is no case."""
        path, _, name = node_id.partition("::")
        if path not in self._files:
            self._files[path] = self._read(self._config.rootpath / path)
        file = self._files[path]
        if file is None:
            return None
        suite, entries = file
        entry = entries.get(name.rpartition("@")[0]) or entries.get(name)  # `--dist=loadgroup` appends a group
        return None if suite is not None and entry is None else (suite, entry)

    def _read(self, path: Path) -> _CaseFile | None:
        config, folder = self._config, self._config.invocation_params.dir
        is_named = any(folder / arg.partition("::")[0] == path for arg in config.args)
        try:
            if not is_eval_file(path, root=config.rootpath, is_named=is_named, globs=config.getini("agentv_files")):
                return None
            suite = read_suite(path, call_row_maker, self._options.chosen_targets)
        except (AgentvError, OSError):
            return None, {}
        names = unique_names(entry.base_name for entry in suite.entries)
        return suite, dict(zip(names, suite.entries, strict=True))
