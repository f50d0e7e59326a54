import asyncio, time
class Odd(BaseException): pass
def factory(name):
    if name == 'factory-interrupt': raise KeyboardInterrupt('mine')
    if name == 'factory-exit': raise SystemExit(3)
    if name == 'factory-generator': raise GeneratorExit('mine')
    if name == 'factory-cancelled': raise asyncio.CancelledError('mine')
    if name == 'factory-odd': raise Odd('mine')
async def check(name):
    if name == 'check-interrupt': raise KeyboardInterrupt('mine')
    if name == 'check-exit': raise SystemExit(3)
    if name == 'check-generator': raise GeneratorExit('mine')
    if name == 'check-cancelled': raise asyncio.CancelledError('mine')
    if name == 'check-odd': raise Odd('mine')
async def invoke(name):
    if name == 'invoke-interrupt': raise KeyboardInterrupt('mine')
    if name == 'invoke-exit': raise SystemExit(3)
    if name == 'invoke-generator': raise GeneratorExit('mine')
    if name == 'invoke-cancelled': raise asyncio.CancelledError('mine')
    if name == 'invoke-odd': raise Odd('mine')
async def close(name):
    if name == 'close-interrupt': raise KeyboardInterrupt('mine')
    if name == 'close-exit': raise SystemExit(3)
    if name == 'close-generator': raise GeneratorExit('mine')
    if name == 'close-cancelled': raise asyncio.CancelledError('mine')
    if name == 'close-odd': raise Odd('mine')

from pytest_agentv import Message, Provider
from pytest_agentv import ProviderResponse

class Odder:
    mode = "lm"
    def __init__(self, name): self.name = name
    async def check(self): await check(self.name)
    async def invoke(self, request):
        await invoke(self.name)
        return ProviderResponse((Message("assistant", "hello"),))
    async def close(self): await close(self.name)

class Made(Provider):
    kind = "odd"
    who: str
    def open(self, environment):
        factory(self.who)
        return Odder(self.who)

def pytest_agentv_providers(): return [Made]
