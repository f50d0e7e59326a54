"""`agentv compare` of three results files or more: a row for each run, and the cases on which they disagree."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_agentv.cli.arguments import USAGE_EXIT_CODE, UsageError
from pytest_agentv.cli.console import note, say
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.comparing.case_scores import CaseKey, Scores
from pytest_agentv.reporting.comparing.comparison import listed
from pytest_agentv.reporting.comparing.runs import AlignedRuns, align_runs, read_runs
from pytest_agentv.reporting.comparing.runs_table import table_data, table_lines
from pytest_agentv.reporting.escaping import visible


def compare_files(
    paths: Sequence[Path], output: str, check: Callable[[Path, Scores], None], *, allow_missing: bool
) -> int:
    """Compare results files and return the exit code: 0, or 2 if they do not hold the same cases."""
    if twice := next((path for index, path in enumerate(paths) if path in paths[:index]), None):
        raise UsageError(f"{twice} is given twice")
    files = [read_runs(path) for path in paths]
    for file in files:
        check(file.path, file.scores)
    aligned = align_runs(files)
    has_common = any(aligned.runs.values())
    if output == "json":
        missing = [{"case": case, "runs": list(runs)} for case, runs in aligned.missing.items()]
        say(json.dumps({**table_data(aligned.runs), "missing": missing}, indent=2))
    elif has_common:
        for line in table_lines(aligned.runs, **({"listed": None} if output == "verbose" else {})):
            say(line)
    if not has_common:
        note("agentv compare: no case is in all files, so there is nothing to compare (parts of one run: --statistics)")
        return USAGE_EXIT_CODE
    if aligned.missing:
        note(visible(_missing_text(aligned, allow_missing=allow_missing)))
    return USAGE_EXIT_CODE if aligned.missing and not allow_missing else 0


def _missing_text(aligned: AlignedRuns, *, allow_missing: bool) -> str:
    lacking = dict.fromkeys(run for runs in aligned.missing.values() for run in runs)
    cases = counted(len(aligned.missing), "case")
    names = listed([CaseKey(case) for case in aligned.missing])
    text = f"agentv compare: left out {cases} that not all runs have: {names}"
    text += f"; lacking in {', '.join(lacking)}"
    return text if allow_missing else f"{text} (accept that with --allow-missing)"
