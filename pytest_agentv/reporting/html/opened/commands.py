"""The commands that run the cases of a report again."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from pytest_agentv.reporting.failing.rerun import Start, command_of
from pytest_agentv.reporting.html.cases import Case
from pytest_agentv.reporting.html.values import text_of

_WHERE_STARTED: Final = "Run it in the folder where pytest was started."
_AT_THE_ROOT: Final = "Run it in pytest's root folder. Add what else the run was given, such as --agentv-targets."


class Commands:
    """Makes the commands, from the start of the run if that is known, else from the results alone."""

    def __init__(self, cases: Iterable[Case], start: Start | None) -> None:
        self._start = start
        self._targets: dict[str, dict[str, None]] = defaultdict(dict)
        """The targets of a case whose node ids name them, in the order of the run."""
        for case in cases:
            if case.judged.target and (name := _name_without_target(case)):
                self._targets[name][case.judged.target] = None

    @property
    def where(self) -> str:
        """Say where the commands run, and what they may lack."""
        return _AT_THE_ROOT if self._start is None else _WHERE_STARTED

    def of(self, case: Case) -> str:
        """Return the command for a case; empty if there is none."""
        node_id = case.judged.node_id
        if node_id is None:
            return ""
        found = self._guessed(case, node_id) if self._start is None else self._start.command(node_id)
        return found or ""

    def _guessed(self, case: Case, node_id: str) -> str | None:
        """Return a command that finds the case, wherever its target was chosen.

        A node id names the target if a file or the command line has several. Given one target only, pytest may leave
        that out, so the case is then chosen without it.
        """
        target, name = case.judged.target, _name_without_target(case)
        if not target:
            return command_of(node_id, ())
        targets = list(self._targets.get(name or "", {}))
        if name is None or len(targets) > 1:
            return command_of(node_id, [f"--agentv-target={','.join(targets) or target}"])
        if _is_python(node_id):
            return command_of(node_id.partition("[")[0], [f"--agentv-target={target}"])
        return command_of(node_id.partition("::")[0], [f"--agentv-eval-id={case.id}", f"--agentv-target={target}"])


def _name_without_target(case: Case) -> str | None:
    """Return the node id without its target, which is the same for all targets; None: it names no target."""
    node_id, target = case.judged.node_id or "", case.judged.target
    file = node_id.partition("::")[0]
    if _is_python(node_id):
        test, bracket, parameters = node_id.partition("[")
        around = f"-{parameters.removesuffix(']')}-".partition(f"-{target}-")
        return f"{test}{bracket}{around[0]}-{around[2]}" if around[1] else None
    combination = text_of(case.result.value, "combination")
    return f"{file}::{case.id}" if combination and not case.id.endswith(f"@{combination}") else None


def _is_python(node_id: str) -> bool:
    return node_id.partition("::")[0].endswith(".py")
