"""Cases of invented runs, for tests of verdicts."""

import random
from collections.abc import Sequence
from typing import Any

from pytest_agentv.reports.judged_cases import JudgedCase


def case(name: str, passes: int, judged: int = 5, **changes: Any) -> JudgedCase:
    """Return a case of which some answers pass."""
    scores = (1.0,) * passes + (0.0,) * (judged - passes)
    values: dict[str, Any] = {
        "asked": judged,
        "eval_id": name,
        "eval_file": "evals/a.yaml",
        "target": "azure",
        "case_hash": f"hash of {name}",
        "grading_hash": "grading",
        "target_hash": "51c0",
    }
    return JudgedCase(f"evals/a.yaml::{name}", scores, passes, 1.0, **values).replace(**changes)


def run_of(passes: Sequence[int], judged: int = 5) -> list[JudgedCase]:
    return [case(f"c{number}", count, judged) for number, count in enumerate(passes)]


def random_run(rng: random.Random, p: float, cases: int, judged: int) -> list[JudgedCase]:
    """Return a run of equal, independent cases."""
    return run_of([sum(rng.random() < p for _ in range(judged)) for _ in range(cases)], judged)
