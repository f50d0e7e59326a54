"""The sender's side: packs jobs into parcels, and sends missing bundles to workers."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pytest_agentv.engine.jobs import CaseJob
from pytest_agentv.engine.targets.judging import embedding_targets, evaluators_of
from pytest_agentv.engine.targets.pool import TargetPool
from pytest_agentv.errors import AgentvError
from pytest_agentv.executors.base import CaseExecutor, Reply, WorkerLost
from pytest_agentv.executors.shipping.bundle import Bundle, BundleTooLarge, make_bundle
from pytest_agentv.executors.shipping.ignoring import ShippingRules
from pytest_agentv.executors.shipping.needs import Needs, NeedsFinder
from pytest_agentv.executors.shipping.packing import pack
from pytest_agentv.executors.shipping.parcel import Parcel
from pytest_agentv.executors.shipping.roots import Roots
from pytest_agentv.loading.targets.definitions import TargetsFile
from pytest_agentv.models.targets import Target
from pytest_agentv.providers.table import KINDS
from pytest_agentv.runtime.threads import run_in_thread

_ROUNDS: Final = 3
"""How many times bundles are sent separately. If other workers get them each time, they are sent with the job."""


class Shipper:
    """Sends jobs to an executor. Used on the event loop.

    A job is sent with the digests of its bundles. A worker that lacks some says so before it starts the job. Then that
    worker gets them once, and the job again, all under one ticket. An executor of a hook may send them to another
    worker, so they may be sent again.
    """

    def __init__(self, roots: Roots, pool: TargetPool, rules: ShippingRules | None, cache: Path | None = None) -> None:
        """Prepare a shipper.

        `rules` are for files that are shipped; None: workers see the files. `cache` holds cached answers.
        """
        self.roots = roots
        self._pool = pool
        self._rules = rules
        self._needs = None if rules is None else NeedsFinder(roots, rules)
        self._kept = () if cache is None else (str(cache),)
        self._making = asyncio.Lock()
        self._made: dict[tuple[str, ...], Bundle | BundleTooLarge] = {}
        self._bundles: dict[str, Bundle] = {}
        self._bringing = asyncio.Lock()
        self._brought: set[tuple[str, str]] = set()
        """Workers with the digests of bundles that they have."""

    async def parcel(self, job: CaseJob) -> Parcel:
        """Return the parcel of a job. Raises `JobRefused`, `OutsideProject` and `BundleTooLarge`."""
        data = pack(job, self.roots)
        probe = self.roots.spot(job.case.path)
        if self._rules is None or self._needs is None:
            return Parcel(data, probe)
        file, targets = self._targets(job)
        needs = self._needs.find(job, file, targets)
        return Parcel(data, probe, await self._digests_of(needs, self._rules))

    async def ask(self, executor: CaseExecutor, ticket: str, parcel: Parcel) -> Reply:
        """Have a worker run a job, after sending its missing files. Raises like `CaseExecutor.ask`."""
        for _ in range(_ROUNDS):
            reply = await executor.ask(ticket, parcel.to_bytes())
            if not reply.missing:
                return reply
            await self._bring(executor, ticket, reply)
        whole = parcel.replace(bundles=self._with_data(parcel.needs))
        return await executor.ask(ticket, whole.to_bytes())

    def kinds(self, job: CaseJob) -> frozenset[str]:
        """Return the kinds of the targets that a job may ask, and the built-in kinds in their file."""
        file, targets = self._targets(job)
        if file is None:
            return frozenset()
        named = {job.identity.target, *(target.judge_target for target in targets)}
        written = {each.kind for each in file.definitions if each.name in named or each.kind in KINDS.table}
        return frozenset(written | {target.kind for target in targets})

    def bundle(self, digest: str) -> Bundle:
        """Return the bundle with a digest, which a parcel has named."""
        return self._bundles[digest]

    async def _bring(self, executor: CaseExecutor, ticket: str, reply: Reply) -> None:
        """Send missing bundles to a worker, unless another job has sent them meanwhile."""
        async with self._bringing:
            lacking = [digest for digest in reply.missing if (reply.worker, digest) not in self._brought]
            if not lacking:
                return
            with suppress(WorkerLost):  # nothing was paid for, and the job itself will report it
                parcel = Parcel(bundles=self._with_data(lacking))
                there = await executor.ask(ticket, parcel.to_bytes())
                self._brought |= {(there.worker, digest) for digest in lacking}

    def _with_data(self, digests: Iterable[str]) -> tuple[tuple[str, bytes], ...]:
        return tuple((digest, self._bundles[digest].data) for digest in digests)

    async def _digests_of(self, needs: Needs, rules: ShippingRules) -> tuple[str, ...]:
        groups = [(folder,) for folder in (*needs.folders, *self._kept)] + ([needs.files] if needs.files else [])
        return tuple([await self._digest(group, rules) for group in groups])

    async def _digest(self, places: tuple[str, ...], rules: ShippingRules) -> str:
        """Return the digest of the bundle of some places. Each is packed once in a run."""
        async with self._making:
            if places not in self._made:
                self._made[places] = await run_in_thread(lambda: self._make(places, rules), "agentv-bundle")
        bundle = self._made[places]
        if isinstance(bundle, BundleTooLarge):
            raise bundle
        self._bundles[bundle.digest] = bundle
        return bundle.digest

    def _make(self, places: tuple[str, ...], rules: ShippingRules) -> Bundle | BundleTooLarge:
        try:
            return make_bundle(places, self.roots, rules)
        except BundleTooLarge as error:
            return error

    def _targets(self, job: CaseJob) -> tuple[TargetsFile | None, list[Target]]:
        """Return the targets file of a job, and its targets that can be resolved here.

        A worker may have variables that this process lacks.
        """
        folder, evaluators = job.case.folder, evaluators_of(job.case)
        try:
            file = self._pool.file(folder)
        except AgentvError:
            return None, []
        names = [job.identity.target, *embedding_targets(evaluators)]
        if any(member.calls_targets for each in evaluators for member in each.walk()):
            names += file.names
        found: dict[str, Target] = {}
        while names:
            name = names.pop()
            if name in found:
                continue
            with suppress(AgentvError, OSError):
                found[name] = self._pool.definition(folder, name)
                names += filter(None, [found[name].judge_target])
        return file, list(found.values())
