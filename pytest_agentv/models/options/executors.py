"""Parses where cases run, and how many may be in flight there. Each parser raises `ValueError`."""

import re
from typing import Final

from pytest_agentv.models.options.values import MAX_WORKERS, parse_count

MAX_PROCESSES: Final = 64
"""The most worker processes of `--agentv-executor`."""
CLUSTERS: Final = ("dask", "dask+tls", "tls")
"""The protocols of clusters."""
DASK_PORT: Final = 8786
_EXPECTED: Final = "expected local, processes:N or dask://HOST:PORT"


def parse_executor(text: str) -> str:
    if "://" in text:
        return _parse_cluster(text.strip())
    word, colon, count = text.strip().lower().partition(":")
    if (word, colon) == ("local", ""):
        return word
    if word != "processes":
        raise ValueError(f"unknown executor {text!r}: {_EXPECTED}")
    if not count.isdecimal() or not 1 <= int(count) <= MAX_PROCESSES:
        raise ValueError(f"{count or 'no'!s} processes: expected 1 to {MAX_PROCESSES}, such as processes:2")
    return f"{word}:{int(count)}"


def is_cluster(executor: str | None) -> bool:
    """Whether an executor is a cluster, whose workers are other machines."""
    return executor is not None and "://" in executor


def is_encrypted(cluster: str) -> bool:
    """Whether the connection to a cluster is encrypted."""
    return not cluster.startswith("dask://")


def parse_run_workers(text: str) -> int:
    """Parse a number of cases in flight that some executor allows; `check_workers` says whether that of the run does.

    Source: eval-cli-2026-01, "Worker limits and validation".
    """
    try:
        return parse_count(text, "workers", 1, MAX_WORKERS * MAX_PROCESSES)
    except ValueError:
        return check_workers(text, "local")


def check_workers(text: str, executor: str | None) -> int:
    """Return a number of cases in flight if an executor allows it: 50 for each process. Raises `ValueError`."""
    most = MAX_WORKERS
    if executor is not None and executor != "local":
        word, _, count = executor.partition(":")
        most *= int(count) if word == "processes" else MAX_PROCESSES
    return parse_count(text, "workers", 1, most, note=" (the minimum is 1)")


def _parse_cluster(text: str) -> str:
    """Return the address of a scheduler with its port."""
    word, _, place = text.partition("://")
    if word.lower() not in CLUSTERS:
        raise ValueError(f"unknown executor {text!r}: {_EXPECTED}")
    found = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(?::(\d{1,5}))?/?", place)
    if found is None:
        raise ValueError(f"{text!r} names no scheduler: expected {word}://HOST:PORT, such as {word}://localhost:8786")
    return f"{word.lower()}://{found[1]}:{int(found[2] or DASK_PORT)}"
