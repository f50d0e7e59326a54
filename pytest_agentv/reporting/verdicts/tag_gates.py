"""Gates by tag: the ini key `agentv_gates`."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from pytest_agentv.loading.problems import did_you_mean
from pytest_agentv.models.base import Record
from pytest_agentv.models.options.values import parse_pass_rate
from pytest_agentv.models.records import record
from pytest_agentv.models.text import counted
from pytest_agentv.reporting.verdicts.cases import JudgedCase, values_of
from pytest_agentv.reporting.verdicts.columns import percent

Tier: TypeAlias = Literal["critical", "advisory"]
_TIERS: Final[tuple[Tier, ...]] = ("critical", "advisory")
_WORDS: Final = ("min_rate", "tier")
_SLACK: Final = 1e-9


@record
class TagGate(Record):
    """The pass rate that the cases with a tag must reach."""

    tag: str
    min_rate: float
    tier: Tier = "critical"
    """An `advisory` gate is shown, but never fails the run."""


@record
class RateCheck(Record):
    """The pass rate of a part of a run, and the rate that it must reach."""

    name: str
    """`gate::<tag>`, `gate::run`."""
    rate: float | None
    """None: no case could be judged."""
    min_rate: float
    n: int
    tier: Tier = "critical"

    @property
    def is_reached(self) -> bool:
        return self.rate is not None and self.rate + _SLACK >= self.min_rate

    @property
    def text(self) -> str:
        if self.rate is None:
            return f"no case could be judged; {percent(self.min_rate)} must pass"
        relation = "reaches" if self.is_reached else "is below"
        cases = counted(self.n, "case")
        others = (0.0, 1.0, self.rate) if self.is_reached else (0.0, 1.0)  # "66.67 % reaches 66.7 %" would be odd
        wanted = percent(self.min_rate, others) + (" (advisory)" if self.tier == "advisory" else "")
        return f"the pass rate {percent(self.rate, (0.0, 1.0, self.min_rate))} of {cases} {relation} {wanted}"


def parse_tag_gates(lines: Iterable[str]) -> tuple[TagGate, ...]:
    """Read lines such as `booking: min_rate=0.9 tier=critical`. Raises `ValueError` with all faults."""
    gates: dict[str, TagGate] = {}
    faults: list[str] = []
    for line in filter(None, (line.strip() for line in lines)):
        try:
            gate = _parse(line)
            if gate.tag in gates:
                raise ValueError(f"the tag {gate.tag!r} has two gates")
            gates[gate.tag] = gate
        except ValueError as error:
            faults.append(f"{line!r}: {error}")
    if faults:
        raise ValueError("; ".join(faults))
    return tuple(gates.values())


def unmatched_tags(gates: Iterable[TagGate], tags: Collection[str]) -> str | None:
    """Return the gates without any case; None: each gate has one."""
    faults = []
    for gate in gates:
        if gate.tag not in tags:
            hint = did_you_mean(gate.tag, tags)
            faults.append(f"no case has the tag {gate.tag!r}{f' ({hint})' if hint else ''}")
    return "; ".join(faults) or None


def check_tags(gates: Iterable[TagGate], cases: Sequence[JudgedCase]) -> list[RateCheck]:
    """Check the cases of each tag against its gate. Cases that could not be judged do not count."""
    return [
        rate_check(f"gate::{gate.tag}", gate.min_rate, [case for case in cases if gate.tag in case.tags], gate.tier)
        for gate in gates
    ]


def rate_check(name: str, min_rate: float, cases: Iterable[JudgedCase], tier: Tier = "critical") -> RateCheck:
    values = values_of([case for case in cases if case.scores])
    return RateCheck(name, math.fsum(values) / len(values) if values else None, min_rate, len(values), tier)


def _parse(line: str) -> TagGate:
    tag, _, rest = (part.strip() for part in line.rpartition(": "))
    if not tag:
        raise ValueError("expected `<tag>: min_rate=<0 to 1> tier=<critical or advisory>`")
    pairs = [_word(word) for word in rest.split()]
    words = dict(pairs)
    if twice := [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]:
        raise ValueError(f"{' and '.join(twice)} {'is' if len(twice) == 1 else 'are'} given twice: expected once")
    if "min_rate" not in words:
        raise ValueError("min_rate is missing")
    tier = words.get("tier", "critical")
    known: Mapping[str, Tier] = {each: each for each in _TIERS}
    if tier not in known:
        hint = did_you_mean(tier, _TIERS)
        raise ValueError(f"unknown tier {tier!r}: expected {' or '.join(_TIERS)}{f' ({hint})' if hint else ''}")
    return TagGate(tag, parse_pass_rate(words["min_rate"]), known[tier])


def _word(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if name not in _WORDS or not equals:
        hint = did_you_mean(name, _WORDS)
        raise ValueError(f"unknown word {text!r}: expected min_rate=… or tier=…{f' ({hint})' if hint else ''}")
    return name, value
