"""A message to an executor: a job, its needs, and files that the worker lacks."""

from pytest_agentv.executors.shipping.packing import pack, unpack
from pytest_agentv.executors.shipping.roots import Spot
from pytest_agentv.models.base import Record
from pytest_agentv.models.records import record


@record
class Parcel(Record):
    """One message to a worker."""

    job: bytes | None = None
    """A packed `CaseJob`; None: the parcel only brings bundles."""
    probe: Spot | None = None
    """The eval file. A worker that gets no bundles looks for it."""
    needs: tuple[str, ...] = ()
    """The digests of the bundles that hold the job's files."""
    bundles: tuple[tuple[str, bytes], ...] = ()
    """The missing bundles, as digests with bytes."""

    def to_bytes(self) -> bytes:
        return pack(self)

    @staticmethod
    def from_bytes(data: bytes) -> "Parcel":
        """Unpack a parcel. Raises `JobRefused`."""
        parcel: Parcel = unpack(data)
        return parcel
