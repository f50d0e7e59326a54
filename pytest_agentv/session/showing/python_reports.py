"""Adds evaluations in Python to the reports of their tests."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pytest

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.ci.properties import result_properties
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.session.outcomes import EvalErrored, EvalFailed
from pytest_agentv.session.showing.item_outcomes import EVALUATED, HEEDED
from pytest_agentv.session.showing.properties import add_properties, forget_properties
from pytest_agentv.session.showing.report_masking import SubtestMasking, is_masked, mask_account
from pytest_agentv.session.showing.texts import verbose_text

_SECTION: Final = "Captured agentv call"


@record
class Told:
    """A result and its failure text."""

    result: EvalResult
    account: str
    reads: Sequence[str]
    """What the test has read of the verdict."""


_TOLD: Final = pytest.StashKey[list[Told]]()
"""The evaluations of the current attempt of a test."""


_RUNS: Final = pytest.StashKey[bool]()


@contextmanager
def running(item: pytest.Item) -> Iterator[None]:
    """Tell reports within a test, as of its subtests, from that of the test."""
    item.stash[_RUNS] = True
    try:
        yield
    finally:
        item.stash[_RUNS] = False


def note_result(item: pytest.Item, result: EvalResult, account: str, reads: Sequence[str] = ()) -> None:
    """Remember a result for the report of its test."""
    item.stash[_TOLD].append(Told(result, account, reads))


def forget_results(item: pytest.Item) -> None:
    """Forget earlier results, because the test may run again."""
    item.stash[_TOLD] = []
    forget_properties(item)


def complete_report(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport, masker: Masker, *, verbose: bool
) -> None:
    """Add the evaluations of a Python test to its report."""
    told = item.stash.get(_TOLD, [])
    SubtestMasking.join(item.config, masker)
    if is_masked(item):
        mask_account(report, masker)
    error = call.excinfo.value if call.excinfo is not None else None
    if report.failed:
        _head(report, error)  # a fixture may evaluate as well
    # As attributes of the report, they reach the process that owns the terminal, also from a worker.
    added: dict[str, Any] = vars(report)
    tell_heed(item, report)
    if report.when != "call" or not told or item.stash.get(_RUNS, False):
        return  # a subtest has a report while its test runs; that of the test has the figures of all
    if not report.passed:
        item.stash[_TOLD] = []
    added[EVALUATED] = True
    if isinstance(error, EvalErrored):
        added["agentv_errored"] = True
    if verbose:
        added["agentv_verbose"] = "\n".join(verbose_text(each.result, "") for each in told)
    if report.failed:
        _explain(report, error, [each for each in told if each.result.status != "pass"])
    if len(told) == 1:  # several results would repeat the names of properties
        add_properties(item, result_properties(told[0].result))
        report.user_properties = list(item.user_properties)


def tell_heed(item: pytest.Item, report: pytest.TestReport) -> None:
    """Tell with the last report of an item whether it looked at the verdicts of its evaluations that failed."""
    failed = [each for each in item.stash.get(_TOLD, []) if each.result.status == "fail"]
    if report.when == "teardown" and failed:
        vars(report)[HEEDED] = all(each.reads for each in failed)


def _explain(report: pytest.TestReport, error: BaseException | None, bad: list[Told]) -> None:
    """Show the accounts of evaluations that did not pass, except the one that failed the test."""
    said = str(error)
    texts = [f"{visible(each.result.eval_id)}\n\n{each.account}\n" for each in bad if each.account != said]
    if texts:
        report.sections.append((_SECTION, "\n".join(texts)))


def _head(report: pytest.TestReport, error: BaseException | None) -> None:
    """Show the headline of an evaluation in the short summary."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if isinstance(error, EvalErrored | EvalFailed) and crash is not None:
        crash.message = error.headline
