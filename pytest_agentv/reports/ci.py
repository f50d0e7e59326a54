"""Reports of a finished run for CI services and spreadsheets: JUnit XML, annotations, code quality, CSV."""

import csv
import hashlib
import io
import re
from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree import ElementTree

from pytest_agentv.model.base import JsonObject, is_amount
from pytest_agentv.model.results import RESULT_FIELDS, EvalResult
from pytest_agentv.model.secrets import Masker
from pytest_agentv.reports.failure import error_text, failure_headline, failure_text
from pytest_agentv.reports.figures import (
    case_name,
    figures_of,
    place_properties,
    question_of,
    result_properties,
    shown,
    visible,
    with_id,
)
from pytest_agentv.reports.view import RunView, failed_as_expected

# Marks failing cases at their lines, by commands to GitHub in the log.

MOST_ANNOTATIONS: Final = 10
"""GitHub shows no more than this of a step."""

_LONGEST: Final = 500
_DATA: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_PROPERTY: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})
"""The escapes of `@actions/core`."""


def annotation_lines(run: RunView, masker: Masker) -> Iterator[str]:
    """Yield `::error file=evals/a.yaml,line=12,title=…::reason` for failing cases: errors first, then lowest scores.

    The last of ten lines says how many cases are left out.
    """
    bad = [each for each in run.outcomes("error", "fail") if each.status != "pass"]
    bad.sort(key=lambda result: (result.status != "error", result.score))
    most = len(bad) if len(bad) <= MOST_ANNOTATIONS else MOST_ANNOTATIONS - 1
    for result in bad[:most]:
        properties = {"file": result.eval_file, "line": result.line, "title": case_name(result)}
        known = ((name, visible(str(value))) for name, value in properties.items() if value)
        listed = ",".join(f"{name}={text.translate(_PROPERTY)}" for name, text in known)
        yield f"::error {listed}::{reason_of(result, masker).replace('::', ': :').translate(_DATA)}"
    if len(bad) > most:
        yield f"::error title=Evaluations::{len(bad) - most} more cases failed"


def reason_of(result: EvalResult, masker: Masker) -> str:
    """Return on one line why a case failed or broke."""
    if result.status != "error":
        return failure_headline(result, masker)
    first = shown(result.error or "unknown error", masker).strip().partition("\n")[0]
    kind = f"[{result.error_detail.stage}, {result.error_detail.kind}] " if result.error_detail else ""
    return f"{kind}{first}"[:_LONGEST]


# Writes the results of a finished run as JUnit XML.

_COUNTS: Final = {"skipped": "skipped", "failures": "failure", "errors": "error"}
_KINDS: Final = {"fail": "failure", "error": "error", "expected": "skipped"}
"""The element in the test case of a result, by its outcome."""


def junit_xml(run: RunView, masker: Masker) -> str:
    """Return a test suite with a test case for each result: failures, errors and properties as pytest writes them.

    The gates of the run are test cases as well.
    """
    kinds = [_KINDS.get(run.ending.outcome(result)) for result in run.results]
    gates = ["failure" if gate.is_red else "skipped" if gate.is_unenforced else None for gate in run.ending.gates]
    figures = {name: str([*kinds, *gates].count(kind)) for name, kind in _COUNTS.items()}
    seconds = sum(map(_seconds, run.results))
    root = ElementTree.Element("testsuites", name="agentv")
    attributes = {"name": "agentv", "tests": str(len(kinds) + len(gates)), **figures, "time": f"{seconds:.3f}"}
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    for result, kind in zip(run.results, kinds, strict=True):
        _add_case(suite, result, kind, masker)
    for gate in run.ending.gates:  # under the names that they have in pytest's own file
        file, _, name = visible(masker.mask(gate.name)).partition("::")
        case = ElementTree.SubElement(suite, "testcase", classname=file.replace("/", "."), name=name, time="0.000")
        reason = visible(masker.mask(gate.reason))
        if gate.is_red:
            ElementTree.SubElement(case, "failure", message=reason).text = reason
        elif gate.is_unenforced:
            ElementTree.SubElement(case, "skipped", type="pytest.xfail", message=reason)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _add_case(suite: ElementTree.Element, result: EvalResult, kind: str | None, masker: Masker) -> None:
    classname, name = map(visible, _address(result))
    file = visible(result.eval_file or result.dataset)
    attributes = {"classname": classname, "name": name, "file": file, "line": str(result.line or 1)}
    case = ElementTree.SubElement(suite, "testcase", attributes, time=f"{_seconds(result):.3f}")
    properties = ElementTree.SubElement(case, "properties")
    for key, value in [*place_properties(file, result.line or 1), *result_properties(result)]:
        ElementTree.SubElement(properties, "property", name=key, value=visible(str(value)))
    if kind is None:
        return
    mark = masker.mask(result.xfail or "")
    if kind == "skipped":
        reason = mark if failed_as_expected(result) else "judged with the run"
        ElementTree.SubElement(case, kind, type="pytest.xfail", message=visible(reason))
    elif result.status == "pass":
        ElementTree.SubElement(case, kind, message=visible(f"[XPASS(strict)] {mark}".rstrip()))
    else:
        ElementTree.SubElement(case, kind, message=visible(reason_of(result, masker))).text = _text(result, masker)


def _address(result: EvalResult) -> tuple[str, str]:
    """Return the class name and the name that a result's item has in pytest's own file.

    Several results of a Python test have their ids as well, since pytest has only one test case for all of them.
    """
    file = result.eval_file or result.dataset
    item = result.node_id.partition("::")[2] if result.node_id is not None else ""
    head, bracket, parameters = item.partition("[")  # parameters may hold `::`
    *classes, name = head.split("::") if item else [result.eval_id]
    classname = ".".join([file.replace("/", ".").removesuffix(".py"), *classes])
    return classname, with_id(f"{name}{bracket}{parameters}", result.eval_file, result.eval_id)


def _text(result: EvalResult, masker: Masker) -> str:
    if result.status == "error":
        return error_text(result, rerun_command=None, masker=masker, limit=None)
    reference = result.reference_answer or ""
    return failure_text(result, rerun_command=None, masker=masker, reference_answer=reference, limit=None)


def _seconds(result: EvalResult) -> float:
    return result.duration_ms / 1000 if is_amount(result.duration_ms) else 0.0


def code_quality(run: RunView, masker: Masker) -> list[JsonObject]:
    """Return GitLab's code quality report, which a merge request shows: an entry for each case that failed or broke.

    Its fingerprint is the same in each run.
    """
    entries: list[JsonObject] = []
    for result in run.outcomes("fail", "error"):
        is_passed = result.status == "pass"  # against a strict mark
        mark = masker.mask(result.xfail or "")
        reason = f"[XPASS(strict)] {mark}".rstrip() if is_passed else reason_of(result, masker)
        identity = "\n".join((result.node_id or "", result.eval_id, result.target))
        entries.append(
            {
                "description": f"{case_name(result)}: {reason}",
                "check_name": "agentv-fail" if is_passed else f"agentv-{result.status}",
                "fingerprint": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest(),
                "severity": "critical" if result.status == "error" else "major",
                "location": {"path": result.eval_file or "unknown", "lines": {"begin": result.line or 1}},
            }
        )
    return entries


# Writes results as CSV: a row per case, a column per figure.

_FORMULA: Final = re.compile(r"\s*[=+\-@＝＋－＠]|[\t\r\n]")
"""The beginning of a cell that a spreadsheet may run as a formula. Some drop blanks first."""
_INNER_FORMULA: Final = re.compile(r"(?<=[;\t\n])([\"']*)([=@＝＠]|[+\-＋－](?=\S))")
"""The beginning of a cell after a semicolon or a tab. These separate cells in Excel of many languages, which then does
not recognize texts with several lines. Items of a list, `- one`, stay as they are.
"""


def results_csv(run: RunView, masker: Masker) -> str:
    """Return a row for each case: the fields that have a column, the figures that any case has, and its scores.

    A text that a spreadsheet would run as a formula gets a `'` in front. So does a part of a text that would become a
    cell with another separator.
    """
    rows = [_row(result) for result in run.results]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(_safe, columns))
    for row in rows:
        cells = (row.get(name) for name in columns)
        writer.writerow([_safe(masker.mask(cell)) if isinstance(cell, str) else cell for cell in cells])
    return file.getvalue()


_COLUMNS: Final = sorted((field.column, name) for name, field in RESULT_FIELDS.items() if field.column)


def _row(result: EvalResult) -> Mapping[str, object]:
    row: dict[str, object] = {}
    for _, name in _COLUMNS:
        value = getattr(result, name)
        if name == "candidate_answer":
            row["question"] = question_of(result)
        between = ", " if name == "tags" else "\n"
        row[name] = between.join(value) if isinstance(value, tuple) else value
    if result.status == "error":
        row["score"] = None
    row |= {name: value for name, value in figures_of(result).items() if value is not None}
    return row | {f"score: {each.name}": each.score for each in result.evaluator_results or () if each.error is None}


def _safe(text: str) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()  # no file can hold lone surrogates
    text = re.sub(r"\r\n?", "\n", text.replace("\0", ""))  # a lone CR would end the row, and few programs read NUL
    text = _INNER_FORMULA.sub(r"\1'\2", text)
    return f"'{text}" if _FORMULA.match(text) else text
