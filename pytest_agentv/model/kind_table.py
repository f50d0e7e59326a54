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


def merge_kinds(found: Sequence[object]) -> dict[str, Any]:
    """Combine the kinds that hooks return: lists of classes, or mappings of words. The first answer wins.

    Raises `ValueError` for anything else.
    """
    merged: dict[str, Any] = {}
    for kinds in reversed(found):
        if isinstance(kinds, Mapping):
            merged |= {_word(word, "a key of the mapping"): _entry(word, kind) for word, kind in kinds.items()}
        elif isinstance(kinds, Iterable) and all(map(is_kind, each := list(kinds))):
            merged |= {_word(_whole(kind).kind, f"the `kind` of the class {kind.__name__}"): kind for kind in each}
        else:
            wanted = "expected a list of classes, or a mapping from words to factories"
            raise ValueError(_slip(kinds) or f"{wanted}, got {kinds!r}")
    return merged


def _word(word: object, what: str) -> str:
    """Return a word that files may name a kind by. Raises `ValueError` for anything else."""
    if not isinstance(word, str) or not word.strip():
        raise ValueError(f"{what} is {word!r}: expected the word that files name the kind by")
    return word


def _entry(word: str, kind: Any) -> Any:
    """Return the class or the factory of a mapping. Raises `ValueError` for anything else."""
    if is_kind(kind):
        return _whole(kind)
    if (slip := _slip([kind])) is not None:
        raise ValueError(slip)
    if callable(kind):
        return kind
    raise ValueError(f"{word!r} stands for {kind!r}: expected a class, or a factory")


def _whole(kind: Any) -> Any:
    """Return a class. Raises `ValueError` if it lacks the method that is called for each case."""
    update_abstractmethods(kind)  # a decorator of the class may have added it
    missing = ", ".join(f"`{name}`" for name in sorted(getattr(kind, "__abstractmethods__", ())))
    if missing:
        raise ValueError(f"the class {kind.__name__} has no {missing}: expected a method of that name")
    return kind


def _slip(kinds: object) -> str | None:
    """Return the fault of a class that is almost a kind."""
    if isinstance(kinds, type):
        return f"expected a list of classes, got one: return [{kinds.__name__}]"
    for kind in kinds if isinstance(kinds, list | tuple) else ():
        if isinstance(kind, type) and hasattr(kind, "model_fields") and not hasattr(kind, "kind"):
            example = f'kind = "{kind.__name__.lower()}"'
            return f"the class {kind.__name__} has no `kind`, the word that files name it by: write {example} into it"
        if is_kind(type(kind)):
            name = type(kind).__name__
            return f"expected a class, got an object of {name}: write the class, {name}"
        if isinstance(kind, type) and hasattr(kind, "kind"):
            return f"the class {kind.__name__} has another base: expected Evaluator or Provider of pytest_agentv"
    return None


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
