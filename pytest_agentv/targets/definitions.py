"""Targets as written in a targets file, the kinds that files may name, and the variables of a run."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pytest_agentv.errors import FileError, TargetError, locate
from pytest_agentv.files.problems import Problem, did_you_mean
from pytest_agentv.model.base import Json, JsonObject, Record
from pytest_agentv.model.kind_table import KindTable

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
        word = provider.lower() if isinstance(provider, str) else ""
        return word if word in self.table else self.other_spellings.get(word, word)

    def find(self, kind: str) -> type[Any] | None:
        """Return the class of a kind, importing it if needed; None for an unknown kind."""
        return self.table.get(kind)

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
        """Return these kinds with those of plugins and conftest files: classes, or factories."""
        return TargetKinds(self.table.with_own(_Lowered(own)), self.other_spellings, self.unsupported)


class _Lowered(Mapping[str, Any]):
    """Kinds by their words in lower case. Reads the kinds only when a word is looked up."""

    def __init__(self, kinds: Mapping[str, Any]) -> None:
        self._kinds = kinds

    def __getitem__(self, word: str) -> Any:
        if word in self._kinds:
            return self._kinds[word]
        return self._kinds[next((each for each in self._kinds if each.lower() == word), word)]

    def __iter__(self) -> Iterator[str]:
        return (word.lower() for word in self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)


NO_KINDS: Final = TargetKinds(KindTable({}))


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


@dataclass(frozen=True, slots=True)
class TargetsFile(Record):
    """The targets of a file that has no errors."""

    path: Path
    definitions: tuple[TargetDefinition, ...]
    warnings: tuple[Problem, ...] = ()
    kinds: TargetKinds = field(default=NO_KINDS, repr=False, compare=False)

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
        found = next((definition for definition in self.definitions if definition.name == name), None)
        if found:
            return found
        names = self.names
        near = did_you_mean(name, names)
        hint = f"{near} " if near else ""
        raise TargetError(
            f"{locate(self.path, None)}: no target {name!r}; {hint}available: {', '.join(names) or 'none'}"
        )


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
    """Return the variables of a run. Never changes the process environment.

    Raises `FileError` if a `.env` file exists but cannot be read.
    """
    path = find_dotenv(eval_dir, repo_root, cwd)
    dotenv = _read_dotenv(path, process_env) if path else {}
    return Environment({**dotenv, **process_env}, dotenv)


def _read_dotenv(path: Path, process_env: Mapping[str, str]) -> dict[str, str]:
    """Return the values. Fills in `${NAME}` as `load_dotenv` does: the process comes before the lines above."""
    from dotenv import dotenv_values  # noqa: PLC0415 - only for runs with a .env file
    from dotenv.variables import parse_variables  # noqa: PLC0415 - as above

    try:
        values = dotenv_values(path, interpolate=False, encoding="utf-8-sig")
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise FileError(path, f"is not UTF-8: byte 0x{error.object[error.start]:02x}") from None
    found: dict[str, str] = {}
    for name, value in values.items():
        if value is not None:
            found[name] = "".join(part.resolve({**found, **process_env}) for part in parse_variables(value))
    return found


def find_dotenv(eval_dir: Path, repo_root: Path, cwd: Path) -> Path | None:
    """Return the nearest `.env` file. Ignores a folder of that name, which is often a virtual environment."""
    candidates = (folder / ".env" for folder in search_folders(eval_dir, repo_root, cwd))
    return next((path for path in candidates if path.is_file()), None)


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
    """Return the nearest folder, from `start` upward, that holds `.git` (a folder, or a file in worktrees).

    Returns `start` if there is none.
    """
    return next((folder for folder in (start, *start.parents) if (folder / ".git").exists()), start)


def has_reference(value: Json) -> bool:
    """Whether a value is a text that refers to a variable."""
    return isinstance(value, str) and bool(REFERENCE.search(value))


def missing_variables(text: str, variables: Mapping[str, str]) -> list[str]:
    """Return the variables of a text that are unset or blank."""
    return [name for name in dict.fromkeys(REFERENCE.findall(text)) if not variables.get(name, "").strip()]


def interpolate(text: str, variables: Mapping[str, str]) -> str:
    """Fill in every `${{ VAR }}` of a text in one pass. Uses values unchanged, including white space."""
    return REFERENCE.sub(lambda match: variables[match[1]], text)
