from pydantic import Field

from pytest_agentv import Provider, ProviderRequest, TargetEnvironment, Text


class Parrot(Provider):
    """Repeats the question."""

    kind = "parrot"

    word: Text = Field(description="what it says first")

    def open(self, environment: TargetEnvironment) -> "Bird":
        return Bird(self.word)


class Bird:
    def __init__(self, word: str) -> None:
        self.word = word

    async def invoke(self, request: ProviderRequest) -> str:
        return f"{self.word} {request.prompt.question}"
