"""`--agentv-sample`: some of the selected cases, the same ones in each process and in each run."""

from collections.abc import Callable, Sequence

import pytest

from pytest_agentv.loading.tables.sampling import sample


def left_out(
    items: Sequence[pytest.Item], size: int, is_case: Callable[[pytest.Item], bool]
) -> tuple[pytest.Item, ...]:
    """Return the cases that are not in the sample. Other items are kept."""
    cases = [item for item in items if is_case(item)]
    chosen = sample([item.nodeid for item in cases], size)
    return tuple(case for index, case in enumerate(cases) if index not in chosen)
