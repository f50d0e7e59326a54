"""500 requests of 200 ms, 50 at a time, with bare HTTP clients: why models are asked through aiohttp.

Install the others beside the project to compare: `pip install httpx httpx2`. Those that are missing are left out.
"""

import importlib.util
import statistics
import subprocess
import sys

from llm import LOAD, _serve
from measure import create_parser

CLIENTS = ("aiohttp", "httpx2", "httpx")

PROGRAM = """\
import asyncio, sys, time

name, url, requests, workers = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Say hello"}]}
started = time.process_time()
client = __import__(name)
imported = time.process_time() - started


def open_client():
    if name == "aiohttp":
        return client.ClientSession(connector=client.TCPConnector(limit=0))
    limits = client.Limits(max_connections=None, max_keepalive_connections=workers)
    return client.AsyncClient(limits=limits, timeout=None)


async def post(session):
    if name == "aiohttp":
        async with session.post(f"{url}/v1/chat/completions", json=body) as reply:
            return await reply.json()
    return (await session.post(f"{url}/v1/chat/completions", json=body)).json()


async def main():
    places = asyncio.Semaphore(workers)

    async def ask(session):
        async with places:
            return "choices" in await post(session)

    async with open_client() as session:
        await post(session)
        wall, cpu = time.perf_counter(), time.process_time()
        answers = await asyncio.gather(*(ask(session) for _ in range(requests)))
        print(sum(answers), imported, time.perf_counter() - wall, time.process_time() - cpu)


asyncio.run(main())
"""


def main() -> int:
    options = create_parser(__doc__, rounds=5).parse_args()
    found = [name for name in CLIENTS if importlib.util.find_spec(name) is not None]
    rows: dict[str, list[list[float]]] = {name: [] for name in found}
    with _serve(LOAD.delay_ms) as url:
        for _ in range(options.rounds):
            for name in found:
                rows[name].append(_measure(name, url))
    print(f"{'client':<10}{'requests, s':>13}{'CPU s / 1,000':>15}{'import, CPU s':>15}")
    for name, runs in rows.items():
        imported, wall, cpu = (statistics.median(run[place] for run in runs) for place in range(3))
        print(f"{name:<10}{wall:>13.2f}{cpu / LOAD.cases * 1000:>15.2f}{imported:>15.2f}")
    return 0


def _measure(name: str, url: str) -> list[float]:
    """Run the client in a process of its own; return the CPU seconds of its import, the seconds, the CPU seconds."""
    command = [sys.executable, "-c", PROGRAM, name, url, str(LOAD.cases), str(LOAD.workers)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    answered, *figures = map(float, done.stdout.split())
    assert answered == LOAD.cases, done.stdout
    return figures


if __name__ == "__main__":
    sys.exit(main())
