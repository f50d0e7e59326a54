"""Tells which of the results that later ones of the same case replaced were paid for apart from these."""

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record
from pytest_agentv.models.results import EvalResult
from pytest_agentv.reporting.figures import asked_nothing, moment_of

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


@record
class Attempt(Record):
    """What of a result tells whether another one includes its figures."""

    moment: tuple[object, ...]
    """Tells it from others of its case. A line that says it anew, as after a change of tags, has the same."""
    hashes: tuple[str | None, ...]
    """Those of the case, the target and the grading. Answers are carried over only where they are the same."""
    goes_on: bool
    """Whether its figures include those of the answers of earlier results."""
    is_rerun: bool
    """Whether a plugin for reruns had all answers asked anew."""
    asked_nothing: bool
    """Whether its case could not even be asked."""
    is_single_error: bool
    """Whether it is the error of a case that was asked once. No later result includes its figures."""


class Replaced(Generic[K, T]):
    """The results that later ones replaced, without those whose figures a later one includes.

    Those that asked nothing are not among them: a case that stays broken is not asked again.
    """

    def __init__(self, attempt_of: Callable[[T], Attempt]) -> None:
        self._attempt_of = attempt_of
        self._by_case: dict[K, dict[tuple[object, ...], tuple[Attempt, T]]] = {}

    def add(self, case: K, before: T, result: T) -> None:
        """Note that a result of a case replaces the one before. Call it in the order of the lines."""
        old, new = self._attempt_of(before), self._attempt_of(result)
        found = dict(self._by_case.get(case, {}))
        if not old.asked_nothing:
            found.pop(old.moment, None)  # so that it is the last one, as its line is
            found[old.moment] = old, before
        included = {new.moment, *_included_in(new, [attempt for attempt, _ in found.values()])}
        self._by_case[case] = {moment: each for moment, each in found.items() if moment not in included}

    def results(self) -> Iterator[tuple[K, T]]:
        """Yield the results with their cases."""
        for case, found in self._by_case.items():
            for _, result in found.values():
                yield case, result


def are_reruns(earlier: Iterable[tuple[K, Attempt]], last: Iterable[tuple[K, Attempt]]) -> list[bool]:
    """Tell for each replaced result whether a plugin for reruns had its case asked anew.

    Only such a plugin has a case asked anew that was judged and has not changed since. `last` are those that count.
    """
    following = dict(last)
    found: list[bool] = []
    for case, attempt in reversed(list(earlier)):
        after = following.get(case)
        is_same = after is not None and after.hashes == attempt.hashes and not after.asked_nothing
        found.append(is_same and not attempt.is_single_error)
        following[case] = attempt
    return found[::-1]


def with_earlier(
    earlier: Iterable[T], name_of: Callable[[T], Hashable], cost_of: Callable[[T], float | None]
) -> Callable[[T], float | None]:
    """Return what reads the cost of a case: that of its last result and of those that it replaced; None: unknown."""
    by_case: dict[Hashable, list[T]] = {}
    for each in earlier:
        by_case.setdefault(name_of(each), []).append(each)

    def cost(last: T) -> float | None:
        costs = [cost_of(each) for each in (last, *by_case.get(name_of(last), ()))]
        known = [each for each in costs if each is not None]
        return math.fsum(known) if len(known) == len(costs) else None

    return cost


def _included_in(attempt: Attempt, earlier: Sequence[Attempt]) -> Iterator[tuple[object, ...]]:
    """Yield the moments of those results whose figures a later one includes: of the last one whose answers it took."""
    for each in reversed(earlier) if attempt.goes_on else ():
        if each.hashes[0] is None:
            yield each.moment  # it was ended or broke among the answers: they were kept, and it has no figures itself
        elif each.hashes == attempt.hashes and not each.is_single_error:
            yield each.moment
            if each.goes_on or not each.is_rerun:
                return  # else the answers that the rerun replaced were kept as well


def attempt_of(result: EvalResult) -> Attempt:
    return Attempt(
        moment=moment_of(result),
        hashes=(result.case_hash, result.target_hash, result.grading_hash),
        goes_on=result.repeat is not None and result.repeat.goes_on,
        is_rerun=result.repeat is not None and bool(result.repeat.reruns),
        asked_nothing=asked_nothing(result),
        is_single_error=result.repeat is None and result.status == "error",
    )
