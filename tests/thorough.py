"""How much of what never ends, such as kills and random input, is tried: little by default, more when asked for."""

import os
from typing import Final

THOROUGH: Final = os.environ.get("AGENTV_TEST_THOROUGH") == "1"


def tries(usual: int, thorough: int) -> int:
    return thorough if THOROUGH else usual
