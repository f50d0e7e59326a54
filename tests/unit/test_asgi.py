"""ASGI applications in this process: requests, lifespans, failures."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.messages import candidate_answer
from pytest_agentv.providers.asgi import Asgi
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse
from pytest_agentv.providers.table import create_provider

APP = """
import asyncio
import json

LOG = []

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await lifespan(scope, receive, send)
        return
    body = json.loads((await receive())["body"] or b"{}")
    path = scope["path"]
    if path == "/raise":
        raise KeyError("no such product")
    if path == "/silent":
        return
    if path == "/moved":
        await send({"type": "http.response.start", "status": 307, "headers": [(b"location", b"/ask")]})
        await send({"type": "http.response.body"})
        return
    await asyncio.sleep(0.001)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    if path == "/endless":
        while True:
            await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})
    if path == "/half":
        await send({"type": "http.response.body", "body": b"x", "more_body": True})
        return
    reply = {
        "text": body.get("prompt"),
        "path": path,
        "query": scope["query_string"].decode(),
        "started": scope["state"].get("started"),
    }
    content = json.dumps(reply).encode()
    await send({"type": "http.response.body", "body": content[:3], "more_body": True})
    await send({"type": "http.response.body", "body": content[3:]})


async def lifespan(scope, receive, send):
    while True:
        word = (await receive())["type"]
        LOG.append(word)
        scope["state"]["started"] = len(LOG)
        await send({"type": word + ".complete"})
        if word == "lifespan.shutdown":
            return


async def failing(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})


async def plain(scope, receive, send):
    assert scope["type"] == "http"
    await app(scope, receive, send)
"""


LOGGING = """
class Log(list):
    def append(self, word):
        super().append(word)
        with open({path!r}, "a") as file:
            file.write(word + " ")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "service.py").write_text(APP)
    return tmp_path


def ask(folder: Path, *prompts: str, **keys: Any) -> list[ProviderResponse]:
    values = {"app": "service.py:app", "path": "/ask", "max_retries": 0, **keys}
    target = Target("shop", "asgi", Asgi(**values), path=str(folder / "targets.yaml"), line=3)

    async def run() -> list[ProviderResponse]:
        provider = create_provider(target, {})
        try:
            await provider.check()
            requests = [ProviderRequest(Prompt(text), f"c{number}") for number, text in enumerate(prompts or ("hi",))]
            return list(await asyncio.gather(*map(provider.invoke, requests)))
        finally:
            await provider.close()

    return asyncio.run(run())


def failure(folder: Path, **keys: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        ask(folder, **keys)
    return caught.value


def test_fifty_in_flight_do_not_mix_and_share_one_lifespan(folder: Path) -> None:
    log = folder / "log"
    (folder / "log.py").write_text(LOGGING.format(path=str(log)))
    with (folder / "service.py").open("a") as file:
        file.write("\n\nfrom log import Log\n\nLOG = Log()\n")

    found = ask(folder, *(f"q{number}" for number in range(50)))

    assert [candidate_answer(response.output_messages) for response in found] == [f"q{number}" for number in range(50)]
    assert log.read_text().split() == ["lifespan.startup", "lifespan.shutdown"]


@pytest.mark.parametrize(
    ("keys", "kind", "message"),
    [
        ({"app": "service.py:failing"}, "config", "did not start: no database"),
        ({"app": "service.py:ap"}, "config", "has no function 'ap' (did you mean 'app'?)"),
        ({"app": "service.py:LOG"}, "config", "is a value of type list, expected an ASGI application"),
        ({"app": "servce.py:app"}, "config", "did you mean 'service.py'?"),
        ({"path": "/raise"}, "crash", "KeyError: 'no such product'"),
        ({"path": "/silent"}, "crash", "it ended without a reply"),
        ({"path": "/half"}, "crash", "it ended in the middle of its reply"),
        ({"path": "/endless"}, "crash", "it has more than 10 MiB"),
        ({"path": "/moved"}, "config", "(http://localhost/moved leads to /ask: if that is right"),
    ],
)
def test_failures_are_told(folder: Path, keys: dict[str, str], kind: str, message: str) -> None:
    error = failure(folder, **keys)

    assert message in str(error)
    assert error.kind == kind
    assert ("targets.yaml:3): serv" in str(error)) is ("app" in keys), "the line of what is configured"


@pytest.mark.parametrize(
    ("keys", "fault"), [({"app": "service"}, "expected package.module:app"), ({"path": "ask"}, "starts with /")]
)
def test_faults_are_found_in_the_file(keys: dict[str, str], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        Asgi(**{"app": "a:b", **keys})


RAISING = """
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        {start}
        await send({{"type": "lifespan.startup.complete"}})
        await receive()
        raise RuntimeError("no database to close")
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    await send({{"type": "http.response.body", "body": b'{{"text": "hi"}}'}})
"""


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("raise RuntimeError('no database')", "odd.py:app raised in its lifespan: RuntimeError: no database"),
        ("pass", "odd.py:app did not end well: RuntimeError: no database to close"),
    ],
)
def test_what_a_lifespan_raises_is_logged(
    folder: Path, caplog: pytest.LogCaptureFixture, start: str, message: str
) -> None:
    (folder / "odd.py").write_text(RAISING.format(start=start))

    (found,) = ask(folder, app="odd.py:app")

    assert candidate_answer(found.output_messages) == "hi"
    (logged,) = caplog.messages
    assert logged.endswith(message)
