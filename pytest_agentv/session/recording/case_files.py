"""Finds cases in eval files by their node ids, for a process that has not collected them."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_agentv.cases.discovery import is_eval_file
from pytest_agentv.cases.entries import CaseEntry, SuiteSource
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.engine.jobs import choose_target
from pytest_agentv.engine.results import effective_target_name
from pytest_agentv.errors import AgentvError
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.providers.row_makers import call_row_maker
from pytest_agentv.session.outcomes import unique_names


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
            suite = read_suite(path, call_row_maker, self._options.chosen_targets, EVALUATORS)
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
