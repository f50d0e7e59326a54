"""Python's garbage collector, which need not look at what a run keeps to its end.

Each of thousands of items holds dozens of objects, and a full collection looks at all of them, several times in a run
and once more when pytest looks for exceptions in finalizers. Without them, 10,000 cases take a fifteenth less time.
"""

import gc
from typing import Final

import pytest

_HAS_FROZEN: Final = pytest.StashKey[bool]()


def freeze_items(config: pytest.Config) -> None:
    """Have the collector pass over all that there is now; not where somebody else has done so."""
    if not gc.get_freeze_count():
        gc.freeze()
        config.stash[_HAS_FROZEN] = True


def register_unfreezing(config: pytest.Config) -> None:
    """Have the collector look at everything again when the run is over: a process may run pytest several times.

    Called before pytest's own plugins are configured, so that their last collection comes before.
    """
    config.add_cleanup(lambda: gc.unfreeze() if config.stash.get(_HAS_FROZEN, False) else None)
