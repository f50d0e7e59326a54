"""Pictures and PDFs of messages: how they are read, what each API and each kind of target gets, what is recorded."""

import asyncio
import base64
import importlib.util
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_llm import FakeLlm

from pytest_agentv.cases.cases import load_case
from pytest_agentv.cases.prompts import Prompt, PromptMode, build_prompt
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.cases.written import LoadContext
from pytest_agentv.engine.cache import CachedProvider
from pytest_agentv.errors import CaseError, ProviderError
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.model.cases import EvalCase, Target
from pytest_agentv.model.messages import MEDIA_LIMIT, FilePart, Message
from pytest_agentv.model.secrets import Masker, Secret
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.python import adapt_provider
from pytest_agentv.providers.python_calls import build_question
from pytest_agentv.providers.table import KINDS, create_provider

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(40))
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj"
PNG64, PDF64 = base64.b64encode(PNG).decode(), base64.b64encode(PDF).decode()
PNG_URL, PDF_URL = f"data:image/png;base64,{PNG64}", f"data:application/pdf;base64,{PDF64}"
NUMBERS = itertools.count()

ASKED = """[{role: user, content: [
    "Compare: ", {type: image, value: pictures/chart.png}, "with", {type: file, value: report.pdf}, Thanks.
]}]"""
TEXT = 'Compare:\n\n<file: path="pictures/chart.png">\n\nwith\n\n<file: path="report.pdf">\n\nThanks.'


@pytest.fixture(autouse=True)
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pictures").mkdir()
    Path("pictures/chart.png").write_bytes(PNG)
    Path("report.pdf").write_bytes(PDF)
    return tmp_path


@pytest.fixture(scope="module")
def llm() -> Iterator[FakeLlm]:
    with FakeLlm() as server:
        yield server


def load(messages: str, patterns: tuple[str, ...] = ()) -> EvalCase:
    path = Path("qa.yaml")
    path.write_text(f"evalcases:\n  - {{id: a, outcome: ok, input: {messages}}}\n", "utf-8")
    suite = read_suite(path)
    context = LoadContext(Path.cwd(), Path.cwd(), patterns, evaluators=EVALUATORS)
    return load_case(suite, suite.entries[0], context).case


def fault_of(messages: str) -> str:
    with pytest.raises(CaseError) as caught:
        load(messages)
    return str(caught.value).replace("evalcases[0].input[0].", "")


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


def refusal(provider: Any, request: ProviderRequest | None = None) -> str:
    with pytest.raises(ProviderError) as caught:
        call(provider, request)
    assert caught.value.kind == "config"
    return str(caught.value)


# reading


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
        (b"GIF89a\x01\0", "image/gif"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "image/webp"),
        (PDF, "application/pdf"),
        (b"\0\0\n" + PDF, "application/pdf"),
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


@pytest.mark.parametrize(
    ("item", "fault"),
    [
        ("{type: image, value: no.png}", "content[0].value: file 'no.png' was not found; searched: no.png"),
        ("{type: image}", "content[0]: the image item has no value"),
        ("{type: image, path: a.png}", "content[0]: the image item has no value (rename 'path' to 'value')"),
        (
            "{type: image, value: report.pdf}",
            "content[0].value: expected a picture (PNG, JPEG, GIF or WebP), but report.pdf is a PDF (write type: file)",
        ),
        (
            "{type: image, value: qa.yaml}",
            "content[0].value: expected a picture (PNG, JPEG, GIF or WebP), but qa.yaml is a text (write type: file)",
        ),
        (
            "{type: image, value: scan.tiff}",
            "content[0].value: scan.tiff is neither a text in UTF-8, a picture (PNG, JPEG, GIF or WebP) nor a PDF",
        ),
        (
            "{type: image, value: huge.png}",
            "content[0].value: huge.png has 20.1 MiB, and models are sent at most 20 MiB",
        ),
        (
            "{type: image, value: 'https://shop.example/a.png?sig=abc'}",
            "content[0].value: expected the path of a file: what lies elsewhere may change, and no result would tell, "
            "got the text 'https:…' (download it, and write its path)",
        ),
        (
            f"{{type: image, value: '{PNG_URL}'}}",
            "content[0].value: expected the path of a file: what lies elsewhere may change, and no result would tell, "
            "got the text 'data:…' (download it, and write its path)",
        ),
    ],
)
def test_a_picture_that_cannot_be_sent_is_an_error_with_its_place(item: str, fault: str) -> None:
    Path("scan.tiff").write_bytes(b"II*\0\x08\0\0\0")
    Path("huge.png").write_bytes(PNG + b"\0" * (MEDIA_LIMIT + 100_000))

    assert fault_of(f"[{{role: user, content: [{item}]}}]") == f"qa.yaml:2: {fault}"


def test_a_picture_of_another_role_than_the_user_is_an_error() -> None:
    assert fault_of(
        "[{role: assistant, content: [{type: image, value: pictures/chart.png}]}, {role: user, content: x}]"
    ) == (
        "qa.yaml:2: content[0]: models take pictures in messages of the user only, "
        "and the role of this one is assistant"
    )


def test_a_file_that_is_no_text_is_no_guideline() -> None:
    case = load(ASKED, ("**/*.pdf", "**/*.png"))

    assert case.guideline_paths == ()
    assert [Path(path).name for path in case.file_paths] == ["chart.png", "report.pdf"]


# prompts


def test_agents_get_names_and_models_get_parts() -> None:
    assert request_of(mode="agent").prompt == Prompt(TEXT)
    prompt = request_of().prompt
    assert prompt.question == TEXT
    assert [part if isinstance(part, str) else part.path for part in prompt.parts or ()] == [
        "Compare:",
        "pictures/chart.png",
        "with",
        "report.pdf",
        "Thanks.",
    ]
    assert prompt.in_words() == Prompt(TEXT)


CONVERSATION = """[
    {role: system, content: Be brief.}, {role: user, content: [Look, {type: image, value: pictures/chart.png}]},
    {role: assistant, content: Nice.}, {role: user, content: Is it?}
]"""


def test_a_conversation_keeps_its_pictures_in_their_messages() -> None:
    prompt = request_of(CONVERSATION).prompt

    assert prompt.parts is None
    chat = prompt.chat_prompt or ()
    assert [(message.role, bool(message.parts)) for message in chat] == [
        ("system", False),
        ("user", True),
        ("assistant", False),
        ("user", False),
    ]
    assert [file.path for file in prompt.media] == ["pictures/chart.png"]
    assert not prompt.in_words().media


def test_a_pdf_of_another_role_is_an_error_for_models_only() -> None:
    messages = "[{role: system, content: [{type: file, value: report.pdf}]}, {role: user, content: x}]"

    assert "report.pdf" in request_of(messages, "agent").prompt.question
    with pytest.raises(CaseError, match=r"^qa\.yaml:2: report\.pdf is in a message of the role system; models take"):
        request_of(messages)


# models

MODELS = {"openai": "gpt-4o", "azure": "gpt-4o", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash"}


def model(llm: FakeLlm, kind: str, **keys: Any) -> tuple[Any, str]:
    name = f"media-{next(NUMBERS)}"
    base_url = llm.script(name) + ("/v1" if kind == "openai" else "")
    values = {"model": MODELS[kind], "api_key": Secret("sk-0123456789"), "base_url": base_url, "max_retries": 0, **keys}
    return create_provider(Target("t", kind, KINDS.table[kind](**values)), {}), name


def sent(llm: FakeLlm, kind: str, request: ProviderRequest | None = None, **keys: Any) -> Any:
    provider, name = model(llm, kind, **keys)
    call(provider, request)
    (asked,) = llm.asked(name)
    return asked.body


CHAT_PARTS = [
    {"type": "text", "text": "Compare:"},
    {"type": "image_url", "image_url": {"url": PNG_URL}},
    {"type": "text", "text": "with"},
    {"type": "file", "file": {"filename": "report.pdf", "file_data": PDF_URL}},
    {"type": "text", "text": "Thanks."},
]


@pytest.mark.parametrize("kind", ["openai", "azure"])
def test_the_wire_of_openai(llm: FakeLlm, kind: str) -> None:
    messages = sent(llm, kind)["messages"]

    assert isinstance(messages[0]["content"], str)
    assert messages[1] == {"role": "user", "content": CHAT_PARTS}


@pytest.mark.parametrize("kind", ["openai", "azure"])
def test_the_wire_of_responses(llm: FakeLlm, kind: str) -> None:
    body = sent(llm, kind, api_format="responses")

    assert body["input"][1]["content"] == [
        {"type": "input_text", "text": "Compare:"},
        {"type": "input_image", "image_url": PNG_URL},
        {"type": "input_text", "text": "with"},
        {"type": "input_file", "filename": "report.pdf", "file_data": PDF_URL},
        {"type": "input_text", "text": "Thanks."},
    ]


def test_the_wire_of_anthropic(llm: FakeLlm) -> None:
    body = sent(llm, "anthropic")

    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Compare:"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG64}},
                {"type": "text", "text": "with"},
                {
                    "type": "document",
                    "source": {"type": "base64", "media_type": "application/pdf", "data": PDF64},
                    "title": "report.pdf",
                },
                {"type": "text", "text": "Thanks."},
            ],
        }
    ]


def test_the_wire_of_gemini(llm: FakeLlm) -> None:
    body = sent(llm, "gemini")

    assert body["contents"] == [
        {
            "role": "user",
            "parts": [
                {"text": "Compare:"},
                {"inline_data": {"mime_type": "image/png", "data": PNG64}},
                {"text": "with"},
                {"inline_data": {"mime_type": "application/pdf", "data": PDF64}},
                {"text": "Thanks."},
            ],
        }
    ]


@pytest.mark.parametrize("kind", MODELS)
def test_a_conversation_and_a_picture_without_words(llm: FakeLlm, kind: str) -> None:
    assert json.dumps(sent(llm, kind, request_of(CONVERSATION))).count(PNG64) == 1
    alone = sent(llm, kind, request_of("[{role: user, content: [{type: image, value: pictures/chart.png}]}]"))
    (message,) = (alone.get("contents") or alone["messages"])[-1:]
    assert len(message.get("parts") or message["content"]) == 1


@pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")
@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini"])
def test_litellm_sends_them_as_we_do(llm: FakeLlm, kind: str) -> None:
    body = sent(llm, kind, client="litellm")

    text = json.dumps(body)
    assert PNG64 in text
    assert PDF64 in text
    assert text.index(PNG64) < text.index("with") < text.index(PDF64) < text.index("Thanks.")


def test_files_that_models_cannot_be_sent_are_errors_before_anything_is_asked(llm: FakeLlm) -> None:
    Path("data.zip").write_bytes(b"PK\x03\x04\0\0")
    provider, name = model(llm, "openai")
    request = request_of("[{role: user, content: [{type: file, value: data.zip}]}]")

    assert refusal(provider, request) == (
        "data.zip cannot be sent to a model: "
        "it is neither a text in UTF-8, a picture (PNG, JPEG, GIF or WebP) nor a PDF"
    )
    request = request_of()
    Path("pictures/chart.png").write_bytes(PNG + b"more")
    assert refusal(provider, request) == "pictures/chart.png was changed while the run was going on"
    Path("pictures/chart.png").unlink()
    assert refusal(provider, request) == "pictures/chart.png cannot be read: No such file or directory"
    assert not llm.asked(name)


# functions, agents and services


def test_a_function_with_messages_gets_the_parts() -> None:
    Path("agent.py").write_text(
        "def run(messages):\n    return {'text': 'ok', 'output_messages': ["
        + """
        {'role': 'assistant', 'content': messages}]}\n"""
    )
    python = KINDS.table["python"](callable="agent.py:run", messages=True)
    provider = create_provider(Target("t", "python", python, path=str(Path("targets.yaml").absolute())), {})

    (answer,) = call(provider).output_messages or ()

    assert answer.content == [{"role": "user", "content": CHAT_PARTS}]


def test_a_function_that_gets_a_text_says_that_it_cannot_hold_a_picture() -> None:
    assert refusal(adapt_provider(lambda prompt: "ok", "mine")).endswith(
        "gets a text, which cannot hold pictures/chart.png, report.pdf "
        "(set `messages: true`, or take a parameter `request` and read `request.prompt.media`)"
    )


def test_an_agent_that_is_to_get_a_text_is_an_error() -> None:
    with pytest.raises(ProviderError, match=r"the agent gets a text, which cannot hold .* \(leave out `messages: fal"):
        build_question(request_of(), as_messages=False)
    assert build_question(request_of(), as_messages=None).has_files


def test_a_function_that_takes_the_request_finds_the_files() -> None:
    def run(prompt: str, request: ProviderRequest) -> str:
        assert prompt == TEXT
        return " ".join(Path(file.resolved_path).name for file in request.prompt.media)

    (answer,) = call(adapt_provider(run, "mine")).output_messages or ()

    assert answer.content == "chart.png report.pdf"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"messages": "{{ messages }}"}, {"messages": [{"role": "user", "content": CHAT_PARTS}]}),
        (
            {"messages": [], "q": "{{ prompt }}", "image": "{{ files[0].data }}", "files": "{{ files }}"},
            {
                "messages": [],
                "q": TEXT,
                "image": PNG64,
                "files": [
                    {"name": "chart.png", "media_type": "image/png", "data": PNG64, "url": PNG_URL},
                    {"name": "report.pdf", "media_type": "application/pdf", "data": PDF64, "url": PDF_URL},
                ],
            },
        ),
    ],
)
def test_a_service_gets_them_where_its_body_names_them(llm: FakeLlm, body: Any, found: Any) -> None:
    name = f"media-{next(NUMBERS)}"
    url = llm.script(name) + "/chat/completions"
    settings = KINDS.table["http"](url=url, body=body, answer="$.choices[0].message.content")

    call(create_provider(Target("t", "http", settings), {}))

    (asked,) = llm.asked(name)
    assert asked.body == found


def test_a_service_whose_body_has_only_the_prompt_says_so() -> None:
    settings = KINDS.table["http"](url="http://127.0.0.1:9/ask")

    assert refusal(create_provider(Target("t", "http", settings), {})) == (
        "the body of target 't' cannot hold pictures/chart.png, report.pdf "
        "(write {{ messages }} or {{ files }} into it)"
    )


# the cache


class Counting:
    """Counts its calls."""

    mode: PromptMode = "lm"
    calls = 0

    async def check(self) -> None: ...

    async def close(self) -> None: ...

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        self.calls += 1
        return ProviderResponse((Message("assistant", "an answer"),))


def test_the_cache_knows_the_content_and_neither_the_folder_nor_the_bytes(tmp_path: Path, monkeypatch: Any) -> None:
    counting = Counting()
    cache = CachedProvider(counting, "fingerprint", tmp_path / "cache", Masker())
    call(cache)
    assert call(cache).cached
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "pictures").mkdir(parents=True)
    monkeypatch.chdir(elsewhere)
    Path("pictures/chart.png").write_bytes(PNG)
    Path("report.pdf").write_bytes(PDF)
    assert call(cache).cached
    Path("pictures/chart.png").write_bytes(PNG + b"another")
    assert not call(cache).cached
    assert counting.calls == 2
    kept = "".join(path.read_text() for path in (tmp_path / "cache").rglob("*.json"))
    assert "base64" not in kept
    assert PNG64[:20] not in kept
