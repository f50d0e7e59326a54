"""The engine of a run: the event loop, its targets, and its executor."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from pytest_agentv.engine.targets.fingerprints import Fingerprints
from pytest_agentv.engine.targets.folders import Places, UnjudgedFolders
from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.loading.targets.definitions import TargetsFile
from pytest_agentv.loading.targets.environment import find_repo_root
from pytest_agentv.loading.targets.files import find_targets_file, load_targets_file
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.providers.base import ProviderResponse
from pytest_agentv.providers.table import KINDS
from pytest_agentv.reporting.writers import kept_folder, unjudged_folder
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.runtime.user_loop import USER_LOOP
from pytest_agentv.session.hooking.kinds import FolderKinds
from pytest_agentv.session.options import has_executor
from pytest_agentv.session.outcomes import AgentvWarning
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.session.running.paces import Paces
from pytest_agentv.session.running.signing import CaseSigner
from pytest_agentv.session.workers.shares import process_share, shared_folder

if TYPE_CHECKING:  # only for runs with an executor, or with objects that ask targets
    from pytest_agentv.providers.python.own_calls import OwnCall
    from pytest_agentv.session.away.away import Away


_NO_WORKERS: Final = (
    "--agentv-pass-env is for the workers of an executor, and this run has none: --agentv-executor asks for one"
)


class RunEngine:
    """Owns the thread of the event loop and the targets, and closes them in the end."""

    def __init__(self, config: pytest.Config, options: RunOptions, identity: RunIdentity, masker: Masker) -> None:
        cwd, run_id = config.invocation_params.dir, identity.run_id
        self._config = config
        self._options = options
        self._share = process_share(config)
        self._has_executor = has_executor(config, options)
        if options.pass_env and not self._has_executor:
            warnings.warn(_NO_WORKERS, AgentvWarning, stacklevel=1)
        is_shared = self._share.count > 1 or self._has_executor
        self._providers = FolderKinds(config, "pytest_agentv_providers")
        shared = shared_folder(run_id) if is_shared else None
        self.places = Places(find_repo_root(cwd), cwd, shared, unjudged=_unjudged(identity))
        self.loop = LoopThread()
        self.pool = TargetPool(options, self.places, masker, self._providers)
        self.signer = self._signer()
        self.away = self._open_away(identity) if self._has_executor else None
        """Runs cases in other processes; None: all run in this one."""

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller runs on an event loop, so that it must not wait for anything."""
        return self.loop.is_current or USER_LOOP.is_current

    def paces(self) -> Paces:
        return Paces(self.loop, self.pool, self._options, self._share, self._processes)

    def _signer(self) -> CaseSigner:
        roots = (_project_root(self._config), self.places.repo_root)
        fingerprints = Fingerprints(self.pool, *roots, dry_run=self._options.dry_run)
        return CaseSigner(fingerprints, self.loop, self.pool.warn_once)

    def targets_of(self, folder: Path) -> TargetsFile:
        """Read the targets file of the eval files in a folder. Raises `AgentvError`."""
        path = find_targets_file(self._options.targets, folder, self.places.repo_root, self.places.cwd)
        return load_targets_file(path, KINDS.with_own(self._providers(folder)))

    def ask(self, eval_dir: Path, target: str, prompt: str) -> ProviderResponse:
        """Ask a target something outside of any case. Raises `AgentvError`."""
        from pytest_agentv.engine.targets.asking import ask_target  # noqa: PLC0415 - only for user code that asks

        return self.loop.run(ask_target(self.pool, self._options, eval_dir, target, prompt))

    def ask_for_call(self, call: "OwnCall", prompt: str) -> ProviderResponse:
        """Ask the target that a user's object stands in for, as a part of a call of it. Raises `AgentvError`."""
        from pytest_agentv.engine.targets.asking import ask_for_call  # noqa: PLC0415 - as above

        return self.loop.run(ask_for_call(self.pool, call, prompt))

    @property
    def is_open(self) -> bool:
        return self.loop.is_running or (self.away is not None and self.away.is_open)

    def close(self) -> None:
        """Cancel what still runs, close the targets and end the loop."""
        self.loop.cancel_all()
        if self.away is not None:
            self.loop.run(self.away.close())
        self.loop.run(self.pool.close())
        self.loop.stop()

    def _open_away(self, identity: RunIdentity) -> "Away":
        from pytest_agentv.executors.kept import KeptResults  # noqa: PLC0415 - only for runs with an executor
        from pytest_agentv.session.away.away import Away  # noqa: PLC0415 - as above
        from pytest_agentv.session.away.choosing import executor_opener, passed_variables, shipper_of  # noqa: PLC0415 - as above

        self.pool.masker.add(passed_variables(self._options, self.places).values())
        shipper = shipper_of(self._config, self._options, identity, self.pool, self.places)
        return Away(
            executor_opener(self._config, self._options, identity, self.places, shipper.roots),
            pool=self.pool,
            shipper=shipper,
            own_providers=self._providers,
            kept=KeptResults(kept_folder(identity.results_path)),
            lost_retries=self._options.lost_retries,
        )

    def _processes(self) -> int:
        """Return how many processes run cases. Without a limit of the run or target, so many cases run at a time."""
        executor = None if self.away is None else self.away.executor
        return 1 if executor is None else executor.processes


def _project_root(config: pytest.Config) -> Path:
    """Return the root of the project, which does not depend on the folder where pytest was started, if possible."""
    root = find_repo_root(config.rootpath)
    is_known = config.inipath is not None or (root / ".git").exists()
    return root if is_known else find_repo_root(config.invocation_params.dir)


def _unjudged(identity: RunIdentity) -> UnjudgedFolders | None:
    """Return the folders of unjudged answers; None: this process cannot write to the files of the run."""
    if identity.home is not None and not identity.home.is_here():
        return None
    left = None if identity.resumed is None else unjudged_folder(identity.resumed.path)
    return UnjudgedFolders(unjudged_folder(identity.results_path), left)
