"""Decodes the bodies of replies, and checks that they are complete: aiohttp accepts cut ones."""

import zlib
from collections.abc import Iterator
from typing import Final

ACCEPTED: Final = "gzip, deflate"
"""The encodings that requests ask for."""
_NAMES: Final = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate"}
_REFUSED: Final = frozenset(("br", "zstd", "compress"))
_GZIP_BITS: Final = 16 + zlib.MAX_WBITS
_GZIP_MARK: Final = b"\x1f\x8b"
_DEFLATED: Final = 8
"""The lower half of the first byte in zlib's format. Some servers send the data without that format."""
_PIECE: Final = 2**20


class Decoder:
    """Decodes one body piece by piece. A name that means no encoding, such as `identity`, leaves the body unchanged."""

    def __init__(self, encoding: str) -> None:
        """Take the name of an encoding. Raises `ValueError` for one that was not requested."""
        name = encoding.strip().lower()
        if name in _REFUSED:
            raise ValueError(f"its content-encoding is {name!r}, and {ACCEPTED} were asked for")
        self._name = _NAMES.get(name)
        self._inner: zlib._Decompress | None = None

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield the next pieces, of at most 1 MiB each. Raises `ValueError` for data in another encoding."""
        if self._name is None:
            yield data
            return
        while data:
            if self._inner is None or (self._inner.eof and _GZIP_MARK.startswith(data[:2])):
                self._inner = zlib.decompressobj(self._bits(data))
            elif self._inner.eof:
                return  # some servers append padding
            yield from self._pieces(self._inner, data)
            data = self._inner.unused_data

    def check_whole(self) -> None:
        """Raises `ValueError` if the body ended early."""
        if self._inner is not None and not self._inner.eof:
            raise ValueError(f"its {self._name} ends early")

    def _pieces(self, inner: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
        is_full = True
        while data or is_full:
            try:
                piece = inner.decompress(data, _PIECE)
            except zlib.error as error:
                raise ValueError(f"it is no {self._name}: {error}") from None
            data, is_full = inner.unconsumed_tail, len(piece) == _PIECE
            yield piece

    def _bits(self, data: bytes) -> int:
        if self._name == "gzip":
            return _GZIP_BITS
        return zlib.MAX_WBITS if data[0] & 0xF == _DEFLATED else -zlib.MAX_WBITS
