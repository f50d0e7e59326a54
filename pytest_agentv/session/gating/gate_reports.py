"""Reports gates as items: counted as tests, written to JUnit, and rerun by `--lf` until they pass."""

from typing import Any

import pytest

from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.verdicts.gates import GateOutcome
from pytest_agentv.session.outcomes import EvalFailed


def report_gate(session: pytest.Session, outcome: GateOutcome) -> None:
    """Report a gate to pytest like an item that ran last."""
    name = visible(outcome.name)
    location = (name.partition("::")[0], 0, name.partition("::")[2])
    hook = session.config.hook
    session.testscollected += 1
    hook.pytest_runtest_logstart(nodeid=name, location=location)
    for when in ("setup", "call", "teardown"):
        hook.pytest_runtest_logreport(report=_report(name, location, when, outcome))
    hook.pytest_runtest_logfinish(nodeid=name, location=location)


def _report(name: str, location: tuple[str, int, str], when: str, outcome: GateOutcome) -> pytest.TestReport:
    is_call = when == "call"
    is_expected = is_call and outcome.is_unenforced
    report = pytest.TestReport(
        nodeid=name,
        location=location,
        keywords={},
        outcome="failed" if is_call and outcome.is_red else "skipped" if is_expected else "passed",
        longrepr=_account(name, outcome) if is_call and outcome.is_told else None,
        when=when,  # type: ignore[arg-type]
        sections=(),
        duration=0.0,
    )
    if is_expected:
        report.wasxfail = outcome.headline  # shown, but not enforced
    return report


def _account(name: str, outcome: GateOutcome) -> Any:
    """Return a representation that keeps its message in the short summary."""
    error = EvalFailed("\n".join([outcome.reason, *outcome.details]), outcome.headline)
    try:
        raise error
    except EvalFailed as raised:
        shown = pytest.ExceptionInfo.from_exception(raised).getrepr(style="value")
    if shown.reprcrash is not None:
        shown.reprcrash.path = name.partition("::")[0]
        shown.reprcrash.lineno = 1
        shown.reprcrash.message = outcome.headline
    return shown
