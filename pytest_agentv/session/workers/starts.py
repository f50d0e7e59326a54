"""Makes xdist's controller replace workers that die while they start."""

import errno
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest

RESTARTS: Final = 4
"""How many workers may die at their start, for each requested worker. xdist has the same limit for `-n`."""
_SIGNS_OF_DEATH: Final = {None, errno.EPIPE, errno.ECONNRESET}
"""Error codes of a connection whose other end is gone. execnet's own errors have none."""


def tolerate_deaths(config: pytest.Config) -> None:
    """Make xdist replace workers that die while they start, like those that die later.

    Otherwise the error of the broken connection would end the whole run, with the cases of other workers.
    """
    manager = getattr(config.pluginmanager.get_plugin("dsession"), "nodemanager", None)
    if manager is not None:
        manager.setup_node = _Starts(manager, config).start


def limits_restarts(config: pytest.Config) -> bool:
    """Whether xdist ends the run when too many workers have died. It does with `-n`, but not with `--tx` alone."""
    return bool(config.getoption("numprocesses", None) or config.getoption("maxworkerrestart", None))


class _Starts:
    """Starts workers in place of xdist's node manager."""

    def __init__(self, manager: Any, config: pytest.Config) -> None:
        self._manager = manager
        self._config = config
        self._start = manager.setup_node
        self._deaths = 0

    def start(self, spec: Any, putevent: Callable[[tuple[str, dict[str, object]]], None]) -> Any:
        """Return a new worker. If it died already, report its death to xdist before any other event."""
        try:
            return self._start(spec, putevent)
        except (EOFError, OSError) as error:
            if not spec.popen or not (isinstance(error, EOFError) or error.errno in _SIGNS_OF_DEATH):
                raise
            node = self._dead_node(spec)
        self._deaths += 1
        if self._deaths > RESTARTS * len(self._manager.specs) and not limits_restarts(self._config):
            pytest.exit(f"{self._deaths} workers of pytest-xdist died while they were started", 1)
        putevent(("errordown", {"node": node, "error": "it died while it was started"}))
        return node

    def _dead_node(self, spec: Any) -> Any:
        from xdist.workermanage import WorkerController  # noqa: PLC0415 - only for workers that died

        gateway = next((each for each in self._manager.group if each.id == spec.id), None)
        node = getattr(gateway, "node", None)
        if node is None:
            stand_in = gateway or SimpleNamespace(id=spec.id, spec=spec)
            node = WorkerController(self._manager, stand_in, self._config, None)
        node._down = True  # keeps xdist from sending to it
        return node
