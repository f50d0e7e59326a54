"""The axes of plots: map values to positions, and choose ticks."""

import math
from collections.abc import Callable

from pytest_agentv.models.records import record


@record
class Axis:
    """Maps a share to percent of the width."""

    low: float
    ticks: tuple[tuple[float, str], ...]

    @classmethod
    def percents(cls, lowest: float) -> "Axis":
        """Return an axis from the tenth below the lowest share to 100 %."""
        low = min(0.9, max(0.0, math.floor((lowest - 0.02) * 10) / 10))
        step = 1 if low >= 0.6 else 2 if low >= 0.2 else 5
        first = math.ceil(low * 10 / step) * step
        marks = [tenth / 10 for tenth in range(first, 11, step)]
        return cls(low, tuple((round(100 * (m - low) / (1 - low), 2), f"{m * 100:.0f} %") for m in marks))

    def at(self, share: float) -> float:
        return round(100 * (share - self.low) / (1 - self.low), 2)


def log_ticks(low: float, high: float, say: Callable[[float], str]) -> tuple[tuple[float, str], ...]:
    """Return at most four ticks of a logarithmic axis, or its ends if no round number is between them."""
    values = [m * 10.0**e for e in range(math.floor(low), math.ceil(high) + 1) for m in (1, 2, 5)]
    inside = [value for value in values if low <= math.log10(value) <= high] or [10**low, 10**high]
    inside = inside[:: max(1, math.ceil(len(inside) / 4))]
    return tuple((round(100 * (math.log10(value) - low) / (high - low), 1), say(value)) for value in inside)
