"""What servers make of a key in their messages: half of it, in another case, over two lines."""

import asyncio
import time
from pathlib import Path

import pytest
from fake_llm import FakeLlm, Reply
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.errors import ProviderError
from pytest_agentv.model.cases import Target
from pytest_agentv.model.secrets import Secret, mask_pieces
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.table import KINDS as TABLE
from pytest_agentv.providers.table import create_provider

KEY = "sk-Zq9Secret0123456789abcdefXY"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f"the key {KEY} is bad", "the key *** is bad"),
        (f"the key {KEY.upper()} is bad", "the key *** is bad"),
        (f"the key {KEY[:12]}\n{KEY[12:]} is bad", "the key *** is bad"),
        (f"the key {KEY[:12]}\\n{KEY[12:]} is bad", "the key *** is bad"),
        (f"the key {' '.join(KEY)} is bad", "the key *** is bad"),
        (f"the key {KEY[:18]}... is bad", "the key ***... is bad"),
        (f"the key ...{KEY[-18:]} is bad", "the key ...*** is bad"),
        (f"{KEY} or {KEY.lower()}", "*** or ***"),
        (f"the key {KEY[:5]}…{KEY[-4:]} is bad", f"the key {KEY[:5]}…{KEY[-4:]} is bad"),
        ("the key is bad", "the key is bad"),
        ("", ""),
    ],
)
def test_a_large_piece_of_a_key_is_masked(said: str, shown: str) -> None:
    assert mask_pieces(said, [KEY]) == shown


@given(st.text(max_size=60), st.text(min_size=8, max_size=20))
def test_other_texts_stay_as_they_are(text: str, secret: str) -> None:
    found = mask_pieces(text, [secret])

    assert found == text or "***" in found


def test_a_short_text_takes_no_time() -> None:
    started = time.process_time()
    mask_pieces("a" * 600, ["a" * 300 + "b", "c" * 4000])
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize("echo", [KEY.upper(), f"{KEY[:12]}\n{KEY[12:]}", KEY[:20]])
@pytest.mark.parametrize("place", ["key", "url"])
def test_a_server_that_repeats_the_key_in_its_own_way_does_not_tell_it(echo: str, place: str) -> None:
    with FakeLlm() as llm:
        body = {"error": {"message": f"no such key: {echo}"}}
        url = llm.script("s", Reply(status=401, content=body)) + "/v1"
        given = {"api_key": Secret(KEY), "base_url": url} if place == "key" else {"base_url": f"{url}?key={KEY}"}
        settings = TABLE.table["openai"](model="gpt-4o", **given)
        provider = create_provider(Target("t", "openai", settings, path=str(Path.cwd() / "targets.yaml"), line=3), {})

        async def run() -> None:
            try:
                await provider.invoke(ProviderRequest(Prompt("q"), "c1"))
            finally:
                await provider.close()

        with pytest.raises(ProviderError) as caught:
            asyncio.run(run())

    assert "replied HTTP 401: no such key: *** (check the api_key" in str(caught.value)
