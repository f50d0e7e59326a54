import os

import pytest


def test_traceback(agentv):
    key = os.environ["SHOP_API_KEY"]
    print("printed", key)
    assert agentv.run(f"Is it {key}?", evaluators=[{"contains": "nothing"}])
    assert key == "another"


def test_assertion(agentv):
    key = os.environ["SHOP_API_KEY"]
    assert agentv.run("Hi", evaluators=[{"contains": "Use"}])
    assert key == "another"


def test_skip(agentv):
    agentv.run("Hi", evaluators=[{"contains": "Use"}])
    pytest.skip(f"no use for {os.environ['SHOP_API_KEY']}")
