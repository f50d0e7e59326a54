"""Who has which of the folders that VS Code works in."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import warm
from code_stand_in import until

from pytest_agentv.providers import vscode as vscode_folders
from pytest_agentv.providers.vscode import Claim, SubagentRoot, SubagentTakenError

HOLDER = """
import asyncio, sys, time
from pathlib import Path
from pytest_agentv.providers.vscode import SubagentRoot

async def hold():
    async with SubagentRoot(Path(sys.argv[1]), sys.argv[2]).turn(is_waiting=True) as (claim, root_lock):
        root_lock.release()
        print(claim.name, flush=True)
        await asyncio.sleep(60)

asyncio.run(hold())
"""


@asynccontextmanager
async def claimed(root: Path, run: str, *, is_waiting: bool = True):
    """Hold a folder as a call does whose request is sent."""
    async with SubagentRoot(root, run).turn(is_waiting=is_waiting) as (claim, root_lock):
        root_lock.release()
        yield claim


async def claimed_name(root: Path, run: str) -> str:
    async with claimed(root, run) as claim:
        return str(claim.name)


def claim_once(root: Path, run: str = "r") -> str:
    async def run_once() -> str:
        async with asyncio.timeout(10), claimed(root, run) as claim:
            assert claim.lock_file.exists()
            return str(claim.name)

    return asyncio.run(run_once())


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process, of another run, that holds `subagent-1`."""
    process = warm.Popen([sys.executable, "-c", HOLDER, str(tmp_path), "other"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"subagent-1\n"
    yield process
    process.kill()
    process.communicate()


def test_another_run_gets_another_folder_and_the_lowest_free_one_is_taken(tmp_path: Path) -> None:
    async def run() -> list[str]:
        async with claimed(tmp_path, "a") as first, claimed(tmp_path, "b") as second:
            names = [first.name, second.name]
        async with claimed(tmp_path, "c") as third:
            return [*names, third.name]

    assert asyncio.run(run()) == ["subagent-1", "subagent-2", "subagent-1"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["subagent-1", "subagent-2"], "something was left"


def test_folders_are_taken_by_number_and_new_ones_come_after_the_last(tmp_path: Path) -> None:
    for name in ("subagent-10", "subagent-9", "subagent-x", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "subagent-3").touch()

    async def run() -> list[str]:
        async with claimed(tmp_path, "a") as one, claimed(tmp_path, "b") as two, claimed(tmp_path, "c") as three:
            return [one.name, two.name, three.name]

    assert asyncio.run(run()) == ["subagent-9", "subagent-10", "subagent-11"]


@pytest.mark.scenario("VS Code worker cap")
def test_the_calls_of_one_run_wait_for_each_other_in_two_processes(
    tmp_path: Path, holder: subprocess.Popen[bytes]
) -> None:
    async def run() -> str:
        try:
            async with asyncio.timeout(1), claimed(tmp_path, "other") as claim:
                return str(claim.name)
        except TimeoutError:
            return "waited"

    assert asyncio.run(run()) == "waited"
    assert claim_once(tmp_path, "another") == "subagent-2"


@pytest.mark.parametrize(
    "text", ["", "not json", "[1]", '{"pid": 1}', '{"pid":1,"host":"h","started":"s","run":"r","is_waiting":true}']
)
def test_locks_of_others_are_never_broken_however_old(tmp_path: Path, text: str) -> None:
    lock = tmp_path / "subagent-1/subagent.lock"
    lock.parent.mkdir()
    lock.write_text(text)
    os.utime(lock, (0, 0))

    assert claim_once(tmp_path) == "subagent-2"
    assert lock.read_text() == text


def test_a_lock_that_is_removed_is_written_again_while_the_folder_is_held(tmp_path: Path) -> None:
    async def run() -> None:
        async with claimed(tmp_path, "a") as claim:
            text = claim.lock_file.read_text()
            claim.lock_file.unlink()  # by the agent of an earlier request
            claim.keep()
            assert claim.lock_file.read_text() == text

    asyncio.run(run())
    assert list(tmp_path.rglob("*.lock")) == []


def test_the_calls_of_one_run_wait_while_the_lock_file_is_being_written_again(tmp_path: Path) -> None:
    async def run() -> str:
        async with claimed(tmp_path, "same") as claim:
            text = claim.lock_file.read_text()
            claim.lock_file.write_text("")  # it was created, and its text is not yet in it
            waiting = asyncio.create_task(claimed_name(tmp_path, "same"))
            await asyncio.sleep(0.3)
            assert not waiting.done()
            claim.lock_file.write_text(text)
        return await waiting

    assert asyncio.run(run()) == "subagent-1"


def taken(claim: Claim) -> str:
    with pytest.raises(SubagentTakenError) as caught:
        claim.keep()
    return str(caught.value)


def test_a_folder_that_another_program_takes_is_left_to_it(tmp_path: Path) -> None:
    async def run() -> None:
        async with claimed(tmp_path, "a") as claim:
            claim.lock_file.write_text("")
            assert taken(claim) == "another program took subagent-1"

    asyncio.run(run())
    assert (tmp_path / "subagent-1/subagent.lock").read_text() == "", "the lock of another program was removed"


def test_chat_modes_of_earlier_requests_are_removed_and_the_workspace_is_written_when_it_differs(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with claimed(tmp_path, "a") as claim:
            agents = claim.folder / ".github/agents"
            for name in ("wakeup.md", "subagent.md", "0a1b2c3d.md", "notes.txt"):
                (agents / name).write_text("x")
            claim.prepare("{}")
            assert sorted(path.name for path in agents.iterdir()) == ["notes.txt", "subagent.md", "wakeup.md"]
            assert (agents / "wakeup.md").read_text() == "x"
            written = claim.workspace_file.stat().st_mtime_ns
            claim.prepare("{}")
            assert claim.workspace_file.stat().st_mtime_ns == written, "VS Code would load it again"
            claim.prepare("{ }")
            assert claim.workspace_file.read_text() == "{ }"

    asyncio.run(run())


def test_the_root_is_held_until_the_request_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two windows that are opened at once would take the focus from each other."""
    monkeypatch.setattr(vscode_folders, "_TURN_SECONDS", 0.01)
    sending: list[str] = []

    async def call(run: str) -> None:
        async with SubagentRoot(tmp_path, run).turn(is_waiting=True) as (_, root_lock):
            sending.append(run)
            await asyncio.sleep(0.2)
            assert sending == [run]
            sending.clear()
            root_lock.release()
            await asyncio.sleep(0.1)

    async def run() -> float:
        started = time.monotonic()
        await asyncio.gather(*(call(str(number)) for number in range(3)))
        return time.monotonic() - started

    assert asyncio.run(run()) >= 0.6
    until(lambda: not list(tmp_path.rglob("*.lock")))
