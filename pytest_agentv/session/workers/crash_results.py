"""Makes the results of cases on which a worker died, in the controller."""

from pathlib import Path

import pytest

from pytest_agentv.engine.jobs import CaseIdentity
from pytest_agentv.engine.results import error_result
from pytest_agentv.engine.targets.choosing import choose_target
from pytest_agentv.errors import AgentvError
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.loading.files.discovery import is_eval_file
from pytest_agentv.loading.files.entries import CaseEntry
from pytest_agentv.loading.files.suite_source import SuiteSource
from pytest_agentv.loading.files.suites import read_suite
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.providers.python.row_makers import call_row_maker
from pytest_agentv.session.names import unique_names
from pytest_agentv.session.recording.identity import RunIdentity


@record
class _File:
    """An eval file, as far as it can be read after the crash."""

    suite: SuiteSource | None
    by_name: dict[str, CaseEntry]


class CrashResults:
    """Builds results of cases by their node ids, which are all that the controller knows.

    Skips items of other plugins.
    """

    def __init__(self, config: pytest.Config, run: RunIdentity, options: RunOptions) -> None:
        self._config = config
        self._run = run
        self._options = options
        self._files: dict[str, _File | None] = {}

    def is_case(self, node_id: str) -> bool:
        """Whether an item is a case of an eval file."""
        file = self._file(node_id)
        return file is not None and (file.suite is None or any(name in file.by_name for name in _names(node_id)))

    def of(self, node_id: str, message: str) -> EvalResult | None:
        """Return the error of a case; None for an item of another plugin."""
        file = self._file(node_id)
        if file is None or not self.is_case(node_id):
            return None
        entry = next((file.by_name[name] for name in _names(node_id) if name in file.by_name), None)
        path, _, name = node_id.partition("::")
        identity = CaseIdentity(
            eval_id=entry.eval_id if entry and entry.eval_id else name,
            dataset=file.suite.dataset if file.suite else Path(path).stem,
            target=choose_target(self._options, file.suite.target_of(entry) if file.suite else None),
            eval_file=path,
            line=entry.line if entry else 1,
            node_id=node_id,
            run_id=self._run.run_id,
            combination=entry.combination.name if entry and entry.combination else None,
            row=entry.row.shown_from(self._config.rootpath) if entry and entry.row else None,
        )
        return error_result(identity, "setup", "crash", message, dry_run=self._options.dry_run)

    def _file(self, node_id: str) -> _File | None:
        """Return the eval file of an item; None: the file is not an eval file."""
        name = node_id.partition("::")[0]
        if name not in self._files:
            self._files[name] = self._read(self._config.rootpath / name)
        return self._files[name]

    def _read(self, path: Path) -> _File | None:
        root, globs = self._config.rootpath, self._config.getini("agentv_files")
        try:
            if not is_eval_file(path, root=root, is_named=self._is_named(path), globs=globs):
                return None
            suite = read_suite(path, call_row_maker, self._options.chosen_targets, EVALUATORS)
        except (AgentvError, OSError):
            return _File(None, {})
        return _File(
            suite, dict(zip(unique_names(entry.base_name for entry in suite.entries), suite.entries, strict=True))
        )

    def _is_named(self, path: Path) -> bool:
        folder = self._config.invocation_params.dir
        return any(folder / arg.partition("::")[0] == path for arg in self._config.args)


def _names(node_id: str) -> tuple[str, str]:
    """Return the possible names of the item: `--dist=loadgroup` appends its group."""
    name = node_id.partition("::")[2]
    return name.rpartition("@")[0] or name, name
