"""Which tests of this project workers run first."""

from pathlib import Path

import pytest
import scheduling

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("module", sorted(scheduling.IMPORTING_LITELLM | scheduling.WAITING))
def test_a_module_that_begins_early_is_there(module: str) -> None:
    assert (ROOT / module).is_file()
    assert scheduling.begins_early(ROOT, f"{module}::test_one")
    assert not scheduling.begins_early(ROOT, "tests/unit/test_text.py::test_one")
