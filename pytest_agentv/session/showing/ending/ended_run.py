"""A run that has ended, in the form that summaries and CI services need."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pytest_agentv.models.base import Record
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.records import record
from pytest_agentv.session.recording.identity import RunIdentity
from pytest_agentv.session.recording.run_results import RunResults
from pytest_agentv.session.showing.item_outcomes import ItemOutcomes, ignored_text, lost_text, uncollected_text

if TYPE_CHECKING:  # only for CI services
    from pytest_agentv.reporting.ci.markdown import RunVerdict, Trouble


@record
class EndedRun(Record):
    """The facts about a run at its end, in the process that owns the terminal."""

    identity: RunIdentity
    options: RunOptions
    run: RunResults
    outcomes: ItemOutcomes
    is_broken_off: bool
    gate_texts: tuple[str, ...]
    """The texts of the gates that failed."""
    statistics: tuple[str, ...]
    """The section EVALUATION STATISTICS."""
    write_errors: tuple[str, ...]
    lost: tuple[str, ...]
    """The node ids of cases that were lost with crashed workers."""
    elapsed_ms: float

    @property
    def expected_words(self) -> str:
        """Return the words for cases whose low scores do not fail the run by themselves."""
        shown = self.outcomes.expected_failures
        left = any(each.status == "fail" and each.xfail is None and each.node_id in shown for each in self.run.results)
        return "judged with the run" if left and self.options.gate in ("run", "strict") else "failed as expected"

    def verdict(self) -> "RunVerdict":
        """Return the verdict for the summary page of a step."""
        from pytest_agentv.reporting.ci.markdown import RunVerdict  # noqa: PLC0415 - only for CI services

        return RunVerdict(
            self.run.results,
            self.run.earlier,
            frozenset(self.outcomes.expected_failures),
            self.expected_words,
            tuple(self.troubles()),
            self.identity.results_path,
            self.options.dry_run,
            self.elapsed_ms,
            self.statistics,
            frozenset(self.outcomes.unexpected_passes),
        )

    def troubles(self) -> "Iterator[Trouble]":
        """Yield problems of the run that are not in its results."""
        from pytest_agentv.reporting.ci.markdown import Trouble  # noqa: PLC0415 - only for CI services

        if self.is_broken_off:
            yield Trouble("The run broke off before its end")
        if files := tuple(self.outcomes.uncollected):
            yield Trouble(uncollected_text(len(files)), files)
        yield from (Trouble("The gate failed", (text,)) for text in self.gate_texts)
        if ignored := tuple(self.outcomes.ignored):
            yield Trouble(ignored_text(len(ignored)), ignored)
        others = self.outcomes.failed_with_good_scores(self.run.results)
        if self.write_errors:
            yield Trouble("Results were lost", self.write_errors)
        elif others:
            yield Trouble("Failed outside of their evaluation (fixtures, strict `xfail`)", others)
        if self.lost:
            yield Trouble(lost_text(self.lost), self.lost)
