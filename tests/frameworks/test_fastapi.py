"""A FastAPI service, as an application in the process and behind a real server."""

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
uvicorn = pytest.importorskip("uvicorn")

pytestmark = pytest.mark.frameworks

SERVICE = """
import asyncio
import json
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

STARTS = []


@asynccontextmanager
async def lifespan(app):
    STARTS.append(1)
    yield {"starts": len(STARTS)}


app = FastAPI(lifespan=lifespan)


class Question(BaseModel):
    question: str


@app.post("/ask/")
async def ask(question: Question):
    await asyncio.sleep(0.001)
    return {
        "answer": f"Answer to {question.question}",
        "usage": {"input_tokens": 10, "output_tokens": 5},
        "steps": [{"name": "look_up", "arguments": {"question": question.question}}],
    }


@app.post("/sync")
def sync(question: Question):
    return {"answer": f"Answer to {question.question}"}


@app.post("/stream")
async def stream(question: Question):
    async def events():
        for word in ("Answer", " to ", question.question):
            yield f"data: {json.dumps({'delta': word})}\\n\\n"
            await asyncio.sleep(0)

    return StreamingResponse(events(), media_type="text/event-stream")


@app.post("/fail")
async def fail(question: Question):
    raise RuntimeError("no stock")
"""

BODY = {"question": "{{ prompt }}"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("service")
    (folder / "shop_service.py").write_text(SERVICE)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """Serve the application with uvicorn, on a port that is free."""
    server = uvicorn.Server(
        uvicorn.Config("shop_service:app", port=0, ws="none", log_level="error", timeout_keep_alive=1)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        thread.start()
        while not server.started:
            assert thread.is_alive()
            threading.Event().wait(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        server.should_exit = True
        thread.join(10)


@pytest.fixture(params=["http", "asgi"])
def ask(request: pytest.FixtureRequest, folder: Path, tmp_path: Path, run_inputs: Any) -> Any:
    def ask_all(path: str, *questions: str, **keys: Any) -> Any:
        place = {"app": f"{folder}/shop_service.py:app", "path": path}
        if request.param == "http":
            place = {"url": request.getfixturevalue("url") + path}
        settings = {"body": BODY, "answer": "$.answer", "max_retries": 0, **place, **keys}
        targets = {"targets": [{"name": "default", "provider": request.param, **settings}]}
        (tmp_path / "targets.yaml").write_text(json.dumps(targets))
        return run_inputs(questions)

    return ask_all


def test_fifty_in_flight_do_not_mix(ask: Any) -> None:
    questions = [f"question {number}" for number in range(50)]
    found = ask("/ask/", *questions, tokens="$.usage", tool_calls="$.steps")
    assert [each.text for each in found] == [f"Answer to {text}" for text in questions]
    assert [each.calls for each in found] == [[("look_up", {"question": text}, None)] for text in questions]
    assert all(each.tokens == {"input": 10, "output": 5} for each in found)


@pytest.mark.parametrize(
    ("path", "keys"), [("/ask/", {}), ("/sync", {}), ("/stream", {"stream": "sse", "answer": "$.delta"})]
)
def test_async_and_sync_functions_and_streams(ask: Any, path: str, keys: dict[str, str]) -> None:
    (found,) = ask(path, 'it\'s "quoted"', **keys)
    assert found.text == 'Answer to it\'s "quoted"'


def test_a_body_that_does_not_fit_and_what_the_service_raises_are_told(ask: Any) -> None:
    (found,) = ask("/ask/", "me", body={"query": "{{ prompt }}"})
    assert re.search(r"HTTP 422: .*question.*\(check the body of target 'default'", found.error)
    (found,) = ask("/fail", "me")
    assert re.search(r"RuntimeError: no stock|HTTP 500", found.error)
