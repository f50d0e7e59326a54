"""The kinds of targets that files may name. The caller passes their table."""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.models.base import Json
from pytest_agentv.models.kind_table import KindTable
from pytest_agentv.models.records import record


@record
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

    def is_known(self, kind: str) -> bool:
        """Whether a kind is one of AgentV's, even if it cannot be used here."""
        return kind in self.table or kind in self.unsupported

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
