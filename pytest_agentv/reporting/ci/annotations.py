"""Marks failing cases at their lines, by commands to GitHub in the log."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.escaping import shown, visible
from pytest_agentv.reporting.failing.render import failure_headline
from pytest_agentv.reporting.figures import case_name

MOST_ANNOTATIONS: Final = 10
"""GitHub shows no more than this of a step."""

_LONGEST: Final = 500
_DATA: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})
"""The escapes of `@actions/core`."""


def annotation_lines(results: Sequence[EvalResult], expected: Iterable[str], masker: Masker) -> Iterator[str]:
    """Yield `::error file=evals/a.yaml,line=12,title=…::reason` for failing cases: errors first, then lowest scores.

    The last of ten lines says how many cases are left out. `expected` are the node ids of cases that were expected to
    fail. Their errors fail the run all the same.
    """
    known = frozenset(expected)
    bad = [each for each in results if each.status == "error" or (each.status == "fail" and each.node_id not in known)]
    bad.sort(key=lambda result: (result.status != "error", result.score))
    most = len(bad) if len(bad) <= MOST_ANNOTATIONS else MOST_ANNOTATIONS - 1
    yield from (_annotation(result, masker) for result in bad[:most])
    if len(bad) > most:
        yield f"::error title=Evaluations::{len(bad) - most} more cases failed"


def reason_of(result: EvalResult, masker: Masker) -> str:
    """Return on one line why a case failed or broke."""
    if result.status != "error":
        return failure_headline(result, masker)
    first = shown(result.error or "unknown error", masker).strip().partition("\n")[0]
    kind = f"[{result.error_detail.stage}, {result.error_detail.kind}] " if result.error_detail else ""
    return f"{kind}{first}"[:_LONGEST]


def _annotation(result: EvalResult, masker: Masker) -> str:
    properties = {"file": result.eval_file, "line": result.line, "title": case_name(result)}
    listed = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value)
    return f"::error {listed}::{reason_of(result, masker).replace('::', ': :').translate(_DATA)}"


def _property(text: str) -> str:
    return visible(text).translate(_PROPERTY)
