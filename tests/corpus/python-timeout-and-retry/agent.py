import asyncio
import time


async def slow_at_first(prompt, request):
    if request.attempt == 0:
        await asyncio.Event().wait()
    return f"hello at attempt {request.attempt}"


async def never(prompt):
    await asyncio.Event().wait()


def blocks(prompt):
    time.sleep(0.6)
