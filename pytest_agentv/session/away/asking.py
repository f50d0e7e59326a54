"""Whether cases may run elsewhere."""

import pytest

from pytest_agentv.models.options import RunOptions


def has_executor(config: pytest.Config, options: RunOptions) -> bool:
    """Whether an option or a hook may have cases run elsewhere. The workers of xdist run their cases themselves."""
    if hasattr(config, "workerinput") or options.executor == "local":
        return False
    return options.executor is not None or bool(config.hook.pytest_agentv_executor.get_hookimpls())
