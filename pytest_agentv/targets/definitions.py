"""Targets as written in a targets file, the variables of a run, and the files that count as guidelines."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from pytest_agentv.errors import FileError, TargetError, TargetsError, locate
from pytest_agentv.files.places import INCLUDE, Place, included_files
from pytest_agentv.files.problems import (
    Problem,
    UnreadKey,
    UnusableTarget,
    did_you_mean,
    raise_errors,
)
from pytest_agentv.files.source import Source, read_yaml
from pytest_agentv.model.base import Json, JsonObject, Record
from pytest_agentv.model.kind_table import KindTable
from pytest_agentv.model.options import UnknownKeys

# The kinds of targets that files may name. The caller passes their table.


@dataclass(frozen=True, slots=True)
class TargetKinds:
    """Kinds by lower-case names, and synonyms of these names."""

    table: KindTable
    other_spellings: Mapping[str, str] = field(default_factory=dict)
    unsupported: Mapping[str, str] = field(default_factory=dict)
    """Names that AgentV knows but this package does not support, with the reason."""

    def canonical(self, provider: Json) -> str:
        """Return the kind of a provider: `azure` for `Azure-OpenAI`; an unknown provider in lower case."""
        if not isinstance(provider, str):
            return ""
        if provider in self.table:
            return provider
        word = provider.lower()
        return word if word in self.table else self.other_spellings.get(word, word)

    def fault(self, provider: str) -> str | None:
        """Return the reason why a provider cannot be used; None if it can."""
        kind = self.canonical(provider)
        if kind in self.table:
            return None
        if kind in self.unsupported:
            return f"provider {provider!r} {self.unsupported[kind]}"
        near = did_you_mean(provider, (*self.table, *self.other_spellings))
        return f"unknown provider {provider!r}; {near + ' ' if near else ''}known: {', '.join(self.table)}"

    def with_own(self, own: Mapping[str, Any]) -> "TargetKinds":
        """Return these kinds with those of plugins and conftest files."""
        return TargetKinds(self.table.with_own(own), self.other_spellings, self.unsupported)


# Targets as written in a targets file.

IDENTITY: Final = ("name", "provider")
"""Keys whose texts are never filled in, not even `${{ VAR }}`."""


@dataclass(frozen=True, slots=True)
class TargetDefinition(Record):
    """A target as written in the targets file, with its variables not filled in."""

    name: str
    """As cases and options choose it."""
    provider: str
    """The kind of its provider, as written."""
    kind: str
    """The canonical kind of its provider: `azure` for `Azure-OpenAI`."""
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


@dataclass(frozen=True, slots=True)
class TargetsFile(Record):
    """The targets of a file that has no errors."""

    path: Path
    definitions: tuple[TargetDefinition, ...]
    kinds: TargetKinds = field(repr=False, compare=False)
    warnings: tuple[Problem, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(definition.name for definition in self.definitions)

    def faults(self, definition: TargetDefinition) -> Iterator[tuple[str, str, str | None]]:
        """Yield why a target cannot be used: a key, what is wrong with it, and what to write."""
        if fault := self.kinds.fault(definition.provider):
            yield "provider", fault, None
        judge, names = definition.judge_target, self.names
        if judge is not None and judge not in names:
            near = did_you_mean(judge, names) or f"available: {', '.join(names)}"
            yield "judge_target", f"there is no target {judge!r} to judge its answers", near

    def find(self, name: str) -> TargetDefinition:
        """Return the first target of a name. Raises `TargetError`."""
        for definition in self.definitions:
            if definition.name == name:
                return definition
        near = did_you_mean(name, self.names)
        names = f"{near + ' ' if near else ''}available: {', '.join(self.names) or 'none'}"
        raise TargetError(f"{locate(self.path, None)}: no target {name!r}; {names}")


# The variables of a run, and `${{ VAR }}` in texts.

REFERENCE: Final = re.compile(r"\$\{\{\s*([A-Za-z0-9_]+)\s*\}\}")
"""A variable in a text: `${{ NAME }}`."""


@dataclass(frozen=True, slots=True)
class Environment(Record):
    """The variables for resolving targets."""

    variables: Mapping[str, str] = field(repr=False)
    """The variables of the process, plus those of the `.env` file that the process does not have."""
    dotenv: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The variables of the `.env` file."""


def load_environment(eval_dir: Path, repo_root: Path, cwd: Path, process_env: Mapping[str, str]) -> Environment:
    """Return the variables of a run, with those of the nearest `.env` file. Never changes the process environment.

    A folder named `.env`, which is often a virtual environment, does not count. Variables of the process win, also
    where a line of the file names one. Raises `FileError` if a `.env` file exists but cannot be read.
    """
    candidates = (folder / ".env" for folder in search_folders(eval_dir, repo_root, cwd))
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        return Environment(dict(process_env))
    from dotenv.main import DotEnv  # noqa: PLC0415 - only for runs with a .env file

    try:
        values = DotEnv(path, interpolate=True, override=False, encoding="utf-8-sig").dict()
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise FileError(path, f"is not UTF-8: byte 0x{error.object[error.start]:02x}") from None
    dotenv = {name: value for name, value in values.items() if value is not None}
    return Environment({**dotenv, **process_env}, dotenv)


def search_folders(eval_dir: Path, repo_root: Path, cwd: Path) -> tuple[Path, ...]:
    """Return the search folders for a run's files: upward from the eval file, then the working directory."""
    return tuple(dict.fromkeys((*folders_upward(eval_dir, repo_root), cwd)))


def folders_upward(eval_dir: Path, repo_root: Path) -> tuple[Path, ...]:
    """Return the eval file's folder and those above it up to the repository's root, nearest first.

    For an eval file outside the repository, return all folders above it, then the repository's root.
    """
    above = (eval_dir, *eval_dir.parents)
    return above[: above.index(repo_root) + 1] if repo_root in above else (*above, repo_root)


def find_repo_root(start: Path) -> Path:
    """Return the nearest folder, from `start` upward, that holds `.git`; `start` if none does."""
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)


def has_reference(value: Json) -> bool:
    """Whether a value is a text that refers to a variable."""
    return isinstance(value, str) and bool(REFERENCE.search(value))


# Finds, reads and checks the targets file.

TARGETS_FILES: Final = ("targets.yaml", "targets.yml", ".agentv/targets.yaml", ".agentv/targets.yml")
"""Paths of a targets file within a folder, in the order of the search."""


def find_targets_file(explicit: Path | None, eval_dir: Path, repo_root: Path, cwd: Path) -> Path:
    """Return the targets file of a run. Raises `TargetsError` with the searched places.

    `explicit` is a file, or a folder to search.
    Source: eval-cli-2026-01, "Targets file discovery and selection".
    """
    named = None if explicit is None else cwd / explicit
    if named is not None and not named.exists():
        raise TargetsError(named, "there is no such targets file or folder")
    if named is not None and not named.is_dir():
        return named
    folders = search_folders(eval_dir, repo_root, cwd) if named is None else (named,)
    paths = (folder / name for folder in folders for name in TARGETS_FILES)
    if found := next(filter(Path.is_file, paths), None):
        return found
    tried = ", ".join(TARGETS_FILES)
    if named is not None:
        raise TargetsError(named, f"no targets file in this folder: tried {tried}")
    places = ", ".join(locate(folder, None) for folder in folders)
    what = f"no targets file found: tried {tried} in {places}; name one with --agentv-targets-file"
    raise TargetsError(eval_dir / TARGETS_FILES[0], what)


def load_targets_file(path: Path, kinds: TargetKinds, unknown_keys: UnknownKeys = "error") -> TargetsFile:
    """Read and check a targets file. Its targets may have the given kinds.

    Raises `SourceError` for invalid YAML, and `TargetsError` with all faults and their lines.
    Source: evaluation-2025-11, "Schema validation for targets"; eval-cli-2026-01, "Targets validation with warnings".
    """
    from pytest_agentv.targets.fields import read_targets  # noqa: PLC0415 - imports pydantic

    problems: list[Problem] = []
    found: list[tuple[TargetDefinition, Place]] = []
    for source, is_included in _with_included(read_yaml(path), ()):
        names = {definition.name for definition, _ in found}
        targets = read_targets(source, kinds, problems, is_included=is_included)
        found += [each for each in targets if each[0].name not in names]
        if unknown_keys == "warn":
            problems[:] = [each.replace(level="warning") if isinstance(each, UnreadKey) else each for each in problems]
        raise_errors(problems, TargetsError)  # before those of the files that it includes
    file = TargetsFile(path, tuple(definition for definition, _ in found), kinds)
    for definition, place in found:
        for key, message, hint in file.faults(definition):
            at = place.at(key)
            problems.append(UnusableTarget(at.path, at.line, at.key, message, hint, "warning"))
    return file.replace(warnings=tuple(problems))


def _with_included(source: Source, chain: tuple[Path, ...]) -> Iterator[tuple[Source, bool]]:
    """Yield a file and those that it includes, and whether it is included. What comes first wins."""
    yield source, bool(chain)
    value = source.value
    if isinstance(value, dict) and value.get(INCLUDE) is not None:
        for included in reversed([*included_files(source, value, chain)]):
            yield from _with_included(included, (*chain, source.path))


# `.agentv.yaml` and `.agentv/config.yaml`, which name the files that count as guidelines.

DEFAULT_GUIDELINE_PATTERNS: Final = ("**/*.instructions.md", "**/instructions/**", "**/*.prompt.md", "**/prompts/**")


GuidelineConfig: TypeAlias = tuple[tuple[str, ...], tuple[Problem, ...]]
"""The patterns for an eval file, and the problems of the config file that was read."""


def load_guideline_patterns(eval_dir: Path, repo_root: Path) -> GuidelineConfig:
    """Return the patterns of the first config file, or the default ones.

    They are relative to the repository's root, and also to the folder of `.agentv.yaml` or `.agentv`.
    `guideline_patterns: []` means no guidelines at all.
    Source: evaluation-2026-01, "Load custom guideline patterns", "Use defaults when config absent".
    """
    candidates = [eval_dir / ".agentv.yaml"]
    for folder in folders_upward(eval_dir, repo_root):
        candidates += [folder / ".agentv" / "config.yaml", folder / ".agentv" / "config.yml"]
    path = next((each for each in candidates if each.is_file()), None)
    if path is None:
        return DEFAULT_GUIDELINE_PATTERNS, ()
    from pytest_agentv.targets.fields import read_config_file  # noqa: PLC0415 - imports pydantic

    patterns, problems = read_config_file(path)
    below = posixpath.relpath(path.parent.parent if path.stem == "config" else path.parent, repo_root)
    plain = () if below == "." else (each for each in patterns if not each.startswith(("!", "**/")))
    near = [posixpath.normpath(f"{below}/{each}") for each in plain]
    return (*patterns, *near), problems
