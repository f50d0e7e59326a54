"""Chooses the executor of a run, sends cases to other processes, and takes their results."""

import logging
import os
import sys
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.engine.jobs import NO_OVERRIDES, CaseHooks, CaseJob, Overrides
from pytest_agentv.engine.judging import evaluators_of
from pytest_agentv.engine.pool import Places, TargetPool
from pytest_agentv.engine.results import error_result
from pytest_agentv.errors import AgentvError, FileError, HookError, locate
from pytest_agentv.executors.base import CaseExecutor, ExecutorLost, JobRefused, Reply, Setup, WorkerLost, write_sent
from pytest_agentv.executors.bundles import BundleTooLarge, Roots, ShippingRules, roots_of
from pytest_agentv.executors.kept import KeptResults, missing_text, process_name
from pytest_agentv.executors.processes import Futures, Processes, is_private
from pytest_agentv.executors.shipping import OutsideProject, Shipper
from pytest_agentv.files.problems import Problem
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.kind_table import KindsOf
from pytest_agentv.model.options import CACHE_FOLDER, is_cluster, is_encrypted
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.model.secrets import Masker
from pytest_agentv.model.text import counted
from pytest_agentv.reports.figures import shown
from pytest_agentv.reports.prints import CaseLog
from pytest_agentv.runtime.reaper import remove_at_end
from pytest_agentv.runtime.user_code import user_traceback
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.session.user_hooks import FIXTURES, FOREIGN_FOLDERS, HOOKS, HookedKinds, is_interrupt
from pytest_agentv.session.workers import shared_folder
from pytest_agentv.store.writers import kept_folder

# Sends cases to other processes, and takes their results.

_LOGGER: Final = logging.getLogger("pytest_agentv.session")

IN_BATCH: Final = "batches"
HAS_OWN_KINDS: Final = "kinds of this project"
CANNOT_TRAVEL: Final = "objects of this process"
HAS_FILES_OUTSIDE: Final = "files outside of the project"


class Away:
    """The executor of a run, and its results that are not written yet. Used on the event loop."""

    def __init__(
        self,
        open_executor: Callable[[], CaseExecutor | None],
        *,
        pool: TargetPool,
        shipper: Shipper,
        own_providers: KindsOf,
        kept: KeptResults,
        lost_retries: int,
    ) -> None:
        self.is_open = False
        """Whether an executor was opened and must be closed."""
        self.away = 0
        """How many answers other processes asked for."""
        self.home: Counter[str] = Counter()
        """How many answers this process asked for, by the reason."""
        self.lost = 0
        """How many answers were lost with their workers."""
        self._open = open_executor
        self._executor: CaseExecutor | None = None
        self._pool = pool
        self._shipper = shipper
        self._own_providers = own_providers
        self._kept = kept
        self._lost_retries = lost_retries
        self._warned: set[tuple[Path, int | None]] = set()
        """The places of targets that a warning was shown for."""
        self._tickets: defaultdict[str | None, list[str]] = defaultdict(list)
        """Tickets of results that workers keep until they are written, by the node id of the case."""

    @property
    def executor(self) -> CaseExecutor | None:
        """None: no hook names an executor, so all cases run in this process."""
        return self._executor

    def open(self) -> None:
        """Open the executor. Raises `pytest.UsageError` if a hook returned something else."""
        if self._executor is None:
            self._executor = self._open()
            self.is_open = self._executor is not None

    async def ask(
        self, job: CaseJob, log: CaseLog, *, hooks: CaseHooks, own: Overrides, bound_by: str | None, is_batched: bool
    ) -> EvalResult | None:
        """Run a job in another process; None: it must run in this one. Raises only for a cancellation."""
        if self._executor is None:
            return None
        reason = self._reason_to_stay(job, hooks, own, bound_by=bound_by, is_batched=is_batched)
        if reason is None:
            try:
                return await self._ask(self._executor, job, log)
            except JobRefused as error:
                _LOGGER.debug("the case runs here: %s", error)
                reason = CANNOT_TRAVEL
            except OutsideProject as error:
                _LOGGER.debug("the case runs here, because of %s", error)
                reason = HAS_FILES_OUTSIDE
        self.home[reason] += 1
        return None

    def written(self, node_id: str | None) -> None:
        """Let workers drop the results of a case, which the results file holds now."""
        for ticket in self._tickets.pop(node_id, ()):
            self._kept.drop(ticket)
            if self._executor is not None:
                self._executor.written(ticket)

    async def close(self) -> None:
        """Close the executor."""
        if self._executor is not None and self.is_open:
            self.is_open = False
            await self._executor.close()
            self._kept.close()

    def _reason_to_stay(
        self, job: CaseJob, hooks: CaseHooks, own: Overrides, *, bound_by: str | None, is_batched: bool
    ) -> str | None:
        if is_batched:
            return IN_BATCH
        if bound_by is not None or own != NO_OVERRIDES:
            return bound_by or FIXTURES
        if hooks.response is not None or hooks.decide is not None:
            return HOOKS
        has_own = any(each.own_code is not None for one in evaluators_of(job.case) for each in one.walk())
        return HAS_OWN_KINDS if has_own or self._asks_own_kind(job) else None

    def _asks_own_kind(self, job: CaseJob) -> bool:
        try:
            own = {word.lower() for word in self._own_providers(job.case.folder)}
        except HookError:
            return True  # the case reports the error
        return bool(own) and not own.isdisjoint(self._shipper.kinds(job))

    async def _ask(self, executor: CaseExecutor, job: CaseJob, log: CaseLog) -> EvalResult:
        try:
            parcel = await self._shipper.parcel(job)
        except BundleTooLarge as error:
            return self._config_error(job, str(error))
        for attempt in range(self._lost_retries + 1):
            ticket = uuid.uuid4().hex
            self._tickets[job.identity.node_id].append(ticket)
            try:
                reply = await self._shipper.ask(executor, ticket, parcel)
            except WorkerLost as error:
                kept = self._kept.find(ticket)
                if kept is not None:  # the worker died after it had kept the result
                    return self._arrived(kept.result)
                self.lost += 1
                reason = str(error)
                if isinstance(error, ExecutorLost):
                    self._pool.stop_reason = self._pool.stop_reason or reason
                    break
                _LOGGER.warning("worker lost (attempt %s): %s", attempt + 1, reason)
                continue
            self._note(reply, log)
            if reply.fault is not None:
                return self._config_error(job, reply.fault)
            if reply.result is None:
                reason = "it ended the case without a result"
                break
            return self._arrived(reply.result)
        identity = job.identity.replace(case_hash=None)  # so that a resumed run asks again
        return error_result(identity, "provider", "process", f"worker lost: {reason}", dry_run=job.options.dry_run)

    @staticmethod
    def _config_error(job: CaseJob, message: str) -> EvalResult:
        """Return the result of a case that no worker can start. It does not run here: this machine may be too small."""
        identity = job.identity.replace(case_hash=None)  # so that a resumed run asks again
        return error_result(identity, "setup", "config", message, dry_run=job.options.dry_run)

    def _arrived(self, record: JsonObject) -> EvalResult:
        self.away += 1
        return EvalResult.from_plain(record)

    def _note(self, reply: Reply, log: CaseLog) -> None:
        log.lines.extend(map(self._pool.masker.mask, reply.log))
        for name, text in reply.printed.items():
            log.printed[name].append(text)
        problems = (Problem.from_plain({"line": None, **each}) for each in reply.warnings)  # plain data has no null
        self._pool.warn(self._new_warnings(problems))
        self._pool.stop_reason = self._pool.stop_reason or reply.stop_reason
        try:
            write_sent(reply.files, self._shipper.roots, self._pool.masker)
        except FileError as error:
            _LOGGER.warning("a file of a worker is lost: %s", error)

    def _new_warnings(self, problems: Iterable[Problem]) -> list[Problem]:
        """Leave out warnings that another worker has shown. Each worker warns of the first answer of a target."""
        new = [each for each in problems if each.key or (each.path, each.line) not in self._warned]
        self._warned |= {(each.path, each.line) for each in new if not each.key}
        return new


def executor_lines(away: Away) -> Iterator[str]:
    """Yield the lines of the summary about the executor."""
    if away.executor is None or not (away.away or away.home or away.lost):
        return
    stayed = ", ".join(f"{count} with {reason}" for reason, count in sorted(away.home.items()))
    here = f"; {away.home.total()} ran in this process: {stayed}" if away.home else ""
    workers = "its worker" if away.lost == 1 else "their workers"
    lost = f"; {away.lost} lost with {workers}" if away.lost else ""
    yield f"executor {away.executor.name}: {counted(away.away, 'answer')}{here}{lost}"


# Chooses the executor of a run: that of `--agentv-executor`, else that of a hook.

_HOOK = "pytest_agentv_executor"


def executor_opener(
    config: pytest.Config, options: RunOptions, identity: RunIdentity, places: Places, roots: Roots
) -> Callable[[], CaseExecutor | None]:
    """Return a function that opens the run's executor.

    It returns None if the hooks name none, and raises `pytest.UsageError` if they name something else.
    """
    environment = dict(os.environ)  # before any case shows the `.env` of its folder here
    passed = passed_variables(options, places)

    def open_executor() -> CaseExecutor | None:
        setup = _setup(options, identity, places, roots).replace(own_providers=_own_providers(config))
        if options.executor is not None and is_cluster(options.executor):
            if passed and not is_encrypted(options.executor):
                raise pytest.UsageError(_open_text(options.executor, "use dask+tls://"))
            return _open_cluster(options.executor, setup.replace(passed=passed))
        if options.executor is not None:
            setup = setup.replace(passed=passed)
            return Processes(int(options.executor.partition(":")[2]), setup, environment)
        executor = _ask_hook(config)
        if executor is None:
            return None

        if passed and not is_private(executor):
            executor.shutdown(wait=False, cancel_futures=True)
            raise pytest.UsageError(
                _open_text(type(executor).__name__, "give it the attribute agentv_is_private = True")
            )
        try:
            return Futures(executor, setup.replace(passed=passed), lambda: _ask_hook(config))
        except OSError as error:
            text = f"{locate(setup.kept_folder, None)}: the workers of an executor cannot use this folder: {error}"
            raise pytest.UsageError(f"{text}; does another run write to the same results file?") from None

    return open_executor


def _setup(options: RunOptions, identity: RunIdentity, places: Places, roots: Roots) -> Setup:
    setup = Setup(
        options,
        places.repo_root,
        places.cwd,
        shared_folder(identity.run_id),
        kept_folder(identity.results_path),
        tuple(os.path.abspath(folder) for folder in sys.path),  # noqa: PTH100 - "" is the current folder
        {name: logging.getLogger(name).level for name in ("", "pytest_agentv")},
        roots,
        ships=ships(options),
        process=process_name(),
        unjudged=places.unjudged,
        results=identity.results_path,
    )
    if setup.ships and not is_cluster(options.executor):  # workers use these folders if they see them
        setup.kept_folder.mkdir(parents=True, exist_ok=True)
        setup.shared_folder.mkdir(mode=0o700, exist_ok=True)
        remove_at_end(setup.shared_folder)
    return setup


def _own_providers(config: pytest.Config) -> tuple[str, ...]:
    try:
        return tuple(HookedKinds("pytest_agentv_providers", config.hook.pytest_agentv_providers))
    except HookError:  # each case reports the error
        return ()


def passed_variables(options: RunOptions, places: Places) -> dict[str, str]:
    """Return the variables that go to the workers. Raises `pytest.UsageError` for one that is not set."""
    if not options.pass_env:
        return {}
    variables = places.environment(places.cwd, os.environ).variables
    missing = [name for name in options.pass_env if name not in variables]
    if missing:
        raise pytest.UsageError(f"--agentv-pass-env={missing[0]}: this variable is set neither here nor in .env")
    return {name: variables[name] for name in options.pass_env}


def _open_text(name: str, way_out: str) -> str:
    return (
        f"--agentv-pass-env: the connection to {name} is not known to be encrypted or local; set the variable where "
        f"its workers start, or {way_out}"
    )


def ships(options: RunOptions) -> bool:
    """Whether the files of the cases are sent to the workers."""
    return options.ship == "bundle" or (options.ship is None and is_cluster(options.executor))


def shipper_of(
    config: pytest.Config, options: RunOptions, identity: RunIdentity, pool: TargetPool, places: Places
) -> Shipper:
    """Return the shipper that packs the jobs of a run."""
    more = (options.dump_prompts, options.dump_traces, None if options.targets is None else options.targets.parent)
    roots = roots_of((places.repo_root, places.cwd, config.rootpath, *(path for path in more if path is not None)))
    if not ships(options):
        return Shipper(roots, pool, None)
    written = (identity.results_path, kept_folder(identity.results_path), options.html)
    folders = (options.dump_prompts, options.dump_traces)
    paths = tuple(str(path) for path in (*written, *folders) if path is not None)
    rules = ShippingRules(roots.folders[0][1], options.ship_ignore, paths, options.ship_limit)
    return Shipper(roots, pool, rules, places.cwd / CACHE_FOLDER if options.cache else None)


def _open_cluster(address: str, setup: Setup) -> CaseExecutor:
    try:
        from pytest_agentv.executors.dask_cluster import DaskWorkers  # noqa: PLC0415 - only for runs that ask for it

        return DaskWorkers(address, setup)
    except AgentvError as error:
        raise pytest.UsageError(str(error)) from None
    except ModuleNotFoundError as error:
        raise pytest.UsageError(missing_text(address, error)) from None


def _ask_hook(config: pytest.Config) -> Executor | None:
    hook: Any = config.hook
    try:
        found = hook.pytest_agentv_executor(config=config)
    except (pytest.UsageError, pytest.exit.Exception):
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        text = f"{_HOOK} raised {user_traceback(error, *FOREIGN_FOLDERS)}"
        raise pytest.UsageError(shown(text, Masker.of_environment())) from None
    if found is None or isinstance(found, Executor):
        return found
    text = f"{_HOOK} returned a value of type {type(found).__name__}: expected a concurrent.futures.Executor or None"
    raise pytest.UsageError(text)
