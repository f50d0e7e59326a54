"""Gets targets ready: finds, resolves and probes them once, and finds their judges."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pytest_agentv.engine.cache import CachedProvider
from pytest_agentv.engine.checks import HealthChecks
from pytest_agentv.engine.judging import ProviderJudge, needs_judge
from pytest_agentv.engine.proxying import CallableTargets, needs_targets
from pytest_agentv.engine.results import effective_target_name
from pytest_agentv.errors import ProviderError, TargetError, locate
from pytest_agentv.evaluators.base import Judge, ProxiedTargets
from pytest_agentv.loading.environment import Environment, load_environment
from pytest_agentv.loading.problems import Problem, join_problems
from pytest_agentv.loading.target_definitions import TargetDefinition, TargetsFile
from pytest_agentv.loading.targets import find_targets_file, load_targets_file, resolve_target
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.evaluator_configs import EvaluatorSpec
from pytest_agentv.models.options import CACHE_FOLDER, RunOptions
from pytest_agentv.models.secrets import Masker
from pytest_agentv.models.targets import Target
from pytest_agentv.providers.base import Provider, ProviderFactory
from pytest_agentv.providers.mock import dry_run_provider
from pytest_agentv.providers.registry import create_provider

DEFAULT_TARGET: Final = "default"

JUDGING_KINDS: Final = frozenset({"azure", "anthropic", "gemini", "openai", "litellm", "mock"})
"""Kinds that may judge their own answers when no `judge_target` is named (decisions 16)."""


@dataclass(frozen=True, slots=True)
class ReadyTarget:
    """A target that can be called, and the judge that goes with it."""

    name: str
    kind: str
    provider: Provider
    judge: Judge | None
    environment: Mapping[str, str]
    callable_targets: ProxiedTargets | None = None
    """What judge scripts may call; None: no evaluator of the case wants to."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How a target wants its cases."""

    workers: int
    """Cases in flight."""
    is_batched: bool
    """One call for all of them."""


@dataclass(frozen=True, slots=True)
class Places:
    """The folders that searches end at, and one that processes share."""

    repo_root: Path
    cwd: Path
    shared_folder: Path | None = None
    """Where the processes of a run tell each other what they found; None: there is only one."""


def choose_target(options: RunOptions, written: str | None) -> str:
    """Return the name of a case's target: command line (unless `default`), then what the case or its file says.

    Source: evaluation-2025-11, "Target Resolution"; decisions 14.
    """
    if options.target and options.target.strip() not in ("", DEFAULT_TARGET):
        return options.target.strip()
    return written or DEFAULT_TARGET


def judging_fault(target: Target | TargetDefinition, path: Path) -> str | None:
    """Return why a target has no judge, if so: it names none, and is no model that could judge its own answers."""
    if target.judge_target is not None or target.kind in JUDGING_KINDS:
        return None
    return (
        f"target {target.name!r} ({locate(path, target.line)}) would have to judge its own answers: give it a model "
        f"as judge, `judge_target: <name of a target>`, or give the case evaluators that need no model"
    )


class TargetPool:
    """The targets of a run: each resolved once per eval folder, probed once, and closed at the end.

    Used on the run's event loop only.
    """

    def __init__(
        self,
        options: RunOptions,
        places: Places,
        masker: Masker,
        factories: Mapping[str, ProviderFactory],
    ) -> None:
        self.masker = masker
        self.warnings: list[Problem] = []
        """Of targets files; who shows them empties the list."""
        self.stop_reason: str | None = None
        """Set when a health check failed: the run ends (decisions 32)."""
        self._options = options
        self._places = places
        self._factories = factories
        self._files: dict[Path, TargetsFile] = {}
        self._environments: dict[Path, Environment] = {}
        self._targets: dict[tuple[Path, str], Target] = {}
        self._providers: dict[tuple[Path, str], Provider] = {}
        self._checks = HealthChecks(places.shared_folder)

    async def prepare(self, case: EvalCase, name: str, specs: Sequence[EvaluatorSpec]) -> ReadyTarget:
        """Get a case's target and judge ready, before anything is paid for.

        Raises `TargetsError`, `TargetError`, or `ProviderError` when the target's health check fails.
        """
        eval_dir = Path(case.path).parent
        file = self._targets_file(eval_dir)
        environment = self._environment(eval_dir)
        if self._options.dry_run:
            return self._mocked(file, name, environment)
        target = self._target(eval_dir, file, name)
        judge = self._judge(eval_dir, file, target) if needs_judge(specs) else None
        callable_targets = self._callable(eval_dir, file, target) if needs_targets(specs) else None
        provider = self._provider(eval_dir, target)
        await self._check(target, provider)
        return ReadyTarget(target.name, target.kind, provider, judge, environment.variables, callable_targets)

    async def pace(self, eval_dir: Path, name: str) -> Pace:
        """Return how a target wants its cases: how many at a time, or all in one call. Raises as `prepare`."""
        definition = self._targets_file(eval_dir).find(name)
        return Pace(definition.workers or 1, definition.provider_batching and not self._options.dry_run)

    async def close(self) -> None:
        """Close all providers; one that cannot be closed does not keep the others open."""
        await asyncio.gather(*(provider.close() for provider in self._providers.values()), return_exceptions=True)

    def _targets_file(self, eval_dir: Path) -> TargetsFile:
        path = find_targets_file(self._options.targets, eval_dir, self._places.repo_root, self._places.cwd)
        if path not in self._files:
            file = load_targets_file(path, extra_kinds=self._factories.keys())
            if file.warnings and self._options.strict:
                raise TargetError(join_problems(file.warnings))
            self.warnings.extend(file.warnings)
            self._files[path] = file
        return self._files[path]

    def _environment(self, eval_dir: Path) -> Environment:
        if eval_dir not in self._environments:
            environment = load_environment(eval_dir, self._places.repo_root, self._places.cwd, os.environ)
            self.masker.add_environment(environment.variables)
            self._environments[eval_dir] = environment
        return self._environments[eval_dir]

    def _target(self, eval_dir: Path, file: TargetsFile, name: str) -> Target:
        key = (eval_dir, name)
        if key not in self._targets:
            environment = self._environment(eval_dir)
            self._targets[key] = resolve_target(file, file.find(name), environment, eval_dir, self.masker)
        return self._targets[key]

    def _provider(self, eval_dir: Path, target: Target) -> Provider:
        key = (eval_dir, target.name)
        if key not in self._providers:
            environment = self._environment(eval_dir)
            if target.kind in ("python", "litellm"):  # litellm looks for the keys of its many providers there
                export_dotenv(environment.dotenv)
            provider = create_provider(target, environment.variables, self._factories)
            if self._options.cache and not target.provider_batching:
                provider = CachedProvider(provider, target, self._places.cwd / CACHE_FOLDER, self.masker)
            self._providers[key] = provider
        return self._providers[key]

    def _judge(self, eval_dir: Path, file: TargetsFile, target: Target) -> Judge:
        fault = judging_fault(target, file.path)
        if fault:
            raise TargetError(fault)
        judge = target if target.judge_target is None else self._target(eval_dir, file, target.judge_target)
        return ProviderJudge(judge, self._provider(eval_dir, judge), self._options)

    def _callable(self, eval_dir: Path, file: TargetsFile, target: Target) -> CallableTargets:
        def open_target(name: str) -> tuple[Target, Provider]:
            opened = self._target(eval_dir, file, name)
            return opened, self._provider(eval_dir, opened)

        return CallableTargets(target.name, file.names, target.judge_target or target.name, open_target)

    def _mocked(self, file: TargetsFile, name: str, environment: Environment) -> ReadyTarget:
        definition = file.find(name)
        delays = (self._options.dry_run_delay, self._options.dry_run_delay_min, self._options.dry_run_delay_max)
        provider = dry_run_provider(*delays)
        mock = Target(effective_target_name(definition.name, dry_run=True), "mock", {})
        judge = ProviderJudge(mock, provider, self._options)
        callable_targets = CallableTargets(mock.name, file.names, mock.name, lambda _: (mock, provider))
        return ReadyTarget(mock.name, mock.kind, provider, judge, environment.variables, callable_targets)

    async def _check(self, target: Target, provider: Provider) -> None:
        try:
            await self._checks.check(target, provider)
        except ProviderError as error:
            if error.kind != "config":  # a target that is written down wrongly breaks its own cases only
                self.stop_reason = str(error)
            raise


def export_dotenv(dotenv: Mapping[str, str]) -> None:
    """Show the variables of `.env` to what runs in this process and reads `os.environ`."""
    for name, value in dotenv.items():
        os.environ.setdefault(name, value)
