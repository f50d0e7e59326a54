"""VS Code as a target, played by a stand-in program."""

import asyncio
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from code_stand_in import CodeStandIn

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.engine import answers as attempts
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import candidate_answer
from pytest_agentv.providers import vscode
from pytest_agentv.providers import vscode as vscode_folders
from pytest_agentv.providers import vscode as window
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse, TargetEnvironment
from pytest_agentv.providers.table import KINDS, create_provider
from pytest_agentv.providers.vscode import Vscode, VscodeProvider

LIMIT = 20.0


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vscode, "_POLL_SECONDS", 0.1)
    monkeypatch.setattr(window, "_FOCUS_SECONDS", 0.01)
    monkeypatch.setattr(window, "_OPEN_SECONDS", 0.01)
    monkeypatch.setattr(window, "_READY_POLL_SECONDS", 0.02)


@pytest.fixture
def code(tmp_path: Path) -> CodeStandIn:
    return CodeStandIn(tmp_path / "bin with a blank")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "agents (root); $x"


def provider(code: CodeStandIn, root: Path, **fields: Any) -> VscodeProvider:
    settings = Vscode(subagent_root=str(root)).replace(**fields)
    target = Target("editor", "vscode", settings, path=str(Path.cwd() / "targets.yaml"), line=3)
    return VscodeProvider(settings, TargetEnvironment(target, {"PATH": code.path}))


def request(question: str = "world", **fields: Any) -> ProviderRequest:
    return ProviderRequest(Prompt(question), "case", timeout_seconds=LIMIT).replace(**fields)


def answers(responses: list[ProviderResponse]) -> list[str]:
    return [candidate_answer(response.output_messages) for response in responses]


def ask(asked: VscodeProvider, *requests: ProviderRequest) -> list[str]:
    """Return the answers to some requests, sent one after another."""

    async def run() -> list[ProviderResponse]:
        return [await asked.invoke(each) for each in requests or (request(),)]

    return answers(asyncio.run(run()))


def failure(asked: VscodeProvider, each: ProviderRequest | None = None) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        asyncio.run(asked.invoke(each or request()))
    return caught.value


async def seen(code: CodeStandIn, event: str, count: int) -> None:
    async with asyncio.timeout(LIMIT):
        while len(code.calls(event)) < count:  # noqa: ASYNC110 - the stand-in is another process
            await asyncio.sleep(0.05)


async def break_off(asked: VscodeProvider, code: CodeStandIn, event: str, each: ProviderRequest) -> None:
    """Cancel a call some time after the stand-in was called."""
    task = asyncio.create_task(asked.invoke(each))
    await seen(code, event, 1)
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def locks(root: Path) -> list[Path]:
    return sorted(root.rglob("*.lock"))


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


@pytest.mark.scenario("VS Code provider")
@pytest.mark.scenario("VS Code Copilot provider")
def test_a_request_goes_out_in_a_file_and_its_answer_is_read_from_one(
    code: CodeStandIn, root: Path, tmp_path: Path
) -> None:
    rules, data = tmp_path / "rules.md", tmp_path / "data 1.txt"
    rules.write_text("be brief")
    data.write_text("1")

    asked = request("Say {{userQuery}} world", guideline_paths=(str(rules),), input_paths=(str(data),))
    response = asyncio.run(provider(code, root).invoke(asked.replace(system_prompt="You are a judge.")))

    assert answers([response]) == ["hello Say {{userQuery}} world"]
    (chat,) = code.calls("chat")
    stamp = next(iter(chat["files"]))[:14]
    assert stamp.isdigit()
    entry = f"{root}/subagent-1/messages/{stamp}_req.md"
    assert chat["argv"][:3] == ["-r", "chat", "-m"]
    assert len(bytes.fromhex(chat["argv"][3])) == 4
    assert chat["argv"][4:] == [
        *("-a", str(rules), "-a", str(data), "-a", entry),
        f"Follow instructions in [{stamp}_req.md](file://{entry})",
    ]
    text = chat["files"][f"{stamp}_req.md"]
    assert text.startswith("[[ ## task ## ]]\n\nYou are a judge.\n\nRead each of these guideline files:")
    assert (
        f"* [rules.md](file://{rules}).\nRead each of these attachment files:\n* [data 1.txt](file://{data})." in text
    )
    assert "[[ ## user_query ## ]]\n\nSay {{userQuery}} world\n\n[[ ## sha256_tokens ## ]]\n\n" in text
    assert f"6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b  {data}\n" in text
    assert "[[ ## system_instructions ## ]]" in text
    assert f"mv '{root}/subagent-1/messages/{stamp}_res.tmp.md' '{root}/subagent-1/messages/{stamp}_res.md'\n" in text
    assert f"rm -f '{root}/subagent-1/subagent.lock'\n" in text
    assert "{{ response" not in text
    assert response.raw == {
        "session": {
            "exit_code": 0,
            "subagent_name": "subagent-1",
            "response_file": f"{root}/subagent-1/messages/{stamp}_res.md",
            "temp_file": f"{root}/subagent-1/messages/{stamp}_res.tmp.md",
        },
        "input_files": [str(rules), str(data)],
        "response_file": f"{root}/subagent-1/messages/{stamp}_res.md",
    }
    assert response.duration_ms is not None
    assert locks(root) == []


def test_a_folder_is_provisioned_once_and_its_window_woken_up_and_then_only_brought_to_the_front(
    code: CodeStandIn, root: Path
) -> None:
    assert ask(provider(code, root), request("one"), request("two")) == ["hello one", "hello two"]

    assert names(root) == ["subagent-1"]
    folder = root / "subagent-1"
    assert names(folder) == [".github", "messages", "subagent-1.code-workspace"]
    assert json.loads((folder / "subagent-1.code-workspace").read_text()) == {
        "folders": [{"path": "."}],
        "settings": {"chat.modeFilesLocations": {".github/agents/**/*.md": True}},
    }
    assert names(folder / ".github/agents") == ["wakeup.md"]
    first, second = (sorted(chat["files"]) for chat in code.calls("chat"))
    assert [len(first), len(second)] == [1, 1], "messages of the request before were left"
    assert first < second
    events = [call["event"] for call in code.calls() if call["event"] != "answered"]
    assert events == ["open", "wakeup", "chat", "open", "chat"]
    assert [call["argv"] for call in code.calls("open")] == [[f"{folder}/subagent-1.code-workspace"]] * 2
    (wakeup,) = code.calls("wakeup")
    create = f"Create an empty file named .alive in the folder {folder}"
    assert wakeup["argv"] == ["-r", "chat", "-m", "wakeup", create]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ({"keeps_lock": True}, ["hello world"]),
        ({"pieces": True, "reply": "written piece by piece: {query} ✓ äöü"}, ["written piece by piece: world ✓ äöü"]),
        ({"twice": True}, ["hello world", "a second answer"]),
        ({"encoding": "utf-16"}, ["hello world"]),
        ({"encoding": "utf-8-sig", "reply": "a\r\nb"}, ["a\nb"]),
    ],
    ids=str,
)
def test_agents_answer_in_their_own_ways(
    code: CodeStandIn, root: Path, mode: dict[str, Any], expected: list[str]
) -> None:
    code.behave(**mode)

    assert ask(provider(code, root))[0] in expected
    assert locks(root) == []


def test_a_window_that_is_not_ready_in_time_is_a_timeout(code: CodeStandIn, root: Path) -> None:
    code.behave(deaf=True)

    error = failure(provider(code, root), request(timeout_seconds=1))

    folder = root / "subagent-1"
    assert str(error) == f"VS Code timed out after 1s: its window on {folder} was not ready for the request"
    assert (error.kind, locks(root)) == ("timeout", [])


def test_what_is_there_of_an_answer_is_told(tmp_path: Path) -> None:
    exchange = vscode_folders.Exchange(request(), tmp_path, "1")
    assert exchange.state == f"{tmp_path}/1_res.md was not written"
    for content in (b" \n", b"\xff"):
        exchange.response_file.write_bytes(content)
        assert exchange.state == f"{tmp_path}/1_res.md is there, but blank, no UTF-8 text, or still being written"
        assert [exchange.look() for _ in range(4)] == [False] * 4
    exchange.response_file.write_text(" x")
    assert [exchange.look() for _ in range(3)] == [False, True, True]
    assert exchange.text == " x"


def test_the_late_answer_to_a_request_is_not_taken_for_that_to_the_next(code: CodeStandIn, root: Path) -> None:
    async def run() -> str:
        asked = provider(code, root)
        code.behave(until="late")
        await break_off(asked, code, "chat", request("late"))
        code.behave(until="next")
        call = asyncio.create_task(asked.invoke(request("next")))
        await seen(code, "chat", 2)
        (code.folder / "late").touch()
        await seen(code, "answered", 1)
        await asyncio.sleep(0.5)
        assert not call.done()
        (code.folder / "next").touch()
        return candidate_answer((await call).output_messages)

    assert asyncio.run(run()) == "hello next"
    code.wait_for("answered", 2)
    first, second = (next(iter(chat["files"])) for chat in code.calls("chat"))
    assert first < second, "two requests had the same name"
    assert [call["folder"] for call in code.calls("chat")] == [f"{root}/subagent-1"] * 2
    assert locks(root) == []


def test_waiting_for_ones_turn_does_not_count(code: CodeStandIn, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code.behave(seconds=1.5)
    monkeypatch.setattr(attempts, "_GRACE_SECONDS", 0.0)
    asked = provider(code, root)

    async def run() -> list[attempts.Attempts]:
        calls = (attempts.invoke_with_retries(asked, request(word, timeout_seconds=4.0), 0) for word in "abc")
        return await asyncio.gather(*calls)

    assert sorted(answers([made.response for made in asyncio.run(run()) if made.response])) == [
        *("hello a", "hello b", "hello c")
    ]


@pytest.mark.parametrize(
    ("mode", "start", "end"),
    [
        ({"exit_code": 3}, "VS Code's command failed with exit code 3: ", ": the window is gone"),
        ({"chat_seconds": 60}, "VS Code's command did not return within 3s: ", ": still thinking"),
    ],
    ids=str,
)
def test_a_command_that_fails_or_hangs_is_an_error_with_what_it_said(
    code: CodeStandIn, root: Path, monkeypatch: pytest.MonkeyPatch, mode: dict[str, Any], start: str, end: str
) -> None:
    code.behave(**mode)
    monkeypatch.setattr(window, "_LAUNCH_SECONDS", 3.0)

    started = time.monotonic()
    error = failure(provider(code, root))

    assert time.monotonic() - started < 15
    assert (error.kind, str(error).startswith(start), str(error).endswith(end)) == ("process", True, True)
    assert locks(root) == []


def test_a_folder_that_another_program_takes_while_its_answer_is_waited_for_is_an_error(
    code: CodeStandIn, root: Path
) -> None:
    code.behave(silent=True)

    async def run() -> str:
        call = asyncio.create_task(provider(code, root).invoke(request()))
        await seen(code, "chat", 1)
        (root / "subagent-1/subagent.lock").write_text("")
        with pytest.raises(ProviderError) as caught:
            await call
        return str(caught.value)

    assert asyncio.run(run()) == "another program took subagent-1 before its answer was there"
    assert locks(root) == [root / "subagent-1/subagent.lock"]


@pytest.mark.parametrize(
    ("mode", "event"),
    [({"silent": True}, "chat"), ({"chat_seconds": 60}, "wakeup"), ({"deaf": True}, "wakeup")],
    ids=str,
)
def test_a_cancelled_call_leaves_no_lock(code: CodeStandIn, root: Path, mode: dict[str, Any], event: str) -> None:
    code.behave(**mode)

    asyncio.run(break_off(provider(code, root), code, event, request()))

    assert locks(root) == []
    code.behave()
    assert ask(provider(code, root)) == ["hello world"]
    assert names(root) == ["subagent-1"]


def test_a_command_may_have_words_behind_it(code: CodeStandIn, root: Path) -> None:
    program = shutil.move(code.program, code.folder / "my code")

    assert ask(provider(code, root, vscode_cmd=f"{program}")) == ["hello world"]
    assert ask(provider(code, root, vscode_cmd="'my code' --profile evals")) == ["hello world"]
    assert code.calls("chat")[1]["argv"][:4] == ["--profile", "evals", "-r", "chat"]


@pytest.mark.parametrize(
    ("kind", "command", "folder"),
    [("vscode", "code", "vscode-agents"), ("vscode-insiders", "code-insiders", "vscode-insiders-agents")],
)
@pytest.mark.scenario("VS Code provider")
def test_each_edition_has_its_own_folder_in_the_home_of_the_user(
    tmp_path: Path, kind: str, command: str, folder: str
) -> None:
    code = CodeStandIn(tmp_path / "bin", command)
    environment = {"PATH": code.path, "HOME": str(tmp_path)}

    asked = create_provider(Target("t", kind, KINDS.table[kind]()), environment)

    assert asyncio.run(asked.invoke(request())).output_messages is not None
    assert names(tmp_path / ".subagent") == [folder]


def test_a_root_that_cannot_be_written_is_named(code: CodeStandIn, tmp_path: Path) -> None:
    root = tmp_path / "file"
    root.touch()

    error = failure(provider(code, root))

    assert error.kind == "config"
    assert str(error) == (
        f"target 'editor' (targets.yaml:3): subagent_root {root} cannot be used: File exists ({root})"
    )


def test_an_attachment_that_is_gone_is_named(code: CodeStandIn, root: Path) -> None:
    error = failure(provider(code, root), request(input_paths=("/no/file.txt",)))

    assert error.kind == "config"
    assert str(error) == "attachment /no/file.txt cannot be read: No such file or directory"
    assert locks(root) == []


@pytest.mark.scenario("VS Code provider")
@pytest.mark.scenario("Enabled for batching-capable provider")
def test_all_requests_go_out_in_one_chat_and_get_their_own_answers(
    code: CodeStandIn, root: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data.txt"
    data.write_text("1")
    requests = [request(f"question {number}", input_paths=(str(data),)) for number in range(12)]

    responses = asyncio.run(provider(code, root).invoke_batch(requests))

    assert answers(responses) == [f"hello question {number}" for number in range(12)]
    (chat,) = code.calls("chat")
    messages = f"{root}/subagent-1/messages"
    stamp = next(iter(chat["files"]))[:14]
    entry = f"{messages}/{stamp}_orchestrator.md"
    assert chat["argv"][4:] == [
        *("-a", entry, "-a", str(data)),
        f"Follow instructions in [{stamp}_orchestrator.md](file://{entry}). Use #runSubagent tool.",
    ]
    files = [f"{stamp}_{number}_req.md" for number in range(12)]
    assert sorted(chat["files"]) == sorted([*files, f"{stamp}_orchestrator.md"])
    text = chat["files"][f"{stamp}_orchestrator.md"]
    assert [f"{number}. messages/{name}" for number, name in enumerate(files, 1)] == re.findall(
        r"^\d+\. .*$", text, re.MULTILINE
    )
    assert "#runSubagent" in text
    assert f"ls '{messages}/{stamp}_0_res.md' " in text
    assert f"&& rm -f '{root}/subagent-1/subagent.lock'\n" in text
    assert all("rm -f" not in chat["files"][name] for name in files), "a request would unlock the folder"
    assert f"renaming that file to: {messages}/{stamp}_3_res.md\n" in chat["files"][files[3]]
    assert responses[3].raw["response_file"] == f"{messages}/{stamp}_3_res.md"
    assert {response.duration_ms for response in responses} == {responses[0].duration_ms}
    assert locks(root) == []
