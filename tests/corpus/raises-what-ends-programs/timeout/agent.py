import asyncio, time
class Odd(BaseException): pass
def ask(prompt):
    prompt = prompt.splitlines()[-1]
    return 'hello'
