from brevity import Brevity


def test_an_object_is_an_evaluator(agentv):
    assert agentv.run("Ada", evaluators=[Brevity(name="short", longest=9)])
