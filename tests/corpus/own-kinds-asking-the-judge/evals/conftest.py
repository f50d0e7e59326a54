from pytest_agentv import Evaluator, Score


class Asking(Evaluator):
    kind = "asking"

    @property
    def asks_judge(self) -> bool:
        return True

    def evaluate(self, context):
        return self._ask(context)

    async def _ask(self, context):
        return Score(float(await context.services.judge.ask("Say a number.", context.candidate_answer, context)))


def pytest_agentv_evaluators():
    return [Asking]


def pytest_agentv_assert(case, result):
    return "I say no" if case.eval_id == "test_hooked" else None


def pytest_agentv_case(case):
    note("case", case.eval_id)
    return case.replace(threshold=0.5) if case.eval_id == "test_hooked" else None


def pytest_agentv_response(case, response):
    note("response", case.eval_id)


def pytest_agentv_result(case, result):
    note("result", result.eval_id, result.assertion, result.threshold)


def note(*words):
    with open("notes.txt", "a") as file:
        print(*words, file=file)
