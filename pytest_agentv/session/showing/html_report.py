"""Writes the HTML report of a run (`--agentv-html`) from the lines in its results file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_agentv.errors import AgentvError, locate
from pytest_agentv.model.base import JsonObject
from pytest_agentv.model.run_options import RunOptions
from pytest_agentv.model.text import counted
from pytest_agentv.reports.gates import NO_VERDICT, Ending, ending_of
from pytest_agentv.reports.html.page import ReportInput, write_report
from pytest_agentv.reports.html.reading import Run, read_run, run_of
from pytest_agentv.reports.reasons import expected_failures
from pytest_agentv.session.showing.ending import EndedRun
from pytest_agentv.session.showing.item_outcomes import lost_text, uncollected_text
from pytest_agentv.session.showing.texts import start_of


def write_html(path: Path, ended: EndedRun, verdict: JsonObject | None, config: pytest.Config) -> str | None:
    """Write the report; return why that could not be done.

    `verdict` is the JSON of the verdict on the run; None: there is none.
    """
    run, options, results_path = ended.run, ended.options, ended.identity.results_path
    if path.resolve() in {each.resolve() for each in (results_path, options.baseline) if each is not None}:
        return f"{locate(path, None)}: no report was written: this is the file of results that it would be made of"
    if not run.results:
        return f"{locate(path, None)}: no report was written: there are no results"
    try:
        results, earlier = ([each.to_plain() for each in some] for some in (run.results, run.earlier))
        shown = run_of(results_path.name, results, earlier=earlier)
        shown = shown.replace(problems=tuple(map(str, run.problems)))
        given = ReportInput(
            shown,
            _base(options, verdict),
            margin=options.margin,
            is_confirming=options.confirm > 0,
            ending=_ending(ended, verdict),
            start=start_of(config),
        )
        write_report(path, given)
    except (AgentvError, OSError) as error:
        return f"the report was not written: {error}"
    return None


def _base(options: RunOptions, verdict: JsonObject | None) -> Run | None:
    """Return the baseline that the run was compared with, if any."""
    if options.baseline is None or options.update_baseline is not None:
        return None
    return None if verdict is None or verdict.get("verdict") == NO_VERDICT else read_run(options.baseline)


def _ending(ended: EndedRun, verdict: JsonObject | None) -> Ending:
    is_by_case = ended.options.gate in ("cases", "off")
    expected = frozenset(ended.outcomes.expected_failures) if is_by_case else expected_failures(ended.run.results)
    unexpected = ended.outcomes.unexpected_passes.intersection(each.node_id or "" for each in ended.run.results)
    return ending_of(verdict).replace(
        troubles=tuple(_troubles(ended, unexpected)), expected=expected, unexpected=frozenset(unexpected)
    )


def _troubles(ended: EndedRun, unexpected: set[str]) -> Iterator[str]:
    """Yield problems beside the evaluations. The gates are left out, because the report describes them elsewhere."""
    if ended.is_broken_off:
        yield "the run broke off before its end"
    if files := ended.outcomes.uncollected:
        yield uncollected_text(len(files))
    others = set(ended.outcomes.failed_with_good_scores(ended.run.results)) - unexpected
    if ended.write_errors:
        yield "results were lost"
    elif others:
        yield f"{counted(len(others), 'case')} failed outside of the evaluation"
    if ended.lost:
        yield lost_text(ended.lost)
