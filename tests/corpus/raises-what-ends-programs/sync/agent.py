import asyncio, time
class Odd(BaseException): pass
def ask(prompt):
    prompt = prompt.splitlines()[-1]
    if prompt == 'interrupt': raise KeyboardInterrupt('mine')
    if prompt == 'exit': raise SystemExit(3)
    if prompt == 'generator': raise GeneratorExit('mine')
    if prompt == 'cancelled': raise asyncio.CancelledError('mine')
    if prompt == 'odd': raise Odd('mine')
    return 'hello'
