"""Pictures and PDFs of messages: how they are read, what functions and agents get, what is recorded.

The folder `models-pictures` of the corpus shows what models and services get.
"""

import asyncio
import base64
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from fake_llm import FakeLlm

from pytest_agentv.cases.cases import load_case
from pytest_agentv.cases.prompts import Prompt, PromptMode, build_prompt
from pytest_agentv.cases.references import LoadContext
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.engine.stored import key_of
from pytest_agentv.errors import CaseError, ProviderError
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.model.cases import EvalCase, Target
from pytest_agentv.model.messages import MEDIA_LIMIT, FilePart
from pytest_agentv.model.secrets import Secret
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.python import adapt_provider
from pytest_agentv.providers.python_calls import build_question
from pytest_agentv.providers.table import KINDS, create_provider

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(40))
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj"
PNG64, PDF64 = base64.b64encode(PNG).decode(), base64.b64encode(PDF).decode()

ASKED = """[{role: user, content: [
    "Compare: ", {type: image, value: pictures/chart.png}, "with", {type: file, value: report.pdf}, Thanks.
]}]"""
TEXT = 'Compare:\n\n<file: path="pictures/chart.png">\n\nwith\n\n<file: path="report.pdf">\n\nThanks.'


@pytest.fixture(autouse=True)
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files()


def write_files() -> None:
    Path("pictures").mkdir()
    Path("pictures/chart.png").write_bytes(PNG)
    Path("report.pdf").write_bytes(PDF)


def load(messages: str, patterns: tuple[str, ...] = ()) -> EvalCase:
    path = Path("qa.yaml")
    path.write_text(f"evalcases:\n  - {{id: a, outcome: ok, input: {messages}}}\n", "utf-8")
    suite = read_suite(path)
    return load_case(suite, suite.entries[0], LoadContext(Path.cwd(), Path.cwd(), patterns, evaluators=EVALUATORS)).case


def request_of(messages: str = ASKED, mode: PromptMode = "lm") -> ProviderRequest:
    case = load(messages)
    return ProviderRequest(build_prompt(case, mode), "a", input_paths=case.file_paths)


def call(provider: Any, request: ProviderRequest | None = None) -> ProviderResponse:
    async def run() -> ProviderResponse:
        try:
            response: ProviderResponse = await provider.invoke(request or request_of())
            return response
        finally:
            await provider.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"GIF89a\x01\0", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (b"PK\x03\x04\0\0", "application/octet-stream"),
        (b"%PDF is a word in this text", None),
        (b"RIFF but a text", None),
    ],
)
def test_what_a_file_is_shows_in_its_content_not_in_its_name(content: bytes, kind: str | None) -> None:
    Path("x.txt").write_bytes(content)

    part = load("[{role: user, content: [{type: file, value: x.txt}]}]").messages[0].parts[0]

    assert isinstance(part, FilePart)
    assert (part.media and part.media.media_type) == kind
    assert part.text == ("" if kind else content.decode())


def test_a_picture_that_is_too_large_is_an_error() -> None:
    Path("huge.png").write_bytes(PNG + b"\0" * (MEDIA_LIMIT + 100_000))
    with pytest.raises(CaseError, match=r"huge\.png has 20\.1 MiB, and models are sent at most 20 MiB"):
        load("[{role: user, content: [{type: image, value: huge.png}]}]")


def test_a_file_that_is_no_text_is_no_guideline() -> None:
    case = load(ASKED, ("**/*.pdf", "**/*.png"))

    assert case.guideline_paths == ()
    assert [Path(path).name for path in case.file_paths] == ["chart.png", "report.pdf"]


def test_agents_get_names_and_models_get_parts() -> None:
    assert request_of(mode="agent").prompt == Prompt(TEXT)
    prompt = request_of().prompt
    assert prompt.question == TEXT
    assert [part if isinstance(part, str) else part.path for part in prompt.parts or ()] == [
        *("Compare:", "pictures/chart.png", "with", "report.pdf", "Thanks.")
    ]
    assert prompt.in_words() == Prompt(TEXT)


@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
@pytest.mark.parametrize(
    ("kind", "model"), [("openai", "gpt-4o"), ("anthropic", "claude-sonnet-4-5"), ("gemini", "gemini-2.5-flash")]
)
def test_litellm_sends_them_as_we_do(kind: str, model: str) -> None:
    with FakeLlm() as llm:
        base_url = llm.script("media") + ("/v1" if kind == "openai" else "")
        keys = {"model": model, "api_key": Secret("sk-0123456789"), "base_url": base_url, "client": "litellm"}
        call(create_provider(Target("t", kind, KINDS.table[kind](**keys)), {}))
        text = json.dumps(llm.asked("media")[0].body)

    assert text.index(PNG64) < text.index("with") < text.index(PDF64) < text.index("Thanks.")


def test_a_file_that_changed_or_went_while_the_run_was_going_on_is_an_error() -> None:
    settings = KINDS.table["openai"](model="m", base_url="http://127.0.0.1:9")
    request, faults = request_of(), []
    for change in (lambda path: path.write_bytes(PNG + b"more"), Path.unlink):
        change(Path("pictures/chart.png"))
        with pytest.raises(ProviderError) as caught:
            call(create_provider(Target("t", "openai", settings), {}), request)
        faults.append(str(caught.value).removeprefix("pictures/chart.png "))
    assert faults == ["was changed while the run was going on", "cannot be read: No such file or directory"]


def test_a_function_that_takes_the_request_finds_the_files_and_one_that_is_to_get_a_text_is_an_error() -> None:
    def run(prompt: str, request: ProviderRequest) -> str:
        assert prompt == TEXT
        return " ".join(Path(file.resolved_path).name for file in request.prompt.media)

    (answer,) = call(adapt_provider(run, "mine")).output_messages or ()

    assert answer.content == "chart.png report.pdf"
    with pytest.raises(ProviderError, match=r"the agent gets a text, which cannot hold .* \(leave out `messages: fal"):
        build_question(request_of(), as_messages=False)
    assert build_question(request_of(), as_messages=None).has_files


def test_the_store_knows_the_content_of_files_and_not_their_folder(tmp_path: Path, monkeypatch: Any) -> None:
    keys = [key_of("target", request_of())]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    write_files()
    keys.append(key_of("target", request_of()))
    Path("pictures/chart.png").write_bytes(PNG + b"another")
    keys.append(key_of("target", request_of()))
    assert keys[0] == keys[1] != keys[2]
