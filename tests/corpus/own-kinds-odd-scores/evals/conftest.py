import math

from pytest_agentv import Evaluator, EvaluatorError, EvaluatorResult, Score

LOOP = {}
LOOP["self"] = LOOP


def member(**keys):
    return EvaluatorResult(**{"name": "m", "type": "own", "score": 1.0, "verdict": "pass"} | keys)


def broken(text, *results, **keys):
    error = EvaluatorError(text, **keys)
    error.results = results
    raise error


def wordless():
    try:
        raise TimeoutError
    except TimeoutError as error:
        raise EvaluatorError(str(error), "timeout")


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
    "score-is-nan": lambda: Score(math.nan),
    "score-is-infinite": lambda: Score(math.inf),
    "score-is-true": lambda: Score(True),
    "score-is-null": lambda: Score(None),
    "above-1": lambda: Score(1.5),
    "below-0": lambda: Score(-1),
    "verdict-beside-score": lambda: Score(0.9, verdict="fail"),
    "key-is-number": lambda: Score(1, details={"a": {1: 2}}),
    "class-of-scores": lambda: Score,
    "error-without-text": lambda: Score(0, error=" \n", error_kind="timeout"),
    "raises": lambda: broken("it broke", kind="timeout", output="half a reply"),
    "raises-with-member": lambda: broken("no judgement", member()),
    "raises-with-number": lambda: broken("no judgement", 5),
    "raises-blank": lambda: broken(" "),
    "raises-wordless": wordless,
}


class Own(Evaluator):
    kind = "own"
    value: str

    def evaluate(self, context):
        return SCORES[self.value]()


def pytest_agentv_evaluators():
    return [Own]
