HELLO = [{"contains": "hello"}]


def test_unknown_key(agentv):
    assert agentv.run({"input": "Hi", "criteria": "x", "asserts": []}, evaluators=HELLO)


def test_role(agentv):
    agentv.run({"input": [{"role": "usr", "content": "Hi"}], "criteria": "x"}, evaluators=HELLO)


def test_no_outcome(agentv):
    agentv.run("Hi")


def test_odd_id(agentv):
    agentv.run({"id": 5, "input": "Hi", "criteria": "x"}, evaluators=HELLO)


def test_skips(agentv):
    agentv.run({"input": "Hi", "skip": "costs too much"}, evaluators=HELLO)


def test_skips_too_late(agentv):
    agentv.run("Hi", evaluators=HELLO)
    agentv.run({"input": "Hi", "skip": "costs too much"}, evaluators=HELLO)


def test_does_not_skip(agentv):
    assert agentv.run({"input": "Hi", "skip": False, "xfail": False, "marks": [], "tags": "polite"}, evaluators=HELLO)


def test_warns(agentv):
    case = {"input": "Hi", "xfail": "too hard", "marks": "slow", "fixtures": ["shop"]}
    assert agentv.run(case, evaluators=HELLO)


def test_target_of_the_case(agentv):
    assert agentv.run({"input": "Hi", "target": "default"}, evaluators=HELLO).target == "default"
