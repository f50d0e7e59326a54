"""The base of all kinds of targets. Importing this costs pydantic: `providers.base` does it without."""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import ConfigDict

from pytest_agentv.model.base import Json, Record
from pytest_agentv.model.cases import RetryPolicy
from pytest_agentv.model.kind import Kind, Part, spelled
from pytest_agentv.providers.base import ProviderFactory, TargetEnvironment
from pytest_agentv.targets.fields import Count, Factor, Items, Milliseconds, StatusCode


@dataclass(frozen=True, slots=True)
class Sources(Record):
    """Where the code of a target may lie within the project."""

    words: tuple[str, ...] = ()
    """Words of its command line; those that name a file count."""
    callable: str | None = None
    """`package.module:function` or `file.py:function`."""
    folder: str | None = None
    """What they are relative to; None: the folder of the targets file."""


class Settings(Part):
    """A mapping within a target."""

    model_config = ConfigDict(populate_by_name=True, arbitrary_types_allowed=True)

    def replace(self, **changes: object) -> Self:
        """Return a copy with some keys changed."""
        return self.model_copy(update=changes)

    def to_plain(self) -> dict[str, Json]:
        """Return the keys that have a value, by their names; secrets stay `Secret`."""
        return {name: _plain(value) for name, value in self if value is not None}


def _plain(value: object) -> Json:
    if isinstance(value, Settings):
        return value.to_plain()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


class Provider(Settings, Kind):
    """A kind of target. Its fields are the keys of the YAML, and `open` returns what is called for its cases.

    A target is checked twice: when its file is read, where `${{ VAR }}` may stand for any value, and again when its
    variables are filled in. The common keys of targets (`name`, `workers`, …) are not fields of the class.
    """

    needs: ClassVar[Mapping[str, str]] = {}
    """The required fields, each with the variable that replaces it if it is left out."""
    stand_ins: ClassVar[Mapping[str, str]] = {}
    """The same for fields that have a default."""
    is_strict: ClassVar[bool] = False
    """Unknown keys are errors, and numbers and flags stand without quotes."""
    takes_system_prompt: ClassVar[bool] = False
    """`request.system_prompt` is honoured; otherwise a judge's instructions come before its question."""
    judges_itself: ClassVar[bool] = False
    """It may judge its own answers when no `judge_target` is named."""
    is_agent: ClassVar[bool] = False
    """Results record its requests as `agent_provider_request`."""
    leaves_files: ClassVar[bool] = False
    """Its work lies in files, which evaluators may look at: later runs do not have them."""
    costs_money: ClassVar[bool] = False
    """Its calls cost money: with `agentv_run = asked-if-paid`, its cases have to be asked for."""
    is_one_by_one: ClassVar[bool] = False
    """One case at a time in the whole run, whatever `workers` says."""
    answers_by_id: ClassVar[bool] = False
    """With `provider_batching`, only the ids of cases tell which answer is whose, so cases must not share one."""

    @abstractmethod
    def open(self, environment: TargetEnvironment) -> Any:
        """Return what is called for each case: an object with `invoke(request)`, sync or async.

        `invoke` returns a text, a mapping as Python targets do, or a `ProviderResponse`. The object may have the other
        parts of an `Adapter` as well. Raises `ProviderError`.
        """
        raise NotImplementedError

    @classmethod
    def needed(cls, written: Collection[str]) -> Mapping[str, str]:
        """Return `needs` for a target that has these fields."""
        del written
        return cls.needs

    @property
    def is_probed(self) -> bool:
        """Whether the processes of a run share one health check."""
        return False

    @property
    def sources(self) -> Sources:
        """Where its code is: if the code changes, earlier results are no longer valid."""
        return Sources()

    @property
    def own_code(self) -> object:
        """The user's code that is called, for the same purpose; None for a built-in kind."""
        return None if type(self).__module__.startswith("pytest_agentv.") else type(self)


class FactoryProvider(Provider):
    """Keeps the keys as written, with variables filled in, and passes them to the factory as `target.settings`."""

    model_config = ConfigDict(extra="allow")

    factory: ClassVar[ProviderFactory]

    @property
    def own_code(self) -> object:
        return type(self).factory

    def to_plain(self) -> dict[str, Json]:
        return dict(self.model_extra or {})

    def open(self, environment: TargetEnvironment) -> Any:
        target = environment.target.replace(settings=self.to_plain())
        return type(self).factory(target, environment.variables)


def class_of_factory(word: str, factory: ProviderFactory) -> type[FactoryProvider]:
    """Return the class of a kind that has a factory."""
    return type(f"Factory_{word}", (FactoryProvider,), {"kind": word, "factory": staticmethod(factory)})


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
