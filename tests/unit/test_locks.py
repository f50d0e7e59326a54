"""The lock that processes share."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from pytest_agentv.runtime.files import InUse, ProcessLock, flocked


def test_the_folder_and_the_file_are_made_by_the_first_holder(tmp_path: Path) -> None:
    lock = ProcessLock(tmp_path / "deep" / ".lock")
    assert not (tmp_path / "deep").exists()
    with lock.hold(0):
        assert (tmp_path / "deep" / ".lock").exists()
    lock.close()


def test_whoever_closes_it_last_removes_the_file(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    mine, other, third = ProcessLock(path), ProcessLock(path), ProcessLock(path)
    with other.hold(0):
        pass
    with mine.hold(0):
        other.close()
        assert path.exists()
    with third.hold(0):
        pass
    mine.close()
    assert not path.exists()
    with third.hold(0), pytest.raises(TimeoutError), mine.hold(0):
        pass
    mine.close()
    third.close()
    assert not path.exists()


def test_it_shuts_others_out_until_it_is_released(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    mine, other = ProcessLock(path), ProcessLock(path)
    with mine.hold(0), pytest.raises(TimeoutError, match=r"\.lock is locked$"), other.hold(0):
        pass
    with other.hold(0):
        pass
    mine.close()
    other.close()


def test_a_holder_that_breaks_releases_it(tmp_path: Path) -> None:
    lock, other = ProcessLock(tmp_path / ".lock"), ProcessLock(tmp_path / ".lock")
    with pytest.raises(ValueError, match="broken"), lock.hold(0):
        raise ValueError("broken")
    with other.hold(0):
        pass
    lock.close()
    other.close()


def test_who_waits_gets_it_when_it_is_released(tmp_path: Path) -> None:
    mine, other = ProcessLock(tmp_path / ".lock"), ProcessLock(tmp_path / ".lock")
    got = threading.Event()

    def wait() -> None:
        with other.hold(10):
            got.set()

    thread = threading.Thread(target=wait)
    with mine.hold(0):
        thread.start()
        assert not got.wait(0.05)
    assert got.wait(10)
    thread.join()
    mine.close()
    other.close()


def test_after_its_file_was_deleted_all_meet_at_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / ".lock"
    mine, other = ProcessLock(path), ProcessLock(path)
    for lock in (mine, other):
        with lock.hold(0):
            pass
    shutil.rmtree(path.parent)
    with mine.hold(0), pytest.raises(TimeoutError), other.hold(0):
        pass
    mine.close()
    other.close()


def test_a_place_where_there_can_be_no_file_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(FileExistsError), ProcessLock(tmp_path / "taken" / ".lock").hold(0):
        pass


def test_a_file_is_in_use_until_all_who_use_it_have_ended(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.touch()
    first, second = InUse(), InUse()
    first.begin(path)
    second.begin(path)
    first.end()
    assert flocked(path) is None
    second.end()
    descriptor = flocked(path)
    assert descriptor is not None
    assert flocked(path) is None
    os.close(descriptor)
