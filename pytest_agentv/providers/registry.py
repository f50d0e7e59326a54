"""From a target to what is called for its cases."""

from collections.abc import Mapping

from pytest_agentv.models.targets import Target
from pytest_agentv.providers.base import Adapter, TargetEnvironment


def create_provider(target: Target, variables: Mapping[str, str]) -> Adapter:
    """Open a target.

    Args:
        target: The target, its variables resolved.
        variables: Variables of the processes it starts: this process's and those of `.env`.
    """
    from pytest_agentv.providers.python.foreign import complete  # noqa: PLC0415 - pydantic and asyncio, when one is opened

    environment = TargetEnvironment(target, variables)
    return complete(target.settings.open(environment), environment.where)
