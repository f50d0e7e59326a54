"""Writes the results of finished runs in the formats of other programs, for `agentv report` and `agentv convert`."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from pytest_agentv.cli.console import note
from pytest_agentv.errors import FileError, locate
from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.ci.stored import StoredRun, read_stored
from pytest_agentv.reporting.endings import AS_JUDGED, Ending, ending_of, mocked_part, read_contract
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.failing.expected import expected_failures, unexpected_passes
from pytest_agentv.reporting.readers import holds_baseline
from pytest_agentv.reporting.verdicts.case_reading import cases_of_run
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.reporting.writers import verdict_path

Exporter: TypeAlias = Callable[[Sequence[EvalResult], Masker, Ending], str]
"""Returns the text of a file with the results of a run that ended like this."""


def read_ended(path: Path) -> StoredRun:
    """Read a run, and note what cannot be read of it. Raises `FileError` if it holds no result."""
    if holds_baseline(path):
        text = "is a baseline, not a results file: `agentv compare --statistics` and HTML reports compare with one"
        raise FileError(path, text)
    stored = read_stored(path)
    for remark in stored.remarks:
        note(visible(remark))
    return stored


def ending_beside(run: Path, cases: Sequence[JudgedCase], results: Sequence[EvalResult | JsonObject]) -> Ending:
    """Return what the results tell of marks, and the file beside them of the verdict on them."""
    contract = read_contract(run, cases)
    if contract is None and verdict_path(run).is_file():
        note(f"{locate(verdict_path(run), None)}: left out, it is no verdict on these results")
    ending = ending_of(contract)
    return ending.replace(
        unjudged=mocked_part(results) or ending.unjudged,
        expected=expected_failures(results),
        unexpected=unexpected_passes(results),
    )


def exported(run: Path, stored: StoredRun, kind: str) -> str:
    """Return the text of a file with the results of a run, in the format of another program."""
    ending = AS_JUDGED if kind == "csv" else ending_beside(run, cases_of_run(stored.results), stored.results)
    return _EXPORTERS[kind](stored.results, Masker.of_environment(), ending)


def _junit(results: Sequence[EvalResult], masker: Masker, ending: Ending) -> str:
    from pytest_agentv.reporting.ci.junit import junit_xml  # noqa: PLC0415 - each format alone

    return junit_xml(results, masker, ending)


def _csv(results: Sequence[EvalResult], masker: Masker, _ending: Ending) -> str:
    from pytest_agentv.reporting.ci.spreadsheet import results_csv  # noqa: PLC0415 - as above

    return results_csv(results, masker)


def _code_quality(results: Sequence[EvalResult], masker: Masker, ending: Ending) -> str:
    import json  # noqa: PLC0415 - as above

    from pytest_agentv.reporting.ci.code_quality import code_quality  # noqa: PLC0415 - as above

    return json.dumps(code_quality(results, masker, ending), indent=2) + "\n"


_EXPORTERS: Final[Mapping[str, Exporter]] = {"csv": _csv, "gitlab-codequality": _code_quality, "junit": _junit}
"""By the word of `--format`."""
