"""Adds hashes to each case, by which a later run decides whether its result is still valid."""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pytest_agentv.engine.jobs import CHANGED
from pytest_agentv.engine.overrides import NO_OVERRIDES
from pytest_agentv.engine.targets.fingerprints import Fingerprints
from pytest_agentv.engine.targets.judging import evaluators_of, needs_of
from pytest_agentv.loading.problems import Problem
from pytest_agentv.models.cases import AnyEvaluator
from pytest_agentv.models.results import EvalResult
from pytest_agentv.runtime.loop import LoopThread
from pytest_agentv.session.running.preparing import PreparedCase

_HASH_DIGITS: Final = 8
_CHANGED: Final = (
    "changed while the run was going on: cases that ended since then may have run either version, so a resumed run "
    "runs them again"
)
_LEFT_OUT: Final = {"grading_hash": ", and comparisons leave them out", "target_hash": ""}
"""What else follows for a hash. Comparisons are of cases that were judged the same way, by targets of any version."""


class CaseSigner:
    """Signs cases. Hashes targets and judges once per folder."""

    def __init__(self, fingerprints: Fingerprints, loop: LoopThread, warn_once: Callable[[Problem, str], None]) -> None:
        """`warn_once` gets a warning and a name for what it is about, and shows one of each name."""
        self._fingerprints = fingerprints
        self._loop = loop
        self._warn_once = warn_once
        self._targets: dict[tuple[Path, str], str | None] = {}
        self._embeddings: dict[tuple[Path, str], str | None] = {}
        self._judges: dict[tuple[Path, str], str | None] = {}
        self._last: tuple[Sequence[AnyEvaluator], str, str] | None = None
        self._no_hash = f"{CHANGED}{os.urandom(4).hex()}"
        """Stands in results for a hash of files that changed while a case ran. No other run has it."""

    def sign(self, prepared: PreparedCase) -> PreparedCase:
        """Return a case with its hashes. An unresolved target has none: the case reports the error."""
        job = prepared.job
        if isinstance(job, EvalResult):
            return prepared
        key = (job.case.folder, job.identity.target)
        evaluators = evaluators_of(job.case)
        needs = needs_of(evaluators)
        judge = self._judge_hash(key, prepared) if needs.any_answers else ""
        judge = self._with_embeddings(judge, key[0], needs.embeddings)
        grading = None if judge is None else self._grading_hash(evaluators, judge)
        identity = job.identity.replace(
            target_hash=self._target_hash(key, prepared), grading_hash=grading, judge=self._judge_name(key, judge)
        )
        return prepared.replace(job=job.replace(identity=identity))

    def moment(self) -> int:
        """Return the present moment, for `checked`."""
        return self._fingerprints.moment()

    def checked(self, result: EvalResult, since: int) -> EvalResult:
        """Return the result of a case that began at a moment, without the hashes of programs that changed meanwhile.

        Otherwise later runs would take it for a result of the programs that were hashed.
        """
        for name in _LEFT_OUT:
            path = self._fingerprints.changed_file(getattr(result, name), since)
            if path is not None:
                self._warn_of_change(path, name)
                result = result.replace(**{name: self._no_hash})
        return result

    def _warn_of_change(self, path: Path, name: str) -> None:
        file = hashlib.sha256(str(path).encode("utf-8", "replace")).hexdigest()[:16]
        problem = Problem(path, None, "", f"{_CHANGED}{_LEFT_OUT[name]}", level="warning")
        self._warn_once(problem, f"changed-{name}-{file}")

    def _with_embeddings(self, judge: str | None, folder: Path, names: Sequence[str]) -> str | None:
        """Add the hashes of the targets whose embeddings are compared; None where one cannot be resolved."""
        for name in names:
            key = (folder, name)
            if key not in self._embeddings:
                asked = self._fingerprints.target_hash(folder, name, NO_OVERRIDES)
                self._embeddings[key] = self._loop.run(asked)
            found = self._embeddings[key]
            judge = None if judge is None or found is None else f"{judge} {found}"
        return judge

    def _grading_hash(self, evaluators: Sequence[AnyEvaluator], judge: str) -> str:
        """Return the hash of evaluators. Consecutive cases often share those of their file."""
        last = self._last  # tests may evaluate in several threads
        if last is not None and last[0] is evaluators and last[1] == judge:
            return last[2]
        grading = self._fingerprints.grading_hash(evaluators, judge or None)
        self._last = (evaluators, judge, grading)
        return grading

    def _target_hash(self, key: tuple[Path, str], prepared: PreparedCase) -> str | None:
        own = prepared.own
        if own.replace_target:
            return self._loop.run(self._fingerprints.target_hash(*key, own))
        if key not in self._targets:
            self._targets[key] = self._loop.run(self._fingerprints.target_hash(*key, own))
        return self._targets[key]

    def _judge_name(self, key: tuple[Path, str], judge: str | None) -> str | None:
        """Return the judge's name with the start of its hash, by which baselines distinguish judges."""
        return f"{self._fingerprints.judge_name(*key)}@{judge[:_HASH_DIGITS]}" if judge else None

    def _judge_hash(self, key: tuple[Path, str], prepared: PreparedCase) -> str | None:
        own = prepared.own
        if own.judge is not None:
            return self._loop.run(self._fingerprints.judge_hash(*key, own))
        if key not in self._judges:
            self._judges[key] = self._loop.run(self._fingerprints.judge_hash(*key, own))
        return self._judges[key]
