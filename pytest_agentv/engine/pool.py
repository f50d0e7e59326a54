"""Prepares targets: finds, resolves, opens and health-checks each once, and finds its judge."""

import asyncio
import dataclasses
import hashlib
import logging
import os
import time
import uuid
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_agentv.cases.prompts import Prompt, PromptMode
from pytest_agentv.engine.answers import invoke_with_retries, invoke_within_limit, timed
from pytest_agentv.engine.jobs import NO_OVERRIDES, OWN_JUDGE, OWN_PROVIDER, Overrides, choose_judge
from pytest_agentv.engine.judges import EqualQuestions, Needs, ProviderJudge, judging_fault, needs_of_case
from pytest_agentv.engine.results import effective_target_name
from pytest_agentv.engine.stored import RejudgedFile, StoredProvider
from pytest_agentv.engine.workspaces import Workspaces, once_in_run
from pytest_agentv.errors import AgentvError, ProviderError, TargetError
from pytest_agentv.evaluators.context import Embedder, Judge, Services
from pytest_agentv.files.problems import Problem, join_problems
from pytest_agentv.model.cases import EvalCase, Target
from pytest_agentv.model.kind_table import KindsOf
from pytest_agentv.model.options import RunOptions
from pytest_agentv.model.secrets import Masker, masking
from pytest_agentv.providers.base import Adapter, BatchProvider, ProviderRequest, ProviderResponse
from pytest_agentv.providers.python_calls import OwnCall, OwnCalls, OwnProvider
from pytest_agentv.providers.table import KINDS, create_provider
from pytest_agentv.runtime.reaper import remove_at_end
from pytest_agentv.runtime.user_code import USER_LOOP, Outcome, attempt_async, attempt_in_thread, capture
from pytest_agentv.store.answers import AnswerStore
from pytest_agentv.store.fingerprints import Fingerprints
from pytest_agentv.targets.definitions import (
    Environment,
    TargetKinds,
    TargetsFile,
    find_targets_file,
    load_environment,
    load_targets_file,
)

if TYPE_CHECKING:
    from pytest_agentv.engine.embeddings import CallableTargets  # only for scripts that call targets


# Shows the variables of a folder's `.env` to code that runs in this process and reads `os.environ`.
#
# `os.environ` belongs to the whole process: threads, subprocesses and C libraries see it too. So calls that need
# different variables never run at the same time. Calls that need the same variables do.


@dataclass(slots=True)
class _Call:
    """A call that needs variables."""

    variables: Mapping[str, str]
    is_open: bool = True


_CALL: Final[ContextVar[_Call | None]] = ContextVar("agentv_variables_call", default=None)
"""The call that the running code belongs to."""


class ProcessVariables:
    """Gives calls with different variables turns on `os.environ`. Used on the event loop."""

    def __init__(self) -> None:
        self._current: Mapping[str, str] = {}
        self._calls = 0
        self._waiting: deque[tuple[Mapping[str, str], asyncio.Future[None]]] = deque()
        self._added: dict[str, str] = {}
        self._ever_added: defaultdict[str, set[str]] = defaultdict(set)

    def original(self) -> dict[str, str]:
        """Return the variables of the process, without those shown for a folder."""
        return {name: value for name, value in os.environ.items() if self._added.get(name) != value}

    @asynccontextmanager
    async def shown(self, variables: Mapping[str, str]) -> AsyncIterator[None]:
        """Wait for the turn of these variables, and show them. Variables that the process sets stay as they are.

        A nested call shares the turn of the outer call. Raises `ProviderError` if the outer call has other variables,
        because the two would wait for each other.
        """
        outer = _CALL.get()
        if outer is not None and outer.is_open:
            if outer.variables != variables:
                raise ProviderError("a target was asked from within a call of a folder that has another .env", "config")
            yield
            return
        await self._enter(variables)
        call = _Call(variables)
        token = _CALL.set(call)
        try:
            yield
        finally:
            call.is_open = False
            _CALL.reset(token)
            self._leave()

    def close(self) -> None:
        """Remove leftovers: a fixture may have restored a value that was shown when the fixture started."""
        self._hide()
        for name, values in self._ever_added.items():
            if os.environ.get(name) in values:
                del os.environ[name]

    async def _enter(self, variables: Mapping[str, str]) -> None:
        if not self._waiting and (self._calls == 0 or self._current == variables):
            self._admit(variables)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((variables, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # its turn has just come
                self._leave()
            else:
                self._waiting.remove((variables, turn))
            raise

    def _leave(self) -> None:
        self._calls -= 1
        if self._calls:
            return
        self._hide()
        if self._waiting:
            variables = self._waiting[0][0]
            admitted = [turn for needed, turn in self._waiting if needed == variables]
            self._waiting = deque(each for each in self._waiting if each[0] != variables)
            for turn in admitted:
                self._admit(variables)
                turn.set_result(None)

    def _admit(self, variables: Mapping[str, str]) -> None:
        self._calls += 1
        if self._calls > 1:
            return
        self._current = variables
        for name, value in variables.items():
            if name not in os.environ:
                os.environ[name] = self._added[name] = value
                self._ever_added[name].add(value)

    def _hide(self) -> None:
        for name, value in self._added.items():
            if os.environ.get(name) == value:
                del os.environ[name]
        self._added.clear()


class InProcessProvider:
    """Calls a provider while `os.environ` shows the variables of its folder. Masks those that a call sets."""

    keeps_limits = True  # The time limit of a call starts when its turn comes.
    is_in_process = True

    def __init__(
        self, provider: Adapter, process: ProcessVariables, variables: Mapping[str, str], masker: Masker
    ) -> None:
        self.mode: PromptMode = provider.mode
        self._provider = provider
        self._process = process
        self._variables = variables
        self.masker = masker
        if isinstance(provider, BatchProvider):
            self._batch_provider = provider
            self.invoke_batch = self._invoke_batch

    async def check(self) -> None:
        async with self._shown():
            await self._provider.check()

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        async with self._shown():
            started = time.perf_counter()
            return timed(await invoke_within_limit(self._provider, request), started)

    async def close(self) -> None:
        await self._provider.close()

    async def _invoke_batch(self, requests: Sequence[ProviderRequest]) -> list[ProviderResponse]:
        async with self._shown():
            return await self._batch_provider.invoke_batch(requests)

    @asynccontextmanager
    async def _shown(self) -> AsyncIterator[None]:
        try:
            async with self._process.shown(self._variables):
                yield
        finally:
            self.masker.look_again()


# How many cases of a target are in flight.


@dataclass(frozen=True, slots=True)
class Pace:
    """The limits of a target for its cases."""

    workers: int | None
    """Cases in flight, unless the options of the run set a number; None: the target does not say."""
    is_batched: bool
    """Whether one call runs all cases."""
    is_capped: bool = False
    """Whether `workers` overrides the options."""
    is_by_id: bool = False
    """Whether one call runs all cases, and only their ids tell which answer is whose."""

    def limit(self, options: RunOptions, size: int = 1) -> int:
        """Return the limit of cases in flight in the whole run: `size` where neither options nor target set one."""
        own = self.workers or size
        return own if self.is_capped else options.workers or own


def is_first_to_warn(folder: Path | None, what: str = "cap") -> bool:
    """Whether no other process of the run has shown a warning. The first one leaves a file in the shared folder."""
    if folder is None:
        return True
    remove_at_end(folder)  # before the warning: a time-out may come at any line
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / f"{what}-told").touch(exist_ok=False)
    except OSError as error:  # show the warning even if the folder cannot be used
        return not isinstance(error, FileExistsError)
    return True


@dataclass(frozen=True, slots=True)
class Places:
    """The folders where searches end, and a folder that processes share."""

    repo_root: Path
    cwd: Path
    shared_folder: Path | None = None
    """Where the processes of a run share their findings; None: there is only one process."""
    root: Path | None = None
    """The root of the project, below which fingerprints look for its files, besides `repo_root`; None: that."""

    def environment(self, eval_dir: Path, process_env: Mapping[str, str]) -> Environment:
        """Return the variables of a folder. Raises `FileError`."""
        return load_environment(eval_dir, self.repo_root, self.cwd, process_env)


# Health checks: one for each target and run, even with several processes (decisions 32).


class HealthChecks:
    """Checks targets and judges before their first case, and keeps the findings. Used on the event loop."""

    def __init__(self, folder: Path | None, root: Path) -> None:
        """Take where the processes of a run share their findings, and the folder of the project.

        The first process that ends removes the former; None: there is only one process. The path of the project may
        differ between processes.
        """
        self._folder = folder
        self._root = root
        self._probes: dict[tuple[str | None, str], asyncio.Task[Outcome[None]]] = {}

    async def check(self, target: Target, provider: Adapter) -> None:
        """Return if the target is healthy. Raises `ProviderError` if it is not. Objects of users are not checked."""
        if target.path is None:
            return
        key = (target.path, target.name)
        if key not in self._probes:
            self._probes[key] = asyncio.ensure_future(capture(lambda: self._probe(target, provider)))
        probed = self._probes[key]
        if not probed.done():
            await asyncio.shield(probed)  # a cancelled case must not cancel the probe that others wait for
        probed.result().get()

    async def _probe(self, target: Target, provider: Adapter) -> None:
        """Check a target, under a lock unless another process has done so. Then use its finding."""
        folder, path = self._folder, Path(str(target.path))
        if folder is None or not target.settings.is_probed:
            await provider.check()
            return
        remove_at_end(folder)
        folder.mkdir(mode=0o700, exist_ok=True)
        below = path.relative_to(self._root) if path.is_relative_to(self._root) else path
        name = repr((str(below), target.name))  # the same in all processes
        await once_in_run(folder / hashlib.sha256(name.encode()).hexdigest()[:16], provider.check)


# Targets that are ready: with their judges, healthy.

_LOGGER: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadyTarget:
    """A target that can be called, and what judges its answers."""

    target: Target
    provider: Adapter
    needs: Needs
    """Who judges the case, and what for."""
    services: Services
    """What the evaluators of the case may ask: judges, embeddings and, if one needs them, any targets."""
    is_object: bool = False
    """Whether an object of a fixture answers. Nobody knows its state, so other runs do not take its answers."""
    user: tuple[Target, Adapter] | None = None
    """Who plays the user of a conversation; None: nobody."""

    def has(self, trait: str) -> bool:
        """Whether the kind of the target says so of itself, or its keys do; an object of a fixture says nothing."""
        return getattr(self.target.settings, trait, False) is True


class TargetPool:
    """The targets of a run. Each is resolved once per eval folder, health-checked once, and closed at the end.

    Used on the run's event loop only.
    """

    def __init__(self, options: RunOptions, places: Places, masker: Masker, own_kinds: KindsOf) -> None:
        self.masker = masker
        self.store: AnswerStore | None = None
        """Where answers are kept; None: they are not."""
        self.rejudged: RejudgedFile | None = None
        """The results file whose answers are judged again, and no target is asked; None: targets are asked."""
        self.stop_reason: str | None = None
        """Set when a health check failed, which ends the run (decisions 32)."""
        self.warnings: list[Problem] = []
        """Warnings about targets and cases, until `take_warnings`."""
        self.fingerprints = Fingerprints([places.root or places.repo_root, places.repo_root], self.warn_once)
        self.workspaces = Workspaces()
        self._options = options
        self._places = places
        self._own_kinds = own_kinds
        self._checks = HealthChecks(places.shared_folder, places.repo_root)
        self._paths: dict[Path, Path] = {}
        """Targets file by eval folder."""
        self._files: dict[tuple[Path, int], TargetsFile | AgentvError] = {}
        """By path and the identity of the kinds, which are those of the eval folder. An error: it cannot be used."""
        self._environments: dict[Path, Environment] = {}
        self._dotenv: dict[Path, Mapping[str, str]] = {}
        """The variables that a folder's `.env` adds to those of the process."""
        self._targets: dict[tuple[Path, str], Target] = {}
        self._providers: dict[tuple[Path, str], Adapter] = {}
        self._process = ProcessVariables()
        self._embedders: dict[tuple[Path, str], Embedder] = {}
        self._stored_providers: dict[tuple[Path, str, bool], StoredProvider] = {}
        self._unlike_others = uuid.uuid4().hex
        """Stands in keys for what cannot be compared with other runs."""
        self._told: set[object] = set()

    async def prepare(
        self, eval_dir: Path, name: str, case: EvalCase | None = None, own: Overrides = NO_OVERRIDES
    ) -> ReadyTarget:
        """Prepare a target, its judges and its user for a case, before anything is paid for.

        `case` is None for a prompt without a case. Raises `TargetsError`, `TargetError`, or `ProviderError` if the
        check of one of them fails.
        """
        file = None if own.replace_target else self.file(eval_dir)
        environment = self.environment(eval_dir)
        needs = Needs.of(()) if case is None else needs_of_case(case)
        judge = None if case is None else choose_judge(self._options, case.judge)
        user = None if case is None else case.user
        if self._options.dry_run:
            for each in (*needs.embeddings, *([] if user is None else [user.target])):
                self.file(eval_dir).find(each)
            for each in filter(None, [judge if each is None else each for each in needs.asked]):
                self._find_judge(eval_dir, each)
            return self._mocked(file, name, environment, needs, case)
        if file is not None:
            target, provider = self._open(eval_dir, name)
        else:
            value = (lambda _: own.answer) if own.provider is None else own.provider
            target, provider = self._own(eval_dir, name, value, OWN_PROVIDER, own.calls)
        if judge:
            target = dataclasses.replace(target, judge_target=judge)
        asked = EqualQuestions()
        judging = {each: self._judging(eval_dir, target, own, each) for each in needs.judges}
        playing = None if user is None else self._open(eval_dir, user.target)
        callable_targets = self._callable(eval_dir, target, provider, own, asked) if needs.targets else None
        embedders = {each: self._embedder(eval_dir, each) for each in needs.embeddings}
        default = None if callable_targets is None else callable_targets.default
        under_test = None if self.rejudged is not None else (target, provider)
        for pair in (under_test, *judging.values(), default, playing):
            if pair is not None:
                await self._check(*pair)
        tell = partial(self.warn_of_answer, eval_dir)
        judges: dict[str | None, Judge] = {
            each: ProviderJudge(*self.stored(eval_dir, *pair), self._options, asked, tell)
            for each, pair in judging.items()
        }
        services = Services(judges.get(None), environment.variables, callable_targets, embedders, case, judges)
        player = None if playing is None else self.stored(eval_dir, *playing)
        return ReadyTarget(target, provider, needs, services, is_object=file is None, user=player)

    # The targets of eval folders: each is found, resolved and opened once.

    def file(self, eval_dir: Path) -> TargetsFile:
        """Return the targets file of a folder. Raises `TargetsError`; `TargetError` for warnings of a strict run."""
        if eval_dir not in self._paths:
            places = self._places
            self._paths[eval_dir] = find_targets_file(
                self._options.targets_file, eval_dir, places.repo_root, places.cwd
            )
        path = self._paths[eval_dir]
        own = self._own_kinds(eval_dir)  # calls no hook yet
        key = (path, id(own))
        if key not in self._files:
            self._files[key] = self._load(path, KINDS.with_own(own))
        found = self._files[key]
        if isinstance(found, AgentvError):
            raise found.with_traceback(None)  # one that is raised for each case would grow
        return found

    def environment(self, eval_dir: Path) -> Environment:
        """Return the variables of a folder. From here on its secrets are masked. Raises `AgentvError`.

        The variables are those of the first call. Those that a fixture sets later are masked as well.
        """
        self.masker.look_again()
        if eval_dir not in self._environments:
            original = self._process.original()
            environment = self._places.environment(eval_dir, original)
            self.masker.add_environment(environment.dotenv)
            self._environments[eval_dir] = environment
            self._dotenv[eval_dir] = {name: value for name, value in environment.dotenv.items() if name not in original}
        return self._environments[eval_dir]

    def definition(self, eval_dir: Path, name: str) -> Target:
        """Return a target as its file defines it, with variables filled in. Raises `TargetsError`, `TargetError`."""
        key = (eval_dir, name)
        if key not in self._targets:
            from pytest_agentv.targets.fields import resolve_target  # noqa: PLC0415 - imports pydantic

            file = self.file(eval_dir)
            environment = self.environment(eval_dir)
            self._targets[key] = resolve_target(file, file.find(name), environment, eval_dir, self.masker)
        return self._targets[key]

    def pace(self, eval_dir: Path, name: str) -> Pace:
        """Return the limits of a target: its number of workers, or one call for all cases. Raises like `prepare`."""
        file, options = self.file(eval_dir), self._options
        definition = file.find(name)
        kind = file.kinds.table.get(definition.kind)
        if options.dry_run:  # a mock replaces it
            return Pace(definition.workers, is_batched=False)
        is_batched = definition.provider_batching
        if not getattr(kind, "is_one_by_one", False):
            is_by_id = is_batched and getattr(kind, "answers_by_id", False)
            return Pace(definition.workers, is_batched, is_by_id=is_by_id)
        wanted = options.workers or definition.workers or 1
        if wanted > 1:  # Source: eval-cli-2026-01, "VS Code worker cap"
            source = "--agentv-workers" if options.workers else "workers"
            reason = "VS Code runs one case at a time, because its windows take the focus from each other"
            message = f"target {definition.name!r} runs with 1 worker instead of {wanted} ({source}): {reason}"
            path = definition.path or file.path
            self.warn_once(Problem(path, definition.line, "", message, level="warning"), "cap")
        return Pace(1, is_batched, is_capped=True)

    def warn_of_answer(self, eval_dir: Path, name: str, warnings: Sequence[str]) -> None:
        """Warn about a target's answers, but only for the first answer with a warning."""
        key = (eval_dir, name)
        if not warnings or key in self._told:
            return
        self._told.add(key)
        target = self._targets.get(key)
        for warning in warnings:
            if target is None or target.path is None:
                _LOGGER.warning("target %s: %s", name, warning)
            else:
                told = f"target {name!r}: {warning}"
                self.warnings.append(Problem(Path(target.path), target.line, "", told, level="warning"))

    def warn_once(self, warning: Problem, what: str) -> None:
        """Keep a warning, unless a process of the run has warned of the same. `what` is a part of a file's name."""
        if what not in self._told:
            self._told.add(what)
            if is_first_to_warn(self._places.shared_folder, what):
                self.warnings.append(warning)

    def take_warnings(self) -> list[Problem]:
        """Return the new warnings. Any thread may call it."""
        taken, self.warnings = self.warnings, []
        return taken

    async def close(self) -> None:
        """Close all providers, even if closing one of them fails."""
        await asyncio.gather(*(attempt_async(provider.close) for provider in self._providers.values()))
        self._process.close()
        await attempt_in_thread(USER_LOOP.close, "agentv-close")
        self.workspaces.close()

    def stored(
        self, eval_dir: Path, target: Target, provider: Adapter, *, is_part: bool = False
    ) -> tuple[Target, Adapter]:
        """Return a target that takes part in judging, and what asks it only what is not in the store.

        `is_part` is for parts of an answer: their cost is that of the answer.
        """
        if self.store is None or target.path is None or target.kind == "mock":
            return target, provider
        key = (eval_dir, target.name, is_part)
        if key not in self._stored_providers:
            fingerprint = self.fingerprints.of_target(target) or self._unlike_others
            name = [target.name, fingerprint]
            self._stored_providers[key] = StoredProvider(
                provider, name, self.store, self.masker, costs_count=not is_part
            )
        return target, self._stored_providers[key]

    def _own(
        self, eval_dir: Path, name: str, value: object, label: str, calls: OwnCalls | None = None
    ) -> tuple[Target, Adapter]:
        """Return an object of a fixture as a target; `label` is how messages call it."""
        from pytest_agentv.providers.python import adapt_provider  # noqa: PLC0415 - only for objects of users

        provider = adapt_provider(value, label)
        if calls is not None:
            provider = OwnProvider(provider, calls, eval_dir, name)
        return Target(name, "python"), self._in_process(eval_dir, provider)

    def _open(self, eval_dir: Path, name: str) -> tuple[Target, Adapter]:
        """Return a target and its provider, which stays open until `close`. Raises like `definition`."""
        target = self.definition(eval_dir, name)
        key = (eval_dir, target.name)
        if key not in self._providers:
            self._providers[key] = self._create(eval_dir, target)
        return target, self._providers[key]

    def _in_process(self, eval_dir: Path, provider: Adapter) -> Adapter:
        """Return a provider that shows the folder's `.env` to code that reads `os.environ`."""
        self.environment(eval_dir)
        return InProcessProvider(provider, self._process, self._dotenv[eval_dir], self.masker)

    def _load(self, path: Path, kinds: TargetKinds) -> TargetsFile | AgentvError:
        """Return a targets file, or what is wrong with it: a broken file takes long to read, too."""
        try:
            file = load_targets_file(path, kinds, self._options.unknown_keys)
        except AgentvError as error:
            return error
        if file.warnings and self._options.strict:
            return TargetError(join_problems(file.warnings))
        self.warnings.extend(file.warnings)
        return file

    def _create(self, eval_dir: Path, target: Target) -> Adapter:
        variables = self.environment(eval_dir).variables
        provider = create_provider(target, variables, self._options.timeout or None)
        warm_up = getattr(provider, "warm_up", None)
        if getattr(provider, "reads_environ", False):
            provider = self._in_process(eval_dir, provider)
        if warm_up is not None and not (self._options.cache or self._options.rejudge):  # perhaps no model is called
            warm_up()
        return provider

    def _judging(self, eval_dir: Path, target: Target, own: Overrides, name: str | None) -> tuple[Target, Adapter]:
        """Return the judge of a name; None: that of the target."""
        if name is None:
            if own.judge is not None:
                return self._own(eval_dir, OWN_JUDGE, own.judge, OWN_JUDGE)
            name = target.judge_target or self._judge_of(eval_dir, target, own)
        self._find_judge(eval_dir, name)
        return self._open(eval_dir, name)

    def _find_judge(self, eval_dir: Path, name: str) -> None:
        try:
            self.file(eval_dir).find(name)
        except TargetError as error:
            raise TargetError(f"judge {name!r}: {error}") from error

    def _judge_of(self, eval_dir: Path, target: Target, own: Overrides) -> str:
        if own.replace_target:
            try:
                target = self.definition(eval_dir, target.name)  # the replaced one may name a judge
            except AgentvError as error:
                what = f"a model is to judge, and none is named: {error}; or override {OWN_JUDGE}"
                raise TargetError(what) from error
        fault = judging_fault(target, target.settings, self.file(eval_dir).path)
        if fault:
            raise TargetError(fault)
        if target.judge_target is None:
            told = f"target {target.name!r} judges its own answers: name a judge, `judge_target: <name of a target>`"
            path = self.file(eval_dir).path if target.path is None else Path(target.path)
            self.warn_once(Problem(path, target.line, "", told, level="warning"), "own-judge")
        return target.judge_target or target.name

    def _callable(
        self, eval_dir: Path, target: Target, provider: Adapter, own: Overrides, asked: EqualQuestions
    ) -> "CallableTargets":
        from pytest_agentv.engine.embeddings import CallableTargets  # noqa: PLC0415 - for scripts that call targets

        opened = {target.name: (target, provider)}
        if own.judge is not None:
            opened[OWN_JUDGE] = self._own(eval_dir, OWN_JUDGE, own.judge, OWN_JUDGE)
        try:
            names = self.file(eval_dir).names
        except AgentvError:
            if not own.replace_target:
                raise
            names = ()
        return CallableTargets(
            target.name,
            (*opened, *names),
            OWN_JUDGE if own.judge is not None else target.judge_target or target.name,
            lambda name: self.stored(eval_dir, *(opened.get(name) or self._open(eval_dir, name))),
            asked=asked,
            check=self._check,
            tell=partial(self.warn_of_answer, eval_dir),
        )

    def _embedder(self, eval_dir: Path, name: str) -> Embedder:
        """Return the embeddings of a target. Raises `TargetError` for one that gives none."""
        key = (eval_dir, name)
        if key not in self._embedders:
            from pytest_agentv.engine.embeddings import TargetEmbedder  # noqa: PLC0415 - only for `similar`

            target, provider = self._open(eval_dir, name)
            fingerprint = self.fingerprints.of_target(target) or self._unlike_others
            store = None if target.kind == "mock" else self.store
            self._embedders[key] = TargetEmbedder(
                target, provider, [target.name, fingerprint], store, self._options.timeout or None
            )
        return self._embedders[key]

    def _mocked(
        self, file: TargetsFile | None, name: str, environment: Environment, needs: Needs, case: EvalCase | None
    ) -> ReadyTarget:
        from pytest_agentv.engine.embeddings import CallableTargets  # noqa: PLC0415 - only for dry runs
        from pytest_agentv.providers.mock import DRY_RUN_RESPONSE, Mock, MockProvider  # noqa: PLC0415 - imports pydantic

        known = name if file is None else file.find(name).name
        wait, least, most = (
            self._options.dry_run_delay,
            self._options.dry_run_delay_min,
            self._options.dry_run_delay_max,
        )
        settings = Mock(response=DRY_RUN_RESPONSE, delay_ms=wait, delay_min_ms=least, delay_max_ms=most)
        provider = MockProvider("dry-run", settings)
        mock = Target(effective_target_name(known, dry_run=True), "mock", Mock())
        judge = ProviderJudge(mock, provider, self._options, EqualQuestions())
        judges = dict.fromkeys(needs.judges, judge)
        callables = CallableTargets(mock.name, file.names if file else (), mock.name, lambda _: (mock, provider))
        services = Services(judges.get(None), environment.variables, callables, {}, case, judges)
        return ReadyTarget(mock, provider, needs, services, user=(mock, provider))

    async def _check(self, target: Target, provider: Adapter) -> None:
        try:
            await self._checks.check(target, provider)
        except ProviderError as error:
            # A wrong definition, or a check that crashes, does not mean that the target is unhealthy.
            if error.kind not in ("config", "crash"):
                self.stop_reason = str(error)
            raise


# Calls a target with a single prompt of user code: without a case, or for a part of a case's answer.


async def ask_target(pool: TargetPool, options: RunOptions, eval_dir: Path, name: str, prompt: str) -> ProviderResponse:
    """Return the response of a target. Raises `AgentvError` if the target cannot be used or does not answer."""
    request = ProviderRequest(Prompt(prompt), eval_id="prompt", timeout_seconds=options.timeout or None)
    return await _ask(pool, eval_dir, name, request, options.max_retries)


async def _ask(
    pool: TargetPool, eval_dir: Path, name: str, request: ProviderRequest, max_retries: int
) -> ProviderResponse:
    with masking(pool.masker):
        target = await pool.prepare(eval_dir, name)
        provider = target.provider
        if pool.store is not None:
            _, provider = pool.stored(eval_dir, pool.definition(eval_dir, name), provider, is_part=True)
        attempts = await invoke_with_retries(provider, request, max_retries)
    return attempts.answer()


async def ask_for_call(pool: TargetPool, call: OwnCall, prompt: str) -> ProviderResponse:
    """Return the response of the target that a user's object stands in for, while it answers. Raises like `ask_target`.

    Who calls the object retries after time-outs.
    """
    with call.asking(prompt) as request:
        return await _ask(pool, call.eval_dir, call.target, request, 0)
