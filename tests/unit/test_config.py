from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.references import (
    DEFAULT_GUIDELINE_PATTERNS,
    load_guideline_patterns,
    matches_guideline,
)


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "sub" / "evals").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def load(repo: Path) -> tuple[tuple[str, ...], list[str]]:
    patterns, problems = load_guideline_patterns(repo / "sub" / "evals", repo)
    assert all(problem.level == "warning" for problem in problems)
    return patterns, [str(problem) for problem in problems]


@pytest.mark.scenario("Use defaults when config absent")
def test_without_a_file_the_default_patterns_apply(repo: Path) -> None:
    assert load(repo) == (("**/*.instructions.md", "**/instructions/**", "**/*.prompt.md", "**/prompts/**"), [])


@pytest.mark.scenario("Load custom guideline patterns")
def test_the_file_beside_the_evals_comes_first(repo: Path) -> None:
    write(repo / "sub/evals/.agentv.yaml", "guideline_patterns: ['**/*.rules.md', docs/**]\n")
    write(repo / "sub/evals/.agentv/config.yaml", "guideline_patterns: [other]\n")
    assert load(repo) == (("**/*.rules.md", "docs/**", "sub/evals/docs/**"), [])


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("sub/evals/.agentv/config.yaml", ["sub/evals/mine", "sub/rules/*"]),
        ("sub/.agentv/config.yml", ["sub/mine", "rules/*"]),
        (".agentv/config.yaml", []),
    ],
)
def test_config_files_are_found_upward_from_the_evals(repo: Path, name: str, near: list[str]) -> None:
    write(repo / name, "$schema: agentv-config-v2\nguideline_patterns: [./mine, '!other', ../rules/*]\n")
    assert load(repo) == (("./mine", "!other", "../rules/*", *near), [])


def test_the_nearest_config_file_wins(repo: Path) -> None:
    write(repo / ".agentv/config.yaml", "guideline_patterns: [far]\n")
    write(repo / "sub/.agentv/config.yaml", "guideline_patterns: [near]\n")
    assert load(repo)[0] == ("near", "sub/near")


def test_a_file_beside_the_evals_is_not_looked_for_in_the_folders_above(repo: Path) -> None:
    write(repo / ".agentv.yaml", "guideline_patterns: [far]\n")
    assert load(repo)[0] == DEFAULT_GUIDELINE_PATTERNS


def test_an_empty_list_means_no_guidelines(repo: Path) -> None:
    write(repo / "sub/evals/.agentv.yaml", "guideline_patterns: []\n")
    assert load(repo) == ((), [])


def test_a_valid_file_without_patterns_means_the_default_ones(repo: Path) -> None:
    write(repo / "sub/.agentv/config.yaml", "$schema: agentv-config-v2\nguideline_patterns:\n")
    write(repo / ".agentv/config.yaml", "guideline_patterns: [far]\n")
    assert load(repo) == (DEFAULT_GUIDELINE_PATTERNS, [])


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "x: 1\n$schema: agentv-config-v1\n",
            "sub/evals/.agentv.yaml:2: $schema: expected agentv-config-v2, got the text 'agentv-config-v1'",
        ),
        (
            "- a\n",
            "sub/evals/.agentv.yaml:1: expected a mapping with the key guideline_patterns, got a list",
        ),
        (
            "# note\nguideline_patterns: '*.md'\n",
            "sub/evals/.agentv.yaml:2: guideline_patterns: expected a list of glob patterns, got the text '*.md'",
        ),
        (
            "guideline_patterns:\n  - a\n  - 5\n",
            "sub/evals/.agentv.yaml:3: guideline_patterns[1]: expected a glob pattern, got the number 5",
        ),
        (
            "guideline_patterns: [a]\nguideline_patterns: [b]\n",
            "sub/evals/.agentv.yaml:2: duplicate key 'guideline_patterns', first on line 1",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error(repo: Path, text: str, error: str) -> None:
    write(repo / "sub/evals/.agentv.yaml", text)
    write(repo / ".agentv/config.yaml", "guideline_patterns: [far]\n")
    (problem,) = load_guideline_patterns(repo / "sub" / "evals", repo).problems
    assert (str(problem), problem.level) == (error, "error")


def test_an_unknown_key_is_a_warning_with_the_nearest_known_one(repo: Path) -> None:
    write(repo / "sub/evals/.agentv.yaml", "guideline_paterns: [a]\nzzz: 1\n")
    assert load(repo) == (
        DEFAULT_GUIDELINE_PATTERNS,
        [
            "sub/evals/.agentv.yaml:1: guideline_paterns: unknown key (did you mean 'guideline_patterns'?)",
            "sub/evals/.agentv.yaml:2: zzz: unknown key (known keys: $schema, guideline_patterns)",
        ],
    )


@pytest.mark.scenario("Match files with glob patterns")
@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("a.instructions.md", "**/*.instructions.md", True),
        ("a/b/x.instructions.md", "**/*.instructions.md", True),
        ("/abs/x.instructions.md", "**/*.instructions.md", True),
        ("a\\b\\x.instructions.md", "**/*.instructions.md", True),
        ("./a.instructions.md", "**/*.instructions.md", False),
        ("../x/a.instructions.md", "**/*.instructions.md", False),
        (".x.instructions.md", "**/*.instructions.md", False),
        (".github/x.instructions.md", "**/*.instructions.md", False),
        (".github/x.instructions.md", ".github/**", True),
        ("A.INSTRUCTIONS.MD", "**/*.instructions.md", False),
        ("prompts/a.txt", "**/prompts/**", True),
        ("x/prompts/y/a.txt", "**/prompts/**", True),
        ("xprompts/a.txt", "**/prompts/**", False),
        ("a/b.x", "*.x", False),
        ("b.md", "{a,b}.md", True),
        ("c.md", "{a,b}.md", False),
        ("b.md", "[ab].md", True),
        ("ab.md", "+(a|b).md", True),
        ("docs/a.md", "./docs/*.md", True),
        ("a.txt", "!*.md", True),
        ("a.md", "!*.md", False),
        ("a.md", "!!*.md", True),
        ("docs/a b.md", "docs/a b.md", True),
        ("a5.md", "a{1..9}.md", True),
    ],
)
def test_patterns_match_as_in_agentv(path: str, pattern: str, expected: bool) -> None:
    assert matches_guideline(path, [pattern]) is expected


def test_one_matching_pattern_is_enough_and_none_matches_nothing() -> None:
    assert matches_guideline("a.md", ["*.txt", "*.md"])
    assert not matches_guideline("a.md", [])


def test_a_range_that_is_turned_around_gives_no_warning_of_python() -> None:
    assert matches_guideline("[.md", ["[z-a[].md"])


@given(st.text(), st.text("ab/*?[]{}()!@+|,.\\-^", max_size=12))
def test_no_pattern_breaks_matching(path: str, pattern: str) -> None:
    assert matches_guideline(path, [pattern]) in (True, False)
