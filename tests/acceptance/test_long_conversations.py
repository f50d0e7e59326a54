"""Conversations in results are bounded, and say what is left out."""

import json

AGENT = """
SECRET = "sk-a-very-secret-value-1234567890"


def call(text):
    return {"tool": "search", "input": {"key": text}, "output": text, "duration_ms": 3}


def said(text, calls=1):
    return {"role": "assistant", "content": text, "tool_calls": [call(text)] * calls}


ANSWERS = {
    "short": [said("Hello")],
    "long": [said("x" * 5_000)],
    "secret": [said("x" * 3_990 + SECRET)],
    "wide": [said("c" * 5_000, calls=100)],
    "many": [said("c", calls=100)] * 70,
}


def answer(prompt):
    return {"output_messages": ANSWERS[prompt]}
"""


def test_texts_calls_and_messages_are_cut_and_secrets_are_masked_before(project, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "sk-a-very-secret-value-1234567890")
    project.write("agent.py", AGENT)
    project.write("targets.yaml", 'targets: [{name: default, provider: python, callable: "agent.py:answer"}]\n')
    names = ("short", "long", "secret", "wide", "many")
    cases = "".join(f"  - {{id: {name}, input: {name}, assert: [{{regex: .}}]}}\n" for name in names)
    project.write("a.eval.yaml", f"cases:\n{cases}")
    run = project.run(mode=())
    assert run.outcomes == {"passed": 5}, run.text
    found = {name: run.by_id[name]["output_messages"] for name in names}
    call = {"tool": "search", "input": {"key": "Hello"}, "output": "Hello", "duration_ms": 3}
    assert found["short"] == [{"role": "assistant", "content": "Hello", "tool_calls": [call]}]
    [message] = found["long"]
    assert message["content"] == "x" * 4_000 + "… (1,000 more characters)"
    assert message["tool_calls"][0]["output"].endswith("… (1,000 more characters)")
    assert "sk-a" not in json.dumps(found["secret"])
    assert found["secret"][0]["tool_calls"][0]["tool"] == "search"
    assert len(found["many"]) == 61
    assert found["many"][30]["content"] == "… 10 messages are left out …"
    assert len(found["many"][0]["tool_calls"]) == 41
    assert len(json.dumps(found["wide"])) < 1.5 * 48_000
