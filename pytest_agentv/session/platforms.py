"""Decides where evals can run. Loaded in every pytest run."""

import sys
from typing import Final

NEEDS_UNIX: Final = (
    "pytest-agentv runs evals on Linux and macOS only; here, leave them out (--ignore, -p no:agentv) or use WSL"
)
PATCHED_BY_GEVENT: Final = (
    "gevent has patched this process (monkey.patch_all), and evals need threads and an event loop of their own: "
    "leave them out here (--ignore, -p no:agentv), and reach the agent as a program or a service"
)


def obstacle() -> str | None:
    """Return why evals cannot be run in this process; None: they can.

    A run needs the locks and process groups that Windows lacks, and threads that gevent has not replaced.
    """
    try:
        import fcntl  # noqa: F401, PLC0415 - it is there, or it is not
    except ImportError:
        return NEEDS_UNIX
    patches = sys.modules.get("gevent.monkey")
    is_patched = patches is not None and patches.is_module_patched("threading")
    return PATCHED_BY_GEVENT if is_patched else None
