import asyncio
import sys


def price_of(product):
    return {"tent": 120}[product]


def answer(prompt):
    return f"{price_of(prompt)} euros"


async def later(prompt):
    await asyncio.sleep(0)
    raise ValueError(f"no {prompt}\nsecond line")


def pieces(prompt):
    yield "half an answer"
    raise ConnectionError("the stream broke")


def ends(prompt):
    sys.exit(prompt)


def interrupts(prompt):
    raise KeyboardInterrupt


async def cancels(prompt):
    raise asyncio.CancelledError
