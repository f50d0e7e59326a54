from pathlib import Path

HELLO = [{"contains": "hello"}]


def test_one(agentv):
    assert agentv.run("Read this", files=["policy.txt"], evaluators=HELLO)


def test_path(agentv):
    assert agentv.run("Read this", files=[Path("policy.txt")], evaluators=HELLO)


def test_missing(agentv):
    agentv.run("Read this", files=["other.txt"], evaluators=HELLO)
