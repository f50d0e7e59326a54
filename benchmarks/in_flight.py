"""500 cases of 200 ms at 50 workers, in one process and in two of xdist, compared with the ideal and with peers."""

import json
import statistics
import sys
import tempfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from measure import PYTEST, Contender, Run, create_parser, difference, exit_code, take_turns
from peers import Load, Program, install_ours, install_peers
from suites import write_jsonl

CASES = 500
WORKERS = 50
DELAY_MS = 200
IDEAL_SECONDS = CASES / WORKERS * DELAY_MS / 1000
MIN_SHARE_OF_IDEAL = 0.85
MIN_SHARE_IN_FLIGHT = 0.94
"""Of the time in which cases were in flight, in each run."""


def main() -> int:
    parser = create_parser(__doc__, rounds=5)
    parser.add_argument(
        "--peers",
        action="store_true",
        help="compare with pydantic-evals, inspect_ai, deepeval and promptfoo too; each tool, ours too, is installed "
        "into an environment of its own in a temporary folder, which takes minutes",
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        program = install_ours(folder / "ours") if options.peers else PYTEST
        pairs = [_ours(folder, program), _ours(folder, program, "-n", "2")]
        if options.peers:
            pairs += install_peers(folder / "peers", Load(CASES, WORKERS, DELAY_MS))
        runs = take_turns([contender for pair in pairs for contender in pair], options.rounds)
        in_flight = [_seconds_in_flight(path) for path in (pairs[0][0].folder / ".agentv/results").glob("*.jsonl")]
    print(f"\n{CASES} cases of {DELAY_MS} ms, {WORKERS} at a time: ideally {IDEAL_SECONDS:.2f} s")
    print(f"{'':<20}{'whole run':>10}{'start-up':>10}{'cases':>10}{'of ideal':>10}{'CPU s':>8}{'peak MB':>9}")
    seconds = {all_of_it.name: _print(runs[all_of_it.name], runs[one.name], all_of_it.name) for all_of_it, one in pairs}
    shares = [IDEAL_SECONDS / each for each in in_flight]
    print(f"pytest-agentv, first case to last result: {min(shares):.1%} to {max(shares):.1%} of the ideal")
    return exit_code(options.check, _exceeded(seconds, min(shares)))


def _ours(folder: Path, program: Program, *processes: str) -> tuple[Contender, Contender]:
    """The whole run, and one that does the same for a single case."""
    name, arguments = " ".join(["pytest-agentv", *processes]), ("-q", f"--agentv-workers={WORKERS}", *processes)
    whole = write_jsonl(folder / f"{name}, whole", CASES, DELAY_MS)
    contender = Contender(name, whole, arguments, rf"\b{CASES} passed", program)
    one = write_jsonl(folder / f"{name}, one", 1, DELAY_MS)
    return contender, replace(contender, name=f"{name}, one", folder=one, expected=r"\b1 passed")


def _print(whole: list[Run], one: list[Run], name: str) -> float:
    """Print a line and return the seconds that the cases took.

    Start-up is what a run of one case takes beyond the case: what a tool still loads while it waits for the first
    answers holds nothing up, and does not count.
    """
    seconds = difference(whole, one) + DELAY_MS / 1000
    median = statistics.median
    total, start_up = median(run.seconds for run in whole), median(run.seconds for run in one) - DELAY_MS / 1000
    cpu, peak = median(run.cpu_seconds for run in whole), median(run.peak_mb for run in whole)
    share = IDEAL_SECONDS / seconds
    print(f"{name:<20}{total:>10.2f}{start_up:>10.2f}{seconds:>10.2f}{share:>10.0%}{cpu:>8.2f}{peak:>9.0f}")
    return seconds


def _seconds_in_flight(results: Path) -> float:
    """Return the time from the start of the first case of a run to the end of the last one."""
    cases = [json.loads(line) for line in results.read_text("utf-8").splitlines()]
    ends = [datetime.fromisoformat(case["timestamp"]).timestamp() for case in cases]
    starts = [end - case["duration_ms"] / 1000 for end, case in zip(ends, cases, strict=True)]
    return max(ends) - min(starts)


def _exceeded(seconds: dict[str, float], in_flight: float) -> list[str]:
    ours, _, *peers = seconds.items()
    share = IDEAL_SECONDS / ours[1]
    exceeded = [f"{share:.0%} of the ideal < {MIN_SHARE_OF_IDEAL:.0%}"] if share < MIN_SHARE_OF_IDEAL else []
    if in_flight < MIN_SHARE_IN_FLIGHT:
        exceeded.append(f"{in_flight:.1%} of the ideal in flight < {MIN_SHARE_IN_FLIGHT:.0%}")
    return exceeded + [f"{name} is faster: {own:.2f} s < {ours[1]:.2f} s" for name, own in peers if own < ours[1]]


if __name__ == "__main__":
    sys.exit(main())
