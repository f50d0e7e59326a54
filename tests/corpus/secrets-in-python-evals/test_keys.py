import logging
import os
import warnings

import pytest


def test_traceback(agentv):
    key = os.environ["SHOP_API_KEY"]
    print("printed", key)
    logging.getLogger("test").warning("logged %s", key)
    assert agentv.run(f"Is it {key}?", evaluators=[{"contains": "nothing"}])
    assert key == "another"


def test_assertion(agentv):
    key = os.environ["SHOP_API_KEY"]
    assert agentv.run("Hi", evaluators=[{"contains": "Use"}])
    assert key == "another"


def test_skip(agentv):
    warnings.warn("is sk-live-1234567890abcdef still in use?", stacklevel=1)
    agentv.run("Hi", evaluators=[{"contains": "Use"}])
    pytest.skip(f"no use for {os.environ['SHOP_API_KEY']}")
