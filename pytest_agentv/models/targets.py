"""Targets, with every variable of their definitions resolved."""

from typing import Any, Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record

DEFAULT_RETRY_STATUS_CODES: Final = (500, 408, 429, 502, 503, 504)

WITHOUT_EFFECT: Final = frozenset(
    {
        *("timeout_seconds", "verbose", "keep_temp_files", "healthcheck", "log_dir", "log_format"),
        *("max_retries", "retry_initial_delay_ms", "retry_max_delay_ms", "retry_backoff_factor", "retry_status_codes"),
    }
)
"""Settings that do not affect an answer: after a change of them, nothing is paid for again."""


@record
class RetryPolicy(Record):
    """How a model provider retries failed requests. Delay k is `initial * factor**k`, capped, with jitter."""

    max_retries: int = 3
    initial_delay_ms: float = 1000
    max_delay_ms: float = 60_000
    backoff_factor: float = 2
    status_codes: tuple[int, ...] = DEFAULT_RETRY_STATUS_CODES


@record
class Target(Record):
    """One target that is ready to be called."""

    name: str
    """The name by which cases and options choose it."""
    kind: str
    """Canonical provider kind: `azure`, `cli`, `mock`, …"""
    settings: Any = None
    """The keys of its kind: an instance of the kind's class (a `Provider`)."""
    judge_target: str | None = None
    """The name of the target that judges; None: not written."""
    workers: int | None = None
    """Cases in flight, 1 to 50; None: not written."""
    provider_batching: bool = False
    """Whether one call answers many cases."""
    path: str | None = None
    """The absolute path of its targets file."""
    line: int | None = None
    """The line in the targets file, 1-based."""
