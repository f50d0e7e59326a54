"""The targets of eval folders: finds, resolves and opens each once."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from pytest_agentv.engine.targets.pacing import is_first_to_warn
from pytest_agentv.engine.targets.variables import InProcessProvider, ProcessVariables
from pytest_agentv.errors import AgentvError, FileError, TargetError
from pytest_agentv.loading.problems import Problem, join_problems
from pytest_agentv.loading.targets.definitions import TargetsFile
from pytest_agentv.loading.targets.environment import Environment, load_environment
from pytest_agentv.loading.targets.files import find_targets_file, load_targets_file, resolve_target
from pytest_agentv.loading.targets.kinds import TargetKinds
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.kind_table import KindsOf
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options.defaults import CACHE_FOLDER
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.records import record
from pytest_agentv.models.targets import Target
from pytest_agentv.providers.base import RUN_VARIABLE, Adapter
from pytest_agentv.providers.registry import create_provider
from pytest_agentv.providers.table import KINDS
from pytest_agentv.runtime.closing import close_all
from pytest_agentv.runtime.outcomes import attempt_async
from pytest_agentv.runtime.threads import attempt_in_thread
from pytest_agentv.runtime.user_loop import USER_LOOP


@record
class UnjudgedFolders(Record):
    """The folders of answers that are not judged yet: that of this run, and that of the run that it resumes."""

    own: Path
    left: Path | None = None
    for_reruns: bool = True
    """Whether a rerun judges an answer that was not judged; False: it asks anew."""


@record
class Places:
    """The folders where searches end, and a folder that processes share."""

    repo_root: Path
    cwd: Path
    shared_folder: Path | None = None
    """Where the processes of a run share their findings; None: there is only one process."""
    dotenv_root: Path | None = None
    """The folder with the same layout as `repo_root` that holds the `.env` files; None: `repo_root`."""
    as_at_home: Callable[[JsonObject], JsonObject] = dict
    """Returns plain data with the paths that the process of the run would have."""
    unjudged: UnjudgedFolders | None = None
    """None: this process does not see the folder of the results file."""

    def environment(self, eval_dir: Path, process_env: Mapping[str, str]) -> Environment:
        """Return the variables of a folder. Raises `FileError`."""
        root = self.dotenv_root
        if root is None:
            return load_environment(eval_dir, self.repo_root, self.cwd, process_env)
        inside = eval_dir.relative_to(self.repo_root) if eval_dir.is_relative_to(self.repo_root) else ""
        return load_environment(root / inside, root, root, process_env)


class FolderTargets:
    """Keeps the targets file, the environment and the opened targets of each eval folder.

    Used on the run's event loop only.
    """

    def __init__(self, options: RunOptions, places: Places, masker: Masker, own_kinds: KindsOf) -> None:
        self.warnings: list[Problem] = []
        """Warnings about targets files, until `take_warnings`."""
        self._options = options
        self._places = places
        self._masker = masker
        self._own_kinds = own_kinds
        self._paths: dict[Path, Path] = {}
        """Targets file by eval folder."""
        self._files: dict[tuple[Path, int], TargetsFile | AgentvError] = {}
        """By path and the identity of the kinds, which are those of the eval folder. An error: it cannot be used."""
        self._environments: dict[Path, Environment] = {}
        self._targets: dict[tuple[Path, str], Target] = {}
        self._providers: dict[tuple[Path, str], Adapter] = {}
        self._process = ProcessVariables()
        self._told_of_cache = False
        self._dotenv: dict[Path, Mapping[str, str]] = {}
        """The variables that a folder's `.env` adds to those of the process."""

    def file(self, eval_dir: Path) -> TargetsFile:
        """Return the targets file of a folder. Raises `TargetsError`; `TargetError` for warnings of a strict run."""
        if eval_dir not in self._paths:
            places = self._places
            self._paths[eval_dir] = find_targets_file(self._options.targets, eval_dir, places.repo_root, places.cwd)
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
        self._masker.look_again()
        if eval_dir not in self._environments:
            original = self._process.original()
            environment = self._places.environment(eval_dir, original)
            self._masker.add_environment(environment.dotenv)
            self._environments[eval_dir] = environment
            self._dotenv[eval_dir] = {name: value for name, value in environment.dotenv.items() if name not in original}
        return self._environments[eval_dir]

    def definition(self, eval_dir: Path, name: str) -> Target:
        """Return a target as its file defines it, with variables filled in. Raises `TargetsError`, `TargetError`."""
        key = (eval_dir, name)
        if key not in self._targets:
            file = self.file(eval_dir)
            environment = self.environment(eval_dir)
            self._targets[key] = resolve_target(file, file.find(name), environment, eval_dir, self._masker)
        return self._targets[key]

    def known(self, eval_dir: Path, name: str) -> Target | None:
        """Return a target that was resolved before, else None."""
        return self._targets.get((eval_dir, name))

    def open(self, eval_dir: Path, name: str) -> tuple[Target, Adapter]:
        """Return a target and its provider, which stays open until `close`. Raises like `definition`."""
        target = self.definition(eval_dir, name)
        key = (eval_dir, target.name)
        if key not in self._providers:
            self._providers[key] = self._create(eval_dir, target)
        return target, self._providers[key]

    def unjudged(self, target: Target) -> UnjudgedFolders | None:
        """Return the folders of a target's unjudged answers; None: they are not kept.

        They are kept if they cost money and a call leaves nothing else. An agent also leaves files in its folder, which
        a script may judge and which may change before the next run. With a cache, a resumed run takes the answers of
        all targets from there, and could not tell that no record has counted their cost. So all are kept.
        """
        settings, folders = target.settings, self._places.unjudged
        if getattr(settings, "costs_money", False) and not getattr(settings, "is_agent", False):
            return folders
        return folders.replace(for_reruns=False) if folders is not None and self._options.cache else None

    def in_process(self, eval_dir: Path, provider: Adapter) -> Adapter:
        """Return a provider that shows the folder's `.env` to code that reads `os.environ`."""
        self.environment(eval_dir)
        return InProcessProvider(provider, self._process, self._dotenv[eval_dir], self._masker)

    def warn_of_cache(self, error: FileError) -> None:
        """Warn once per run that answers cannot be cached: later runs pay for them again."""
        if self._told_of_cache:
            return
        self._told_of_cache = True
        if is_first_to_warn(self._places.shared_folder, "cache"):
            reason = str(error).partition(": cannot be written: ")[2]
            message = f"answers could not be cached, so that later runs pay for them again: {reason}"
            folder = self._places.cwd / CACHE_FOLDER
            self.warnings.append(Problem(folder, None, "", message, level="warning"))

    def take_warnings(self) -> list[Problem]:
        """Return the new warnings about targets files. Any thread may call it."""
        taken, self.warnings = self.warnings, []
        return taken

    async def close(self) -> None:
        """Close all providers and all that was opened on the loop, even if closing one of them fails."""
        await asyncio.gather(*(attempt_async(provider.close) for provider in self._providers.values()))
        await close_all()
        self._process.close()
        await attempt_in_thread(USER_LOOP.close, "agentv-close")

    def _load(self, path: Path, kinds: TargetKinds) -> TargetsFile | AgentvError:
        """Return a targets file, or what is wrong with it: a broken file takes long to read, too."""
        try:
            file = load_targets_file(path, kinds)
        except AgentvError as error:
            return error
        if file.warnings and self._options.strict:
            return TargetError(join_problems(file.warnings))
        self.warnings.extend(file.warnings)
        return file

    def _create(self, eval_dir: Path, target: Target) -> Adapter:
        variables = self.environment(eval_dir).variables
        if target.settings.is_one_by_one and self._places.shared_folder is not None:
            variables = {**variables, RUN_VARIABLE: self._places.shared_folder.name}
        provider = create_provider(target, variables, self._options.timeout or None)
        warm_up = getattr(provider, "warm_up", None)
        if getattr(provider, "reads_environ", False):
            provider = self.in_process(eval_dir, provider)
        if self._options.cache:
            from pytest_agentv.engine.targets.cache import CachedProvider  # noqa: PLC0415 - only for runs with a cache

            folder = self._places.cwd / CACHE_FOLDER
            at_home, tell = self._places.as_at_home, self.warn_of_cache
            return CachedProvider(provider, target, folder, self._masker, at_home, tell=tell)
        if warm_up is not None:  # with a cache, perhaps no model is called
            warm_up()
        return provider
