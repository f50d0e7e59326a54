"""Failing cases in the format of GitLab's code quality reports, which a merge request shows at their lines."""

import hashlib
from collections.abc import Sequence

from pytest_agentv.models.base import JsonObject
from pytest_agentv.models.masking.secrets import Masker
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.ci.annotations import reason_of
from pytest_agentv.reporting.figures import case_name


def code_quality(results: Sequence[EvalResult], masker: Masker) -> list[JsonObject]:
    """Return an entry for each case that failed or could not be judged. Its fingerprint is the same in each run."""
    return [_entry(result, masker) for result in results if result.status != "pass"]


def _entry(result: EvalResult, masker: Masker) -> JsonObject:
    identity = "\n".join((result.node_id or "", result.eval_id, result.target))
    return {
        "description": f"{case_name(result)}: {reason_of(result, masker)}",
        "check_name": f"agentv-{result.status}",
        "fingerprint": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest(),
        "severity": "critical" if result.status == "error" else "major",
        "location": {"path": result.eval_file or "unknown", "lines": {"begin": result.line or 1}},
    }
