"""Processes that do not see some folders, where that is allowed: they live as if on other machines."""

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

HIDING = 'mount --make-rprivate / && for each in {}; do mount -t tmpfs hidden "$each" || exit 99; done; exec "$@"'


@cache
def reason_not_to_hide() -> str | None:
    """Return why folders cannot be hidden from a process here; None: they can."""
    try:
        done = subprocess.run(  # noqa: PLW1510 - it may fail
            ["unshare", "-m", "sh", "-c", "mount --make-rprivate / && mount -t tmpfs hidden /mnt"],
            capture_output=True,
            encoding="utf-8",
        )
    except OSError as error:
        return f"unshare: {error.strerror}"
    return None if done.returncode == 0 else f"unshare -m: {done.stderr.strip()}"


def with_hidden(command: list[str], hidden: Sequence[Path]) -> list[str]:
    """Return a command whose process sees empty folders."""
    if not hidden:
        return command
    script = HIDING.format(" ".join(f"'{path}'" for path in hidden))
    return ["unshare", "-m", "sh", "-c", script, "sh", *command]
