"""Writes the verdict to a file of its own, and into the line of each case."""

import json
from collections.abc import Sequence
from pathlib import Path

from pytest_agentv.errors import AgentvError
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.options.values import OutputFormat
from pytest_agentv.reporting.amending import amend
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.reporting.verdicts.run_statistics import RunStatistics
from pytest_agentv.reporting.writers import verdict_path
from pytest_agentv.runtime.files import write_atomically
from pytest_agentv.session.recording.identity import RunIdentity


def write_verdict(contract: JsonObject, results_path: Path) -> str | None:
    """Write the verdict beside the results; return why it cannot be."""
    if not results_path.is_file():
        return None
    path = verdict_path(results_path)
    try:
        write_atomically(path, json.dumps(contract, ensure_ascii=False, indent=2, sort_keys=False) + "\n")
    except (AgentvError, OSError) as error:
        return f"the verdict was not written: {error}"
    return None


def amend_results(statistics: RunStatistics, identity: RunIdentity, output_format: OutputFormat) -> str | None:
    """Write into the results how each case did against the baseline; return why that cannot be."""
    additions = {
        (case.node_id, case.eval_id): {"baseline": figures.to_plain()} for case, figures in statistics.figures()
    }
    try:
        if additions and identity.results_path.is_file():
            amend(identity.results_path, identity.run_id, output_format, additions)
    except AgentvError as error:
        return f"the results do not say how cases did against the baseline: {error}"
    return None


def mark_added(
    cases: Sequence[JudgedCase], name: str, identity: RunIdentity, output_format: OutputFormat
) -> str | None:
    """Write into the results that a baseline holds their answers now; return why that cannot be.

    Marks the resumed file as well: another run may go on from it.
    """
    files = {identity.results_path: identity.run_id}
    if identity.resumed is not None:
        files.setdefault(identity.resumed.path, identity.resumed.run_id)
    additions = {(case.node_id, case.eval_id): {"in_baseline": name} for case in cases}
    try:
        for path, run_id in files.items():
            if path.is_file():
                amend(path, run_id, output_format, additions)
    except AgentvError as error:
        return f"the results do not say that the baseline holds their answers, so do not add them again: {error}"
    return None
