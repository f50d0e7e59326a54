from pytest_agentv import Provider


class Listing(Provider):
    kind = "listing"

    def open(self, environment):
        return self

    def invoke(self, request):
        raise AssertionError("asked alone: paid for again")

    def invoke_batch(self, requests):
        return {"yes", "no"}


def pytest_agentv_providers():
    return [Listing]
