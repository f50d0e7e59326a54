"""Files that eval files name: where they are looked for, how they are read, and which of them are guidelines."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.references import References, matches_guideline
from pytest_agentv.files.places import Place
from pytest_agentv.files.source import Source
from pytest_agentv.runtime.files import read_regular_file
from pytest_agentv.targets.definitions import load_guideline_patterns

EVAL_FILE = Path("evals/deep/qa.eval.yaml")


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evals" / "deep").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def references(repo: Path) -> References:
    return References(repo / "evals" / "deep", repo, repo, ("**/*.instructions.md",))


@pytest.fixture
def place(repo: Path) -> Place:
    return Place(Source(repo / EVAL_FILE, {"file": "x"}, "file: x\n", {("file",): 7}), ("file",), [])


def test_files_are_found_in_the_nearest_folder(repo: Path, references: References) -> None:
    (repo / "cwd").mkdir()
    for folder in ("cwd", ".", "evals", "evals/deep"):
        (repo / folder / "a.md").write_text("x")
        found = References(repo / "evals" / "deep", repo, repo / "cwd").find("a.md")
        assert found.path == repo / folder / "a.md"
    assert references.find("../a.md").path == repo / "evals" / "a.md"
    absolute = references.find(str(repo / "a.md"))
    assert absolute.path == repo / "a.md"
    slash = references.find("/docs/x.md")  # relative to the folders too
    below = [repo / folder / "docs/x.md" for folder in ("evals/deep", "evals", ".")]
    assert (slash.path, slash.searched) == (None, (Path("/docs/x.md"), *below))


def test_what_is_no_file_or_no_folder_is_an_error_with_its_reason(
    repo: Path, references: References, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    (repo / "evals" / "a.md").write_text("x")
    os.mkfifo(repo / "pipe.md")
    monkeypatch.setattr(Path, "read_bytes", deny)
    read, find = references.read, references.find_folder
    assert [*(read(name, place) for name in ("docs/no.md", "deep", "a.md", "pipe.md")), find("a.md", place)] == [
        None
    ] * 5
    assert find("deep", place) == repo / "evals" / "deep"
    assert [str(problem) for problem in place.problems] == [
        f"evals/deep/qa.eval.yaml:7: file: {told}"
        for told in (
            "file 'docs/no.md' was not found; searched: evals/deep/docs/no.md, evals/docs/no.md, docs/no.md",
            "expected a file, but 'deep' is a folder: evals/deep",
            "file evals/a.md cannot be read: Permission denied",
            "expected a file, but pipe.md is a pipe, a socket or a device",
            "expected a folder, but 'a.md' is a file: evals/a.md",
        )
    ]


def test_files_are_utf_8_with_unix_line_ends(repo: Path, references: References, place: Place) -> None:
    (repo / "a.md").write_bytes(b"\xef\xbb\xbfone\r\nG\xfc\xdfe\rend")
    assert references.read("a.md", place, is_text=True) is None
    file = references.read("a.md", place)
    assert file is not None
    assert file.text.lstrip("\ufeff") == "one\nG\ufffd\ufffde\rend"
    assert [(problem.level, problem.message) for problem in place.problems] == [
        ("error", "file a.md:2 is not UTF-8: byte 0xfc"),
        ("warning", "file a.md:2 is not UTF-8: byte 0xfc; its other characters are shown as U+FFFD"),
    ]
    (repo / "b.md").write_text("text", encoding="utf-8-sig")
    file = references.read("b.md", place, is_text=True)
    assert file is not None
    assert file.text == "text"


def test_a_file_is_read_up_to_a_limit_and_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 2**20)
    assert len(read_regular_file(tmp_path / "file", 2**20)) == 2**20
    (tmp_path / "file").write_bytes(b"x" * (2**20 + 1))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    reasons = {
        "file": "it has more than 1 MiB",
        "pipe": "it is a named pipe, not a regular file",
        "link": "it is a device, not a regular file",
        ".": "it is a folder, not a regular file",
        "gone": "No such file or directory",
    }
    for name, reason in reasons.items():
        with pytest.raises(OSError, match=r"not a regular file|more than|No such") as caught:
            read_regular_file(tmp_path / name, 2**20)
        assert caught.value.strerror == reason


@given(st.text() | st.just("x" * 5000) | st.just("a\0b"))
def test_no_reference_is_too_odd_to_be_looked_up(value: str) -> None:
    assert References(Path("/nowhere/evals"), Path("/nowhere"), Path("/nowhere")).find(value).value == value


@pytest.mark.parametrize(
    ("path", "is_guideline"),
    [
        ("a.instructions.md", True),
        ("evals/deep/a.instructions.md", True),
        ("evals/a.md", False),
        ("../outside/a.instructions.md", False),
    ],
)
def test_guidelines_are_matched_by_their_path_below_the_repo_root(
    repo: Path, references: References, path: str, is_guideline: bool
) -> None:
    assert references.is_guideline(repo / path) is is_guideline


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("evals/deep/.agentv/config.yaml", ["evals/deep/mine", "evals/rules/*"]),
        ("evals/.agentv/config.yml", ["evals/mine", "rules/*"]),
        (".agentv/config.yaml", []),
    ],
)
def test_patterns_of_config_files_are_found_upward_from_the_evals(repo: Path, name: str, near: list[str]) -> None:
    (repo / ".agentv.yaml").write_text("guideline_patterns: [far]\n")  # counts beside the evals only
    (repo / ".agentv").mkdir()
    (repo / ".agentv/config.yaml").write_text("guideline_patterns: [far]\n")
    (repo / name).parent.mkdir(exist_ok=True)
    (repo / name).write_text("guideline_patterns: [./mine, '!other', ../rules/*]\n")
    patterns, problems = load_guideline_patterns(repo / "evals" / "deep", repo)
    assert (patterns, problems) == (("./mine", "!other", "../rules/*", *near), ())


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


@pytest.mark.filterwarnings("ignore:Possible nested set")
@given(st.text(), st.text("ab/*?[]{}()!@+|,.\\-^", max_size=12))
def test_no_pattern_breaks_matching(path: str, pattern: str) -> None:
    assert matches_guideline(path, [pattern]) in (True, False)
