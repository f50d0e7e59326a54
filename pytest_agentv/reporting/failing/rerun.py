"""The command that runs a case again."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record

_TARGETS_FILE: Final = "--agentv-targets="


@record
class Start(Record):
    """How pytest was started: its root folder, the folder that it was started in, and its flags."""

    root: Path
    folder: Path
    flags: tuple[str, ...] = ()
    """Those that affect a case's outcome or its name."""

    def command(self, node_id: str) -> str | None:
        """Return the command that runs a case again in the same way, in the same folder; None: there is none."""
        if self.folder == self.root:
            return command_of(node_id, self.flags)
        file, colons, name = node_id.partition("::")
        return command_of(f"{os.path.relpath(self.root / file, self.folder)}{colons}{name}", self.flags)


def command_of(node_id: str, flags: Sequence[str]) -> str | None:
    """Return the command that runs a case or a file; None: pytest cannot be told its path."""
    file, colons, name = node_id.partition("::")
    if "[" not in file:
        return shlex.join(["pytest", node_id, *flags])
    split = below_brackets(file)
    if split is None:
        return None
    folder, rest = split
    arguments = ["pytest", f"{rest}{colons}{name}", *(_seen_from(folder, flag) for flag in flags)]
    return f"cd {shlex.quote(folder)} && {shlex.join(arguments)}"


def _seen_from(folder: str, flag: str) -> str:
    """Return a flag for a command that runs in a folder: the path of a targets file is relative to it."""
    path = flag.removeprefix(_TARGETS_FILE)
    return flag if path == flag or os.path.isabs(path) else f"{_TARGETS_FILE}{os.path.relpath(path, folder)}"  # noqa: PTH117 - texts


def below_brackets(path: str) -> tuple[str, str] | None:
    """Split a path at its last folder with a bracket: pytest takes no path with one, but the rest from that folder.

    None: the path has no brackets, or its file has one in its name.
    """
    folder, name = os.path.split(path)
    cut = folder.find(os.sep, folder.rfind("["))
    if "[" not in folder or "[" in name:
        return None
    return (folder, name) if cut < 0 else (folder[:cut], os.path.join(folder[cut + 1 :], name))  # noqa: PTH118 - texts
