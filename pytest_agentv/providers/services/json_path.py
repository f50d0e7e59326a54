"""Paths into JSON, the part of JSONPath (RFC 9535) that names places: `$.choices[0].text`, `$.sources[*].url`.

Paths have names, numbers from the start or the end, and all entries; no filters, slices or searches. A `?` at the end,
our own extension, marks a place that may be missing.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.models.base import ABSENT, Absent, Json
from pytest_agentv.models.masking.secrets import beginning, masked
from pytest_agentv.models.text import compact_json, counted

_STEP: Final = re.compile(
    r"\.(?P<name>[^\W\d][\w-]*)|\.\*|\[\s*(?P<index>-?\d{1,9})\s*\]|\[\s*\*\s*\]"
    r"|\[\s*'(?P<single>[^']+)'\s*\]|\[\s*\"(?P<double>[^\"]+)\"\s*\]"
)
_PLAIN_NAME: Final = re.compile(r"[^\W\d][\w-]*")
_SHOWN_KEYS: Final = 8
_SHOWN: Final = 60


class Step(NamedTuple):
    """One step: a name, a number, or all entries (None)."""

    to: str | int | None


class MissingPathError(Exception):
    """Nothing is at a path. The text names the nearest place that exists."""


class JsonPath(NamedTuple):
    """A parsed path."""

    text: str
    steps: tuple[Step, ...]
    is_optional: bool

    def find(self, data: Json) -> Json | Absent:
        """Return the value at the path. With `*`, return a list of all values; `ABSENT` for a missing optional place.

        An entry without an optional place is left out. Raises `MissingPathError`.
        """
        try:
            return _find(data, self.steps, "$", self.is_optional)
        except MissingPathError as error:
            if self.is_optional:
                return ABSENT
            raise MissingPathError(f"there is no {self.text}: {error}") from None

    @property
    def depth(self) -> int:
        """How deep the values lie in lists: 1 for each `*`."""
        return sum(to is None for (to,) in self.steps)


def parse_path(text: str) -> JsonPath:
    """Read a path. Raises `ValueError`."""
    written = text.strip()
    path = written.removesuffix("?")
    if not path.startswith("$"):
        raise ValueError(f"expected a path such as $.choices[0].text, got {text!r}")
    steps, at = [], 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise ValueError(
                f"{path[at:]!r} of the path {text!r} is no step: expected .name, ['name'], [0], [-1] or [*]"
            )
        name = found["name"] or found["single"] or found["double"]
        steps.append(Step(name or (None if found["index"] is None else int(found["index"]))))
        at = found.end()
    return JsonPath(path, tuple(steps), written != path)


def _find(data: Json, steps: Sequence[Step], where: str, is_optional: bool) -> Json:
    for position, (to,) in enumerate(steps):
        if to is None:
            found, rest = [], steps[position + 1 :]
            for key, item in _entries(data, where):
                with suppress(*[MissingPathError] if is_optional else ()):
                    found.append(_find(item, rest, f"{where}{_shown(key)}", is_optional))
            return found
        data = _step(data, to, where)
        where += _shown(to)
    return data


def _entries(data: Json, where: str) -> list[tuple[str | int, Json]]:
    if isinstance(data, list):
        return list(enumerate(data))
    if isinstance(data, dict):
        return list(data.items())
    raise MissingPathError(f"{where} is {_describe(data)}, no list")


def _step(data: Json, to: str | int, where: str) -> Json:
    if isinstance(to, int) and isinstance(data, list):
        if -len(data) <= to < len(data):
            return data[to]
        raise MissingPathError(f"{where} has {counted(len(data), 'entry', 'entries') if data else 'no entries'}")
    if isinstance(to, str) and isinstance(data, dict):
        if to in data:
            return data[to]
        hint = did_you_mean(to, data)
        raise MissingPathError(f"{where} has {_keys(list(data))}" + (f" ({hint})" if hint else ""))
    raise MissingPathError(f"{where} is {_describe(data)}")


def _shown(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    return f".{step}" if _PLAIN_NAME.fullmatch(step) else f"[{_cut(step)!r}]"


def _keys(keys: list[str]) -> str:
    shown = ", ".join(repr(_cut(key)) for key in keys[:_SHOWN_KEYS])
    rest = ", …" if len(keys) > _SHOWN_KEYS else ""
    return f"the keys {shown}{rest}" if keys else "no keys"


def _describe(data: Json) -> str:
    if isinstance(data, dict):
        return f"a mapping with {_keys(list(data))}"
    if isinstance(data, list):
        return f"a list of {len(data)}"
    text = compact_json(data)
    return beginning(text, _SHOWN)


def _cut(text: str) -> str:
    """Return the beginning of a text. Masks secrets before it cuts."""
    return text if len(text) <= _SHOWN else masked(text)[:_SHOWN]
