"""Calls for many requests whose answers cannot be used, although they were paid for."""

from collections.abc import Sequence

from pytest_agentv.errors import ErrorKind, ProviderError
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse


class BatchError(ProviderError):
    """A call for many requests gave answers, but not one for each that can be told from the others."""

    def __init__(self, message: str, kind: ErrorKind, paid: Sequence[tuple[str, ProviderResponse]]) -> None:
        """`paid` are the answers that could be read, each with the id of its case."""
        super().__init__(message, kind)
        self.paid = tuple(paid)


def one_for_each(
    requests: Sequence[ProviderRequest], responses: Sequence[ProviderResponse]
) -> Sequence[ProviderResponse]:
    """Return the responses to some requests. Raises `BatchError` if there are more or fewer than requests."""
    if len(responses) == len(requests):
        return responses
    last = len(requests) - 1
    paid = [(requests[min(place, last)].eval_id, response) for place, response in enumerate(responses)]
    message = f"{len(requests)} requests were sent and {len(responses)} responses came back"
    raise BatchError(message, "crash", paid)
