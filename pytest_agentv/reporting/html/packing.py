"""Packs the data of the cases: gzip, then base64, which cannot hold `</script>`."""

import base64
import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from pytest_agentv.models.base import Json, JsonObject, Record
from pytest_agentv.models.records import record
from pytest_agentv.reporting.html.cases import STATUSES, Case
from pytest_agentv.reporting.html.history import Past
from pytest_agentv.reporting.html.opened.commands import Commands
from pytest_agentv.reporting.html.opened.details import detail_of
from pytest_agentv.reporting.html.opened.gallery import Gallery
from pytest_agentv.reporting.html.overview import reasons, reasons_of

CHUNK: Final = 50
"""The number of cases in a block. Only the block of an opened case is unpacked."""

_PLACES: Final = 4


@record
class Block(Record):
    """Data in the page, under an id."""

    id: str
    text: str


def blocks(
    cases: Sequence[Case], history: Mapping[str, Sequence[Past]], gallery: Gallery, commands: Commands
) -> Iterator[Block]:
    """Yield the list of the cases, then their details in blocks."""
    chunks = range(0, len(cases), CHUNK)
    yield Block("index", _packed(index_of(cases) | {"chunk": CHUNK, "chunks": len(chunks)}))
    for number, start in enumerate(chunks):
        shown = cases[start : start + CHUNK]
        details = [detail_of(case, history.get(case.key, ()), gallery, commands) for case in shown]
        yield Block(f"d{number}", _packed(details))


def index_of(cases: Sequence[Case]) -> dict[str, Json]:
    """Return the data of the list: each name once, and a short row for each case."""
    files = _Names(case.file for case in cases)
    tags = _Names(tag for case in cases for tag in case.judged.tags)
    targets = _Names(case.target for case in cases)
    evaluators = _Names(each.name for case in cases for each in case.judgements if each.depth == 0)
    frequent = _Names(reason.name for reason in reasons(cases))
    rows = [
        [
            case.id,
            case.key,
            files.number(case.file),
            [tags.number(tag) for tag in case.judged.tags],
            targets.number(case.target),
            STATUSES.index(case.status),
            round(case.score, _PLACES),
            case.judged.threshold,
            None if case.cost is None else round(case.cost, 6),
            None if case.duration_ms is None else round(case.duration_ms),
            case.marks,
            case.why,
            [evaluators.number(each.name) for each in case.low],
            "" if case.change is None else case.change.word,
            None if case.change is None or case.change.delta is None else round(case.change.delta, _PLACES),
            [frequent.number(name) for name in reasons_of(case) if name in frequent.all],
        ]
        for case in cases
    ]
    names = {"files": files, "tags": tags, "targets": targets, "evaluators": evaluators, "reasons": frequent}
    return {key: found.all for key, found in names.items()} | {"rows": rows}


class _Names:
    """Names by number, sorted."""

    def __init__(self, names: Iterator[str]) -> None:
        self.all = sorted(set(names))
        self._numbers = {name: number for number, name in enumerate(self.all)}

    def number(self, name: str) -> int:
        return self._numbers[name]


def _packed(value: list[JsonObject] | dict[str, Json]) -> str:
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:  # other tools write NaN and Infinity, which browsers refuse
        text = json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None), separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 7, mtime=0)).decode()
