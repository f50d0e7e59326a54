from pytest_agentv import Message, Provider, ProviderRequest, ProviderResponse, TargetEnvironment


class Forgetful:
    async def invoke_batch(self, requests):
        with open("calls.txt", "a") as file:
            print(len(requests), file=file)
        return [ProviderResponse((Message("assistant", request.prompt.question),), cost_usd=0.5) for request in requests[:-1]]

    async def invoke(self, request: ProviderRequest):
        return ProviderResponse((Message("assistant", request.prompt.question),))


class Shop(Provider):
    """Forgets the last question."""

    kind = "shop"

    def open(self, environment: TargetEnvironment) -> Forgetful:
        return Forgetful()


def pytest_agentv_providers():
    return [Shop]
