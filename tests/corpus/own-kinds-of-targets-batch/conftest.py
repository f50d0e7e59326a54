import os
from pathlib import Path

from pytest_agentv import Provider


class Together(Provider):
    kind = "together"
    word: str

    def open(self, environment):
        return Adapter()


class Adapter:
    reads_environ = True

    def note(self, word):
        with Path("noted.txt").open("a") as file:
            print(word, file=file)

    async def check(self):
        self.note("check")

    def invoke(self, request):
        raise AssertionError("asked alone")

    async def invoke_batch(self, requests):
        self.note(f"batch of {len(requests)}")
        return [{"text": os.environ["WORD"], "cost_usd": 0.5} for _ in requests]

    def close(self):
        self.note("close")


def pytest_agentv_providers():
    return [Together]
