"""Where evals can be run. Loaded in every pytest run."""

from typing import Final

NEEDS_UNIX: Final = (
    "pytest-agentv runs evals on Linux and macOS only; here, leave them out (--ignore, -p no:agentv) or use WSL"
)


def can_run_evals() -> bool:
    """Whether the system has the locks and process groups that a run needs; Windows has not."""
    try:
        import fcntl  # noqa: F401, PLC0415 - it is there, or it is not
    except ImportError:
        return False
    return True
