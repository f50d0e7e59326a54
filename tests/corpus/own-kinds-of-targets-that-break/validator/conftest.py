from pydantic import field_validator
from pytest_agentv import Evaluator, Provider, Score

def checked(value):
    raise SystemExit("gone") if value == "exit" else ZeroDivisionError("odd")

class Strict(Provider):
    kind = "strict"
    value: str
    check = field_validator("value")(checked)

    def open(self, environment):
        return self

class Judge(Evaluator):
    kind = "judge"
    value: str
    check = field_validator("value")(checked)

    def evaluate(self, context):
        return Score(1.0)

def pytest_agentv_providers():
    return [Strict]

def pytest_agentv_evaluators():
    return [Judge]
