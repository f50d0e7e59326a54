"""Writes the results of finished runs in the formats of other programs, for `agentv report` and `agentv convert`."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from pytest_agentv.cli.console import note
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.ci.stored import StoredRun, read_stored
from pytest_agentv.reporting.escaping import visible

Exporter: TypeAlias = Callable[[Sequence[EvalResult], Masker], str]
"""Returns the text of a file with some results."""


def read_ended(path: Path) -> StoredRun:
    """Read a run, and note what cannot be read of it. Raises `FileError` if it holds no result."""
    stored = read_stored(path)
    for remark in stored.remarks:
        note(visible(remark))
    return stored


def environment_masker() -> Masker:
    """Return a masker that knows the secrets of the environment."""
    masker = Masker()
    masker.add_environment(os.environ)
    return masker


def _junit(results: Sequence[EvalResult], masker: Masker) -> str:
    from pytest_agentv.reporting.ci.junit import junit_xml  # noqa: PLC0415 - each format alone

    return junit_xml(results, masker)


def _csv(results: Sequence[EvalResult], masker: Masker) -> str:
    from pytest_agentv.reporting.ci.spreadsheet import results_csv  # noqa: PLC0415 - as above

    return results_csv(results, masker)


def _code_quality(results: Sequence[EvalResult], masker: Masker) -> str:
    import json  # noqa: PLC0415 - as above

    from pytest_agentv.reporting.ci.code_quality import code_quality  # noqa: PLC0415 - as above

    return json.dumps(code_quality(results, masker), indent=2) + "\n"


EXPORTERS: Final[Mapping[str, Exporter]] = {"csv": _csv, "gitlab-codequality": _code_quality, "junit": _junit}
"""By the word of `--format`."""
