"""Folders that targets work in: fresh copies of a folder, shell commands in them, and what changed there."""

import asyncio
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

from pytest_agentv.errors import ProviderError
from pytest_agentv.runtime.files import flocked, read_regular_file
from pytest_agentv.runtime.processes import ProcessResult, run_process

_POLL_SECONDS: Final = 0.05

EVAL_DIR: Final = "AGENTV_EVAL_DIR"
"""The variable of commands in a workspace that names the folder of the eval file."""
LONGEST_CHANGES: Final = 200_000
MOST_CHANGED: Final = 500

_SKIPPED: Final = frozenset(
    (".git", "node_modules", "__pycache__", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache")
)
"""Folders in which changes do not count."""
_LONGEST_DIFF: Final = 64 * 2**20
_LARGEST_FILE: Final = 512 * 1024
"""Bytes. Of larger files, and of files that are no text, a diff has the name and the size."""
_MOST_LINES: Final = 20_000
"""`difflib` takes long for more."""
_SECRETS: Final = ("_KEY", "_TOKEN", "_SECRET")
_CUT: Final = "… the rest of the diff is left out …\n"
_OWN_GIT: Final = ("git", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*")
_UNASKED: Final = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "true", "GIT_SSH_COMMAND": "ssh -oBatchMode=yes"}
"""A repository that asks for a password is an error."""

Stamp: TypeAlias = tuple[int, int, int, int]
"""Size, times of the content and of the entry, and inode. A program cannot set back the time of the entry."""


@asynccontextmanager
async def hold_folder(folder: Path) -> AsyncIterator[None]:
    """Create a folder if it is missing, wait for its lock and hold it. Raises `OSError`."""
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - a short system call, like all others here
    while (descriptor := flocked(folder)) is None:  # noqa: ASYNC110 - another process cannot notify this one
        await asyncio.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        os.close(descriptor)


def in_eval_dir(command: str) -> str:
    """Return a command with the files of the eval folder as they are named from there."""
    return re.sub(rf"\$(?:{EVAL_DIR}\b|\{{{EVAL_DIR}\}})/", "", command)


def without_secrets(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables for code that a target wrote."""
    return {name: value for name, value in variables.items() if not name.upper().endswith(_SECRETS)}


async def run_in(
    folder: Path,
    command: str | Sequence[str],
    variables: Mapping[str, str],
    *,
    seconds: float | None,
    sandbox: Sequence[str] = (),
) -> ProcessResult:
    """Run a command in a folder. Nothing that it started runs on. Raises `ProcessStartError`."""
    argv = ("sh", "-c", command) if isinstance(command, str) else command
    return await run_process(
        [*sandbox, *argv], cwd=str(folder), env=variables, timeout_seconds=seconds, leaves_nothing=True
    )


def sandbox_of(workspace: Path, covered: Iterable[str] = (), *, network: bool = True) -> tuple[str, ...]:
    """Return the words before a command that may write to one folder only, and sees nothing of covered ones."""
    words = ["bwrap", "--die-with-parent", "--unshare-pid", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    words += [] if network else ["--unshare-net"]
    for folder in (tempfile.gettempdir(), *covered):
        words += ["--tmpfs", folder]
    return (*words, "--bind", str(workspace), str(workspace), "--chdir", str(workspace))


async def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder with its times, as reflinks where the file system has them. Raises `ProviderError`."""
    shares = ["-c"] if sys.platform == "darwin" else ["--reflink=auto"]
    for more in (shares, []):  # not every `cp` can share
        result = await run_process(
            ["cp", "-Rp", *more, f"{source}/.", str(target)], cwd="/", env=dict(os.environ), timeout_seconds=None
        )
        if not result.exit_code:
            return
    raise ProviderError(f"workspace: {source} cannot be copied: {result.stderr.strip()[-500:]}", "config")


async def clone(source: str, ref: str, target: Path) -> None:
    """Check a commit of a git repository out. Raises `ProviderError`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    shares = [] if "://" in source or "@" in source else ["--shared"]
    for words in (
        ["clone", "-q", *shares, "--no-checkout", "--", source, str(target)],
        ["-C", str(target), "checkout", "-q", "--detach", ref],
    ):
        result = await run_process([*_OWN_GIT, *words], cwd="/", env=kept | _UNASKED, timeout_seconds=600)
        if result.exit_code:
            said = result.stderr.strip()[-500:] or "it does not say why"
            raise ProviderError(f"workspace: ref {ref!r} of {source} cannot be had: {said}", "config")


def lay_over(source: Path, target: Path) -> None:
    """Copy the content of a folder over another one. Follows no link in there, which may lead anywhere."""
    for root, folders, names in os.walk(source):
        below = target / os.path.relpath(root, source)
        for name in folders:
            if (below / name).is_symlink() or not (below / name).is_dir():
                (below / name).unlink(missing_ok=True)
                (below / name).mkdir()
        for name in names:
            at = below / name
            if at.is_dir() and not at.is_symlink():
                shutil.rmtree(at)
            at.unlink(missing_ok=True)
            shutil.copy2(Path(root, name), at, follow_symlinks=False)


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(Path(root, name).lstat().st_size for root, _, names in os.walk(folder) for name in names)


def content_of(folder: Path) -> str:
    """Return a hash of the names and contents of the files below a folder, where changes count."""
    digest = hashlib.sha256()
    for name in sorted(walk(folder)):
        path = folder / name
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        digest.update(b"%s\0%d\0%s" % (os.fsencode(name), len(content), content))
    return digest.hexdigest()


def walk(root: Path) -> dict[str, Stamp]:
    """Return the stamps of all files and links below a folder, by their relative paths."""
    found: dict[str, Stamp] = {}
    folders = [str(root)]
    while folders:
        folder = folders.pop()
        if not os.access(folder, os.R_OK | os.X_OK):
            Path(folder).chmod(0o700)
        with os.scandir(folder) as entries:
            for each in entries:
                if not each.is_dir(follow_symlinks=False):
                    of = each.stat(follow_symlinks=False)
                    found[os.path.relpath(each.path, root)] = (of.st_size, of.st_mtime_ns, of.st_ctime_ns, of.st_ino)
                elif each.name not in _SKIPPED:
                    folders.append(each.path)
    return found


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a workspace before a target worked in it."""

    stamps: Mapping[str, Stamp]
    template: Path
    texts: Mapping[str, str | None] = field(default_factory=dict)
    """The texts of the files that are not those of the template."""

    @classmethod
    def of(cls, root: Path, template: Path, known: Mapping[str, Stamp]) -> "Snapshot":
        """Return the snapshot of a copy. `known` are the stamps of its template."""
        stamps = walk(root)
        own = [name for name, stamp in stamps.items() if name not in known or known[name][:2] != stamp[:2]]
        return cls(stamps, template, {name: _text(root / name) for name in own})

    def text(self, name: str) -> str | None:
        return self.texts[name] if name in self.texts else _text(self.template / name)


@dataclass(frozen=True, slots=True)
class Changes:
    """What a target changed."""

    names: tuple[str, ...]
    """The files that it wrote, changed or removed, in order."""
    diff: str
    files: int
    is_whole: bool = True

    @property
    def shown(self) -> str:
        """The diff, cut at the end of a line if it is long."""
        if self.is_whole and len(self.diff) <= LONGEST_CHANGES:
            return self.diff
        end = self.diff.rfind("\n", 0, LONGEST_CHANGES - len(_CUT)) + 1
        return self.diff[:end] + _CUT

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.diff.encode("utf-8", "replace")).hexdigest()


def is_cut(diff: str) -> bool:
    """Whether `Changes.shown` has left something out."""
    return diff.endswith(_CUT)


def changes_since(before: Snapshot, root: Path) -> Changes:
    """Compare a workspace with what it was. Reads the contents of changed files only."""
    after = walk(root)
    names: list[str] = []
    parts: list[str] = []
    left = _LONGEST_DIFF
    for name in sorted(before.stamps.keys() | after.keys()):
        if before.stamps.get(name) == after.get(name):
            continue
        part = "" if left < 0 else _diff(name, before, after, root)
        if part is not None:
            names.append(_shown(name))
            parts.append(part)
            left -= len(part)
    return Changes(tuple(names), "".join(parts), len(after), is_whole=left >= 0)


def _diff(name: str, before: Snapshot, after: Mapping[str, Stamp], root: Path) -> str | None:
    """Return the part of a diff for a file; None: its content is the same."""
    old = before.text(name) if name in before.stamps else ""
    new = _text(root / name) if name in after else ""
    shown = _shown(name)
    source = f"a/{shown}" if name in before.stamps else "/dev/null"
    target = f"b/{shown}" if name in after else "/dev/null"
    head = f"diff --git a/{shown} b/{shown}\n--- {source}\n+++ {target}\n"
    if old is None or new is None:
        return f"{head}no text, or a large one: {after[name][0] if name in after else 0} bytes\n"
    if old == new and name in before.stamps and name in after:
        return None
    lines = islice(unified_diff(old.splitlines(True), new.splitlines(True)), 2, None)
    return head + "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _text(path: Path) -> str | None:
    try:
        if path.is_symlink():
            return f"link to {_shown(str(path.readlink()))}\n"
        text = read_regular_file(path, _LARGEST_FILE).decode()
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text or text.count("\n") > _MOST_LINES else text


def _shown(name: str) -> str:
    """Return a name without characters that could look like another line of a diff."""
    return re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]", "?", name)
