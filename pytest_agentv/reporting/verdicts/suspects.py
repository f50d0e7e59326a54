"""Chooses the cases that are asked again because they look broken, and how often."""

from collections.abc import Iterator, Sequence

from pytest_agentv.reporting.verdicts.baseline import Baseline, has_other_judge
from pytest_agentv.reporting.verdicts.cases import JudgedCase
from pytest_agentv.reporting.verdicts.pairing import compare_cases, pair_cases, unconfirmed
from pytest_agentv.statistics.broken import answers_to_confirm


def suspects_of(
    cases: Sequence[JudgedCase], baseline: Baseline, wanted: int, *, pairs: int | None = None, retries: bool = False
) -> Iterator[tuple[JudgedCase, int]]:
    """Yield the cases that look broken and were not asked again yet, with the fresh answers that each is to get.

    Args:
        cases: Those of the run.
        baseline: What they are held against.
        wanted: Fresh answers for each, or more where so few could find nothing among so many cases.
        pairs: How many cases are compared in all; None: these.
        retries: Whether cases are asked once more whose fresh answers an earlier run could not have.
    """
    if has_other_judge(cases, baseline):
        return  # nothing can be compared
    pairing = pair_cases(cases, baseline.cases)
    found = pairing.pairs
    again = unconfirmed(pairing, compare_cases(pairing, is_confirming=True)) if retries else ()
    for pair in found:
        if pair in again or (pair.is_suspect and pair.new.confirmation is None):
            answers = answers_to_confirm(len(found) if pairs is None else pairs, pair.old.judged, wanted)
            if answers:
                yield pair.new, answers
