"""Samples cases, always the same ones."""

import hashlib
from collections.abc import Sequence


def sample(names: Sequence[str], size: int, seed: int = 0) -> frozenset[int]:
    """Return the positions of `size` names, chosen by their hashes.

    The choice depends on the names, not on their order. Adding a name changes at most one of the chosen ones.
    """
    if size >= len(names):
        return frozenset(range(len(names)))
    return frozenset(sorted(range(len(names)), key=lambda index: (_draw(names[index], seed), index))[:size])


def _draw(name: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}:{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
