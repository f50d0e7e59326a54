import pytest


class Desk:
    def answer(self, prompt):
        with open("calls.txt", "a") as file:
            print(prompt, file=file)
        status = "on its way" if "1001" in prompt else "unknown"
        return {"text": f"The order is {status}.", "cost_usd": 0.25}


@pytest.fixture(scope="session")
def agentv_provider():
    return Desk().answer
