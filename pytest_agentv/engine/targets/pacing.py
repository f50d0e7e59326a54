"""Decides how many cases of a target are in flight."""

from pathlib import Path

from pytest_agentv.loading.problems import Problem
from pytest_agentv.loading.targets.definitions import TargetDefinition
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.records import record
from pytest_agentv.runtime.processes.reaper import remove_at_end


@record
class Pace:
    """The limits of a target for its cases."""

    workers: int | None
    """Cases in flight, unless the options of the run set a number; None: the target does not say."""
    is_batched: bool
    """Whether one call runs all cases."""
    is_capped: bool = False
    """Whether `workers` overrides the options."""
    is_by_id: bool = False
    """Whether one call runs all cases, and only their ids tell which answer is whose."""

    def limit(self, options: RunOptions, size: int = 1) -> int:
        """Return the limit of cases in flight in the whole run: `size` where neither options nor target set one."""
        own = self.workers or size
        return own if self.is_capped else options.workers or own


def pace_of(definition: TargetDefinition, kind: object, options: RunOptions) -> Pace:
    """Return the limits of a target of the class `kind`; in a dry run, those of the mock that replaces it."""
    if not options.dry_run and getattr(kind, "is_one_by_one", False):
        return Pace(1, definition.provider_batching, is_capped=True)
    is_batched = definition.provider_batching and not options.dry_run
    is_by_id = is_batched and getattr(kind, "answers_by_id", False)
    return Pace(definition.workers, is_batched, is_by_id=is_by_id)


def cap_warning(path: Path, definition: TargetDefinition, kind: object, options: RunOptions) -> Problem | None:
    """Return a warning if a target cannot have as many workers as requested.

    Source: eval-cli-2026-01, "VS Code worker cap".
    """
    wanted = options.workers or definition.workers or 1
    if wanted == 1 or not pace_of(definition, kind, options).is_capped:
        return None
    source = "--agentv-workers" if options.workers else "workers"
    reason = "VS Code runs one case at a time, because its windows take the focus from each other"
    message = f"target {definition.name!r} runs with 1 worker instead of {wanted} ({source}): {reason}"
    return Problem(definition.path or path, definition.line, "", message, level="warning")


def is_first_to_warn(folder: Path | None, what: str = "cap") -> bool:
    """Whether no other process of the run has shown a warning. The first one leaves a file in the shared folder."""
    if folder is None:
        return True
    remove_at_end(folder)  # before the warning: a time-out may come at any line
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / f"{what}-told").touch(exist_ok=False)
    except OSError as error:  # show the warning even if the folder cannot be used
        return not isinstance(error, FileExistsError)
    return True
