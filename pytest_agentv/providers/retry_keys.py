"""The keys for repeating failed requests."""

from pytest_agentv.loading.targets.fields import Count, Factor, Items, Milliseconds, StatusCode
from pytest_agentv.models.kind import spelled
from pytest_agentv.models.targets import RetryPolicy
from pytest_agentv.providers.kind import Provider


class RetryKeys(Provider):
    """A target with a retry policy (agentv-formats 4.7)."""

    max_retries: Count | None = spelled(
        *("max_retries", "maxRetries"), default=None, description="how often a failed request is retried (default: 3)"
    )
    retry_initial_delay_ms: Milliseconds | None = spelled(
        *("retry_initial_delay_ms", "retryInitialDelayMs"),
        default=None,
        description="the wait before the first retry (default: 1000)",
    )
    retry_max_delay_ms: Milliseconds | None = spelled(
        *("retry_max_delay_ms", "retryMaxDelayMs"), default=None, description="the longest wait (default: 60000)"
    )
    retry_backoff_factor: Factor | None = spelled(
        *("retry_backoff_factor", "retryBackoffFactor"),
        default=None,
        description="the factor from each wait to the next (default: 2)",
    )
    retry_status_codes: Items[StatusCode] | None = spelled(
        *("retry_status_codes", "retryStatusCodes"),
        default=None,
        description="the HTTP status codes to retry, besides network errors (default: 408, 409, 429, "
        "500, 502, 503, 504, 520, 522, 524, 529)",
    )

    @property
    def retry(self) -> RetryPolicy:
        """The policy for repeating failed requests."""
        written = {
            "max_retries": self.max_retries,
            "initial_delay_ms": self.retry_initial_delay_ms,
            "max_delay_ms": self.retry_max_delay_ms,
            "backoff_factor": self.retry_backoff_factor,
            "status_codes": self.retry_status_codes,
        }
        return RetryPolicy().replace(**{name: value for name, value in written.items() if value is not None})
