"""200 cases judged by a Python script, compared with bare processes that get and print the same."""

import json
import sys
import tempfile
from pathlib import Path

from measure import Contender, create_parser, difference, exit_code, take_turns
from suites import write_judged

CASES = 200
WORKERS = 8
MAX_RATIO = 1.3

BARE = """\
import asyncio, json, sys

CASES, WORKERS = int(sys.argv[1]), int(sys.argv[2])
REQUEST = open("request.json", "rb").read()


async def judge(places):
    async with places:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "judge.py",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        stdout, _ = await process.communicate(REQUEST)
        return json.loads(stdout)["score"]


async def main():
    places = asyncio.Semaphore(WORKERS)
    print(f"{sum(await asyncio.gather(*(judge(places) for _ in range(CASES)))):.0f} passed")


asyncio.run(main())
"""


def main() -> int:
    options = create_parser(__doc__, rounds=5).parse_args()
    with tempfile.TemporaryDirectory() as name:
        bare, bare_one, ours, ours_one = contenders = _contenders(Path(name))
        runs = take_turns(contenders, options.rounds)
    seconds = difference(runs[ours.name], runs[ours_one.name])
    bare_seconds = difference(runs[bare.name], runs[bare_one.name])
    ratio = seconds / bare_seconds
    print(f"\n{CASES} code judges, {WORKERS} at a time, start-up subtracted, median of {options.rounds} runs")
    print(f"bare processes  {bare_seconds:6.2f} s\npytest-agentv   {seconds:6.2f} s, {ratio:.2f} x")
    exceeded = [f"ratio {ratio:.2f} > {MAX_RATIO}"] if ratio > MAX_RATIO else []
    return exit_code(options.check, exceeded)


def _contenders(folder: Path) -> list[Contender]:
    """Each side with all cases, and with one: its start-up."""
    whole, one = write_judged(folder / "whole", CASES), write_judged(folder / "one", 1)
    request = {"question": "Say hello to customer 7", "candidate_answer": "hello", "expected_outcome": "x" * 500}
    for place in (whole, one):
        (place / "bare.py").write_text(BARE)
        (place / "request.json").write_text(json.dumps(request))
    return [
        *(
            Contender(
                f"bare {count}", place, (str(count), str(WORKERS)), rf"\b{count} passed", (sys.executable, "bare.py")
            )
            for count, place in ((CASES, whole), (1, one))
        ),
        *(
            Contender(f"agentv {count}", place, ("-q", f"--agentv-workers={WORKERS}"), rf"\b{count} passed")
            for count, place in ((CASES, whole), (1, one))
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
