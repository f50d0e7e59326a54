"""Kinds of plugins with a factory instead of a class. Their keys are not checked."""

from typing import Any, ClassVar

from pydantic import ConfigDict

from pytest_agentv.models.base import Json
from pytest_agentv.providers.base import ProviderFactory, TargetEnvironment
from pytest_agentv.providers.kind import Provider


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
