from pytest_agentv import Evaluator, EvaluatorError, Provider, ProviderError, ProviderResponse

class Odd(Provider):
    kind = "odd"

    def open(self, environment):
        return self

    def invoke(self, request):
        if request.eval_id == "raised":
            raise ProviderError("gone", kind="unavailable")
        return ProviderResponse(error="gone", error_kind="unavailable", cost_usd=0.5)

    def invoke_batch(self, requests):
        return [ProviderResponse(error="gone", error_kind="unavailable", cost_usd=0.5) for request in requests]

class Judge(Evaluator):
    kind = "judge"

    def evaluate(self, context):
        error = EvaluatorError("gone")
        error.kind = "unavailable"
        raise error

def pytest_agentv_providers():
    return [Odd]

def pytest_agentv_evaluators():
    return [Judge]
