from pytest_agentv import Message, Provider, ProviderError, ProviderResponse

class Wordless(Provider):
    kind = "wordless"

    def open(self, environment):
        return self

    def invoke(self, request):
        try:
            raise TimeoutError
        except TimeoutError as error:
            raise ProviderError(str(error), kind="network")

    def invoke_batch(self, requests):
        return [ProviderResponse((Message("assistant", "hello"),), error="") for _ in requests]

def pytest_agentv_providers():
    return [Wordless]
