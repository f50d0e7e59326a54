"""What the controller of an xdist run sees of workers that die, and what the results would not tell."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.engine.results import CaseIdentity, error_result
from pytest_agentv.engine.targets import choose_target
from pytest_agentv.errors import AgentvError
from pytest_agentv.loading.discovery import SUFFIXES
from pytest_agentv.loading.suites import CaseEntry, SuiteSource, read_suite
from pytest_agentv.models.options import RunOptions
from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.identity import RunIdentity
from pytest_agentv.session.names import unique_names


class CrashWatch:
    """Notes which items were given out, which came back, and on which a worker died."""

    def __init__(self, root: Path, identity: RunIdentity, options: RunOptions) -> None:
        self._root = root
        self._identity = identity
        self._options = options
        self._collected: set[str] = set()
        self._reported: set[str] = set()
        self._crashed: dict[str, str] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._collected.update(filter(is_eval_node_id, ids))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not is_eval_node_id(report.nodeid):
            return
        self._reported.add(report.nodeid)
        if _is_crash(report):
            self._crashed[report.nodeid] = report.longreprtext.strip().rpartition("\n")[2] or "the worker crashed"

    def crash_results(self, recorded: set[str]) -> Iterator[EvalResult]:
        """Yield an error for each case on which a worker died before its result was recorded."""
        for node_id, message in self._crashed.items():
            if node_id not in recorded:
                yield error_result(self._identify(node_id), "setup", "crash", message, dry_run=self._options.dry_run)

    def lost(self, recorded: set[str]) -> list[str]:
        """Return the node ids of cases that xdist neither ran nor reported."""
        return sorted(self._collected - self._reported - recorded) if self._crashed else []

    def _identify(self, node_id: str) -> CaseIdentity:
        """Name a case of which the controller has seen the node id only: its file tells the rest."""
        file, _, name = node_id.partition("::")
        suite, entry = self._find(self._root / file, name.rpartition("@")[0] or name, name)
        return CaseIdentity(
            eval_id=entry.eval_id if entry and entry.eval_id else name,
            dataset=suite.dataset if suite else Path(file).stem,
            target=choose_target(self._options, suite.target if suite else None),
            eval_file=file,
            line=entry.line if entry else 1,
            node_id=node_id,
            run_id=self._identity.run_id,
        )

    def _find(self, path: Path, *names: str) -> tuple[SuiteSource | None, CaseEntry | None]:
        try:
            suite = read_suite(path)
        except AgentvError:
            return None, None
        by_name = dict(zip(unique_names(entry.eval_id for entry in suite.entries), suite.entries, strict=True))
        return suite, next((by_name[name] for name in names if name in by_name), None)


def is_eval_node_id(node_id: str) -> bool:
    return Path(node_id.partition("::")[0]).suffix in SUFFIXES


def _is_crash(report: Any) -> bool:
    """Whether xdist made the report up for an item whose worker died; it has no phase then."""
    return bool(report.failed and report.when == "???")
