"""Who has which of the folders that VS Code works in."""

import os
from pathlib import Path

import pytest

from pytest_agentv.errors import ProviderError
from pytest_agentv.providers.vscode import Subagent, free_subagent


def take(root: Path) -> Subagent:
    """Take a folder as a call does."""
    subagent = free_subagent(root)
    subagent.prepare("{}")
    return subagent


def test_folders_are_taken_by_number_and_new_ones_come_after_the_last(tmp_path: Path) -> None:
    for name in ("subagent-10", "subagent-9", "subagent-x", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "subagent-3").touch()
    names = []
    for _ in range(3):
        subagent = take(tmp_path)
        subagent.lock_file.write_text("")
        names.append(subagent.folder.name)
    assert names == ["subagent-9", "subagent-10", "subagent-11"]


@pytest.mark.parametrize("text", ["", "not json", "[1]", "pytest-agentv on another host"])
def test_locks_of_others_are_never_broken_however_old(tmp_path: Path, text: str) -> None:
    lock = tmp_path / "subagent-1/subagent.lock"
    lock.parent.mkdir()
    lock.write_text(text)
    os.utime(lock, (0, 0))
    assert take(tmp_path).folder.name == "subagent-2"
    assert lock.read_text() == text


def test_a_folder_of_a_killed_run_is_taken_again(tmp_path: Path) -> None:
    take(tmp_path)
    assert take(tmp_path).folder.name == "subagent-1"


def test_a_lock_that_is_removed_is_written_again_while_the_folder_is_held(tmp_path: Path) -> None:
    subagent = take(tmp_path)
    text = subagent.lock_file.read_text()
    subagent.lock_file.unlink()  # by the agent of an earlier request
    subagent.keep()
    assert subagent.lock_file.read_text() == text
    subagent.release()
    assert list(tmp_path.rglob("*.lock")) == []


def test_a_folder_that_another_program_takes_is_left_to_it(tmp_path: Path) -> None:
    subagent = take(tmp_path)
    subagent.lock_file.write_text("")
    with pytest.raises(ProviderError, match=r"^another program took subagent-1 before its answer was there$"):
        subagent.keep()
    subagent.release()
    assert subagent.lock_file.read_text() == "", "the lock of another program was removed"


def test_the_workspace_is_written_when_it_differs(tmp_path: Path) -> None:
    subagent = take(tmp_path)
    workspace_file = subagent.folder / "subagent-1.code-workspace"
    written = workspace_file.stat().st_mtime_ns
    subagent.prepare("{}")
    assert workspace_file.stat().st_mtime_ns == written, "VS Code would load it again"
    subagent.prepare("{ }")
    assert workspace_file.read_text() == "{ }"
