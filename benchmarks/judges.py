"""200 cases judged by a Python script, compared with bare processes that get and print the same.

With `reuse: true` the script is imported once, and each judgement is a fork of that process.
"""

import json
import sys
import tempfile
from pathlib import Path

from measure import Contender, create_parser, difference, exit_code, take_turns
from suites import write_judged

CASES = 200
WORKERS = 8
MAX_RATIO = 1.3
MAX_REUSE_RATIO = 0.5

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
        sides = _sides(Path(name))
        runs = take_turns([contender for side in sides.values() for contender in side], options.rounds)
    seconds = {name: difference(runs[whole.name], runs[one.name]) for name, (whole, one) in sides.items()}
    ratios = {name: seconds[name] / seconds["bare processes"] for name in sides}
    print(f"\n{CASES} code judges, {WORKERS} at a time, start-up subtracted, median of {options.rounds} runs")
    for name, taken in seconds.items():
        print(f"{name:<30}{taken:6.2f} s, {ratios[name]:.2f} x")
    limits = {"pytest-agentv": MAX_RATIO, "pytest-agentv, reuse: true": MAX_REUSE_RATIO}
    exceeded = [f"{name}: {ratios[name]:.2f} > {limit}" for name, limit in limits.items() if ratios[name] > limit]
    return exit_code(options.check, exceeded)


def _sides(folder: Path) -> dict[str, tuple[Contender, Contender]]:
    """Each side with all cases, and with one: its start-up."""
    request = {"question": "Say hello to customer 7", "candidate_answer": "hello", "expected_outcome": "x" * 500}
    places: dict[tuple[bool, int], Path] = {}
    for reuse, count in ((False, CASES), (False, 1), (True, CASES), (True, 1)):
        place = places[reuse, count] = write_judged(folder / f"{reuse}-{count}", count, reuse=reuse)
        (place / "bare.py").write_text(BARE)
        (place / "request.json").write_text(json.dumps(request))
    return {
        "bare processes": (_bare(places[False, CASES], CASES), _bare(places[False, 1], 1)),
        "pytest-agentv": (_ours(places[False, CASES], CASES), _ours(places[False, 1], 1)),
        "pytest-agentv, reuse: true": (_ours(places[True, CASES], CASES), _ours(places[True, 1], 1)),
    }


def _bare(place: Path, count: int) -> Contender:
    arguments = (str(count), str(WORKERS))
    return Contender(f"bare {count}", place, arguments, rf"\b{count} passed", (sys.executable, "bare.py"))


def _ours(place: Path, count: int) -> Contender:
    name = f"agentv {place.name}"
    return Contender(name, place, ("-q", f"--agentv-workers={WORKERS}"), rf"\b{count} passed")


if __name__ == "__main__":
    sys.exit(main())
