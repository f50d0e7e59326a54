"""Which worker runs which tests: what modules share is made once, and what takes long begins early."""

import re
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

IMPORTING_LITELLM: Final = {"tests/unit/test_target_proxy.py"}
"""Modules whose tests import litellm into their own process, which takes three seconds."""

WAITING: Final = {"tests/acceptance/test_vscode.py", "tests/acceptance/test_litellm_requests.py"}
"""Modules that wait for long, and would do so alone at the end of a run."""

MODULES_FOR_EACH_WORKER: Final = 8
"""From so many on, whole modules keep the workers evenly busy."""

_SHARES: Final = re.compile(r'scope="(module|class|session)"|shared_')


def begins_early(root: Path, nodeid: str) -> bool:
    """Whether the module of a test is to begin before others: it takes long, or can be given to one worker only."""
    module = _module_of(nodeid)
    return module in IMPORTING_LITELLM | WAITING or _shares(root / module)


class ModuleScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives whole modules to workers; of few modules, single tests as well, but for those that share something."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # the number of its tests does not tell how long a module takes

    def _split_scope(self, nodeid: str) -> str:
        module = _module_of(nodeid)
        if module in IMPORTING_LITELLM:
            return "litellm"
        if module.endswith("/test_corpus.py"):
            return nodeid
        return module if self._are_many_modules or _shares(Path(self.config.rootpath, module)) else nodeid

    def remove_node(self, node: Any) -> str | None:
        """Return the test during which a worker ended, and give its other tests away: that one would end the next."""
        units = self.assigned_work[node].values()
        crashed = next((nodeid for unit in units for nodeid, is_done in unit.items() if not is_done), None)
        if crashed is not None:
            self.assigned_work[node][self._split_scope(crashed)][crashed] = True
        super().remove_node(node)
        return crashed

    def _reschedule(self, node: Any) -> None:
        """Give a worker two tests at least, or tell it that no more come: for one of them it waits for the next."""
        super()._reschedule(node)
        while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

    @cached_property
    def _are_many_modules(self) -> bool:
        modules = set(map(_module_of, self.collection or ()))
        return len(modules) >= MODULES_FOR_EACH_WORKER * int(self.numnodes)


@cache
def _shares(module: Path) -> bool:
    return bool(_SHARES.search(module.read_text("utf-8")))


def _module_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]
