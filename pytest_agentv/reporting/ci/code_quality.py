"""Writes failing cases in the format of GitLab's code quality reports, which a merge request shows at their lines."""

import hashlib
from collections.abc import Sequence

from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.ci.annotations import reason_of
from pytest_agentv.reporting.endings import AS_JUDGED, Ending
from pytest_agentv.reporting.failing.expected import failed_as_expected, unexpected_passes
from pytest_agentv.reporting.figures import case_name


def code_quality(results: Sequence[EvalResult], masker: Masker, ending: Ending = AS_JUDGED) -> list[JsonObject]:
    """Return an entry for each case that failed or could not be judged. Its fingerprint is the same in each run.

    Cases that fail as their `xfail` mark expects, or that gates judge instead, have no entry. Cases that pass against a
    strict mark have one.
    """
    strict = unexpected_passes(results)
    bad = (each for each in results if each.status != "pass" or each.node_id in strict)
    return [_entry(each, masker) for each in bad if not (failed_as_expected(each) or ending.judged(each))]


def _entry(result: EvalResult, masker: Masker) -> JsonObject:
    identity = "\n".join((result.node_id or "", result.eval_id, result.target))
    is_passed = result.status == "pass"
    reason = f"[XPASS(strict)] {masker.mask(result.xfail or '')}".rstrip() if is_passed else reason_of(result, masker)
    return {
        "description": f"{case_name(result)}: {reason}",
        "check_name": "agentv-fail" if is_passed else f"agentv-{result.status}",
        "fingerprint": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest(),
        "severity": "critical" if result.status == "error" else "major",
        "location": {"path": result.eval_file or "unknown", "lines": {"begin": result.line or 1}},
    }
