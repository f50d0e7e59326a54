"""200 cases judged by a Python script, compared with bare processes that get and print the same.

A `python` check judges in the process of the run: its judgement is compared with that of the script, without the rest
of a case.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from measure import Contender, create_parser, difference, exit_code, take_turns
from suites import write_judged

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.evaluators.base import Evaluator
from pytest_agentv.evaluators.context import Context
from pytest_agentv.evaluators.python import PythonCheck
from pytest_agentv.evaluators.run import run_evaluator
from pytest_agentv.evaluators.script import CodeJudge
from pytest_agentv.model.cases import EvalCase

CASES = 200
WORKERS = 8
MAX_RATIO = 1.3
MIN_TIMES_FASTER = 20

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
    times_faster = _print_checks(
        [min(each) for each in zip(*(_in_process() for _ in range(options.rounds)), strict=True)]
    )
    ratio = ratios["pytest-agentv"]
    exceeded = [f"pytest-agentv: {ratio:.2f} > {MAX_RATIO}"] if ratio > MAX_RATIO else []
    if times_faster < MIN_TIMES_FASTER:
        exceeded.append(f"python check: {times_faster:.0f} x faster than a script, expected {MIN_TIMES_FASTER} x")
    return exit_code(options.check, exceeded)


def _print_checks(seconds: Sequence[float]) -> float:
    """Print what judgements take; return how often an expression and a function fit into that of a script."""
    script, *checks = seconds
    print(f"\none judgement, {WORKERS} at a time, best of all rounds")
    for name, taken in zip(("code_judge", "python: expression", "python: function"), seconds, strict=True):
        print(f"{name:<30}{taken * 1000:8.3f} ms, {script / taken:.0f} x")
    return script / max(checks)


def _in_process() -> tuple[float, float, float]:
    """Return the seconds of a judgement by a script, by an expression and by a function."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "checks.py").write_text("def is_short(answer):\n    return len(answer) < 500\n")
        (folder / "judge.py").write_text("import json, sys\njson.load(sys.stdin)\nprint(json.dumps({'score': 1}))\n")
        script = CodeJudge(script=(sys.executable, "judge.py"), cwd=str(folder))
        expression = PythonCheck(value="len(answer) < 500 and 'hello' in answer")
        function = PythonCheck(value=f"{folder}/checks.py:is_short")
        return _seconds(script, 40), _seconds(expression, 2000), _seconds(function, 2000)


def _seconds(evaluator: Evaluator, count: int) -> float:
    case = EvalCase("c", "d", "/c.eval.yaml", 1, "outcome", "q", (), ())
    context = Context(case, Prompt("q"), "hello")

    async def judge(places: asyncio.Semaphore) -> float:
        async with places:
            return (await run_evaluator(evaluator, context)).score

    async def judge_all() -> float:
        places = asyncio.Semaphore(WORKERS)
        await judge(places)  # imports
        started = time.perf_counter()
        scores = await asyncio.gather(*(judge(places) for _ in range(count)))
        assert sum(scores) == count
        return (time.perf_counter() - started) / count

    return asyncio.run(judge_all())


def _sides(folder: Path) -> dict[str, tuple[Contender, Contender]]:
    """Each side with all cases, and with one: its start-up."""
    request = {"question": "Say hello to customer 7", "candidate_answer": "hello", "expected_outcome": "x" * 500}
    places = {count: write_judged(folder / str(count), count) for count in (CASES, 1)}
    for place in places.values():
        (place / "bare.py").write_text(BARE)
        (place / "request.json").write_text(json.dumps(request))
    return {
        "bare processes": (_bare(places[CASES], CASES), _bare(places[1], 1)),
        "pytest-agentv": (_ours(places[CASES], CASES), _ours(places[1], 1)),
    }


def _bare(place: Path, count: int) -> Contender:
    arguments = (str(count), str(WORKERS))
    return Contender(f"bare {count}", place, arguments, rf"\b{count} passed", (sys.executable, "bare.py"))


def _ours(place: Path, count: int) -> Contender:
    name = f"agentv {place.name}"
    return Contender(name, place, ("-q", f"--agentv-workers={WORKERS}"), rf"\b{count} passed")


if __name__ == "__main__":
    sys.exit(main())
