"""Chooses some of many cases: the same ones each time, wherever they are chosen."""

import hashlib
from collections.abc import Sequence


def sample(names: Sequence[str], size: int, seed: int = 0) -> frozenset[int]:
    """Return the positions of `size` names, chosen by their hashes.

    The choice depends on the names only, and not on their order: a name that is added changes one of the chosen at
    most.
    """
    if size >= len(names):
        return frozenset(range(len(names)))
    return frozenset(sorted(range(len(names)), key=lambda index: (_draw(names[index], seed), index))[:size])


def _draw(name: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed}:{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
