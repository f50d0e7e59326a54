"""File references: where they are looked for, how they are read, what is said when they are missing."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.references import Reference, References
from pytest_agentv.files.places import Place
from pytest_agentv.files.problems import Problem
from pytest_agentv.files.source import Source

EVAL_FILE = Path("evals/deep/qa.eval.yaml")


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evals" / "deep").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def references(repo: Path) -> References:
    return References(repo / "evals" / "deep", repo, repo, ("**/*.instructions.md",))


def place_of_a_value() -> Place:
    return Place(Source(Path.cwd() / EVAL_FILE, {"file": "x"}, "file: x\n", {("file",): 7}), ("file",), [])


def messages_of(problems: list[Problem]) -> list[str]:
    return [str(problem) for problem in problems]


def test_the_nearest_folder_wins(repo: Path, references: References) -> None:
    (repo / "a.md").write_text("root")
    (repo / "evals" / "a.md").write_text("parent")
    assert references.find("a.md").path == repo / "evals" / "a.md"
    (repo / "evals" / "deep" / "a.md").write_text("own")
    assert references.find("a.md").path == repo / "evals" / "deep" / "a.md"


def test_a_leading_slash_means_relative_to_the_folders_too(repo: Path, references: References) -> None:
    (repo / "docs").mkdir()
    (repo / "docs" / "x.md").write_text("doc")
    expected = Reference(
        "/docs/x.md",
        "docs/x.md",
        repo / "docs" / "x.md",
        (
            Path("/docs/x.md"),
            repo / "evals" / "deep" / "docs" / "x.md",
            repo / "evals" / "docs" / "x.md",
            repo / "docs" / "x.md",
        ),
    )
    assert references.find("/docs/x.md") == expected


def test_an_absolute_path_comes_first(repo: Path, references: References) -> None:
    (repo / "a.md").write_text("absolute")
    found = references.find(str(repo / "a.md"))
    assert (found.path, found.display_path) == (repo / "a.md", str(repo / "a.md").lstrip("/"))


def test_dots_in_a_reference_are_resolved(repo: Path, references: References) -> None:
    (repo / "evals" / "a.md").write_text("x")
    assert references.find("../a.md").path == repo / "evals" / "a.md"


def test_the_working_directory_is_searched_last(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    cwd = tmp_path_factory.mktemp("cwd")
    (cwd / "a.md").write_text("x")
    assert References(repo / "evals", repo, cwd).find("a.md").path == cwd / "a.md"


@pytest.mark.scenario("Validate file reference resolution")
def test_a_file_is_read_as_utf8_with_unix_line_ends(repo: Path, references: References) -> None:
    (repo / "evals" / "deep" / "a.txt").write_bytes(b" caf\xc3\xa9\r\nbad \xff\rend\r\n")
    file = references.read("a.txt", place_of_a_value())
    assert file is not None
    assert file.text == " café\nbad \ufffd\rend\n"


def test_a_missing_file_is_an_error_with_the_places_searched(references: References) -> None:
    place = place_of_a_value()
    assert references.read("docs/no.md", place) is None
    assert messages_of(place.problems) == [
        "evals/deep/qa.eval.yaml:7: file: file 'docs/no.md' was not found; "
        "searched: evals/deep/docs/no.md, evals/docs/no.md, docs/no.md"
    ]


def test_a_folder_is_no_file(references: References) -> None:
    place = place_of_a_value()
    assert references.read("deep", place) is None
    assert messages_of(place.problems) == [
        "evals/deep/qa.eval.yaml:7: file: expected a file, but 'deep' is a folder: evals/deep"
    ]


def test_an_unreadable_file_is_an_error_with_its_reason(
    repo: Path, references: References, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    (repo / "evals" / "a.md").write_text("x")
    monkeypatch.setattr(Path, "read_bytes", deny)
    place = place_of_a_value()
    assert references.read("a.md", place) is None
    assert messages_of(place.problems) == [
        "evals/deep/qa.eval.yaml:7: file: file evals/a.md cannot be read: Permission denied"
    ]


def test_a_folder_is_found_and_a_file_is_no_folder(repo: Path, references: References) -> None:
    (repo / "evals" / "a.md").write_text("x")
    place = place_of_a_value()
    assert references.find_folder("deep", place) == repo / "evals" / "deep"
    assert references.find_folder("a.md", place) is None
    assert references.find_folder("no", place) is None
    assert messages_of(place.problems) == [
        "evals/deep/qa.eval.yaml:7: file: expected a folder, but 'a.md' is a file: evals/a.md",
        "evals/deep/qa.eval.yaml:7: file: folder 'no' was not found; searched: evals/deep/no, evals/no, no",
    ]


@pytest.mark.scenario("Match files with glob patterns")
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


@given(st.text() | st.just("x" * 5000) | st.just("a\0b"))
def test_no_reference_is_too_odd_to_be_looked_up(value: str) -> None:
    reference = References(Path("/nowhere/evals"), Path("/nowhere"), Path("/nowhere")).find(value)
    assert reference.value == value


def test_a_pipe_is_not_waited_for(repo: Path, references: References) -> None:
    os.mkfifo(repo / "pipe.md")
    place = place_of_a_value()
    assert references.read("pipe.md", place) is None
    assert messages_of(place.problems) == [
        "evals/deep/qa.eval.yaml:7: file: expected a file, but pipe.md is a pipe, a socket or a device"
    ]


def test_other_bytes_than_utf_8_are_an_error_in_a_text_and_a_warning_elsewhere(
    repo: Path, references: References
) -> None:
    (repo / "a.md").write_bytes(b"one\nG\xfc\xdfe")
    place = place_of_a_value()
    assert references.read("a.md", place, is_text=True) is None
    file = references.read("a.md", place)
    assert file is not None
    assert file.text == "one\nG\ufffd\ufffde"
    assert [(problem.level, problem.message) for problem in place.problems] == [
        ("error", "file a.md:2 is not UTF-8: byte 0xfc"),
        ("warning", "file a.md:2 is not UTF-8: byte 0xfc; its other characters are shown as U+FFFD"),
    ]


def test_a_byte_order_mark_is_no_part_of_the_text(repo: Path, references: References) -> None:
    (repo / "a.md").write_text("text", encoding="utf-8-sig")
    file = references.read("a.md", place_of_a_value(), is_text=True)
    assert file is not None
    assert file.text == "text"
