"""Writes the results of a finished run as JUnit XML."""

from collections.abc import Collection, Sequence
from typing import Final
from xml.etree import ElementTree

from pytest_agentv.models.base import is_amount
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.ci.annotations import reason_of
from pytest_agentv.reporting.ci.properties import place_properties, result_properties
from pytest_agentv.reporting.endings import AS_JUDGED, Ending, GateWord
from pytest_agentv.reporting.escaping import visible
from pytest_agentv.reporting.failing.expected import failed_as_expected, unexpected_passes
from pytest_agentv.reporting.failing.render import error_text, failure_text
from pytest_agentv.reporting.figures import with_id

_COUNTS: Final = {"skipped": "skipped", "failures": "failure", "errors": "error"}


def junit_xml(results: Sequence[EvalResult], masker: Masker, ending: Ending = AS_JUDGED) -> str:
    """Return a test suite with a test case for each result: failures, errors and properties as pytest writes them.

    The gates of a run that ended like this are test cases as well.
    """
    strict = unexpected_passes(results)
    kinds = [_kind(result, strict, ending) for result in results]
    gates = ["failure" if gate.is_red else "skipped" if gate.is_unenforced else None for gate in ending.gates]
    figures = {name: str([*kinds, *gates].count(kind)) for name, kind in _COUNTS.items()}
    seconds = sum(map(_seconds, results))
    root = ElementTree.Element("testsuites", name="agentv")
    attributes = {"name": "agentv", "tests": str(len(kinds) + len(gates)), **figures, "time": f"{seconds:.3f}"}
    suite = ElementTree.SubElement(root, "testsuite", attributes)
    for result, kind in zip(results, kinds, strict=True):
        _add_case(suite, result, kind, masker)
    for gate in ending.gates:
        _add_gate(suite, gate, masker)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _kind(result: EvalResult, strict: Collection[str], ending: Ending) -> str | None:
    """Return the name of a result's element in its test case; None: it passed."""
    if failed_as_expected(result) or ending.judged(result):
        return "skipped"
    if result.status == "pass":
        return "failure" if result.node_id in strict else None
    return "error" if result.status == "error" else "failure"


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


def _add_gate(suite: ElementTree.Element, gate: GateWord, masker: Masker) -> None:
    """Add a gate under the names that it has in pytest's own file."""
    file, _, name = visible(masker.mask(gate.name)).partition("::")
    case = ElementTree.SubElement(suite, "testcase", classname=file.replace("/", "."), name=name, time="0.000")
    reason = visible(masker.mask(gate.reason))
    if gate.is_red:
        ElementTree.SubElement(case, "failure", message=reason).text = reason
    elif gate.is_unenforced:
        ElementTree.SubElement(case, "skipped", type="pytest.xfail", message=reason)


def _text(result: EvalResult, masker: Masker) -> str:
    if result.status == "error":
        return error_text(result, rerun_command=None, masker=masker, limit=None)
    source, reference = result.threshold_source, result.reference_answer or ""
    return failure_text(
        result, threshold_source=source, rerun_command=None, masker=masker, reference_answer=reference, limit=None
    )


def _seconds(result: EvalResult) -> float:
    return result.duration_ms / 1000 if is_amount(result.duration_ms) else 0.0
