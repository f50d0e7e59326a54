"""Two worker processes against one process: 1,000 cases of a second at 40 slots, and 10,000 instant ones."""

import sys
import tempfile
from pathlib import Path

from measure import Contender, compare, create_parser, exit_code, print_comparisons
from suites import write_jsonl

SLOTS = 40
SLOW, SLOW_MS, MAX_RATIO = 1_000, 1_000, 1.25
INSTANT, MAX_MS = 10_000, 5.0
"""Milliseconds that an instant case may cost, start-up included."""


def main() -> int:
    parser = create_parser(__doc__, rounds=1)
    parser.add_argument("--share", type=float, default=1.0, help="share of the cases, to be quicker (default: 1)")
    options = parser.parse_args()
    slow, instant = int(SLOW * options.share), int(INSTANT * options.share)
    exceeded = []
    with tempfile.TemporaryDirectory() as name:
        here, there = compare(_contenders(write_jsonl(Path(name) / "slow", slow, SLOW_MS), slow), options.rounds)
        print_comparisons(f"{slow} cases of {SLOW_MS} ms, {SLOTS} at a time", (here, there))
        if there.ratio > MAX_RATIO:
            exceeded.append(f"{there.ratio:.2f} x the time of one process > {MAX_RATIO} x")
        here, there = compare(_contenders(write_jsonl(Path(name) / "instant", instant), instant), options.rounds)
        print_comparisons(f"{instant} instant cases, {SLOTS} at a time", (here, there))
        cost = there.seconds / instant * 1000
        print(f"an instant case costs {cost:.2f} ms")
        if cost > MAX_MS:
            exceeded.append(f"{cost:.2f} ms for each instant case > {MAX_MS} ms")
    return exit_code(options.check, exceeded)


def _contenders(folder: Path, cases: int) -> list[Contender]:
    flags = ("-q", f"--agentv-workers={SLOTS}")
    return [
        Contender(executor, folder, (*flags, f"--agentv-executor={executor}"), rf"\b{cases} passed")
        for executor in ("local", "processes:2")
    ]


if __name__ == "__main__":
    sys.exit(main())
