import pytest
from fake_llm import FakeLlm, Reply, ToolCall

genai = pytest.importorskip("google.genai", reason="google-genai is not installed")

from google.genai import types

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("default")]

COST = 26 * 0.3e-6 + 4 * 0.03e-6 + 5 * 2.5e-6


def client(url: str):  # it closes its connections when it is forgotten
    return genai.Client(api_key="key", http_options=types.HttpOptions(base_url=url))


def lookup(order: int) -> dict[str, str]:
    """Look an order up."""
    return {"status": f"sent ({order})"}


def test_a_reply_is_read(ask, fake_llm: FakeLlm):
    own = client(fake_llm.script("plain", Reply("It is sent.", cached_tokens=4)))

    response = ask(lambda prompt: own.models.generate_content(model="gemini-2.5-flash", contents=prompt))

    assert response.text == "It is sent."
    assert response.tokens == {"input": 26, "output": 5, "cached": 4}
    assert response.cost_usd == pytest.approx(COST)
    assert response.record["finish_reason"] == "STOP"


def test_functions_that_the_package_called_are_read(ask, fake_llm: FakeLlm):
    url = fake_llm.script("calling", Reply("It is sent.", calls=(ToolCall("lookup", {"order": 7}),)))
    config = types.GenerateContentConfig(tools=[lookup])
    own = client(url)

    response = ask(lambda prompt: own.models.generate_content(model="gemini-2.5-flash", contents=prompt, config=config))

    assert response.text == "It is sent."
    assert response.calls == [("lookup", {"order": 7}, {"result": {"status": "sent (7)"}})]
    assert not response.is_text_only
    assert response.tokens is None, "those of the first reply are not told"
