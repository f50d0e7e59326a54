from pytest_agentv import Score


def number(answer):
    return 0.5


def mapping(data):
    return {"score": data["x"], "hits": ["h"], "misses": ["m"], "reasoning": "r", "details": {"k": 1}}


limit = 3


def everything(**given):
    return sorted(given) == ["answer", "case", "data", "metrics", "vars"]


def calls_or_none(answer, tool_calls=None):
    return tool_calls is None


def deletes(tool_calls):
    return any(call.tool == "delete" for call in tool_calls)


def nothing(answer):
    return None


def odd(answer):
    return {"score": 1, "hit": []}


def wants(answer, context):
    return True


def patient(answer, seconds=2, *, times=3):
    return True


first, (second, *others) = number, (number, number)


def no_number(answer):
    return Score(value=float("nan"))


def a_text(answer):
    return Score(value="0.5")


def a_truth(answer):
    return Score(value=True)


def infinite(answer):
    return Score(value=float("inf"))


def far_above(answer):
    return Score(value=10**5000)


def far_below(answer):
    return Score(value=-3)


def odd_reason(answer):
    return Score(1.0, reasoning=5)


def odd_hits(answer):
    return Score(1.0, hits=["a", 5])


def odd_details(answer):
    return {"score": 1, "details": ["a"]}


def one_hit(answer):
    return {"score": 1, "hits": "all of it", "misses": ["", "x"]}


def greedy(data, vars, tool_calls):
    data["x"].clear()
    vars["words"].clear()
    tool_calls[0].input.clear()
    return True
