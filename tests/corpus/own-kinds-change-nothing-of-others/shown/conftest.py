from pytest_agentv import Evaluator, Score

class Greedy(Evaluator):
    kind = "greedy"

    def evaluate(self, context):
        for call in context.output_messages[0].tool_calls:
            call.input.clear()
        for event in context.trace:
            event.input["limits"].append(9)
        context.case.vars["order"] = "changed"
        context.case.expected_messages[0]["content"] = "changed"
        context.metrics.tool_durations.clear()
        return Score(1.0)

def pytest_agentv_evaluators():
    return [Greedy]
