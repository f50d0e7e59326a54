"""The local environment of a run in a worker process: its folders, variables and targets."""

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from pytest_agentv.engine.targets.checks import Together
from pytest_agentv.engine.targets.folders import Places
from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.errors import ProviderError
from pytest_agentv.executors.base import Setup
from pytest_agentv.executors.leash import process_name
from pytest_agentv.executors.probes import Probes
from pytest_agentv.executors.shipping.outgoing import Outgoing, SentFile, written_folders
from pytest_agentv.executors.shipping.packing import pack, unpack
from pytest_agentv.executors.shipping.roots import Roots, Translation
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.results import EvalResult
from pytest_agentv.models.targets import Target
from pytest_agentv.runtime.files import listen_to_writing
from pytest_agentv.runtime.threads import run_in_thread


def is_elsewhere(setup: Setup) -> bool:
    """Whether this process gets files of the run. Threads of an executor run jobs in the process with the files."""
    return setup.ships and setup.process != process_name()


def _open_nothing(target: Target, variables: Mapping[str, str]) -> NoReturn:  # noqa: ARG001 - of a factory
    raise ProviderError(f"kind {target.kind!r} is one of the project's, which workers do not have", "config")


class Here:
    """The files of a run in this process, and its targets. `leave` undoes its changes to the process."""

    def __init__(self, setup: Setup, roots: Roots, masker: Masker, probes: Probes | None = None) -> None:
        """Prepare the environment. `probes` shares health checks with workers without a common folder."""
        options, repo_root, cwd, import_path = _moved(setup, roots)
        self.roots = roots
        homes = dict(setup.roots.folders)
        paths = {folder: homes[name] for name, folder in roots.folders}
        self._translation = Translation(paths, {sys.executable: setup.python})
        self._outgoing: Outgoing | None = None
        self._left: Path | None = None
        self._shown: list[str] = []
        shared = setup.shared_folder
        if is_elsewhere(setup):
            self._left = Path.cwd()
            shared = _shared_folder(setup, roots)
            self._outgoing = Outgoing(written_folders(options, cwd), roots)
            cwd.mkdir(parents=True, exist_ok=True)
            os.chdir(cwd)
            self._shown = [folder for folder in import_path if roots.spot(folder) is not None]
            sys.path[:0] = self._shown
        else:
            sys.path += [folder for folder in import_path if folder not in sys.path]
        together: Together | None = None
        if probes is not None:
            together = lambda key, check: probes.together(key, check, self.text_home)  # noqa: E731 - typed
        sees_results = setup.is_here and setup.keeps and not is_elsewhere(setup)
        unjudged = setup.unjudged if sees_results else None
        places = Places(repo_root, cwd, shared, self._left, self.plain_home, unjudged)
        own = dict.fromkeys(setup.own_providers, _open_nothing)
        self.pool = TargetPool(options, places, masker, lambda _: own, together)

    def text_home(self, text: str) -> str:
        """Return a text with the paths of the process of the run."""
        return self._translation.text(text)

    def lines_home(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return lines with the paths of the process of the run."""
        return tuple(map(self._translation.text, lines))

    def plain_home(self, value: Mapping[str, object]) -> dict[str, object]:
        """Return plain data with the paths of the process of the run."""
        plain: dict[str, object] = self._translation.plain(value)
        return plain

    def collect_files(self) -> None:
        """Collect the files that the current task writes, unless the run sees them."""
        if self._outgoing is not None:
            listen_to_writing(self._outgoing.note)

    async def take_files(self, result: EvalResult) -> tuple[SentFile, ...]:
        """Return the files that cases have written since the last call; empty if the run sees them."""
        outgoing = self._outgoing
        if outgoing is None:
            return ()
        log = () if result.log_file is None else (Path(result.log_file),)  # a target may write into a folder of its own
        paths = dict.fromkeys((*log, *outgoing.take()))
        if not paths:
            return ()
        try:
            files = await run_in_thread(lambda: tuple(outgoing.read(paths)), "agentv-outgoing")
        except asyncio.CancelledError:
            for path in paths:
                outgoing.note(path)  # the next result brings them
            raise
        return tuple(file.replace(text=self.text_home(file.text)) for file in files)

    def leave(self) -> None:
        """Return to the previous working directory, and remove the folders of the run's modules."""
        if self._left is not None:
            os.chdir(self._left)
            sys.path[:] = [folder for folder in sys.path if folder not in self._shown]


def _moved(setup: Setup, roots: Roots) -> tuple[RunOptions, Path, Path, tuple[str, ...]]:
    """Return a setup with the folders of this machine."""
    said = setup.options, setup.repo_root, setup.cwd, setup.import_path
    moved: tuple[RunOptions, Path, Path, tuple[str, ...]] = said
    return moved if roots == setup.roots else unpack(pack(said, setup.roots), roots)


def _shared_folder(setup: Setup, roots: Roots) -> Path:
    """Return the folder that the processes of the run share. On another machine, it has the same name."""
    shared = setup.shared_folder
    return shared if shared.is_dir() else Path(roots.folders[0][1]).parent / shared.name


class PassedVariables:
    """Sets the variables from the run in this process, until `hide`."""

    def __init__(self, setup: Setup) -> None:
        shown = {} if setup.process == process_name() else setup.passed
        self._before = {name: os.environ.get(name) for name in shown}
        os.environ.update(shown)

    def hide(self) -> None:
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
