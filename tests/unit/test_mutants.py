"""The faults of `scripts/mutants.yaml` can be put into the package, wherever its modules lie."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
MUTANTS = ROOT / "scripts" / "mutants.yaml"
TABLE = yaml.safe_load(MUTANTS.read_text("utf-8")) if MUTANTS.exists() else {}
FAULTS = [fault for faults in TABLE.values() for fault in faults]

pytestmark = pytest.mark.skipif(not MUTANTS.exists(), reason="only the checkout has the scripts")


def test_each_fault_has_one_place_in_the_package() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "pytest_agentv").rglob("*.py")]
    places = {fault["behaviour"]: sum(text.count(fault["old"]) for text in texts) for fault in FAULTS}
    assert {behaviour: count for behaviour, count in places.items() if count != 1} == {}
