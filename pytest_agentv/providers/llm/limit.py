"""Limits the replies that litellm reads.

Limits their bytes: a compressed reply of 100 kB may hold 100 MB. Follows no redirect to another server, which would get
the key and the question.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from pytest_agentv.runtime.reading import READ_LIMIT

_IS_OURS: Final[ContextVar[bool]] = ContextVar("agentv_limits_reply", default=False)
"""Set during requests of targets only. An agent under test may use litellm in the same process."""


class ReplyTooLargeError(Exception):
    """A reply has more bytes than the limit."""

    def __init__(self) -> None:
        super().__init__(f"it has more than {READ_LIMIT // 2**20} MiB")


@contextmanager
def limited_replies() -> Iterator[None]:
    """Limit the replies to requests made in this block."""
    token = _IS_OURS.set(True)
    try:
        yield
    finally:
        _IS_OURS.reset(token)


def limit_transports(handler: Any) -> None:
    """Make a class of litellm (`AsyncHTTPHandler`) create transports with the limit."""
    for name in ("create_async_transport", "_create_async_transport"):  # the name depends on the version
        create = getattr(handler, name, None)
        if create is not None:
            setattr(handler, name, staticmethod(_limiting(create)))


def _limiting(create: Callable[..., Any]) -> Callable[..., Any]:
    def create_limited(*args: Any, **keywords: Any) -> Any:
        transport = create(*args, **keywords)
        if transport is not None and not hasattr(transport, "agentv_is_limited"):
            transport.handle_async_request = _limited(transport.handle_async_request)
            transport.agentv_is_limited = True
        return transport

    return create_limited


def _limited(handle: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    async def handle_limited(request: Any) -> Any:
        response = await handle(request)
        if _IS_OURS.get():
            # The limit is for the decompressed size, which only the decoder of httpx knows.
            response._decoder = _LimitedDecoder(response._get_content_decoder())
            if _leads_elsewhere(request, response):
                del response.headers["location"]  # httpx cannot follow a redirect without a location
        return response

    return handle_limited


def _leads_elsewhere(request: Any, response: Any) -> bool:
    """Whether a reply redirects to another server."""
    place = response.headers.get("location")
    if place is None:
        return False
    try:
        url = request.url.join(place)
    except Exception:  # noqa: BLE001 - an exception of httpx, which is not imported here: nobody can follow such a location
        return True
    return _origin(url) != _origin(request.url)


def _origin(url: Any) -> tuple[str, str, int | None]:
    """Return the server of a URL of httpx, which leaves out a default port."""
    return url.scheme, url.host, url.port


class _LimitedDecoder:
    """Counts the bytes of a decoder of httpx."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._size = 0

    def decode(self, data: bytes) -> bytes:
        return self._count(self._decoder.decode(data))

    def flush(self) -> bytes:
        return self._count(self._decoder.flush())

    def _count(self, data: bytes) -> bytes:
        self._size += len(data)
        if self._size > READ_LIMIT:
            raise ReplyTooLargeError
        return data
