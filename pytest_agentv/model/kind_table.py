"""The table of the kinds that files may name, by word."""

import importlib
from abc import update_abstractmethods
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

Factory: TypeAlias = Callable[..., object]

KindsOf: TypeAlias = Callable[[Path], Mapping[str, Any]]
"""Returns the kinds that plugins and conftest files add for a folder: classes or factories by their words.

Folders with the same kinds get the same object.
"""

NEGATION: Final = "not-"
"""The prefix that negates a kind of evaluator."""

_NONE: Final[Mapping[str, Any]] = {}


def no_kinds(folder: Path) -> Mapping[str, Any]:  # noqa: ARG001 - as `KindsOf`
    """Return that nothing adds kinds."""
    return _NONE


_WANTED: Final = (
    "expected a list of classes of Evaluator or Provider, each with its word as `kind`, "
    "or a mapping from words to classes, or to factories of providers"
)


def merge_kinds(hook: str, found: Sequence[object]) -> dict[str, Any]:
    """Combine the kinds that a hook returns: lists of classes, or mappings of words. The first answer wins.

    Raises `ValueError` for anything else, and for a class that lacks the method that is called for each case.
    """
    merged: dict[str, Any] = {}
    for kinds in reversed(found):
        if isinstance(kinds, Mapping):
            pairs = list(kinds.items())
        elif isinstance(kinds, Iterable) and all(map(is_kind, classes := list(kinds))):
            pairs = [(kind.kind, kind) for kind in classes]
        else:
            raise ValueError(f"{_WANTED}, got {kinds!r}")
        for word, kind in pairs:
            is_known = is_kind(kind) or (callable(kind) and hook == "pytest_agentv_providers")
            if not isinstance(word, str) or not word.strip() or not is_known:
                raise ValueError(f"{_WANTED}, got {kind!r} for the word {word!r}")
            if is_kind(kind):
                update_abstractmethods(kind)  # a decorator of the class may have added it
                if missing := ", ".join(f"`{name}`" for name in sorted(kind.__abstractmethods__)):
                    raise ValueError(f"the class {kind.__name__} has no {missing}: expected a method of that name")
            merged[word] = kind
    return merged


def is_kind(value: object) -> bool:
    """Whether a value is the class of a kind. Does not import pydantic."""
    return isinstance(value, type) and hasattr(value, "model_fields") and hasattr(value, "kind")


class KindTable(Mapping[str, type[Any]]):
    """Classes of kinds by their words. The first lookup of a word imports a built-in class."""

    def __init__(
        self,
        built_in: Mapping[str, str] = _NONE,
        own: Mapping[str, Any] = _NONE,
        from_factory: Callable[[str, Factory], type[Any]] | None = None,
        elsewhere: Mapping[str, str] = _NONE,
        older: Collection[str] = (),
    ) -> None:
        """Combine the built-in kinds with those of plugins and conftest files.

        Args:
            built_in: Words, each with the place of its class: `module:Class`.
            own: Words, and a class or a factory each. A word of a built-in kind replaces that kind.
            from_factory: Makes a class from a word and its factory.
            elsewhere: Words of other tools, each with what to write here.
            older: Words that load, but that errors and editors do not offer.
        """
        self._built_in = built_in
        self._own = own
        self._from_factory = from_factory
        self.elsewhere = elsewhere
        self.older = older
        self._found: dict[str, type[Any]] = {}

    def with_own(self, own: Mapping[str, Any]) -> "KindTable":
        """Return a table with different kinds of plugins and conftest files."""
        return KindTable(self._built_in, own, self._from_factory, self.elsewhere, self.older)

    def __getitem__(self, word: str) -> type[Any]:
        if word not in self._found:
            self._found[word] = self._find(word)
        return self._found[word]

    def listed(self) -> str:
        """Return the words for the text of an error."""
        return ", ".join(sorted(word for word in self if word not in self.older))

    def __iter__(self) -> Iterator[str]:
        return iter({**self._built_in, **dict.fromkeys(self._own)})

    def __len__(self) -> int:
        return len({*self._built_in, *self._own})

    def __contains__(self, word: object) -> bool:
        return word in self._own or word in self._built_in

    def find(self, word: str) -> tuple[str, bool] | None:
        """Return the word of the table that a file means, and whether the file negates it: `not-contains`.

        `tool-trajectory` and `tool_trajectory` are the same word. None: the table has no such word.
        """
        if word in self:
            return word, False
        plain = _kebab(word)
        known = self._spellings.get(plain)
        if known is not None:
            return known, False
        found = self.find(plain.removeprefix(NEGATION)) if plain.startswith(NEGATION) else None
        return None if found is None or found[1] else (found[0], True)

    @cached_property
    def _spellings(self) -> Mapping[str, str]:
        """Return the words by their spelling with hyphens. If several are equal, the first one wins."""
        return {_kebab(word): word for word in reversed([*self])}

    def _find(self, word: str) -> type[Any]:
        own = self._own.get(word)
        if own is not None and is_kind(own):
            return own  # type: ignore[no-any-return]
        if own is not None and self._from_factory is not None:
            return self._from_factory(word, own)
        module, _, name = self._built_in[word].partition(":")
        found: type[Any] = getattr(importlib.import_module(module), name)
        return found


def _kebab(word: str) -> str:
    return word.replace("_", "-")
