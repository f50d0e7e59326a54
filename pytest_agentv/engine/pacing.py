"""How many cases of a target are in flight."""

from dataclasses import dataclass
from pathlib import Path

from pytest_agentv.loading.problems import Problem
from pytest_agentv.loading.target_definitions import TargetDefinition
from pytest_agentv.models.options import RunOptions
from pytest_agentv.runtime.reaper import remove_at_end


@dataclass(frozen=True, slots=True)
class Pace:
    """How a target wants its cases."""

    workers: int
    """Cases in flight, where the run's options do not say."""
    is_batched: bool
    """One call for all of them."""
    is_capped: bool = False
    """`workers` holds whatever the options say."""

    def limit(self, options: RunOptions) -> int:
        """Return how many cases may be in flight in the whole run."""
        return self.workers if self.is_capped else options.workers or self.workers


def pace_of(definition: TargetDefinition, kind: object, options: RunOptions) -> Pace:
    """Return how a target wants its cases; `kind` is the class of its kind. In a dry run a mock stands in for it."""
    if not options.dry_run and getattr(kind, "is_one_by_one", False):
        return Pace(1, definition.provider_batching, is_capped=True)
    return Pace(definition.workers or 1, definition.provider_batching and not options.dry_run)


def cap_warning(path: Path, definition: TargetDefinition, kind: object, options: RunOptions) -> Problem | None:
    """Return what to tell of a target that cannot have as many workers as were asked for, if so.

    Source: eval-cli-2026-01, "VS Code worker cap".
    """
    wanted = options.workers or definition.workers or 1
    if wanted == 1 or not pace_of(definition, kind, options).is_capped:
        return None
    source = "--agentv-workers" if options.workers else "workers"
    reason = "VS Code is asked one case at a time, because its windows take the focus from each other"
    message = f"target {definition.name!r} runs with 1 worker instead of {wanted} ({source}): {reason}"
    return Problem(path, definition.line, "", message, level="warning")


def is_first_to_tell(folder: Path | None) -> bool:
    """Whether no other process of the run has told it; they leave word of it in the folder that they share."""
    if folder is None:
        return True
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "cap-told").touch(exist_ok=False)
    except OSError as error:  # a folder that cannot be used must not keep the warning back
        return not isinstance(error, FileExistsError)
    remove_at_end(folder)
    return True
