"""Runs cases only on request (`agentv_run`), so that a bare `pytest` spends no money."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_agentv.cases.discovery import is_evals_folder
from pytest_agentv.model.base import counted
from pytest_agentv.model.options import RunOptions
from pytest_agentv.session.compat import named_arguments

NOT_ASKED: Final = "not asked for: --agentv-run asks for it"
"""Why a case is skipped."""

_WORKER_INPUT: Final = "agentv_named"


class Asking:
    """Tells whether the command line asks for a case."""

    def __init__(self, config: pytest.Config, options: RunOptions) -> None:
        self._is_for_all = options.run == "always" or bool(
            options.dry_run or options.eval_id or options.resume or options.rejudge or options.retry_errors
        )
        """Whether all cases run, because of the rule or because of an option that only evals have."""
        self.is_paid_only = options.run == "asked-if-paid"
        """Whether only cases that cost money need a request."""
        self.reason = f"{NOT_ASKED} (agentv_run = {options.run})"
        named = _named_paths(config)
        self._files = {path for path in named if not path.is_dir()}
        self._folders = [path for path in named if path.is_dir() and is_evals_folder(path, config.rootpath)]
        self._others = [path for path in named if path.is_dir() and not is_evals_folder(path, config.rootpath)]
        """Named folders that request their evals only if they hold nothing else."""

    def learn(self, items: Sequence[pytest.Item], is_case: Callable[[pytest.Item], bool]) -> None:
        """Learn from the collected items which folders hold only evals."""
        foreign = {item.path for item in items if not is_case(item)}
        self._folders += (folder for folder in self._others if not any(folder in path.parents for path in foreign))
        self._others = []

    def refuses(self, path: Path, is_paid: Callable[[], bool]) -> bool:
        """Whether nobody asked for a case of a file, neither by its name nor by that of a folder of evals."""
        if self._is_for_all or path in self._files or any(folder in path.parents for folder in self._folders):
            return False
        return not self.is_paid_only or is_paid()


def send_named(node: Any) -> None:
    """Pass the names of the command line to an xdist worker. All that a worker collects was named."""
    node.workerinput[_WORKER_INPUT] = json.dumps(list(map(str, _named_paths(node.config))))


def unasked_line(count: int, rule: str) -> str:
    cases = counted(count, "eval case was", "eval cases were")
    how = "--agentv-run, or their files or folders on the command line, asks for them"
    return f"{cases} skipped (agentv_run = {rule}): {how}"


def _named_paths(config: pytest.Config) -> tuple[Path, ...]:
    sent = getattr(config, "workerinput", {}).get(_WORKER_INPUT)
    if sent is not None:
        return tuple(map(Path, json.loads(sent)))
    folder = config.invocation_params.dir
    return tuple(Path(os.path.normpath(folder / word.partition("::")[0])) for word in named_arguments(config))
