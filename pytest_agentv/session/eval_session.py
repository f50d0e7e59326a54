"""The one object that holds a run's state: options, engine, results."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from pytest_agentv.engine.case import CaseJob, run_case
from pytest_agentv.engine.results import CaseIdentity, error_result
from pytest_agentv.engine.targets import Places, TargetPool, choose_target
from pytest_agentv.errors import AgentvError, CaseError
from pytest_agentv.loading.cases import LoadContext, load_case
from pytest_agentv.loading.config import load_guideline_patterns
from pytest_agentv.loading.environment import find_repo_root
from pytest_agentv.loading.suites import CaseEntry, SuiteSource
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.secrets import Masker
from pytest_agentv.reporting.writers import ResultSink
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.session.identity import RunIdentity, run_identity
from pytest_agentv.session.options import run_options
from pytest_agentv.session.outcomes import show_warning

Factory = TypeVar("Factory")

_KEY = pytest.StashKey["EvalSession"]()


class EvalSession:
    """Runs cases on the engine and records their results; created when the first eval file is collected."""

    def __init__(self, config: pytest.Config) -> None:
        self.options = run_options(config)
        self.identity: RunIdentity = run_identity(config, self.options)
        self.masker = Masker()
        self.write_error: str | None = None
        """Why results could not be written; shown once, at the end."""
        self.ambiguous_ids: set[str] = set()
        """Ids that several of the collected cases have."""
        cwd = config.invocation_params.dir
        self._config = config
        self._places = Places(find_repo_root(cwd), cwd)
        self._loop = LoopThread()
        self._sink = ResultSink(self.identity.results_path, self.options.output_format, self.masker)
        self._providers = merged_kinds(config.hook.pytest_agentv_providers())
        self._evaluators = merged_kinds(config.hook.pytest_agentv_evaluators())
        self._pool = TargetPool(self.options, self._places, self.masker, self._providers)
        self._contexts: dict[Path, LoadContext] = {}

    @staticmethod
    def of(config: pytest.Config) -> "EvalSession":
        """Return the run's session, made for the first eval file. Raises `pytest.UsageError` for bad ini values."""
        session = config.stash.get(_KEY, None)
        if session is None:
            session = config.stash[_KEY] = EvalSession(config)
        return session

    @property
    def stop_reason(self) -> str | None:
        """Why nothing more is to be run; None: go on."""
        return self._pool.stop_reason

    def run(self, suite: SuiteSource, entry: CaseEntry, node_id: str) -> EvalResult:
        """Run a case to its end and record the result."""
        started = time.perf_counter()
        identity = self._identify(suite, entry, node_id)
        try:
            case = self._load(suite, entry)
        except CaseError as error:
            result = error_result(identity, "setup", "config", str(error), dry_run=self.options.dry_run)
            result = result.replace(duration_ms=(time.perf_counter() - started) * 1000)
        else:
            target = choose_target(self.options, case.target)
            identity = identity.replace(target=target, conversation_id=case.conversation_id)
            qualifier = node_id if case.eval_id in self.ambiguous_ids else None
            job = CaseJob(identity, case, self.options, dump_qualifier=qualifier)
            result = self._loop.run(run_case(job, self._pool, self._evaluators))
        self._record(result)
        return result

    def finish(self) -> None:
        """Close the targets, end the loop and what still runs on it, and close the results file."""
        if self._loop.is_running:
            self._loop.run(self._pool.close())
            self._loop.stop()
        self._sink.close()

    def _identify(self, suite: SuiteSource, entry: CaseEntry, node_id: str) -> CaseIdentity:
        root = self._config.rootpath
        path = suite.path
        return CaseIdentity(
            eval_id=entry.eval_id if entry.eval_id is not None else node_id.rpartition("::")[2],
            dataset=suite.dataset,
            target=choose_target(self.options, suite.target),
            eval_file=path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path),
            line=entry.line,
            node_id=node_id,
            run_id=self.identity.run_id,
        )

    def _load(self, suite: SuiteSource, entry: CaseEntry) -> EvalCase:
        loaded = load_case(suite, entry, self._context(suite.path.parent))
        for problem in loaded.warnings:
            show_warning(problem)
        return loaded.case

    def _context(self, eval_dir: Path) -> LoadContext:
        if eval_dir not in self._contexts:
            patterns, problems = load_guideline_patterns(eval_dir, self._places.repo_root)
            for problem in problems:
                show_warning(problem)
            self._contexts[eval_dir] = LoadContext(
                repo_root=self._places.repo_root,
                cwd=self._places.cwd,
                guideline_patterns=patterns,
                strict=self.options.strict,
                known_evaluator_types=frozenset(self._evaluators),
            )
        return self._contexts[eval_dir]

    def _record(self, result: EvalResult) -> None:
        warnings, self._pool.warnings = self._pool.warnings, []
        for problem in warnings:
            show_warning(problem)
        try:
            self._sink.write(result)
        except AgentvError as error:
            # The case was run and judged: that its line is lost is told at the end, and does not change its outcome.
            self.write_error = self.write_error or str(error)


def merged_kinds(found: Sequence[Mapping[str, Factory]]) -> dict[str, Factory]:
    """Merge what the hooks of several plugins added; the nearest conftest wins."""
    merged: dict[str, Factory] = {}
    for kinds in reversed(found):
        merged |= kinds
    return merged
