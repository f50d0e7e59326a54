"""Quantiles and tails of the normal and of Student's t distribution."""

import functools
import math
from statistics import NormalDist
from typing import Final

LEVEL: Final = 0.95
"""The confidence level of all intervals."""
Z: Final = NormalDist().inv_cdf(0.5 + LEVEL / 2)
"""Two-sided normal quantile at `LEVEL`, 1.95996."""
Z_POWER: Final = NormalDist().inv_cdf(0.8)
"""Normal quantile of the power of 0.8: a drop is seen in 4 of 5 runs."""

_TINY: Final = 1e-300
_EPSILON: Final = 1e-16
_MAX_STEPS: Final = 10_000


@functools.lru_cache(maxsize=1024)
def t_quantile(probability: float, df: float) -> float:
    """Return the t value below which a share `probability` (0.5 to 1) lies, with `df` > 0 degrees of freedom.

    Bisection on the tail to the last bit of a float, so that no starting value matters.
    """
    tail = 1.0 - probability
    low, high = 0.0, 1.0
    while t_upper_tail(high, df) > tail:
        low, high = high, high * 2
    while (middle := (low + high) / 2) not in (low, high):
        if t_upper_tail(middle, df) > tail:
            low = middle
        else:
            high = middle
    return high


def t_upper_tail(t: float, df: float) -> float:
    """Return P(T > t). Source: Abramowitz and Stegun 26.7.1, through the incomplete beta function."""
    half = 0.5 * incomplete_beta(df / 2, 0.5, df / (df + t * t))
    return half if t >= 0 else 1.0 - half


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b). Source: Abramowitz and Stegun 26.5.8."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * _continued_fraction(a, b, x) / a
    return 1.0 - front * _continued_fraction(b, a, 1 - x) / b


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Evaluate the fraction of `incomplete_beta`. Source: Lentz 1976, as modified by Thompson and Barnett 1986."""
    c, d = 1.0, 1.0 / _not_zero(1.0 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, _MAX_STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / _not_zero(1.0 + term * d)
            c = _not_zero(1.0 + term / c)
            result *= c * d
        if abs(c * d - 1.0) < _EPSILON:
            break
    return result


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
