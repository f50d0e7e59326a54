"""Shows a run on GitHub: a summary page, and annotations at the lines of cases."""

import os
from collections.abc import Sequence

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.session.showing.ending.ended_run import EndedRun


def tell_github(ended: EndedRun) -> tuple[list[str], Sequence[str]]:
    """Write the summary page. Return its faults, and the lines of the log that become annotations."""
    remarks: list[str] = []
    lines: Sequence[str] = ()
    if os.environ.get("GITHUB_STEP_SUMMARY"):
        from pytest_agentv.session.showing.ci.step_summary import append_step_summary  # noqa: PLC0415 - only if GitHub asks for it

        remarks = append_step_summary(ended.verdict())
    if os.environ.get("GITHUB_ACTIONS"):
        from pytest_agentv.reporting.ci.annotations import annotation_lines  # noqa: PLC0415 - only if GitHub asks for them

        masker = Masker.of_environment()
        lines = tuple(annotation_lines(ended.run.results, ended.outcomes.expected_failures, masker))
    return remarks, lines
