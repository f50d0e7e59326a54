"""The hash of a case: a kept result is valid as long as it stays the same."""

from pathlib import Path

import pytest

from pytest_agentv.cases.cases import load_case
from pytest_agentv.cases.references import LoadContext
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.store.fingerprints import CaseHashes

CASE = "{id: a, criteria: ok, input: 'hi {{ tone }}', vars: {tone: '-'}, evaluators: [{contains: hi}]}"


@pytest.fixture
def hashes_of(tmp_path):
    def hashes_of(header: str, case: str = CASE) -> dict[str | None, str]:
        """Return the hash of each combination of a case, by its target and variables."""
        for name in ("one.md", "two.md"):
            (tmp_path / name).write_text(f"Prompt {name}", "utf-8")
        path = tmp_path / "a.eval.yaml"
        path.write_text(f"{header}\nevalcases: [{case}]\n", "utf-8")
        suite, context = read_suite(path), LoadContext(tmp_path, Path.cwd(), evaluators=EVALUATORS)
        hashes = CaseHashes()
        loaded = ((entry, load_case(suite, entry, context)) for entry in suite.entries)
        return {
            entry.combination and entry.combination.name: hashes.of(suite, each, each.case) for entry, each in loaded
        }

    return hashes_of


def test_the_targets_of_a_file_do_not_count_because_each_result_names_its_own(hashes_of):
    usual = hashes_of("")[None]
    assert hashes_of("target: gpt") == {None: usual}
    assert hashes_of("execution: {target: gpt}") == {None: usual}
    assert hashes_of("execution: {targets: [gpt]}") == {"gpt": usual}
    assert hashes_of("execution: {targets: [gpt, claude]}") == {"gpt": usual, "claude": usual}
    assert hashes_of("matrix: {target: [gpt, claude]}") == {"gpt": usual, "claude": usual}
    assert hashes_of("", CASE.replace("{id", "{target: gpt, id")) == {None: usual}


@pytest.mark.parametrize("axis", ["tone: [kind, curt]", "prompt: [one.md, two.md]"])
def test_a_combination_counts_by_its_own_values_only(hashes_of, axis):
    two = hashes_of(f"matrix: {{{axis}}}")
    first = axis.replace(", curt", "").replace(", two.md", "")
    assert hashes_of(f"matrix: {{{first}}}").items() < two.items()
    assert len(set(two.values())) == 2


@pytest.mark.parametrize(
    ("header", "case"),
    [("vars: {more: 1}", CASE), ("input_files: [one.md]", CASE), ("", CASE.replace("hi {{", "Hi {{"))],
)
def test_what_is_asked_counts(hashes_of, header, case):
    assert hashes_of(header, case) != hashes_of("")
