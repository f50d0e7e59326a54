"""Gives each call of a target a fresh copy of the case's workspace, which stays until the answer is judged."""

import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from pytest_agentv.cases.prompts import PromptMode
from pytest_agentv.engine.answers import OuterAdapter, invoke_within_limit, timed
from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.errors import ProviderError, TargetError
from pytest_agentv.model.cases import Target, Workspace
from pytest_agentv.model.results import EvalResult
from pytest_agentv.model.secrets import masked
from pytest_agentv.providers.base import Adapter, ProviderRequest, ProviderResponse
from pytest_agentv.runtime.files import InUse
from pytest_agentv.runtime.processes import ProcessResult
from pytest_agentv.runtime.reaper import keep_folder, remove_at_end, remove_folder, remove_unused, remove_with_last
from pytest_agentv.runtime.user_code import run_in_thread
from pytest_agentv.runtime.workspaces import (
    EVAL_DIR,
    MOST_CHANGED,
    Changes,
    Snapshot,
    Stamp,
    changes_since,
    clone,
    copy_tree,
    hold_folder,
    lay_over,
    run_in,
    sandbox_of,
    size_of,
    walk,
    without_secrets,
)
from pytest_agentv.store.fingerprints import digest

_SECONDS: Final = 600.0
"""The limit of a command of `setup`, `before` and `check`."""
_SPARE: Final = 3
"""A copy is made if the disk has room for so many."""
_ROOM_TO_KEEP: Final = 10
"""A copy is kept if the disk has room for so many more."""


def _fault_of(target: Target) -> str | None:
    """Return why a target cannot work in a workspace; None: it can. An object of a fixture finds it in its request."""
    settings = target.settings
    if settings is None or target.kind == "mock":
        return None
    if not getattr(settings, "takes_workspace", False):
        return f"{target.kind} cannot work in a workspace: claude-code, codex, pi-coding-agent, cli and python can"
    if settings.leaves_files and "cwd" in settings.model_fields_set:
        return "`cwd` and the `workspace` of a case exclude each other: leave `cwd` out, and it works in the workspace"
    return "a call for a whole batch cannot work in the workspace of a case" if target.provider_batching else None


@dataclass(frozen=True, slots=True)
class _Template:
    """What copies are made of: the folder after its `setup`."""

    path: Path
    size: int
    """Bytes."""
    stamps: Mapping[str, Stamp]


class Workspaces:
    """Prepares the templates of a run, each once for all its processes on a machine. Used on the event loop."""

    def __init__(self) -> None:
        self._home: Path | None = None
        self._in_use = InUse()
        self._templates: dict[str, _Template] = {}

    async def template(self, workspace: Workspace, run_id: str, variables: Mapping[str, str]) -> _Template:
        """Return the prepared folder of a workspace. Raises `ProviderError`."""
        key = digest([workspace.source, workspace.ref, list(workspace.setup), variables[EVAL_DIR]])
        if key not in self._templates:
            path = self._folder(run_id) / key / "template"
            size = await once_in_run(path.parent, partial(_prepare, workspace, path, variables)) or 0
            self._templates[key] = _Template(path, size, await run_in_thread(lambda: walk(path), "agentv-walk"))
        return self._templates[key]

    async def check(self, bench: "Workbench", run_id: str) -> None:
        """Raise `ProviderError` if there is nothing to do: the workspace passes its check as it is."""
        folder = self._folder(run_id) / digest([bench.workspace.to_plain(), bench.variables[EVAL_DIR]])
        await once_in_run(folder, bench.verify)

    def close(self) -> None:
        self._in_use.end()
        if self._home is not None:
            remove_unused(self._home)

    def _folder(self, run_id: str) -> Path:
        if self._home is None:
            self._home = Path(tempfile.gettempdir(), f"agentv-templates-{run_id}")
            remove_with_last(self._home)
            self._home.mkdir(mode=0o700, exist_ok=True)
            (self._home / "in-use").touch()
            self._in_use.begin(self._home / "in-use")
        return self._home


async def once_in_run(folder: Path, do: Callable[[], Awaitable[int | None]]) -> int | None:
    """Do something once for all processes of a run, and return what it gives. Its error is that of each of them.

    They share the finding in a file beside the folder, which they lock. Raises `ProviderError`.
    """
    file = folder.with_suffix(".json")
    found: dict[str, Any] = {}
    async with hold_folder(folder):
        try:
            found = json.loads(file.read_text("utf-8"))
        except (FileNotFoundError, ValueError):  # nobody has done it, or a process was killed while it wrote
            try:
                found["value"] = await do()
            except ProviderError as error:
                found = {"error": masked(str(error)), "kind": error.kind}
            file.write_text(json.dumps(found), "utf-8")
    if "error" in found:
        raise ProviderError(found["error"], found["kind"])
    value: int | None = found["value"]
    return value


async def _prepare(workspace: Workspace, path: Path, variables: Mapping[str, str]) -> int:
    """Make a template; return its size in bytes."""
    shutil.rmtree(path, ignore_errors=True)  # of a process that was killed
    if workspace.ref is None:
        await copy_tree(Path(workspace.source), path)
    else:
        await clone(workspace.source, workspace.ref, path)
    for command in workspace.setup:
        await _must("setup", command, path, variables)
    return await run_in_thread(lambda: size_of(path), "agentv-walk")


async def _must(key: str, command: str, folder: Path, variables: Mapping[str, str]) -> None:
    result = await run_in(folder, command, variables, seconds=_SECONDS)
    if result.exit_code or result.timed_out:
        ended = f"took more than {_SECONDS:g} s" if result.timed_out else f"ended with exit code {result.exit_code}"
        said = (result.stderr.strip() or result.stdout.strip())[-2000:]
        raise ProviderError(f"workspace.{key}: `{command}` {ended}{f': {said}' if said else ''}", "config")


class Workbench(OuterAdapter):
    """Stands before a target: each call gets a new copy, and the last one stays until the answer is judged."""

    keeps_limits = True  # the limit of a call begins when its copy is there

    def __init__(self, job: CaseJob, workspace: Workspace, variables: Mapping[str, str]) -> None:
        """`variables` are those of commands, with secrets."""
        self.workspace = workspace
        self.variables = {**variables, EVAL_DIR: str(job.case.folder)}
        self.path: Path | None = None
        """The folder of the last call; None: there was none."""
        self.changes: Changes | None = None
        """What the target changed there; None: it did not end."""
        self.mode: PromptMode = "agent"
        self._job = job
        self._template: _Template | None = None
        self._provider: Adapter | None = None
        self._root: Path | None = None

    async def around(self, provider: Adapter, target: Target, known: Workspaces) -> Adapter:
        """Prepare the template and return what asks the target in copies of it. Raises `AgentvError`."""
        if (fault := _fault_of(target)) is not None:
            raise TargetError(f"target {target.name!r}: {fault}")
        if self.workspace.sandbox == "bwrap":
            if getattr(provider, "is_in_process", False):
                raise TargetError("workspace.sandbox: a function in this process cannot run in a sandbox")
            probe = ("bwrap", "--unshare-pid", "--ro-bind", "/", "/", "true")
            result = await run_in(Path("/"), probe, self.variables, seconds=5)
            if result.exit_code:
                said = result.stderr.strip()[-500:]
                raise TargetError(f"workspace.sandbox: bwrap (of bubblewrap) does not work here: {said}")
        run_id = self._job.identity.run_id
        self._template = await known.template(self.workspace, run_id, self.variables)
        if self.workspace.check is not None:
            await known.check(self, run_id)
        self._provider, self.mode = provider, provider.mode
        return self

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        assert self._provider is not None
        assert self._template is not None
        await self._discard()  # that of a call that timed out
        self.changes = None
        self.path = path = await self._copy()
        template, hidden = self._template, self.workspace.hidden
        known = await run_in_thread(lambda: Snapshot.of(path, template.path, template.stamps), "agentv-walk")
        covered = (str(self._job.case.folder), *hidden)
        sandbox = sandbox_of(path, covered) if self.workspace.sandbox == "bwrap" else ()
        started = time.perf_counter()
        request = request.replace(workspace=str(path), sandbox=sandbox)
        response = timed(await invoke_within_limit(self._provider, request), started)
        self.changes = changes = await run_in_thread(lambda: _finish(path, known, hidden), "agentv-diff")
        about = {
            "from": _named(self.workspace, self._job.case.folder),
            "files": changes.files,
            "changed": list(changes.names[:MOST_CHANGED]),
            "diff_sha256": changes.digest,
        }
        return response.replace(workspace=about, file_changes=changes.shown)

    async def run(self, command: str | Sequence[str], seconds: float | None) -> ProcessResult:
        """Run a command of an evaluator in the workspace, without secrets. Raises `ProcessStartError`."""
        assert self.path is not None
        sandbox = sandbox_of(self.path, network=False) if self.workspace.sandbox == "bwrap" else ()
        return await run_in(self.path, command, without_secrets(self.variables), seconds=seconds, sandbox=sandbox)

    async def verify(self) -> None:
        """Run the check on a copy of its own, with the hidden files. Raises `ProviderError` if it passes."""
        self.path = path = await self._copy()
        for folder in self.workspace.hidden:
            await run_in_thread(partial(lay_over, Path(folder), path), "agentv-copy")
        result = await self.run(str(self.workspace.check), _SECONDS)
        await self._discard()
        if result.timed_out or result.exit_code in (126, 127):
            said = (result.stderr.strip() or f"it takes more than {_SECONDS:g} s")[-2000:]
            raise ProviderError(f"workspace.check: `{self.workspace.check}` cannot be run: {said}", "config")
        if result.exit_code == 0:
            text = f"workspace.check: `{self.workspace.check}` passes before the target begins: there is nothing to do"
            raise ProviderError(text, "config")

    async def end(self, result: EvalResult) -> EvalResult:
        """Remove the copy, or keep it as the case says. Returns the result with the path of one that stays."""
        keep = self.workspace.keep
        is_kept = keep == "always" or (keep == "failed" and result.status != "pass")
        if self._root is not None and result.workspace is not None and is_kept and self._has_room(_ROOM_TO_KEEP):
            keep_folder(self._root)
            self._root = None
            return result.replace(workspace={**result.workspace, "kept": str(self.path)})
        await self._discard()
        return result

    def drop(self) -> None:
        """Remove the copy without waiting: the run ends."""
        if self._root is not None:
            threading.Thread(target=remove_folder, args=(self._root,), daemon=True).start()

    async def _copy(self) -> Path:
        assert self._template is not None
        self._root = root = Path(tempfile.mkdtemp(prefix="agentv-workspace-"))
        remove_at_end(root)
        path = root / "workspace"
        if not self._has_room(_SPARE):
            size = self._template.size // 2**20
            raise ProviderError(f"workspace: {root.parent} has no room for copies of {size} MiB", "config")
        await copy_tree(self._template.path, path)
        if self.workspace.overlay is not None:
            await run_in_thread(partial(lay_over, Path(self.workspace.overlay), path), "agentv-copy")
        for command in self.workspace.before:
            await _must("before", command, path, self.variables)
        return path

    async def _discard(self) -> None:
        root, self._root, self.path = self._root, None, None
        if root is not None:
            await run_in_thread(partial(remove_folder, root), "agentv-remove")

    def _has_room(self, copies: int) -> bool:
        assert self._template is not None
        return shutil.disk_usage(tempfile.gettempdir()).free >= copies * self._template.size


def _named(workspace: Workspace, folder: Path) -> str:
    """Return where a workspace comes from: relative to the eval file, the same on all machines."""
    is_folder = Path(workspace.source).is_absolute()
    return os.path.relpath(workspace.source, folder) if is_folder else workspace.source


def _finish(path: Path, known: Snapshot, hidden: Sequence[str]) -> Changes:
    """Return what the target changed, then copy the hidden files over it."""
    if path.is_symlink() or not path.is_dir():  # the target may have removed its folder: judged as an empty one
        path.unlink(missing_ok=True)
        path.mkdir()
    changes = changes_since(known, path)
    for folder in hidden:
        lay_over(Path(folder), path)
    return changes
