import pytest


def test_refund(agentv):
    assert agentv.run("1", id="first", evaluators=[{"name": "price", "type": "contains", "value": "120"}])
    assert agentv.run("2", id="second", evaluators=[{"name": "period", "type": "contains", "value": "30 days"}])


@pytest.mark.parametrize("product", ["tent", "lamp"])
def test_product(agentv, product):
    agentv.run(product, evaluators=[{"name": "price", "type": "contains", "value": "120"}]).assert_passed()


def test_broken(agentv):
    assert agentv.run("raise", evaluators=[{"type": "contains", "value": "a"}])
