from pytest_agentv import Evaluator, Provider, Score


def note(text):
    with open("calls.txt", "a") as file:
        file.write(f"{text}\n")


class Greeter(Provider):
    kind = "greeter"

    def open(self, environment):
        return self

    def invoke(self, request):
        note("greeter is asked")
        return "hello from the conftest"


class Polite(Evaluator):
    kind = "polite"

    def evaluate(self, context):
        note("polite judges")
        return Score(float("hello" in context.candidate_answer))


def at_most(longest):
    class AtMost(Evaluator):
        kind = "at-most"

        def evaluate(self, context):
            note("at-most judges")
            return Score(float(len(context.candidate_answer) <= longest))

    return AtMost


def pytest_agentv_providers():
    return [Greeter]


def pytest_agentv_evaluators():
    return [Polite, at_most(30)]
