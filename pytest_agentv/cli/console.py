"""Prints for commands: results to standard output, everything else to standard error."""

import io
import os
import sys

from pytest_agentv.reporting.escaping import visible


def say(text: str = "") -> None:
    """Print to standard output."""
    sys.stdout.write(f"{text}\n")


def note(text: str) -> None:
    """Print to standard error, with unsafe characters as escapes."""
    sys.stderr.write(f"{visible(text)}\n")


def open_closed_streams() -> None:
    """Open standard streams that are closed, so that a command can still run and return its exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - open until the process ends


def escape_unencodable() -> None:
    """Make the standard streams escape characters that their encoding lacks instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
