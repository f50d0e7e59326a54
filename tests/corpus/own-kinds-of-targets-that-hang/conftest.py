import asyncio
from pytest_agentv import Provider

class Sleepy(Provider):
    kind = "sleepy"
    asleep: str

    def open(self, environment):
        return Sleeper(self.asleep)

class Sleeper:
    def __init__(self, asleep):
        self.asleep = asleep

    async def rest(self, part):
        with open("calls", "a") as file:
            file.write(f"{part} ")
        await asyncio.sleep(60 if part == self.asleep else 0)

    async def check(self):
        await self.rest("check")

    async def close(self):
        await self.rest("close")

    async def invoke(self, request):
        await self.rest("invoke")
        return "hello"

    async def invoke_batch(self, requests):
        await self.rest("batch")
        said = {"text": "hello", "cost_usd": 0.5}
        return [None if request.eval_id == "none" else said for request in requests]

def pytest_agentv_providers():
    return [Sleepy]
