"""The npm package `subagent`, which speaks the same protocol, in the same folders."""

import asyncio
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from code_stand_in import CodeStandIn, until

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import candidate_answer
from pytest_agentv.providers import vscode
from pytest_agentv.providers import vscode as window
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment
from pytest_agentv.providers.vscode import Vscode, VscodeProvider

_PREFIX = os.environ.get("AGENTV_TEST_PROGRAMS")
_FOLDERS = os.pathsep.join(filter(None, (_PREFIX and f"{_PREFIX}/node_modules/.bin", os.environ["PATH"])))
SUBAGENT = shutil.which("subagent", path=_FOLDERS)

pytestmark = [
    pytest.mark.node,
    pytest.mark.scenario("VS Code provider"),
    pytest.mark.skipif(
        SUBAGENT is None or shutil.which("node") is None,
        reason="the npm package subagent is neither in $AGENTV_TEST_PROGRAMS nor on PATH",
    ),
]


class Peer:
    """A user's home in which both programs work; its path has no blanks, which the npm package does not survive."""

    def __init__(self, folder: Path) -> None:
        self.code = CodeStandIn(folder / "bin")
        self.root = folder / ".subagent/vscode-agents"
        self.environment = {**os.environ, "HOME": str(folder), "PATH": self.code.path}
        settings = Vscode()
        self.provider = VscodeProvider(settings, TargetEnvironment(Target("t", "vscode", settings), self.environment))

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        assert SUBAGENT is not None
        pipe = subprocess.PIPE
        return subprocess.Popen(
            [SUBAGENT, "code", *arguments], env=self.environment, stdout=pipe, stderr=pipe, text=True
        )

    def run(self, *arguments: str) -> str:
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        return output

    def list(self) -> dict[str, tuple[str, bool]]:
        """Return the status of each subagent, and whether it has a workspace file."""
        subagents = json.loads(self.run("list", "--json"))["subagents"]
        return {entry["name"]: (entry["status"], entry["workspace"] is not None) for entry in subagents}

    def invoke(self, question: str) -> ProviderResponse:
        request = ProviderRequest(Prompt(question), "case", timeout_seconds=30)
        return asyncio.run(self.provider.invoke(request))


@pytest.fixture
def peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Peer:
    monkeypatch.setattr(vscode, "_POLL_SECONDS", 0.1)
    monkeypatch.setattr(window, "_READY_POLL_SECONDS", 0.02)
    return Peer(tmp_path)


def answer(response: ProviderResponse) -> str:
    return candidate_answer(response.output_messages)


def in_background(call: Any) -> tuple[threading.Thread, list[ProviderResponse]]:
    found: list[ProviderResponse] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    return thread, found


def test_its_chats_and_ours_are_never_in_the_same_folder(peer: Peer) -> None:
    peer.run("provision", "--subagents", "2")
    peer.code.behave(until="theirs-began")  # Node is slow on a busy machine
    thread, found = in_background(lambda: peer.invoke("ours"))
    peer.code.wait_for("chat")
    peer.code.behave(until="ours-again")
    theirs = peer.start("chat", "-q", "[[ ## user_query ## ]] theirs", "-w")
    peer.code.wait_for("chat", 2)
    peer.code.behave()
    (peer.code.folder / "theirs-began").touch()
    second = peer.invoke("ours too")
    (peer.code.folder / "ours-again").touch()
    thread.join()
    output, errors = theirs.communicate(timeout=30)

    assert theirs.returncode == 0, errors
    first_line, *reply = output.splitlines()
    assert json.loads(first_line)["subagent_name"] == "subagent-2"
    assert reply == ["hello theirs"]
    assert answer(found[0]) == "hello ours"
    assert answer(second) == "hello ours too"
    assert found[0].raw["session"]["subagent_name"] == "subagent-1"
    assert second.raw["session"]["subagent_name"] != "subagent-2"
    until(lambda: {status for status, _ in peer.list().values()} == {"available"})
