"""Tells which cases share a call of a target with `provider_batching`. No batch has the same id twice."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from pytest_agentv.engine.batching import Batch, BatchMember
from pytest_agentv.errors import locate
from pytest_agentv.models.results import EvalResult
from pytest_agentv.session.running.begun import Begun
from pytest_agentv.session.running.cases import Cases
from pytest_agentv.session.running.items import EvalItem
from pytest_agentv.session.running.lookahead import Lookahead
from pytest_agentv.session.running.preparing import CasePreparer, PreparedCase


class Batches:
    """Begins the cases of such targets, each together with the following ones."""

    def __init__(
        self,
        cases: Cases,
        lookahead: Lookahead,
        preparer: CasePreparer,
        prepare: Callable[[EvalItem, EvalItem], PreparedCase],
        is_unasked: Callable[[PreparedCase], bool],
    ) -> None:
        """Take the engine's cases.

        `prepare` loads the case of an item, seen from another one, and `is_unasked` tells whether nobody asked to pay.
        """
        self._cases = cases
        self._lookahead = lookahead
        self._preparer = preparer
        self._prepare = prepare
        self._is_unasked = is_unasked

    def checked(self, item: EvalItem, prepared: PreparedCase) -> PreparedCase:
        """Return a case, or its error if the answers of its target cannot be told apart.

        A target that answers by id would answer two questions at once. It does not know which cases a process was
        given, so all items count, not only those of the batch.
        """
        other = self._namesake(item, prepared) if self._cases.paces.answers_by_id(prepared) else None
        if other is None or isinstance(prepared.job, EvalResult):
            return prepared
        identity = prepared.job.identity
        reason = (
            f"{locate(Path(other.location[0]), other.entry.line)} has the id {identity.eval_id!r} as well. Target "
            f"{identity.target!r} has `provider_batching` and answers by id, so in one folder each of its cases needs "
            "an id of its own"
        )
        broken = self._preparer.broken(item.suite, item.entry, item.nodeid, "config", reason)
        return prepared.replace(job=broken.job, folder=broken.folder)

    def begin(self, item: EvalItem, prepared: PreparedCase) -> Iterator[Begun]:
        """Begin the cases that share calls. Repeated cases share one call per answer."""
        cases = {item: prepared} | self._followers(item, prepared)
        for each, members in zip(cases, _members([*cases.values()], self._cases.paces.limit(prepared)), strict=True):
            yield self._cases.begin(each, cases[each], members)

    def _followers(self, item: EvalItem, prepared: PreparedCase) -> dict[EvalItem, PreparedCase]:
        """Return the other cases of an item's batch: those in its folder with the same target."""
        assert not isinstance(prepared.job, EvalResult)
        identity, folder = prepared.job.identity, item.path.parent
        candidates = [each for each in self._lookahead.of_batch(item, self._cases) if each.path.parent == folder]
        ids = {identity.eval_id}
        found: dict[EvalItem, PreparedCase] = {}
        for following in candidates:
            case = self._prepare(following, item)
            if isinstance(case.job, EvalResult) or case.job.identity.target != identity.target:
                continue
            eval_id = case.job.identity.eval_id
            if case.own.replace_target or self._is_unasked(case):
                continue
            if eval_id in ids or self.checked(following, case) is not case:
                continue  # of those with the same id, the second goes into the next batch
            ids.add(eval_id)
            found[following] = case
        return found

    def _namesake(self, item: EvalItem, prepared: PreparedCase) -> EvalItem | None:
        """Return another case in the folder with the same id and the same target."""
        assert not isinstance(prepared.job, EvalResult)
        target = prepared.job.identity.target
        same = self._by_id[item.path.parent, item.entry.eval_id]
        others = (each for each in same if each is not item)
        return next((each for each in others if self._preparer.target_of(each.suite, each.entry) == target), None)

    @cached_property
    def _by_id(self) -> dict[tuple[Path, str | None], list[EvalItem]]:
        """The items of each folder and id that are to run."""
        items: dict[tuple[Path, str | None], list[EvalItem]] = defaultdict(list)
        for item in self._lookahead.items:
            if isinstance(item, EvalItem) and item.get_closest_marker("skip") is None:
                items[item.path.parent, item.entry.eval_id].append(item)
        return items


def _members(cases: Sequence[PreparedCase], limit: int) -> list[tuple[BatchMember, ...]]:
    """Return the places of each case in the calls for its answers."""
    counts = [prepared.repeat for prepared in cases]
    batches = [Batch(sum(count > number for count in counts), limit) for number in range(max(counts))]
    return [tuple(BatchMember(batch, place) for batch in batches[:count]) for place, count in enumerate(counts)]
