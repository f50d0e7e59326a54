"""Plans how many answers of a case to ask for, and tells when its verdict is certain."""

from collections import Counter
from collections.abc import Sequence

from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.models.base import Record
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.statistics.repeats import Verdict, needed_passes, verdict


@record
class RepeatPlan(Record):
    """How many answers a case is judged by, and how many of them have to pass."""

    answers: int
    min_pass_rate: float
    min_pass_rate_source: str
    """Where the rate was set: `command line`, `case`, `file`, `ini` or `default`."""
    stops_early: bool
    """Whether to stop asking once no answer could change the verdict."""

    @classmethod
    def of(cls, job: CaseJob, answers: int) -> "RepeatPlan":
        """Return the plan of a case that is asked for some answers."""
        options, case = job.options, job.case
        rates = (
            (options.min_pass_rate, "command line"),
            (case.min_pass_rate, case.min_pass_rate_source or "case"),
            (options.ini_min_pass_rate, "ini"),
        )
        rate, source = next(((rate, source) for rate, source in rates if rate is not None), (1.0, "default"))
        return cls(answers, rate, source, stops_early(options))

    @property
    def needed(self) -> int:
        """How many answers have to pass."""
        return needed_passes(self.answers, self.min_pass_rate)

    def verdict(self, results: Sequence[EvalResult]) -> Verdict | None:
        """Return the verdict that no further answer can change; None while it is open."""
        counts = Counter(result.status for result in results)
        return verdict(counts["pass"], counts["fail"], self.answers, self.min_pass_rate)

    def wanted(self, results: Sequence[EvalResult]) -> int:
        """Return how many more answers to ask now: with an early stop, as many as the verdict needs in any case.

        So no answer turns out to be needless, and the number of answers does not depend on other cases in flight.
        0: the verdict is certain, or it is certain that there will be none.
        """
        left = self.answers - len(results)
        if not self.stops_early or self.needed == 0:
            return left
        if self.verdict(results) is not None:
            return 0
        counts = Counter(result.status for result in results)
        ways = (self.needed - counts["pass"], self.answers - self.needed + 1 - counts["fail"])
        return min((way for way in ways if way <= left), default=0)

    def stopped(self, results: Sequence[EvalResult]) -> Verdict | None:
        """Return the verdict if the last answer made it certain, as happens when answers are asked one by one."""
        if not self.stops_early or self.needed == 0 or self.verdict(results[:-1]) is not None:
            return None
        return self.verdict(results)


def stops_early(options: RunOptions) -> bool:
    """Whether to stop asking for answers once the verdict is certain.

    With a baseline all are asked, since the case's rate is compared and not only its verdict.
    """
    has_baseline = options.baseline is not None or options.update_baseline is not None
    return options.stop == "certain" if options.stop is not None else not has_baseline
