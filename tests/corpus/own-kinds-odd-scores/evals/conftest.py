import math

from pytest_agentv import Evaluator, EvaluatorResult, Score

LOOP = {}
LOOP["self"] = LOOP


def member(**keys):
    return EvaluatorResult(**{"name": "m", "type": "own", "score": 1.0, "verdict": "pass"} | keys)


SCORES = {
    "lists": lambda: Score(1, hits={"a"}, results=[member(hits=["h"], evaluator_results=[member()])]),
    "amounts": lambda: Score(1, results=[member(weight=math.nan, duration_ms=-1, score=1 + 1e-12)]),
    "text-as-hits": lambda: Score(1, hits="text"),
    "number-as-reasoning": lambda: Score(1, reasoning=5),
    "odd-verdict": lambda: Score(1, verdict="great"),
    "details-of-objects": lambda: Score(1, details={"a": {1, 2}}),
    "details-in-a-loop": lambda: Score(1, details=LOOP),
    "member-is-number": lambda: Score(1, results=[5]),
    "member-of-member": lambda: Score(1, results=[member(evaluator_results=[member(name=3)])]),
    "member-above-1": lambda: Score(1, results=[member(score=1.5)]),
    "member-broken": lambda: Score(1, results=[member(error="it is down", error_kind="network")]),
    "score-is-text": lambda: Score("0.5"),
    "no-score": lambda: 0.5,
}


class Own(Evaluator):
    kind = "own"
    value: str

    def evaluate(self, context):
        return SCORES[self.value]()


def pytest_agentv_evaluators():
    return [Own]
