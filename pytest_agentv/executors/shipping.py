"""Ships the files of a run: packs jobs into parcels, sends missing bundles, and unpacks them on the worker."""

import asyncio
import fcntl
import hashlib
import importlib
import io
import os
import shutil
import tempfile
import threading
import uuid
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final, Protocol

from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.judging import embedding_targets, evaluators_of
from pytest_agentv.engine.pool import TargetPool
from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.base import CaseExecutor, JobRefused, Parcel, Reply, WorkerLost, pack
from pytest_agentv.executors.bundles import PROJECT, Bundle, BundleTooLarge, Roots, ShippingRules, Spot, make_bundle
from pytest_agentv.model.base import Json, Plain, Record
from pytest_agentv.model.cases import AnyEvaluator, Target
from pytest_agentv.model.messages import FilePart
from pytest_agentv.providers.table import KINDS
from pytest_agentv.runtime.reaper import remove_at_end
from pytest_agentv.runtime.user_code import run_in_thread
from pytest_agentv.store.program_files import ProjectFiles, command_words
from pytest_agentv.targets.definitions import TargetsFile

# Finds the folders and files that a job needs on another machine.


class OutsideProject(AgentvError):
    """A job needs a file that is not below any root."""


@dataclass(frozen=True, slots=True)
class Needs(Record):
    """The absolute paths to ship, sorted."""

    folders: tuple[str, ...]
    """Folders with all their content. None is inside of another."""
    files: tuple[str, ...]
    """Files outside of these folders."""


class NeedsFinder:
    """Finds the needs of jobs. Reads each script once."""

    def __init__(self, roots: Roots, rules: ShippingRules) -> None:
        self._roots = roots
        self._rules = rules
        self._files = ProjectFiles(*(Path(folder) for _, folder in roots.folders))

    def find(self, job: CaseJob, file: TargetsFile | None, targets: Sequence[Target]) -> Needs:
        """Return the needs of a job. Raises `OutsideProject`.

        These are the folders of its eval file, targets file, judge scripts and Python targets, the files that scripts
        import, attachments, and any other path in the case or its targets.
        """
        wanted = {str(job.case.folder): None}
        if file is not None:
            paths = (file.path, *(each.path for each in file.definitions if each.path is not None))
            wanted |= dict.fromkeys(str(path.parent) for path in paths)
        wanted |= dict.fromkeys(job.case.file_paths)
        parts = (part for message in job.case.messages for part in message.parts if isinstance(part, FilePart))
        wanted |= dict.fromkeys(part.resolved_path for part in parts)
        for evaluator in (member for each in evaluators_of(job.case) for member in each.walk()):
            wanted |= dict.fromkeys(self._of_evaluator(evaluator))
        for target in targets:
            wanted |= dict.fromkeys(self._of_target(target))
        return self._without_inner(self._inside(wanted))

    def _inside(self, paths: Iterable[str]) -> list[str]:
        found = list(paths)
        outside = next((path for path in found if self._roots.spot(path) is None), None)
        if outside is not None:
            raise OutsideProject(outside)
        return found

    def _of_evaluator(self, evaluator: AnyEvaluator) -> Iterator[str]:
        for folder, words in evaluator.scripts:
            is_shell = words[:2] == ("sh", "-lc")
            yield from self._of_words(command_words(words[2]) if is_shell else words, Path(folder or "."))
        yield from self._named_in(evaluator.to_plain())

    def _of_target(self, target: Target) -> Iterator[str]:
        sources = target.settings.sources
        folder = Path(sources.folder or Path(target.path or "").parent)
        if sources.callable is not None:
            yield from self._program(self._files.of_callable(sources.callable, folder))
        yield from self._of_words(sources.words, folder)
        yield from self._named_in(target.settings.to_plain())

    def _of_words(self, words: Iterable[str], folder: Path) -> Iterator[str]:
        """Yield the folder of each script in a command, and the files that the script imports."""
        words = tuple(words)
        place = folder
        for previous, word in zip(("", *words), words, strict=False):
            if previous == "cd":
                place /= word
            else:
                yield from self._program(self._files.of_words([word], place))
        yield from self._seen(self._files.of_words(words, folder))  # `-m module` is two words

    def _program(self, files: Iterable[Path]) -> Iterator[str]:
        found = list(self._seen(files))
        yield from found
        yield from (str(Path(path).parent) for path in found[:1])  # a script may read files beside it

    def _seen(self, files: Iterable[Path]) -> Iterator[str]:
        return (str(path) for path in files if self._roots.spot(str(path)) is not None)

    def _named_in(self, value: Json | Plain) -> Iterator[str]:
        """Yield the files and folders of the project whose absolute paths are in plain data."""
        if isinstance(value, str):
            if value[:1] == "/" and self._roots.spot(value) is not None and Path(value).exists():
                yield value
        elif isinstance(value, Mapping):
            for item in value.values():
                yield from self._named_in(item)
        elif isinstance(value, list | tuple):
            for item in value:
                yield from self._named_in(item)
        elif isinstance(value, Plain):
            yield from self._named_in(value.to_plain())

    def _without_inner(self, paths: Sequence[str]) -> Needs:
        is_folder = {path: os.path.isdir(path) for path in paths}  # noqa: PTH112 - called for each case
        folders = sorted((path for path in is_folder if is_folder[path]), key=len)
        outer: list[str] = []
        for folder in folders:
            if not self._is_within(folder, outer):
                outer.append(folder)
        files = {path for path in is_folder if not is_folder[path] and not self._is_within(path, outer)}
        return Needs(tuple(sorted(outer)), tuple(sorted(files)))

    def _is_within(self, path: str, folders: Iterable[str]) -> bool:
        """Whether a path is shipped with one of some folders: inside, and not left out by the rules."""
        return any(self._goes_with(path, folder) for folder in folders if path.startswith(f"{folder.rstrip('/')}/"))

    def _goes_with(self, path: str, folder: str) -> bool:
        between = (str(each) for each in Path(path).parents if len(str(each)) > len(folder))
        return not any(map(self._rules.ignores, (path, *between)))


# The sender's side: packs jobs into parcels, and sends missing bundles to workers.

_ROUNDS: Final = 3
"""How many times bundles are sent separately. If other workers get them each time, they are sent with the job."""


class Shipper:
    """Sends jobs to an executor. Used on the event loop.

    A job is sent with the digests of its bundles. A worker that lacks some says so before it starts the job. Then that
    worker gets them once, and the job again, all under one ticket. An executor of a hook may send them to another
    worker, so they may be sent again.
    """

    def __init__(self, roots: Roots, pool: TargetPool, rules: ShippingRules | None, cache: Path | None = None) -> None:
        """Prepare a shipper.

        `rules` are for files that are shipped; None: workers see the files. `cache` holds cached answers.
        """
        self.roots = roots
        self._pool = pool
        self._rules = rules
        self._needs = None if rules is None else NeedsFinder(roots, rules)
        self._kept = () if cache is None else (str(cache),)
        self._making = asyncio.Lock()
        self._made: dict[tuple[str, ...], Bundle | BundleTooLarge] = {}
        self._bundles: dict[str, Bundle] = {}
        self._bringing = asyncio.Lock()
        self._brought: set[tuple[str, str]] = set()
        """Workers with the digests of bundles that they have."""

    async def parcel(self, job: CaseJob) -> Parcel:
        """Return the parcel of a job. Raises `JobRefused`, `OutsideProject` and `BundleTooLarge`."""
        data = pack(job, self.roots)
        probe = self.roots.spot(job.case.path)
        if self._rules is None or self._needs is None:
            return Parcel(data, probe)
        file, targets = self._targets(job)
        needs = self._needs.find(job, file, targets)
        return Parcel(data, probe, await self._digests_of(needs, self._rules))

    async def ask(self, executor: CaseExecutor, ticket: str, parcel: Parcel) -> Reply:
        """Have a worker run a job, after sending its missing files. Raises like `CaseExecutor.ask`."""
        for _ in range(_ROUNDS):
            reply = await executor.ask(ticket, parcel.to_bytes())
            if not reply.missing:
                return reply
            await self._bring(executor, ticket, reply)
        whole = parcel.replace(bundles=self._with_data(parcel.needs))
        return await executor.ask(ticket, whole.to_bytes())

    def kinds(self, job: CaseJob) -> frozenset[str]:
        """Return the kinds of the targets that a job may ask, and the built-in kinds in their file."""
        file, targets = self._targets(job)
        if file is None:
            return frozenset()
        named = {job.identity.target, *(target.judge_target for target in targets)}
        written = {each.kind for each in file.definitions if each.name in named or each.kind in KINDS.table}
        return frozenset(written | {target.kind for target in targets})

    def bundle(self, digest: str) -> Bundle:
        """Return the bundle with a digest, which a parcel has named."""
        return self._bundles[digest]

    async def _bring(self, executor: CaseExecutor, ticket: str, reply: Reply) -> None:
        """Send missing bundles to a worker, unless another job has sent them meanwhile."""
        async with self._bringing:
            lacking = [digest for digest in reply.missing if (reply.worker, digest) not in self._brought]
            if not lacking:
                return
            with suppress(WorkerLost):  # nothing was paid for, and the job itself will report it
                parcel = Parcel(bundles=self._with_data(lacking))
                there = await executor.ask(ticket, parcel.to_bytes())
                self._brought |= {(there.worker, digest) for digest in lacking}

    def _with_data(self, digests: Iterable[str]) -> tuple[tuple[str, bytes], ...]:
        return tuple((digest, self._bundles[digest].data) for digest in digests)

    async def _digests_of(self, needs: Needs, rules: ShippingRules) -> tuple[str, ...]:
        groups = [(folder,) for folder in (*needs.folders, *self._kept)] + ([needs.files] if needs.files else [])
        return tuple([await self._digest(group, rules) for group in groups])

    async def _digest(self, places: tuple[str, ...], rules: ShippingRules) -> str:
        """Return the digest of the bundle of some places. Each is packed once in a run."""
        async with self._making:
            if places not in self._made:
                self._made[places] = await run_in_thread(lambda: self._make(places, rules), "agentv-bundle")
        bundle = self._made[places]
        if isinstance(bundle, BundleTooLarge):
            raise bundle
        self._bundles[bundle.digest] = bundle
        return bundle.digest

    def _make(self, places: tuple[str, ...], rules: ShippingRules) -> Bundle | BundleTooLarge:
        try:
            return make_bundle(places, self.roots, rules)
        except BundleTooLarge as error:
            return error

    def _targets(self, job: CaseJob) -> tuple[TargetsFile | None, list[Target]]:
        """Return the targets file of a job, and its targets that can be resolved here.

        A worker may have variables that this process lacks.
        """
        folder, evaluators = job.case.folder, evaluators_of(job.case)
        try:
            file = self._pool.file(folder)
        except AgentvError:
            return None, []
        names = [job.identity.target, *embedding_targets(evaluators)]
        if any(member.calls_targets for each in evaluators for member in each.walk()):
            names += file.names
        found: dict[str, Target] = {}
        while names:
            name = names.pop()
            if name in found:
                continue
            with suppress(AgentvError, OSError):
                found[name] = self._pool.definition(folder, name)
                names += filter(None, [found[name].judge_target])
        return file, list(found.values())


# Gives a worker the files of a run: in the folders of the run, or in its own.


class FilesAbsent(AgentvError):
    """The worker cannot see the files of the run."""


class Site(Protocol):
    """The place of a run's files on a worker."""

    @property
    def name(self) -> str:
        """The unique name of the worker."""

    def take(self, parcel: Parcel) -> tuple[str, ...]:
        """Unpack the bundles of a parcel. Return the digests of bundles that are still missing. Blocks.

        Raises `FilesAbsent`.
        """

    @property
    def roots(self) -> Roots:
        """The folders on this machine, known after the first `take` without missing bundles."""

    def close(self) -> None:
        """Remove the unpacked files."""


class SeenFiles:
    """Files that exist already: on the run's machine, on a shared file system, or in an image."""

    name = ""

    def __init__(self, roots: Roots) -> None:
        self.roots = roots
        self._is_found = False
        self._cwd = Path.cwd()

    def take(self, parcel: Parcel) -> tuple[str, ...]:
        if not self._is_found and parcel.probe is not None:
            self.roots = self._find(parcel.probe)
            self._is_found = True
        return ()

    def close(self) -> None:
        pass

    def _find(self, probe: Spot) -> Roots:
        """Return the roots that have a file of the run."""
        found = next((roots for roots in self._candidates() if os.path.exists(roots.path(probe))), None)  # noqa: PTH110
        if found is None:
            message = (
                f"this worker does not see the project: {probe.rest} is neither in the folder of the run nor in "
                f"{self._cwd} or above it; start workers in the project's folder, or ship it with --agentv-ship=bundle"
            )
            raise FilesAbsent(message)
        return found

    def _candidates(self) -> Iterator[Roots]:
        yield self.roots
        for folder in (self._cwd, *self._cwd.parents):
            yield self.roots.moved_to({PROJECT: str(folder)})


# A worker's store: a folder of its own, into which it unpacks the bundles of one run.

_LOCK: Final = "lock"
_NEW: Final = "_"
"""The beginning of the name of a store under construction."""
_OWN: Final[set[str]] = set()
"""The names of this process's stores, which its own locks do not protect from itself."""


class Store:
    """A folder with a locked file. If the lock is free, the process of the store is dead."""

    def __init__(self, roots: Roots) -> None:
        self._known: set[str] = set()
        self._adding = threading.Lock()
        home = _home()
        _clear(home)
        self.name = uuid.uuid4().hex
        _OWN.add(self.name)
        self._folder = home / self.name
        remove_at_end(self._folder)
        self._lock = _new_folder(self._folder)
        self.roots = roots.moved_to({name: str(self._folder / name) for name, _ in roots.folders})
        for _, folder in self.roots.folders:
            Path(folder).mkdir()

    def take(self, parcel: Parcel) -> tuple[str, ...]:
        for digest, data in parcel.bundles:
            self._add(digest, data)
        return tuple(digest for digest in parcel.needs if digest not in self._known)

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._lock.close()
        _OWN.discard(self.name)

    def _add(self, digest: str, data: bytes) -> None:
        """Unpack a bundle. Replaces each file in one step, because another job may be reading it."""
        with self._adding:
            if digest in self._known:
                return
            if hashlib.sha256(data).hexdigest() != digest:
                raise JobRefused(f"bundle {digest[:12]} arrived damaged")
            unpack_bundle(data, dict(self.roots.folders))
            importlib.invalidate_caches()
            self._known.add(digest)


def unpack_bundle(data: bytes, folders: Mapping[str, str]) -> None:
    """Write the files of a bundle below named folders. Raises `JobRefused` for a file outside of these."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            path = _path_of(entry.filename, folders)
            path.parent.mkdir(parents=True, exist_ok=True)
            if entry.is_dir():
                path.mkdir(exist_ok=True)
                continue
            temporary = path.with_name(f".{uuid.uuid4().hex}.tmp")
            with archive.open(entry) as source, temporary.open("xb") as target:
                shutil.copyfileobj(source, target)
            temporary.chmod(0o700 if entry.external_attr >> 16 & 0o100 else 0o600)
            temporary.replace(path)


def _path_of(name: str, folders: Mapping[str, str]) -> Path:
    root, *parts = PurePosixPath(name).parts
    if root not in folders or ".." in parts:
        raise JobRefused(f"a bundle names a file outside of the run's folders: {name}")
    return Path(folders[root], *parts)


def _home() -> Path:
    """Return the folder of this user's stores. Raises `OSError` if it belongs to another user."""
    home = Path(tempfile.gettempdir()).resolve() / f"agentv-stores-{os.getuid()}"
    with suppress(FileExistsError):
        home.mkdir(mode=0o700)
    found = home.lstat()
    if home.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o077:
        return Path(tempfile.mkdtemp(prefix="agentv-stores-"))
    return home


def _new_folder(folder: Path) -> IO[str]:
    """Create a folder and return its locked file. It gets its final name only when it is locked."""
    new = folder.with_name(f"{_NEW}{folder.name}")
    remove_at_end(new)
    new.mkdir(mode=0o700)
    lock = (new / _LOCK).open("w", encoding="utf-8")
    fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    new.rename(folder)
    return lock


def _clear(home: Path) -> None:
    """Remove the stores of dead processes without a watcher."""
    for lock in home.glob(f"[!{_NEW}]*/{_LOCK}"):
        if lock.parent.name in _OWN:
            continue
        with suppress(OSError), lock.open("a", encoding="utf-8") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)
