"""The HTML report of a run (`--agentv-html`), written from its lines in the results file."""

from pathlib import Path

from pytest_agentv.errors import AgentvError, locate
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.reporting.html.page import ReportInput, write_report
from pytest_agentv.reporting.html.reading import Run, read_run, run_of
from pytest_agentv.session.recording.run_results import RunResults


def write_html(
    path: Path, run: RunResults, results_path: Path, options: RunOptions, verdict: JsonObject | None
) -> str | None:
    """Write the report. Returns the reason if that failed.

    Args:
        path: The report.
        run: The results of the run.
        results_path: Their file, which gives the report its name.
        options: Those of the run.
        verdict: The JSON of the verdict on the run; None: there is none.
    """
    if path.resolve() in {each.resolve() for each in (results_path, options.baseline) if each is not None}:
        return f"{locate(path, None)}: no report was written: this is the file of results that it would be made of"
    if not run.results:
        return f"{locate(path, None)}: no report was written: there are no results"
    try:
        shown = run_of(results_path.name, [result.to_plain() for result in run.results], dropped=len(run.earlier))
        shown = shown.replace(problems=tuple(map(str, run.problems)))
        given = ReportInput(
            shown,
            _base(options, verdict),
            margin=options.margin,
            is_confirming=options.confirm > 0,
            red=_red(options, verdict),
        )
        write_report(path, given)
    except (AgentvError, OSError) as error:
        return f"the report was not written: {error}"
    return None


def _base(options: RunOptions, verdict: JsonObject | None) -> Run | None:
    """Return the baseline that the run was compared with, if it was."""
    if options.baseline is None or options.update_baseline is not None or _is_unjudged(verdict):
        return None
    return read_run(options.baseline)


def _red(options: RunOptions, verdict: JsonObject | None) -> tuple[str, ...] | None:
    """Return the texts of the failed gates if gates judged the run; None: each case is judged by itself."""
    if options.gate not in ("run", "strict") or verdict is None or _is_unjudged(verdict):
        return None
    return tuple(gate["reason"] for gate in verdict.get("gates", ()) if gate["failed"])


def _is_unjudged(verdict: JsonObject | None) -> bool:
    return verdict is None or verdict.get("verdict") == "no verdict"
