"""Records are appended whole, whoever else writes, crashes or deletes."""

import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pytest_agentv.errors import FileError
from pytest_agentv.runtime import files
from pytest_agentv.runtime import files as locks
from pytest_agentv.runtime.files import (
    LockedAppender,
    ProcessLock,
    remove_leftovers,
    write_atomically,
    write_pieces_atomically,
)


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """A full disk, as far as the process can tell: a write beyond the size is cut short, the next one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_the_first_record_creates_folder_and_file_and_a_lock_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results" / "run.jsonl"
    appender = LockedAppender(path)
    appender.append(b"1\n")
    assert sorted(file.name for file in path.parent.iterdir()) == [".run.jsonl.lock", "run.jsonl"]
    appender.close()
    assert path.read_bytes() == b"1\n"
    assert [file.name for file in path.parent.iterdir()] == ["run.jsonl"]


def test_a_line_torn_by_another_process_in_the_meantime_is_closed_too(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    appender = LockedAppender(path)
    appender.append(b"1\n")
    with path.open("ab") as other:
        other.write(b"tor")
    appender.append(b"2\n")
    appender.close()
    assert path.read_bytes() == b"1\ntor\n2\n"


def test_a_deleted_folder_is_made_again_with_what_the_file_held(tmp_path: Path) -> None:
    path = tmp_path / "results" / "run.jsonl"
    appender = LockedAppender(path)
    appender.append(b"1\n")
    shutil.rmtree(path.parent)
    appender.append(b"2\n")
    appender.close()
    assert path.read_bytes() == b"1\n2\n"


def test_a_file_that_was_replaced_gets_the_next_records(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    appender = LockedAppender(path)
    appender.append(b"1\n")
    write_atomically(path, "new\n")
    appender.append(b"2\n")
    appender.close()
    assert path.read_bytes() == b"new\n2\n"


@pytest.mark.scenario("Mutex error handling")
def test_a_full_disk_is_one_error_that_leaves_whole_lines_and_a_free_lock(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    appender = LockedAppender(path)
    appender.append(b"first\n")
    with largest_file(1_000), pytest.raises(FileError) as caught:
        appender.append(b"x" * 5_000 + b"\n")
    assert str(caught.value) == f"{path}: cannot be written: File too large"
    assert path.read_bytes() == b"first\n"
    with (lock := ProcessLock(tmp_path / ".run.jsonl.lock")).hold(0):
        pass
    lock.close()
    appender.append(b"second\n")
    appender.close()
    assert path.read_bytes() == b"first\nsecond\n"


def test_a_file_that_is_replaced_keeps_its_permissions_and_its_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "real", tmp_path / "link"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    write_atomically(link, "new")
    assert (link.is_symlink(), real.read_text(), real.stat().st_mode & 0o777) == (True, "new", 0o600)
    assert sorted(os.listdir(tmp_path)) + os.listdir(real.parent) == ["link", "there", "real"]  # noqa: PTH208


def test_a_link_to_no_file_gets_one_and_a_loop_of_links_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "made")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "made").read_text() == "new"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(FileError, match="loop: cannot be written: "):
        write_atomically(tmp_path / "loop", "new")


def test_a_failed_atomic_write_keeps_the_old_file_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text("old")
    with largest_file(1_000), pytest.raises(FileError) as caught:
        write_atomically(path, "x" * 5_000)
    assert str(caught.value) == f"{path}: cannot be written: File too large"
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.json"]  # noqa: PTH208 - names are what matters


@pytest.mark.parametrize("before", [b"", b"one\n", b"torn"])
def test_probing_leaves_a_file_as_it_is_and_appending_goes_on(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "deep" / "r.jsonl"
    path.parent.mkdir()
    path.write_bytes(before)
    appender = LockedAppender(path)
    appender.probe()
    assert path.read_bytes() == before
    appender.append(b"two\n")
    appender.probe()
    appender.append(b"three\n")
    appender.close()
    assert path.read_bytes() == before + (b"\n" if before == b"torn" else b"") + b"two\nthree\n"


def left_by_a_killed_writer(folder: Path) -> Path:
    """Return a file as a writer leaves it that is killed before its last step."""
    before, found = set(folder.iterdir()), set()

    def pieces() -> Iterator[bytes]:
        found.update(folder.iterdir())
        yield b"half"

    write_pieces_atomically(folder / "a.txt", pieces())
    (left,) = found - before
    left.write_bytes(b"half")
    return left


def test_what_a_killed_writer_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    left, now, foreign = left_by_a_killed_writer(tmp_path), left_by_a_killed_writer(tmp_path), tmp_path / ".ab12.tmp"
    foreign.write_text("of another program")
    for path in (left, foreign, tmp_path / "a.txt"):
        os.utime(path, (0, 0))
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"a.txt", now.name, foreign.name}
    remove_leftovers(tmp_path / "missing")


def test_pieces_that_cannot_be_made_leave_the_old_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def pieces():
        yield b"new"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        write_pieces_atomically(path, pieces())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    write_pieces_atomically(path, [b"ne", b"w\n"])
    assert path.read_text() == "new\n"


@pytest.mark.parametrize("name", ["pipe", "link"])
def test_a_pipe_is_written_into_and_stays_a_pipe(tmp_path: Path, name: str) -> None:
    """A file took its place. So `-o /dev/null` of an administrator took the device from the whole machine."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_pieces_atomically(tmp_path / name, (b"one\n", b"two\n"))
        assert os.read(reader, 100) == b"one\ntwo\n"
    finally:
        os.close(reader)
    assert (pipe.is_fifo(), link.is_symlink()) == (True, True)
    assert set(tmp_path.iterdir()) == {pipe, link}


class NoSystem:
    """Stands for a module of the system in whose place a test has put another one, as pyfakefs does."""

    def __getattr__(self, name: str) -> object:
        def find_nothing(*_: object, **__: object) -> None:
            raise FileNotFoundError(name)

        return find_nothing


def test_records_reach_the_system_while_a_test_has_a_file_system_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_before, new = LockedAppender(tmp_path / "a.jsonl"), LockedAppender(tmp_path / "new" / "b.jsonl")
    open_before.append(b"1\n")
    with monkeypatch.context() as replaced:
        for module, name in ((files, "os"), (locks, "os"), (locks, "fcntl")):
            replaced.setattr(module, name, NoSystem())
        for name in ("open", "mkdir", "is_file"):
            replaced.setattr(Path, name, getattr(NoSystem(), name))
        open_before.append(b"2\n")
        new.probe()
        new.append(b"3\n")
    open_before.append(b"4\n")
    for appender in (open_before, new):
        appender.close()
    assert (tmp_path / "a.jsonl").read_bytes() == b"1\n2\n4\n"
    assert (tmp_path / "new" / "b.jsonl").read_bytes() == b"3\n"
