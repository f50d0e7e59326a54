HI = [{"contains": "hi"}]


def test_no_answer(agentv):
    agentv.run("Hello", evaluators=HI)


def test_wrong_key(agentv):
    agentv.evaluate("hi", evaluators=[{"type": "contains", "valeu": "hi"}])
