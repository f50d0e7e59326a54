"""The cases, as rows: each article in several amounts. A function may read a database or a log as well."""

from collections.abc import Iterator
from typing import Any

from agent import PRICES


def rows() -> Iterator[dict[str, Any]]:
    for article, euros in PRICES.items():
        for pieces in (2, 5, 12):
            yield {"id": f"{pieces}-{article}", "article": article, "pieces": pieces, "total": euros * pieces}
