"""Prepares targets: finds, resolves and health-checks each once, and finds its judge."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_agentv.engine.overrides import NO_OVERRIDES, OWN_JUDGE, OWN_PROVIDER, Overrides
from pytest_agentv.engine.results import effective_target_name
from pytest_agentv.engine.targets.checks import HealthChecks, Together, sharing
from pytest_agentv.engine.targets.folders import FolderTargets, Places, UnjudgedFolders
from pytest_agentv.engine.targets.judging import EqualQuestions, ProviderJudge, judging_fault, needs_of
from pytest_agentv.engine.targets.pacing import Pace, cap_warning, is_first_to_warn, pace_of
from pytest_agentv.engine.targets.waiting import WaitingAnswers
from pytest_agentv.errors import AgentvError, ProviderError, TargetError
from pytest_agentv.evaluators.context import Embedder, Judge, ProxiedTargets
from pytest_agentv.loading.problems import Problem
from pytest_agentv.loading.targets.definitions import TargetsFile
from pytest_agentv.loading.targets.environment import Environment
from pytest_agentv.models.cases import AnyEvaluator
from pytest_agentv.models.kind_table import KindsOf
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options.defaults import CACHE_FOLDER
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.records import record
from pytest_agentv.models.targets import Target
from pytest_agentv.providers.base import Adapter

if TYPE_CHECKING:  # only for scripts that call targets
    from pytest_agentv.engine.targets.proxying import CallableTargets

_LOGGER: Final = logging.getLogger(__name__)


@record
class ReadyTarget:
    """A target that can be called, and its judge."""

    name: str
    is_agent: bool
    provider: Adapter
    judge: Judge | None
    environment: Mapping[str, str]
    embedders: Mapping[str, Embedder] = field(default_factory=dict)
    """The targets whose embeddings the case's evaluators compare."""
    callable_targets: ProxiedTargets | None = None
    """The targets that judge scripts may call; None: no evaluator of the case needs them."""
    unjudged: UnjudgedFolders | None = None
    """Where answers are until they are judged; None: they are not kept."""
    asked: EqualQuestions = field(default_factory=EqualQuestions)
    """Counts the questions of the case."""


class TargetPool:
    """The targets of a run. Each is resolved once per eval folder, health-checked once, and closed at the end.

    Used on the run's event loop only.
    """

    def __init__(
        self,
        options: RunOptions,
        places: Places,
        masker: Masker,
        own_kinds: KindsOf,
        together: Together | None = None,
    ) -> None:
        """`together` is how processes share health checks; None: by the shared folder, if there is one."""
        self.masker = masker
        self.waiting = WaitingAnswers()
        self.stop_reason: str | None = None
        """Set when a health check failed, which ends the run (decisions 32)."""
        self._options = options
        self._places = places
        self._folders = FolderTargets(options, places, masker, own_kinds)
        self._checks = HealthChecks(together or sharing(places.shared_folder), places.repo_root)
        self._embedders: dict[tuple[Path, str], Embedder] = {}
        self._told: set[object] = set()

    async def prepare(
        self, eval_dir: Path, name: str, evaluators: tuple[AnyEvaluator, ...], own: Overrides = NO_OVERRIDES
    ) -> ReadyTarget:
        """Prepare a target and its judge for the cases of a folder, before anything is paid for.

        Raises `TargetsError`, `TargetError`, or `ProviderError` if the check of one of them fails.
        """
        file = None if own.replace_target else self._folders.file(eval_dir)
        environment = self._folders.environment(eval_dir)
        needs = needs_of(evaluators)
        if self._options.dry_run:
            for each in needs.embeddings:
                self.file(eval_dir).find(each)
            return self._mocked(file, name, environment)
        target, provider = self._own_target(eval_dir, name, own) if file is None else self._folders.open(eval_dir, name)
        asked = EqualQuestions()
        judging = self._judging(eval_dir, target, own) if needs.judge else None
        callable_targets = self._callable(eval_dir, target, provider, own, asked) if needs.targets else None
        embedders = {each: self._embedder(eval_dir, each) for each in needs.embeddings}
        default = None if callable_targets is None else callable_targets.default
        for pair in (each for each in ((target, provider), judging, default) if each is not None):
            await self._check(*pair)
        judge = judging and ProviderJudge(*judging, self._options, asked, partial(self.warn_of_answer, eval_dir))
        is_agent = getattr(target.settings, "is_agent", False)
        variables, unjudged = environment.variables, None if file is None else self._folders.unjudged(target)
        return ReadyTarget(
            target.name, is_agent, provider, judge, variables, embedders, callable_targets, unjudged, asked
        )

    async def pace(self, eval_dir: Path, name: str) -> Pace:
        """Return the limits of a target: its number of workers, or one call for all cases. Raises like `prepare`."""
        file = self._folders.file(eval_dir)
        definition = file.find(name)
        kind = file.kinds.find(definition.kind)
        if warning := cap_warning(file.path, definition, kind, self._options):
            self.warn_once(warning, "cap")
        return pace_of(definition, kind, self._options)

    def warn_of_answer(self, eval_dir: Path, name: str, warnings: Sequence[str]) -> None:
        """Warn about a target's answers, but only for the first answer with a warning."""
        key = (eval_dir, name)
        if not warnings or key in self._told:
            return
        self._told.add(key)
        target = self._folders.known(*key)
        for warning in warnings:
            if target is None or target.path is None:
                _LOGGER.warning("target %s: %s", name, warning)
            else:
                self.warn([Problem(Path(target.path), target.line, "", f"target {name!r}: {warning}", level="warning")])

    def file(self, eval_dir: Path) -> TargetsFile:
        """Return the targets file of a folder. Raises like `prepare`."""
        return self._folders.file(eval_dir)

    def definition(self, eval_dir: Path, name: str) -> Target:
        """Return a target as its file defines it, with variables filled in. Opens nothing. Raises like `prepare`."""
        return self._folders.definition(eval_dir, name)

    def warn(self, problems: Iterable[Problem]) -> None:
        """Keep warnings until `take_warnings`."""
        self._folders.warnings.extend(problems)

    def warn_once(self, warning: Problem, what: str) -> None:
        """Keep a warning, unless a process of the run has warned of the same. `what` is a part of a file's name."""
        if what not in self._told:
            self._told.add(what)
            self.warn([warning] if is_first_to_warn(self._places.shared_folder, what) else [])

    def take_warnings(self) -> list[Problem]:
        """Return the new warnings of files. Any thread may call it."""
        return self._folders.take_warnings()

    def learn_secrets(self, eval_dir: Path) -> None:
        """Read the environment of a folder, so that its secrets are masked. Raises `AgentvError`."""
        self._folders.environment(eval_dir)

    async def close(self) -> None:
        """Close all providers, even if closing one of them fails."""
        await self._folders.close()

    def _own_target(self, eval_dir: Path, name: str, own: Overrides) -> tuple[Target, Adapter]:
        provider = _adapted((lambda _: own.answer) if own.provider is None else own.provider, OWN_PROVIDER)
        if own.calls is not None:
            provider = own.calls.of(provider, eval_dir, name)
        return Target(name, "python"), self._folders.in_process(eval_dir, provider)

    def _judging(self, eval_dir: Path, target: Target, own: Overrides) -> tuple[Target, Adapter]:
        if own.judge is not None:
            return self._own_judge(eval_dir, own.judge)
        if own.replace_target:
            target = self._named_target(eval_dir, target.name)
        fault = judging_fault(target, target.settings, self._folders.file(eval_dir).path)
        if fault:
            raise TargetError(fault)
        judge_name = target.name if target.judge_target is None else target.judge_target
        return self._folders.open(eval_dir, judge_name)

    def _named_target(self, eval_dir: Path, name: str) -> Target:
        """Return the target that a user's object replaces, because it may name a judge."""
        try:
            return self._folders.definition(eval_dir, name)
        except AgentvError as error:
            raise TargetError(f"a model is to judge, and none is named: {error}; or override {OWN_JUDGE}") from error

    def _callable(
        self, eval_dir: Path, target: Target, provider: Adapter, own: Overrides, asked: EqualQuestions
    ) -> "CallableTargets":
        from pytest_agentv.engine.targets.proxying import CallableTargets  # noqa: PLC0415 - for scripts that call targets

        opened = {target.name: (target, provider)}
        if own.judge is not None:
            opened[OWN_JUDGE] = self._own_judge(eval_dir, own.judge)
        try:
            names = self._folders.file(eval_dir).names
        except AgentvError:
            if not own.replace_target:
                raise
            names = ()
        return CallableTargets(
            target.name,
            (*opened, *names),
            OWN_JUDGE if own.judge is not None else target.judge_target or target.name,
            lambda name: opened.get(name) or self._folders.open(eval_dir, name),
            asked=asked,
            check=self._check,
            tell=partial(self.warn_of_answer, eval_dir),
        )

    def _embedder(self, eval_dir: Path, name: str) -> Embedder:
        """Return the embeddings of a target. Raises `TargetError` for one that gives none."""
        key = (eval_dir, name)
        if key not in self._embedders:
            from pytest_agentv.engine.targets import embedding  # noqa: PLC0415 - only for `similar`

            target, provider = self._folders.open(eval_dir, name)
            cache, tell = self._places.cwd / CACHE_FOLDER if self._options.cache else None, self._folders.warn_of_cache
            self._embedders[key] = embedding.embedder_of(target, provider, cache, self._options.timeout or None, tell)
        return self._embedders[key]

    def _mocked(self, file: TargetsFile | None, name: str, environment: Environment) -> ReadyTarget:
        from pytest_agentv.engine.targets.proxying import CallableTargets  # noqa: PLC0415 - only for dry runs
        from pytest_agentv.providers.mock import Mock, dry_run_provider  # noqa: PLC0415 - imports pydantic

        known = name if file is None else file.find(name).name
        delays = (self._options.dry_run_delay, self._options.dry_run_delay_min, self._options.dry_run_delay_max)
        provider = dry_run_provider(*delays)
        mock = Target(effective_target_name(known, dry_run=True), "mock", Mock())
        judge = ProviderJudge(mock, provider, self._options, EqualQuestions())
        callables = CallableTargets(mock.name, file.names if file else (), mock.name, lambda _: (mock, provider))
        return ReadyTarget(mock.name, False, provider, judge, environment.variables, {}, callables)

    def _own_judge(self, eval_dir: Path, judge: object) -> tuple[Target, Adapter]:
        return Target(OWN_JUDGE, "python"), self._folders.in_process(eval_dir, _adapted(judge, OWN_JUDGE))

    async def _check(self, target: Target, provider: Adapter) -> None:
        try:
            await self._checks.check(target, provider)
        except ProviderError as error:
            # A wrong definition, or a check that crashes, does not mean that the target is unhealthy.
            if error.kind not in ("config", "crash"):
                self.stop_reason = str(error)
            raise


def _adapted(value: object, label: str) -> Adapter:
    from pytest_agentv.providers.python.foreign import adapt_provider  # noqa: PLC0415 - only for objects of users

    return adapt_provider(value, label)
