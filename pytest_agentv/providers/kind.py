"""The base of all kinds of targets. Importing this costs pydantic: `providers.base` does it when it must."""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Self

from pydantic import ConfigDict

from pytest_agentv.models.base import Json, Record
from pytest_agentv.models.kind import Kind, Part
from pytest_agentv.models.records import record
from pytest_agentv.providers.base import TargetEnvironment


@record
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


def _plain(value: object) -> Json:
    if isinstance(value, Settings):
        return value.to_plain()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
