import os
from pathlib import Path

import pytest

from pytest_agentv.runtime.files import read_regular_file


def reason(path: Path) -> str | None:
    with pytest.raises(OSError, match=r"not a regular file|more than|No such") as caught:
        read_regular_file(path, 2**20)
    return caught.value.strerror


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 2**20)
    assert len(read_regular_file(path, 2**20)) == 2**20
    path.write_bytes(b"x" * (2**20 + 1))
    assert reason(path) == "it has more than 1 MiB"


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    assert reason(tmp_path / "pipe") == "it is a named pipe, not a regular file"
    assert reason(tmp_path / "link") == "it is a device, not a regular file"
    assert reason(tmp_path) == "it is a folder, not a regular file"
    assert reason(tmp_path / "gone") == "No such file or directory"
