"""Texts of values as AgentV (a JavaScript program) writes them."""

import json
import math
import re
from decimal import ROUND_HALF_UP, Decimal

from pytest_agentv.models.base import Json


def compact_json(value: Json) -> str:
    """JSON on one line without spaces, as in results files."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def pretty_json(value: Json) -> str:
    """JSON indented by two spaces, as in prompts."""
    return json.dumps(value, ensure_ascii=False, indent=2)


def format_number(value: float) -> str:
    """A number as JavaScript prints it: `1` for 1.0, `0.5` for 0.5, `1e-7` for 1e-07."""
    number = float(value)
    if math.isfinite(number) and number.is_integer() and abs(number) < 1e21:
        return str(int(number))
    return re.sub(r"e([+-])0*", r"e\1", repr(number))


def format_fixed(value: float, digits: int) -> str:
    """A number with fixed decimals, ties rounded away from zero: 0.125 gives 0.13."""
    step = Decimal(1).scaleb(-digits)
    return str(Decimal(value).quantize(step, rounding=ROUND_HALF_UP))
