"""Records are appended whole, whoever else writes, crashes or deletes."""

import os
import resource
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


def test_a_line_torn_by_another_process_in_the_meantime_is_closed_too(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    appender = LockedAppender(path)
    appender.append(b"1\n")
    with path.open("ab") as other:
        other.write(b"tor")
    appender.append(b"2\n")
    appender.close()
    assert path.read_bytes() == b"1\ntor\n2\n"


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
