from pytest_agentv import Evaluator, Score

def broken(self):
    raise RuntimeError("mine")

class Odd(Evaluator):
    kind = "odd"
    def evaluate(self, context): return Score(1.0)

KINDS = {
    "label": property(lambda self: 5),
    "method": lambda self: "a method",
    "summary": lambda self: None,
    "weight": property(lambda self: float("nan")),
    "asks_judge": property(broken),
    "embeds_with": property(lambda self: 5),
    "scripts": property(lambda self: ["a.py"]),
    "required_score": lambda self, threshold: "x",
    "walk": lambda self: None,
    "keys_of": classmethod(lambda cls, value: 5),
    "doubts": lambda self, case: 5,
    "prepare": lambda self, services: KINDS["label"](),
}

def kind(name, member):
    return type("Odd", (Odd,), {"kind": name, "label" if name == "method" else name: member})

KINDS = {name: kind(name, member) for name, member in KINDS.items()}

def pytest_agentv_evaluators():
    return list(KINDS.values())
