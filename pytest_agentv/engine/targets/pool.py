"""Prepares targets: finds, resolves and health-checks each once, and finds its judge."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from pytest_agentv.engine.overrides import NO_OVERRIDES, OWN_JUDGE, OWN_PROVIDER, Overrides
from pytest_agentv.engine.results import effective_target_name
from pytest_agentv.engine.targets.cache import CachedProvider
from pytest_agentv.engine.targets.checks import HealthChecks
from pytest_agentv.engine.targets.judging import ProviderJudge, judging_fault, needs_judge
from pytest_agentv.engine.targets.pacing import Pace, cap_warning, is_first_to_tell, pace_of
from pytest_agentv.engine.targets.proxying import CallableTargets, needs_targets
from pytest_agentv.engine.targets.variables import InProcessProvider, ProcessVariables
from pytest_agentv.errors import AgentvError, ProviderError, TargetError
from pytest_agentv.evaluators.context import Judge, ProxiedTargets
from pytest_agentv.loading.problems import Problem, join_problems
from pytest_agentv.loading.targets.definitions import TargetsFile
from pytest_agentv.loading.targets.environment import Environment, load_environment
from pytest_agentv.loading.targets.files import find_targets_file, load_targets_file, resolve_target
from pytest_agentv.loading.targets.kinds import TargetKinds
from pytest_agentv.models.cases import AnyEvaluator
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options import CACHE_FOLDER, RunOptions
from pytest_agentv.models.targets import Target
from pytest_agentv.providers.base import RUN_VARIABLE, Adapter
from pytest_agentv.providers.mock import Mock, dry_run_provider
from pytest_agentv.providers.python.foreign import adapt_provider
from pytest_agentv.providers.registry import create_provider
from pytest_agentv.providers.table import KINDS
from pytest_agentv.runtime.outcomes import attempt_async
from pytest_agentv.runtime.threads import run_in_thread
from pytest_agentv.runtime.user_loop import USER_LOOP

_LOGGER: Final = logging.getLogger(__name__)

DEFAULT_TARGET: Final = "default"


@dataclass(frozen=True, slots=True)
class ReadyTarget:
    """A target that can be called, and its judge."""

    name: str
    is_agent: bool
    provider: Adapter
    judge: Judge | None
    environment: Mapping[str, str]
    callable_targets: ProxiedTargets | None = None
    """The targets that judge scripts may call; None: no evaluator of the case needs them."""


@dataclass(frozen=True, slots=True)
class Places:
    """The folders where searches end, and a folder that processes share."""

    repo_root: Path
    cwd: Path
    shared_folder: Path | None = None
    """Where the processes of a run share their findings; None: there is only one process."""


def choose_target(options: RunOptions, written: str | None) -> str:
    """Return the name of a case's target: that of the command line (unless `default`), else of the case or its file.

    Source: evaluation-2025-11, "Target Resolution"; decisions 14.
    """
    if options.target and options.target.strip() not in ("", DEFAULT_TARGET):
        return options.target.strip()
    return written or DEFAULT_TARGET


class TargetPool:
    """The targets of a run. Each is resolved once per eval folder, health-checked once, and closed at the end.

    Used on the run's event loop only.
    """

    def __init__(
        self,
        options: RunOptions,
        places: Places,
        masker: Masker,
        kinds: Mapping[str, object],
    ) -> None:
        self.masker = masker
        self.warnings: list[Problem] = []
        """Warnings about targets files. The code that shows them empties the list."""
        self.stop_reason: str | None = None
        """Set when a health check failed, which ends the run (decisions 32)."""
        self._options = options
        self._places = places
        self._own_kinds = kinds
        self._paths: dict[Path, Path] = {}
        """Targets file by eval folder."""
        self._files: dict[Path, TargetsFile] = {}
        self._environments: dict[Path, Environment] = {}
        self._targets: dict[tuple[Path, str], Target] = {}
        self._providers: dict[tuple[Path, str], Adapter] = {}
        self._checks = HealthChecks(places.shared_folder)
        self._process = ProcessVariables()
        self._dotenv: dict[Path, Mapping[str, str]] = {}
        """The variables that a folder's `.env` adds to those of the process."""
        self._told_of_cap = False
        self._told_of_answers: set[tuple[Path, str]] = set()

    async def prepare(
        self, eval_dir: Path, name: str, evaluators: Sequence[AnyEvaluator], own: Overrides = NO_OVERRIDES
    ) -> ReadyTarget:
        """Prepare a target and its judge for the cases of a folder, before anything is paid for.

        Raises `TargetsError`, `TargetError`, or `ProviderError` if the target's health check fails.
        """
        file = None if own.replace_target else self._targets_file(eval_dir)
        environment = self._environment(eval_dir)
        if self._options.dry_run:
            return self._mocked(file, name, environment)
        target, provider = self._own_target(eval_dir, name, own) if file is None else self._open(eval_dir, name)
        judge = self._judge(eval_dir, target, own) if needs_judge(evaluators) else None
        callable_targets = self._callable(eval_dir, target, provider, own) if needs_targets(evaluators) else None
        if file is not None:
            await self._check(target, provider)
        is_agent = getattr(target.settings, "is_agent", False)
        return ReadyTarget(target.name, is_agent, provider, judge, environment.variables, callable_targets)

    async def pace(self, eval_dir: Path, name: str) -> Pace:
        """Return the limits of a target: its number of workers, or one call for all cases. Raises like `prepare`."""
        file = self._targets_file(eval_dir)
        definition = file.find(name)
        kind = file.kinds.find(definition.kind)
        warning = None if self._told_of_cap else cap_warning(file.path, definition, kind, self._options)
        if warning is not None:
            self._told_of_cap = True
            self.warnings.extend([warning] if is_first_to_tell(self._places.shared_folder) else [])
        return pace_of(definition, kind, self._options)

    def warn_of_answer(self, eval_dir: Path, name: str, warnings: Sequence[str]) -> None:
        """Warn about a target's answers, but only for the first answer with a warning."""
        key = (eval_dir, name)
        if not warnings or key in self._told_of_answers:
            return
        self._told_of_answers.add(key)
        target = self._targets.get(key)
        for warning in warnings:
            if target is None or target.path is None:
                _LOGGER.warning("target %s: %s", name, warning)
            else:
                text = f"target {name!r}: {warning}"
                self.warnings.append(Problem(Path(target.path), target.line, "", text, level="warning"))

    def definition(self, eval_dir: Path, name: str) -> Target:
        """Return a target as its file defines it, with variables filled in. Opens nothing. Raises like `prepare`."""
        return self._target(eval_dir, self._targets_file(eval_dir), name)

    async def close(self) -> None:
        """Close all providers, even if closing one of them fails."""
        await asyncio.gather(*(attempt_async(provider.close) for provider in self._providers.values()))
        self._process.close()
        await run_in_thread(USER_LOOP.close, "agentv-close")

    @cached_property
    def _kinds(self) -> TargetKinds:
        return KINDS.with_own(self._own_kinds)  # calls the hooks, so only when a target is needed

    def _targets_file(self, eval_dir: Path) -> TargetsFile:
        if eval_dir not in self._paths:
            places = self._places
            self._paths[eval_dir] = find_targets_file(self._options.targets, eval_dir, places.repo_root, places.cwd)
        path = self._paths[eval_dir]
        if path not in self._files:
            file = load_targets_file(path, self._kinds)
            if file.warnings and self._options.strict:
                raise TargetError(join_problems(file.warnings))
            self.warnings.extend(file.warnings)
            self._files[path] = file
        return self._files[path]

    def learn_secrets(self, eval_dir: Path) -> None:
        """Read the environment of a folder, so that its secrets are masked. Raises `AgentvError`."""
        self._environment(eval_dir)

    def _environment(self, eval_dir: Path) -> Environment:
        if eval_dir not in self._environments:
            original = self._process.original()
            environment = load_environment(eval_dir, self._places.repo_root, self._places.cwd, original)
            self.masker.add_environment(environment.variables)
            self._environments[eval_dir] = environment
            self._dotenv[eval_dir] = {name: value for name, value in environment.dotenv.items() if name not in original}
        return self._environments[eval_dir]

    def _target(self, eval_dir: Path, file: TargetsFile, name: str) -> Target:
        key = (eval_dir, name)
        if key not in self._targets:
            environment = self._environment(eval_dir)
            self._targets[key] = resolve_target(file, file.find(name), environment, eval_dir, self.masker)
        return self._targets[key]

    def _provider(self, eval_dir: Path, target: Target) -> Adapter:
        key = (eval_dir, target.name)
        if key not in self._providers:
            variables = self._environment(eval_dir).variables
            if target.settings.is_one_by_one and self._places.shared_folder is not None:
                variables = {**variables, RUN_VARIABLE: self._places.shared_folder.name}
            provider = create_provider(target, variables)
            warm_up = getattr(provider, "warm_up", None)
            if getattr(provider, "reads_environ", False):
                provider = self._in_process(eval_dir, provider)
            if self._options.cache and not target.provider_batching:
                provider = CachedProvider(provider, target, self._places.cwd / CACHE_FOLDER, self.masker)
            elif warm_up is not None:  # with a cache, perhaps no model is needed
                warm_up()
            self._providers[key] = provider
        return self._providers[key]

    def _open(self, eval_dir: Path, name: str) -> tuple[Target, Adapter]:
        target = self._target(eval_dir, self._targets_file(eval_dir), name)
        return target, self._provider(eval_dir, target)

    def _own_target(self, eval_dir: Path, name: str, own: Overrides) -> tuple[Target, Adapter]:
        function = (lambda _: own.answer) if own.provider is None else own.provider
        return Target(name, "python"), self._in_process(eval_dir, adapt_provider(function, OWN_PROVIDER))

    def _judge(self, eval_dir: Path, target: Target, own: Overrides) -> Judge:
        if own.judge is not None:
            return ProviderJudge(*self._own_judge(eval_dir, own.judge), self._options)
        if own.replace_target:
            target = self._named_target(eval_dir, target.name)
        fault = judging_fault(target, target.settings, self._targets_file(eval_dir).path)
        if fault:
            raise TargetError(fault)
        judge_name = target.name if target.judge_target is None else target.judge_target
        return ProviderJudge(*self._open(eval_dir, judge_name), self._options)

    def _named_target(self, eval_dir: Path, name: str) -> Target:
        """Return the target that a user's object replaces, because it may name a judge."""
        try:
            return self._target(eval_dir, self._targets_file(eval_dir), name)
        except AgentvError as error:
            raise TargetError(f"a model is to judge, and none is named: {error}; or override {OWN_JUDGE}") from error

    def _callable(self, eval_dir: Path, target: Target, provider: Adapter, own: Overrides) -> CallableTargets:
        opened = {target.name: (target, provider)}
        if own.judge is not None:
            opened[OWN_JUDGE] = self._own_judge(eval_dir, own.judge)
        try:
            names = self._targets_file(eval_dir).names
        except AgentvError:
            if not own.replace_target:
                raise
            names = ()
        default_name = OWN_JUDGE if own.judge is not None else target.judge_target or target.name
        known = (*opened, *names)
        return CallableTargets(
            target.name, known, default_name, lambda name: opened.get(name) or self._open(eval_dir, name)
        )

    def _mocked(self, file: TargetsFile | None, name: str, environment: Environment) -> ReadyTarget:
        known = name if file is None else file.find(name).name
        delays = (self._options.dry_run_delay, self._options.dry_run_delay_min, self._options.dry_run_delay_max)
        provider = dry_run_provider(*delays)
        mock = Target(effective_target_name(known, dry_run=True), "mock", Mock())
        judge = ProviderJudge(mock, provider, self._options)
        names = () if file is None else file.names
        callable_targets = CallableTargets(mock.name, names, mock.name, lambda _: (mock, provider))
        return ReadyTarget(mock.name, False, provider, judge, environment.variables, callable_targets)

    def _own_judge(self, eval_dir: Path, judge: object) -> tuple[Target, Adapter]:
        return Target(OWN_JUDGE, "python"), self._in_process(eval_dir, adapt_provider(judge, OWN_JUDGE))

    def _in_process(self, eval_dir: Path, provider: Adapter) -> Adapter:
        """Return a provider that shows the folder's `.env` to code that reads `os.environ`."""
        self._environment(eval_dir)
        return InProcessProvider(provider, self._process, self._dotenv[eval_dir])

    async def _check(self, target: Target, provider: Adapter) -> None:
        try:
            await self._checks.check(target, provider)
        except ProviderError as error:
            # A wrong definition, or a check that breaks, says nothing about whether the target is well.
            if error.kind not in ("config", "crash"):
                self.stop_reason = str(error)
            raise
