"""How a run ended beyond its results: the verdicts of its gates, and problems beside the cases."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pytest_agentv.models.base import JsonObject, Record, is_measure
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.verdicts.cases import JudgedCase, item_name
from pytest_agentv.reporting.verdicts.gates import LEFT, REPLACING, UNENFORCED
from pytest_agentv.reporting.verdicts.run_statistics import run_statistics
from pytest_agentv.reporting.writers import verdict_path

NO_VERDICT: Final = "no verdict"


@record
class GateWord(Record):
    """The verdict of one gate."""

    name: str
    """`agentv.baseline.jsonl::regression`, `gate::booking`."""
    is_red: bool
    reason: str
    is_unenforced: bool = False
    """Whether it found something and does not fail the run: advisory, or with `--agentv-gate=off`."""


@record
class Ending(Record):
    """How a run ended. Without any of these facts, each case is judged by itself."""

    red: tuple[str, ...] = ()
    """The reasons of the gates that failed."""
    replaces_cases: bool = False
    """Whether the gates judged the run instead of its cases. Errors and required cases still count."""
    left: frozenset[str] | None = None
    """Node ids of the failed cases that the gates judged. None in files of older versions: all of them."""
    gates: tuple[GateWord, ...] = ()
    """The verdicts of all gates, failed or not."""
    unjudged: str = ""
    """Why there is no verdict on the whole run; empty: there is one, or none was requested."""
    troubles: tuple[str, ...] = ()
    """Failures beside the evaluations, without a capital: `the run broke off before its end`."""
    expected: frozenset[str] = frozenset()
    """Node ids of cases that were expected to fail."""
    unexpected: frozenset[str] = frozenset()
    """Node ids of cases that failed because they passed (strict `xfail`), if only their results tell it."""
    skipped: frozenset[tuple[str, str | None]] = frozenset()
    """Names and targets of cases of the baseline that the run skipped. They do not count as gone."""

    def excuses(self, case: JudgedCase) -> bool:
        """Whether a low score of a case does not fail the run."""
        return case.node_id in self.expected or self.judges(case.node_id, required=case.required)

    def judges(self, node_id: str | None, *, required: bool) -> bool:
        """Whether the gates judged a low score of a case in its place: its item was shown as XFAIL."""
        return self.replaces_cases and not required and (self.left is None or node_id in self.left)

    def judged(self, result: EvalResult) -> bool:
        """Whether the gates judged a case in its place, which failed."""
        return result.status == "fail" and self.judges(result.node_id, required=bool(result.required))


AS_JUDGED: Final = Ending()
"""Each case is judged by itself."""


def ending_of(contract: JsonObject | None) -> Ending:
    """Return the ending from the JSON of a verdict; None: there is no verdict file."""
    if contract is None:
        return AS_JUDGED
    words = [gate for gate in _list(contract.get("gates")) if isinstance(gate, dict)]
    gates = tuple(
        GateWord(
            str(each.get("name")), each.get("failed") is True, str(each.get("reason")), each.get(UNENFORCED) is True
        )
        for each in words
    )
    red = tuple(gate.reason for gate in gates if gate.is_red)
    if contract.get("verdict") == NO_VERDICT:
        unjudged = "; ".join(map(str, _list(contract.get("reasons")))) or "it is not known why"
        return Ending(red, unjudged=unjudged, gates=gates)
    cases = [case for case in _list(contract.get("cases")) if isinstance(case, dict) and case.get("state") == "skipped"]
    skipped = frozenset((str(case.get("case")), case.get("target")) for case in cases)
    left = frozenset(map(str, _list(contract[LEFT]))) if LEFT in contract else None
    return Ending(red, contract.get("gate") in REPLACING and bool(gates), left, gates, skipped=skipped)


def mocked_part(results: Sequence[EvalResult | JsonObject]) -> str:
    """Return that some of a file's results are of a dry run; nothing where all are, or none."""
    flags = [each.dry_run if isinstance(each, EvalResult) else each.get("dry_run") for each in results]
    count = sum(flag is True for flag in flags)
    if not 0 < count < len(flags):
        return ""
    return f"{count:,} of {len(flags):,} cases are of a dry run: their scores mean nothing"


def read_contract(results_path: Path, cases: Sequence[JudgedCase]) -> JsonObject | None:
    """Return the JSON of the verdict on these cases; None: there is no such file, or it is about other results."""
    try:
        contract = json.loads(verdict_path(results_path).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return contract if isinstance(contract, dict) and _fits(contract, cases) else None


def _fits(contract: JsonObject, cases: Sequence[JudgedCase]) -> bool:
    """Whether a verdict has the figures of these cases. A later run may have written to the same file."""
    statistics = run_statistics(cases)
    if not _names_cases(_list(contract.get("errors")), statistics.errors):
        return False
    rate, mean = statistics.rate, contract.get("mean")
    if rate is None or mean is None:
        return rate is None and mean is None
    return is_measure(mean) and contract.get("n") == rate.n and math.isclose(float(mean), rate.mean, abs_tol=1e-9)


def _names_cases(names: Sequence[object], cases: Sequence[JudgedCase]) -> bool:
    """Whether names are those of these cases, with or without their targets, as older versions wrote them."""
    known = {
        f"{name}{target}"
        for case in cases
        for name in (case.name, item_name(case))
        for target in ("", f" ({case.target})")
    }
    return len(names) == len(cases) and known.issuperset(map(str, names))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
