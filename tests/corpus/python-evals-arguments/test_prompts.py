import pytest

HELLO = [{"contains": "hello"}]
PROMPTS = [
    "Say hello",
    [{"role": "system", "content": "Be kind"}, {"role": "user", "content": "Say hello"}],
    {"input": "Say hello", "criteria": "is kind"},
    {"id": "one", "input_messages": ({"role": "user", "content": "Say hello"},), "outcome": "x"},
    {"input": "Say hello", "criteria": "x", "execution": {"evaluators": [{"name": "n", "type": "nothing"}]}},
    {"input": "Hi {{ who }}", "vars": {"who": "hello"}, "evaluators": [{"contains": "{{ who }}"}]},
]


@pytest.mark.parametrize("prompt", PROMPTS, ids=["text", "messages", "case", "id", "execution", "vars"])
def test_prompt(agentv, prompt):
    assert agentv.run(prompt, **({} if "vars" in prompt else {"evaluators": HELLO}))


def test_many(agentv):
    for _ in range(3):
        agentv.run("Hi", evaluators=HELLO)
    agentv.run("Hi", evaluators=HELLO, id="named")
    agentv.run({"id": "named", "input": "Hi", "criteria": "x"}, evaluators=HELLO)


def test_wrong_arguments(agentv):
    with pytest.raises(TypeError, match="expected a text, a list of messages or a case, got int"):
        agentv.run(5)
    for files in ("notes.md", 5):
        with pytest.raises(TypeError, match=f"files: expected a list of paths, got {files!r}"):
            agentv.run("x", files=files)
    with pytest.raises(TypeError, match="files= goes with a prompt that is a text"):
        agentv.run([], files=["x"])


def test_wrong_keyword(agentv):
    agentv.run("x", evaluatrs=1)


def test_no_prompt(agentv):
    agentv.run(None)
