"""Targets as written in a targets file, and the kinds of provider they may have."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pytest_agentv.errors import TargetError, locate
from pytest_agentv.loading.problems import Problem, did_you_mean
from pytest_agentv.models.base import Json, JsonObject, Record

UNSUPPORTED: Final = "pi-agent-sdk"
"""AgentV runs this JavaScript library within its own process."""

_OTHER_SPELLINGS: Final = {
    "azure-openai": "azure",
    "google": "gemini",
    "google-gemini": "gemini",
    "codex-cli": "codex",
    "pi": "pi-coding-agent",
    "vscode-copilot": "vscode",
}
KINDS: Final = (
    *("azure", "anthropic", "gemini", "openai", "litellm", "cli", "mock", "python"),
    *("codex", "claude-code", "pi-coding-agent", "vscode", "vscode-insiders", UNSUPPORTED),
)
"""The canonical provider kinds."""

IDENTITY: Final = ("name", "provider")
"""Keys whose texts are used as they are, `${{ VAR }}` and all."""


def canonical_kind(provider: Json) -> str:
    """Return the kind that a provider stands for: `azure` for `Azure-OpenAI`; what is not ours is lower-cased only."""
    word = provider.lower() if isinstance(provider, str) else ""
    return _OTHER_SPELLINGS.get(word, word)


def known_kinds(extra_kinds: Collection[str]) -> tuple[str, ...]:
    """Return the provider kinds that can be used."""
    return (*(kind for kind in KINDS if kind != UNSUPPORTED), *extra_kinds)


def kind_fault(provider: str, extra_kinds: Collection[str]) -> str | None:
    """Return why a provider cannot be used, if so."""
    kind = canonical_kind(provider)
    if kind == UNSUPPORTED:
        return f"provider {provider!r} is a JavaScript library, which cannot run here; use provider: pi-coding-agent"
    known = known_kinds(extra_kinds)
    if kind in known:
        return None
    near = did_you_mean(provider, (*known, *_OTHER_SPELLINGS))
    return f"unknown provider {provider!r}; {near + ' ' if near else ''}known: {', '.join(known)}"


@dataclass(frozen=True, slots=True)
class TargetDefinition(Record):
    """One target as the targets file has it, its variables not yet filled in."""

    name: str
    """As cases and options choose it."""
    provider: str
    """The kind of its provider, as written."""
    kind: str
    """The kind of its provider, in its first spelling: `azure` for `Azure-OpenAI`; in lower case."""
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


@dataclass(frozen=True, slots=True)
class TargetsFile(Record):
    """The targets of a file that has no errors."""

    path: Path
    definitions: tuple[TargetDefinition, ...]
    warnings: tuple[Problem, ...] = ()
    extra_kinds: tuple[str, ...] = ()
    """Provider kinds of plugins, in lower case."""

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


@dataclass(frozen=True, slots=True)
class Folders(Record):
    """What the paths of a target are relative to, all absolute."""

    eval_dir: Path
    targets_dir: Path
    cwd: Path
