"""Creates the adapter of a target."""

from collections.abc import Mapping

from pytest_agentv.models.targets import Target
from pytest_agentv.providers.base import Adapter, TargetEnvironment


def create_provider(target: Target, variables: Mapping[str, str], timeout_seconds: float | None = None) -> Adapter:
    """Open a target.

    Args:
        target: The target, with its variables resolved.
        variables: Variables of the processes it starts: this process's and those of `.env`.
        timeout_seconds: The longest that a user's object may take to be checked or closed; None: no limit.
    """
    environment = TargetEnvironment(target, variables)
    opened: Adapter = target.settings.open(environment)
    if type(opened).__module__.startswith("pytest_agentv."):
        return opened
    from pytest_agentv.providers.python.foreign import complete  # noqa: PLC0415 - only for kinds of users

    return complete(opened, environment.where, timeout_seconds)
