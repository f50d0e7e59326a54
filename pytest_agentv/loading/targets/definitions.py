"""Targets as written in a targets file."""

from dataclasses import field
from pathlib import Path
from typing import Final

from pytest_agentv.errors import TargetError, locate
from pytest_agentv.loading.problems import Problem, did_you_mean
from pytest_agentv.loading.targets.kinds import NO_KINDS, TargetKinds
from pytest_agentv.models.base import JsonObject, Record
from pytest_agentv.models.records import record

IDENTITY: Final = ("name", "provider")
"""Keys whose texts are never filled in, not even `${{ VAR }}`."""


@record
class TargetDefinition(Record):
    """A target as written in the targets file, with its variables not filled in."""

    name: str
    """As cases and options choose it."""
    provider: str
    """The kind of its provider, as written."""
    kind: str
    """The canonical kind of its provider, in lower case: `azure` for `Azure-OpenAI`."""
    line: int
    """The line in the targets file, 1-based."""
    judge_target: str | None = None
    """The target that judges; None: none is named."""
    workers: int | None = None
    """Cases in flight; None: not written, or a variable holds the number."""
    provider_batching: bool = False
    """Whether one call answers many cases."""
    values: JsonObject = field(default_factory=dict, repr=False)
    """All keys as written; an older file's `settings:` is merged in."""
    path: Path | None = None
    """The included file in which it is written; None: the targets file itself."""


@record
class TargetsFile(Record):
    """The targets of a file that has no errors."""

    path: Path
    definitions: tuple[TargetDefinition, ...]
    warnings: tuple[Problem, ...] = ()
    kinds: TargetKinds = field(default=NO_KINDS, repr=False, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(definition.name for definition in self.definitions)

    def find(self, name: str) -> TargetDefinition:
        """Return the first target of a name. Raises `TargetError`."""
        found = next((definition for definition in self.definitions if definition.name == name), None)
        if found:
            return found
        names = self.names
        near = did_you_mean(name, names)
        hint = f"{near} " if near else ""
        raise TargetError(
            f"{locate(self.path, None)}: no target {name!r}; {hint}available: {', '.join(names) or 'none'}"
        )


@record
class Folders(Record):
    """The folders to which the paths of a target are relative, all absolute."""

    eval_dir: Path
    targets_dir: Path
    cwd: Path
