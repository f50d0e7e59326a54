"""Annotates failing cases, in the process that owns the terminal, so that each annotation is printed once."""

import os
from collections.abc import Sequence

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.reporting.ci.annotations import annotation_lines
from pytest_agentv.session.showing.ending.ended_run import EndedRun


def annotations(ended: EndedRun) -> Sequence[str]:
    """Return the lines that GitHub turns into annotations at the lines of cases."""
    masker = Masker()
    masker.add_environment(os.environ)
    return tuple(annotation_lines(ended.run.results, ended.outcomes.expected_failures, masker))
