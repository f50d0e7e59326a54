"""Targets, with every variable of their definitions resolved."""

from typing import Any, Final

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record

DEFAULT_RETRY_STATUS_CODES: Final = (500, 408, 409, 429, 502, 503, 504, 520, 522, 524, 529)
"""Those of the requirements, and those of Cloudflare and Anthropic, which the vendors' own clients retry as well."""

_PATIENCE: Final = frozenset(
    {
        *("timeout_seconds", "max_retries", "retry_initial_delay_ms", "retry_max_delay_ms", "retry_backoff_factor"),
        "retry_status_codes",
    }
)
_LOGGING: Final = frozenset({"verbose", "keep_temp_files", "healthcheck", "log_dir", "log_format"})


def affects_answers(settings: object, key: str) -> bool:
    """Whether a setting of a target may affect its answers. After a change of another one, kept answers stay valid.

    The meaning of `verbose` is known only in our own kinds. In a user's kind, it may ask for longer answers.
    """
    if key not in _LOGGING:
        return key not in _PATIENCE
    owners = [each for each in type(settings).__mro__ if key in getattr(each, "model_fields", {})]
    return not owners or not owners[-1].__module__.startswith("pytest_agentv.")


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
