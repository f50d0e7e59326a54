"""The faults of `scripts/mutants.yaml` can be put into the package, wherever its modules lie."""

from collections import Counter
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
TABLE = yaml.safe_load((ROOT / "scripts" / "mutants.yaml").read_text("utf-8"))
FAULTS = [fault for faults in TABLE.values() for fault in faults]


def test_each_fault_has_one_place_in_the_package() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "pytest_agentv").rglob("*.py")]
    places = {fault["behaviour"]: sum(text.count(fault["old"]) for text in texts) for fault in FAULTS}
    assert {behaviour: count for behaviour, count in places.items() if count != 1} == {}


def test_hints_name_folders_of_the_corpus_and_acceptance_tests() -> None:
    tests = ROOT / "tests"
    words = {word for fault in FAULTS for word in fault.get("hint", "").split()}
    known = {
        *(path.name for path in (tests / "acceptance").glob("*.py")),
        *(path.name for path in (tests / "corpus").iterdir()),
    }
    assert words - known == set()


def test_there_are_fifteen_behaviours_of_each_subject() -> None:
    assert {subject: len(faults) for subject, faults in TABLE.items()} == dict.fromkeys(
        ("engine", "loading", "evaluators", "reporting"), 15
    )
    assert max(Counter(fault["behaviour"] for fault in FAULTS).values()) == 1
