"""All requests of a batch in one chat of VS Code."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from code_stand_in import CodeStandIn

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.engine.scheduler import Batch
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import candidate_answer
from pytest_agentv.providers import vscode
from pytest_agentv.providers import vscode as window
from pytest_agentv.providers.base import BatchProvider, ProviderRequest, TargetEnvironment
from pytest_agentv.providers.vscode import Vscode, VscodeProvider


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vscode, "_POLL_SECONDS", 0.1)
    monkeypatch.setattr(window, "_FOCUS_SECONDS", 0.01)
    monkeypatch.setattr(window, "_READY_POLL_SECONDS", 0.02)


@pytest.fixture
def code(tmp_path: Path) -> CodeStandIn:
    return CodeStandIn(tmp_path / "bin")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "my agents"


def provider(code: CodeStandIn, root: Path, **fields: Any) -> VscodeProvider:
    settings = Vscode(subagent_root=str(root)).replace(**fields)
    return VscodeProvider(settings, TargetEnvironment(Target("editor", "vscode", settings), {"PATH": code.path}))


def requests(count: int, seconds: float | None = 10.0, **fields: Any) -> list[ProviderRequest]:
    return [
        ProviderRequest(Prompt(f"question {number}"), f"case-{number}", timeout_seconds=seconds).replace(**fields)
        for number in range(count)
    ]


@pytest.mark.scenario("VS Code provider")
@pytest.mark.scenario("Enabled for batching-capable provider")
def test_all_requests_go_out_in_one_chat_and_get_their_own_answers(
    code: CodeStandIn, root: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data.txt"
    data.write_text("1")
    asked = provider(code, root)
    assert isinstance(asked, BatchProvider)

    responses = asyncio.run(asked.invoke_batch(requests(12, input_paths=(str(data),))))

    assert [candidate_answer(response.output_messages) for response in responses] == [
        f"hello question {number}" for number in range(12)
    ]
    (chat,) = code.calls("chat")
    messages = f"{root}/subagent-1/messages"
    stamp = next(iter(chat["files"]))[:14]
    entry = f"{messages}/{stamp}_orchestrator.md"
    assert chat["argv"][4:] == [
        *("-a", entry, "-a", str(data)),
        f"Follow instructions in [{stamp}_orchestrator.md](file://{entry}). Use #runSubagent tool.",
    ]
    names = [f"{stamp}_{number}_req.md" for number in range(12)]
    assert sorted(chat["files"]) == sorted([*names, f"{stamp}_orchestrator.md"])
    text = chat["files"][f"{stamp}_orchestrator.md"]
    assert [f"{number}. messages/{name}" for number, name in enumerate(names, 1)] == re.findall(
        r"^\d+\. .*$", text, re.MULTILINE
    )
    assert "#runSubagent" in text
    assert f"ls '{messages}/{stamp}_0_res.md' " in text
    assert f"&& rm -f '{root}/subagent-1/subagent.lock'\n" in text
    assert all("rm -f" not in chat["files"][name] for name in names), "a request would unlock the folder"
    assert f"renaming that file to: {messages}/{stamp}_3_res.md\n" in chat["files"][names[3]]
    assert responses[3].raw["response_file"] == f"{messages}/{stamp}_3_res.md"
    assert {response.duration_ms for response in responses} == {responses[0].duration_ms}
    assert list(root.rglob("*.lock")) == []


def test_an_answer_that_does_not_come_is_the_error_of_its_own_request(code: CodeStandIn, root: Path) -> None:
    code.behave(left_out=[1])

    responses = asyncio.run(provider(code, root).invoke_batch(requests(3, 1.0)))

    assert [candidate_answer(response.output_messages) for response in responses] == [
        *("hello question 0", "", "hello question 2")
    ]
    assert [response.error for response in responses] == [
        None,
        "VS Code answered other cases of the batch, and not this one, within 3s: "
        f"{responses[1].raw['response_file']} was not written",
        None,
    ]
    assert list(root.rglob("*.lock")) == []


def test_a_batch_without_any_answer_times_out_and_each_case_is_sent_by_itself(code: CodeStandIn, root: Path) -> None:
    code.behave(silent=True)
    asked = provider(code, root)
    with pytest.raises(ProviderError, match=r"^VS Code timed out after 3s: .*_0_res.md was not written$") as caught:
        asyncio.run(asked.invoke_batch(requests(2, 1.5)))
    assert caught.value.kind == "timeout"

    async def run() -> list[str]:
        batch = Batch(2, 1)
        first, second = requests(2, 10.0)
        failing = FailingBatch(asked)
        code.behave()
        calls = (batch.invoke(place, failing, each) for place, each in enumerate((first, second)))
        sent = await asyncio.gather(*calls)
        return [candidate_answer(each.response.result().get().output_messages) for each in sent]

    assert asyncio.run(run()) == ["hello question 0", "hello question 1"]
    assert list(root.rglob("*.lock")) == []


class FailingBatch:
    """A provider that cannot send its requests together."""

    mode = "agent"

    def __init__(self, provider: VscodeProvider) -> None:
        self.invoke = provider.invoke

    async def invoke_batch(self, requests: object) -> None:
        raise ProviderError("no", "timeout")


@pytest.mark.parametrize("fields", [{"wait": False}, {"dry_run": True}], ids=str)
def test_without_waiting_there_are_places_and_no_texts(code: CodeStandIn, root: Path, fields: dict[str, Any]) -> None:
    code.behave(silent=True)

    responses = asyncio.run(provider(code, root, **fields).invoke_batch(requests(2)))

    assert [(response.output_messages, response.error_kind) for response in responses] == [((), "no_answer")] * 2
    assert all(
        f"`{key}: {str(value).lower()}`" in str(each.error) for each in responses for key, value in fields.items()
    )
    files = [Path(response.raw["response_file"]).name[14:] for response in responses]
    assert files == ["_0_res.md", "_1_res.md"]
    assert root.exists() is not fields.get("dry_run", False)
