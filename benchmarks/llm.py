"""500 cases on a model that answers after 200 ms, 50 at a time, compared with bare calls of litellm and other tools."""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from llm_peers import install_llm_peers
from measure import Contender, Run, create_parser, difference, exit_code, take_turns
from peers import Load, Pair
from suites import write_jsonl

from pytest_agentv.providers.api.model import DEFAULT_SYSTEM_PROMPT

LOAD = Load(cases=500, workers=50, delay_ms=200)
IDEAL_SECONDS = LOAD.cases / LOAD.workers * LOAD.delay_ms / 1000
MIN_SHARE_OF_BARE = 1.1

TARGETS = """\
targets:
  - {{name: default, provider: openai, model: gpt-4o, api_key: x, base_url: "{url}/v1"}}
"""

BARE = """\
import asyncio, os, sys
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
import litellm

url, cases, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


async def ask(places, number):
    question = {"role": "user", "content": f"Say hello to customer {number}"}
    messages = [{"role": "system", "content": SYSTEM_PROMPT}, question]
    async with places:
        reply = await litellm.acompletion(
            model="openai/gpt-4o", api_base=f"{url}/v1", api_key="x", messages=messages, num_retries=0, max_retries=0
        )
    return "hello" in reply.choices[0].message.content


async def main():
    places = asyncio.Semaphore(workers)
    print(sum(await asyncio.gather(*(ask(places, number) for number in range(cases)))), "passed")


asyncio.run(main())
"""


def main() -> int:
    parser = create_parser(__doc__, rounds=5)
    parser.add_argument("--peers", action="store_true", help="compare with other tools too, which are installed first")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, _serve(LOAD.delay_ms) as url:
        folder = Path(name)
        pairs = [_ours(folder, url), _bare(folder, url)]
        if options.peers:
            pairs += install_llm_peers(folder / "peers", LOAD, url)
        runs = take_turns([contender for pair in pairs for contender in pair], options.rounds)
    print(f"\n{LOAD.cases} requests of {LOAD.delay_ms} ms, {LOAD.workers} at a time: ideally {IDEAL_SECONDS:.2f} s")
    print(f"{'':<26}{'whole run':>10}{'start-up':>10}{'requests':>10}{'of bare':>9}{'CPU s / 1,000':>15}{'peak MB':>9}")
    bare, bare_one = (runs[contender.name] for contender in pairs[1])
    bare_seconds = difference(bare, bare_one) + LOAD.delay_ms / 1000
    shares = [_print(all_of_it.name, runs[all_of_it.name], runs[one.name], bare_seconds) for all_of_it, one in pairs]
    return exit_code(options.check, _exceeded(shares[0]))


@contextmanager
def _serve(delay_ms: int) -> Iterator[str]:
    """Start the server in a process of its own, so that its work is not counted; yields its base URL."""
    command = [sys.executable, str(Path(__file__).parent / "llm_server.py"), str(delay_ms)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


def _ours(folder: Path, url: str) -> Pair:
    """The whole run, and one that does the same for a single case."""

    def contender(name: str, cases: int) -> Contender:
        place = write_jsonl(folder / name, cases)
        (place / "targets.yaml").write_text(TARGETS.format(url=url))
        return Contender(name, place, ("-q", f"--agentv-workers={LOAD.workers}"), rf"\b{cases} passed")

    return contender("pytest-agentv", LOAD.cases), contender("pytest-agentv, one", 1)


def _bare(folder: Path, url: str) -> Pair:
    """The same requests in one loop."""

    def contender(name: str, load: Load) -> Contender:
        arguments = (url, str(load.cases), str(load.workers))
        program = (sys.executable, "bare.py")
        return Contender(name, folder, arguments, rf"\b{load.cases} passed", program)

    (folder / "bare.py").write_text(f"SYSTEM_PROMPT = {DEFAULT_SYSTEM_PROMPT!r}\n{BARE}")
    return contender("litellm.acompletion", LOAD), contender("litellm.acompletion, one", replace(LOAD, cases=1))


def _print(name: str, whole: list[Run], one: list[Run], bare_seconds: float) -> float:
    """Print a line and return the throughput as a share of that of the bare calls.

    Start-up, and what it costs, is what a run of one request takes.
    """
    median = statistics.median
    seconds = difference(whole, one) + LOAD.delay_ms / 1000
    total, start_up = median(run.seconds for run in whole), median(run.seconds for run in one) - LOAD.delay_ms / 1000
    cpu = median(run.cpu_seconds - other.cpu_seconds for run, other in zip(whole, one, strict=True))
    cpu_per_1000, peak = cpu / (LOAD.cases - 1) * 1000, median(run.peak_mb for run in whole)
    share = bare_seconds / seconds
    print(f"{name:<26}{total:>10.2f}{start_up:>10.2f}{seconds:>10.2f}{share:>8.2f}x{cpu_per_1000:>15.2f}{peak:>9.0f}")
    return share


def _exceeded(share: float) -> list[str]:
    text = f"{share:.2f} x the throughput of bare calls < {MIN_SHARE_OF_BARE}"
    return [text] if share < MIN_SHARE_OF_BARE else []


if __name__ == "__main__":
    sys.exit(main())
