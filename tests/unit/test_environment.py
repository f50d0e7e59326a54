import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.errors import FileError
from pytest_agentv.targets.definitions import (
    find_dotenv,
    find_repo_root,
    folders_upward,
    interpolate,
    load_environment,
    search_folders,
)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository with `sub/evals`, and a folder `elsewhere` to work in."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "sub" / "evals").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    return tmp_path / "repo"


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


class TestFindRepoRoot:
    def test_is_the_nearest_folder_with_git(self, repo: Path) -> None:
        assert find_repo_root(repo / "sub" / "evals") == repo

    def test_a_git_file_of_a_worktree_counts(self, repo: Path) -> None:
        write(repo / "sub" / ".git", "gitdir: elsewhere")
        assert find_repo_root(repo / "sub" / "evals") == repo / "sub"


class TestSearchFolders:
    def test_go_up_to_the_repository_root_and_end_with_the_working_directory(self, repo: Path) -> None:
        elsewhere = repo.parent / "elsewhere"
        folders = search_folders(repo / "sub" / "evals", repo, elsewhere)
        assert folders == (repo / "sub" / "evals", repo / "sub", repo, elsewhere)

    def test_hold_each_folder_once(self, repo: Path) -> None:
        assert search_folders(repo / "sub", repo, repo) == (repo / "sub", repo)

    def test_of_an_eval_file_outside_the_repository_go_all_the_way_up(self, repo: Path) -> None:
        outside = repo.parent / "elsewhere"
        assert folders_upward(outside, repo) == (outside, *outside.parents, repo)


class TestDotenv:
    @pytest.mark.scenario("Lazy .env loading")
    def test_the_nearest_file_is_the_only_one_that_is_read(self, repo: Path) -> None:
        write(repo / ".env", "A=root\nB=root\n")
        write(repo / "sub" / ".env", "A=sub\n")
        environment = load_environment(repo / "sub" / "evals", repo, repo, {})
        assert environment.variables == {"A": "sub"}

    def test_the_working_directory_is_looked_into_last(self, repo: Path) -> None:
        elsewhere = repo.parent / "elsewhere"
        there = write(elsewhere / ".env", "A=cwd\n")
        assert find_dotenv(repo / "sub" / "evals", repo, elsewhere) == there

    @pytest.mark.scenario("Missing .env file")
    def test_without_a_file_the_process_environment_is_all_there_is(self, repo: Path) -> None:
        environment = load_environment(repo / "sub", repo, repo, {"A": "process"})
        assert (environment.variables, environment.dotenv) == ({"A": "process"}, {})

    def test_the_process_environment_wins_even_when_blank(self, repo: Path) -> None:
        write(repo / ".env", "A=file\nB=file\nC=file\n")
        environment = load_environment(repo, repo, repo, {"A": "process", "B": ""})
        assert environment.variables == {"A": "process", "B": "", "C": "file"}
        assert environment.dotenv == {"A": "file", "B": "file", "C": "file"}

    def test_the_process_environment_is_not_written(self, repo: Path) -> None:
        write(repo / ".env", "A=file\n")
        process_env: dict[str, str] = {}
        load_environment(repo, repo, repo, process_env)
        assert process_env == {}

    def test_values_are_read_as_python_dotenv_reads_them(self, repo: Path) -> None:
        write(repo / ".env", "\ufeffA=${HOME}/${C}x\nB='two words'\nexport C=3 # note\nD\nE=${A}-$C-${F:-none}\n")
        environment = load_environment(repo, repo, repo, {"HOME": "/home", "F": ""})
        assert environment.dotenv == {"A": "/home/x", "B": "two words", "C": "3", "E": "/home/x-$C-"}

    def test_the_process_environment_fills_values_before_the_lines_above(self, repo: Path) -> None:
        write(repo / ".env", "HOST=file\nURL=https://${HOST}/\n")
        assert load_environment(repo, repo, repo, {}).dotenv["URL"] == "https://file/"
        assert load_environment(repo, repo, repo, {"HOST": "process"}).dotenv["URL"] == "https://process/"

    def test_a_folder_of_that_name_is_passed_over(self, repo: Path) -> None:
        (repo / "sub" / ".env").mkdir()
        outer = write(repo / ".env", "A=1\n")
        assert find_dotenv(repo / "sub", repo, repo) == outer

    def test_a_file_that_is_no_text_is_an_error_with_its_path(
        self, repo: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(repo)
        (repo / ".env").write_bytes(b"A=\xff\n")
        with pytest.raises(FileError) as caught:
            load_environment(repo, repo, repo, {})
        assert str(caught.value) == ".env: is not UTF-8: byte 0xff"

    def test_the_values_do_not_show_in_the_representation(self, repo: Path) -> None:
        write(repo / ".env", "KEY=hidden-value\n")
        assert "hidden-value" not in repr(load_environment(repo, repo, repo, {"OTHER": "hidden-value"}))

    def test_a_line_that_makes_no_sense_does_not_end_the_run(
        self, repo: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        write(repo / ".env", "A=1\n!!nonsense!!='\nB=2\n")
        with caplog.at_level(logging.WARNING):
            environment = load_environment(repo, repo, repo, {})
        assert environment.dotenv["A"] == "1"


class TestInterpolate:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("${{ V }}", "value"),
            ("${{V}}", "value"),
            ("  ${{  V  }} ", "  value "),
            ("https://${{ V }}/${{ low_case1 }}", "https://value/ x "),
            ("no variable ${V} $V {{ V }}", "no variable ${V} $V {{ V }}"),
            ("${{ not-a-name }}", "${{ not-a-name }}"),
        ],
    )
    def test_fills_in_variables_anywhere(self, text: str, expected: str) -> None:
        assert interpolate(text, {"V": "value", "low_case1": " x "}).text == expected

    def test_a_value_is_not_filled_in_again(self) -> None:
        assert interpolate("${{ A }}", {"A": "${{ B }}", "B": "b"}).text == "${{ B }}"

    def test_unset_and_blank_variables_are_missing(self) -> None:
        filled = interpolate("${{ A }}${{ B }}${{ C }}${{ B }}", {"A": "a", "B": " "})
        assert filled.text is None
        assert filled.missing == ("B", "C")
        assert filled.names == ("A", "B", "C", "B")

    @given(st.text(), st.dictionaries(st.text("AB_1", min_size=1), st.text(min_size=1)))
    def test_texts_without_variables_stay_as_they_are(self, text: str, variables: dict[str, str]) -> None:
        if "${{" not in text:
            assert interpolate(text, variables).text == text

    @given(st.text(), st.text(), st.text().filter(str.strip))
    def test_any_value_is_filled_in_as_it_is(self, before: str, after: str, value: str) -> None:
        if "${{" not in before + after and not before.endswith(("$", "${")):
            assert interpolate(f"{before}${{{{ V }}}}{after}", {"V": value}).text == before + value + after
