"""Agents of real packages, with models that are no models: a run asks them, and nothing is downloaded.

Each file needs its package and is skipped without it. `.ci/run` has environments with the newest and with older ones.
"""

import base64
import gc
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_llm import FakeLlm

QUESTION = "Where is order 7?"
CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi!"},
    {"role": "user", "content": QUESTION},
]
FILES = [
    {"type": "text", "value": QUESTION},
    {"type": "image", "value": "chart.png"},
    {"type": "file", "value": "report.pdf"},
]
SHOWN = {
    "question": [{"role": "user", "content": FILES}],
    "conversation": [
        {"role": "user", "content": [{"type": "text", "value": "Hello"}, FILES[1]]},
        {"role": "assistant", "content": "Hi!"},
        {"role": "user", "content": FILES},
    ],
}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj"

CONFTEST = """
import sys

import pytest


@pytest.fixture(scope="session")
def agentv_provider():
    return sys.modules["given_to_the_run"].agent
"""
OPTIONS = ("-q", "--import-mode=importlib", "--capture=no", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")


@dataclass
class Answer:
    """What a run recorded of an answer."""

    record: dict[str, Any]

    @property
    def text(self) -> str:
        return self.record["candidate_answer"]

    @property
    def error(self) -> str | None:
        return self.record.get("error")

    @property
    def is_text_only(self) -> bool:
        """Whether the answer does not tell what was called before it: then it has no trace."""
        return self.record.get("trace_summary") is None

    @property
    def messages(self) -> list[dict[str, Any]]:
        return self.record.get("output_messages") or []

    @property
    def calls(self) -> list[tuple[str, Any, Any]]:
        """Tool, input and output of each call."""
        calls = [call for message in self.messages for call in message.get("tool_calls") or ()]
        return [(call["tool"], call.get("input"), call.get("output")) for call in calls]

    @property
    def tokens(self) -> dict[str, int] | None:
        return (self.record.get("execution_metrics") or {}).get("token_usage")

    @property
    def cost_usd(self) -> float | None:
        return (self.record.get("execution_metrics") or {}).get("cost_usd")


Ask = Callable[..., Answer]


@pytest.fixture(scope="module", autouse=True)
def _free() -> Iterator[None]:
    """Free the clients and event loops that a framework leaves open, in the module that allows their warnings.

    The garbage collector frees them at a time that nobody knows: their warnings were errors of later tests.
    """
    yield
    gc.collect()


@pytest.fixture
def run_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Answer]]:
    """Run a case for each input, all at once, with the targets of the folder or an agent of this process."""

    def run(inputs: Sequence[object], agent: object = None) -> list[Answer]:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setitem(sys.modules, "given_to_the_run", SimpleNamespace(agent=agent))
        if agent is not None:
            (tmp_path / "conftest.py").write_text(CONFTEST)
        cases = [{"id": f"c{at}", "input": each, "assert": [{"python": "True"}]} for at, each in enumerate(inputs)]
        (tmp_path / "a.eval.yaml").write_text(json.dumps({"cases": cases}))
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        out = tmp_path / "out.jsonl"
        out.unlink(missing_ok=True)
        pytest.main([*OPTIONS, f"--agentv-out={out}", "--agentv-workers=50", "a.eval.yaml"])
        records = {each["eval_id"]: each for each in map(json.loads, out.read_text("utf-8").splitlines())}
        return [Answer(records[f"c{at}"]) for at in range(len(inputs))]

    return run


@pytest.fixture
def ask(run_inputs: Callable[..., list[Answer]]) -> Ask:
    """Ask an agent or a function one question, or at the end of a conversation."""

    def ask_one(agent: Any, *, conversation: bool = False) -> Answer:
        (answer,) = run_inputs([CONVERSATION if conversation else QUESTION], agent)
        return answer

    return ask_one


@pytest.fixture
def ask_many(run_inputs: Callable[..., list[Answer]]) -> Callable[[Any, list[str]], list[Answer]]:
    """Ask an agent many questions at once."""
    return lambda agent, questions: run_inputs(questions, agent)


@pytest.fixture(params=SHOWN)
def show(request: pytest.FixtureRequest, tmp_path: Path, run_inputs: Callable[..., list[Answer]]) -> Ask:
    """Ask an agent with a picture and a PDF: in one question, and at the end of a conversation with another picture."""
    (tmp_path / "chart.png").write_bytes(PNG)
    (tmp_path / "report.pdf").write_bytes(PDF)
    return lambda agent: run_inputs([SHOWN[request.param]], agent)[0]


@pytest.fixture
def fake_llm() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server
