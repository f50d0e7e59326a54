"""Read the metadata of installed packages once: pytest reads it at each start, a fifth of the time of a short run."""

import functools
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from itertools import chain
from typing import Any

import pytest

_PROPERTIES = ("metadata", "entry_points", "files")


@contextmanager
def read_once() -> Iterator[None]:
    """Keep what is read of this environment's packages while this lasts; look at all other places anew."""
    search = metadata.distributions

    @functools.cache
    def installed(place: str) -> list[metadata.Distribution]:
        return list(search(path=[place]))

    def distributions(**options: Any) -> Iterable[metadata.Distribution]:
        if options:
            return search(**options)
        found = (installed(place) if place.startswith(sys.prefix) else search(path=[place]) for place in sys.path)
        return chain.from_iterable(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(metadata, "distributions", distributions)
        for name in _PROPERTIES:
            patch.setattr(
                metadata.Distribution, name, property(functools.cache(getattr(metadata.Distribution, name).fget))
            )
        yield
