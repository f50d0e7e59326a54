"""One case to run, as plain data that can be sent to another process."""

from typing import Final, TypeAlias

from pytest_agentv.models.base import Record
from pytest_agentv.models.cases import EvalCase
from pytest_agentv.models.options.run_options import RunOptions
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult, ShardFigures

CaseKey: TypeAlias = tuple[str, str, str, str, str, str]
"""Eval file, raw case id and target, and the hashes of the case, of the target and of its grading."""
CaseVersion: TypeAlias = tuple[str | None, *CaseKey]
"""Node id and key: several items may ask the same under one id."""
CHANGED: Final = "changed-"
"""How the hash of a program begins that changed while a case ran. No other run has such a hash."""


@record
class CaseIdentity(Record):
    """The names of a case in the results file, known even if the case cannot be loaded."""

    eval_id: str
    dataset: str
    target: str
    eval_file: str
    line: int
    node_id: str
    run_id: str
    conversation_id: str | None = None
    case_hash: str | None = None
    target_hash: str | None = None
    grading_hash: str | None = None
    tags: tuple[str, ...] | None = None
    judge: str | None = None
    required: bool | None = None
    """True if the case must pass by itself, else None."""
    xfail: str | None = None
    """The reason of the mark that expects a low score, else None."""
    xfail_strict: bool | None = None
    """True if that mark is strict, else None."""
    group: str | None = None
    row: str | None = None
    """The row of a table that the case was made from."""
    combination: str | None = None
    """The values of its matrix."""
    expected_outcome: str | None = None
    reference_answer: str | None = None
    shard: ShardFigures | None = None
    """The part of the run that it is in."""


@record
class CaseJob(Record):
    """One case to run, as plain data."""

    identity: CaseIdentity
    case: EvalCase
    options: RunOptions
    dump_qualifier: str | None = None
    """Separates the case's dumps from those of another case with the same id."""
    answer: int = 0
    """The number of the answer, 0-based, where the case asks for several."""
    reruns: int = 0
    """How often the case was asked before in this run, as by `--reruns`."""

    @property
    def timeout_seconds(self) -> float | None:
        return self.options.timeout or None

    @property
    def repeat(self) -> int:
        """How many answers the case is judged by."""
        return self.options.repeat or self.case.repeat or self.options.ini_repeat or 1


def case_key(case: EvalResult | CaseIdentity, target: str) -> CaseKey | None:
    """Return the key of a case; None: a hash is unknown, so no earlier result can be reused."""
    if case.case_hash is None or case.target_hash is None or case.grading_hash is None:
        return None
    return case.eval_file or "", case.eval_id, target, case.case_hash, case.target_hash, case.grading_hash


def version_of(case: EvalResult | CaseIdentity) -> CaseVersion | None:
    """Return what tells a case from others, its other versions and other targets; None: no run has it again."""
    key = case_key(case, case.target)
    return None if key is None or any(part.startswith(CHANGED) for part in key[-2:]) else (case.node_id, *key)
