"""Asks cases again after their items ended. Fresh answers tell whether a case is really broken."""

from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_agentv.cases.entries import CaseEntry, SuiteSource
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.engine.jobs import CaseIdentity, CaseJob
from pytest_agentv.errors import AgentvError
from pytest_agentv.model.results import EvalResult
from pytest_agentv.providers.user_modules import call_row_maker
from pytest_agentv.session.recording.run_results import with_texts
from pytest_agentv.session.running.hooks import participate
from pytest_agentv.session.running.plan import PreparedCase
from pytest_agentv.session.running.session import EvalSession


def confirm_suspects(session: pytest.Session, section: Any) -> None:
    """Ask the suspected cases of a run again, before it is judged.

    Their answers are added to the results file, and to a JUnit file.
    """
    junit = session.config.pluginmanager.get_plugin("agentv-junit")
    for answers, results in section.suspects().items():
        asked = ask_again(session, results, answers)
        if junit is not None:
            junit.renew(asked)


def ask_again(session: pytest.Session, results: Sequence[EvalResult], answers: int) -> list[EvalResult]:
    """Ask cases for fresh answers, concurrently, and record their results.

    Each answer goes through the scheduler, the cache (its number follows those of the case's own answers) and the
    journal, as every answer does. The process that owns the terminal may call it before the session finishes, with
    xdist too: it loads the cases anew.

    Args:
        session: The session of the process that owns the terminal.
        results: The last results of the cases, judged.
        answers: How many fresh answers each gets.

    Returns the results in their order, with `repeat.confirm`, and with metrics that count the fresh answers as well.
    One that cannot be asked in the same way as before (an eval in Python, a target that a fixture replaced, a file
    that has changed) is returned as it is.
    """
    evals = participate(session.config)
    suites: dict[str, SuiteSource | None] = {}
    whole = with_texts(evals.identity, results)
    found = [(result, _prepare(session, evals, result, suites)) for result in whole]
    begun = [
        None if prepared is None else evals.flight.begin_again(prepared, result, answers) for result, prepared in found
    ]
    pairs = zip(whole, begun, strict=True)
    return [result if each is None else evals.flight.wait(each) for result, each in pairs]


def _prepare(
    session: pytest.Session, evals: EvalSession, result: EvalResult, suites: dict[str, SuiteSource | None]
) -> PreparedCase | None:
    """Load and sign a case again; None if it has changed since the result."""
    path = session.config.rootpath / (result.eval_file or "")
    if str(path) not in suites:
        suites[str(path)] = None
        with suppress(AgentvError, OSError):
            suites[str(path)] = read_suite(path, call_row_maker, evals.options.chosen_targets)
    suite = suites[str(path)]
    entry = None if suite is None else _find(suite, result)
    if suite is None or entry is None:
        return None
    place: Any = SimpleNamespace(ihook=session.gethookproxy(path))  # the item has ended, or was in another process
    hooks = evals.user_hooks
    prepared = evals.preparer.prepare(suite, entry, result.node_id or "", lambda case: hooks.adjust(place, case))
    signed = evals.planner.plan(prepared)
    if not isinstance(signed.job, CaseJob) or _hashes(signed.job.identity) != _hashes(result):
        return None
    # Cases with fixtures were asked again before their fixtures were torn down.
    return signed.replace(hooks=hooks.of(place), bound_by=None)


def _find(suite: SuiteSource, result: EvalResult) -> CaseEntry | None:
    """Return the entry of a case. Cases with the same id differ by line, combinations of a matrix by their values."""
    same = [entry for entry in suite.entries if entry.eval_id == result.eval_id]
    entries = [each for each in same if (each.combination and each.combination.name) == result.combination]
    return next((entry for entry in entries if entry.line == result.line), entries[0] if entries else None)


def _hashes(case: CaseIdentity | EvalResult) -> tuple[str | None, ...]:
    return case.case_hash, case.target_hash, case.grading_hash
