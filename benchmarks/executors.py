"""Two worker processes, and two workers of Dask, against one process: 1,000 cases of a second, and 10,000 instant ones.

Dask takes part where `pytest-agentv[dask]` is installed.
"""

import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import Contender, compare, create_parser, exit_code, print_comparisons
from suites import write_jsonl

sys.path.append(str(Path(__file__).parents[1] / "tests"))

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
    with tempfile.TemporaryDirectory() as name, _executors(Path(name)) as executors:
        folder = write_jsonl(Path(name) / "slow", slow, SLOW_MS)
        found = compare(_contenders(folder, slow, executors), options.rounds)
        print_comparisons(f"{slow} cases of {SLOW_MS} ms, {SLOTS} at a time{_load()}", found)
        slower = [there for there in found if there.name.startswith("processes") and there.ratio > MAX_RATIO]
        exceeded += [f"{there.name}: {there.ratio:.2f} x the time of one process > {MAX_RATIO} x" for there in slower]
        folder = write_jsonl(Path(name) / "instant", instant)
        found = compare(_contenders(folder, instant, executors), options.rounds)
        print_comparisons(f"{instant} instant cases, {SLOTS} at a time{_load()}", found)
        for there in found[1:]:
            cost = there.seconds / instant * 1000
            print(f"{there.name}: an instant case costs {cost:.2f} ms")
            if cost > MAX_MS:
                exceeded.append(f"{there.name}: {cost:.2f} ms for each instant case > {MAX_MS} ms")
    return exit_code(options.check, exceeded)


@contextmanager
def _executors(folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield what `--agentv-executor` is given; the first one is what the others are compared with."""
    if importlib.util.find_spec("distributed") is None:
        yield "local", "processes:2"
        return
    from dask_cluster import DaskCluster  # noqa: PLC0415 - of the tests

    cluster = DaskCluster(folder / "cluster")
    try:
        cluster.add_worker("one")
        cluster.add_worker("two")
        yield "local", "processes:2", cluster.address
    finally:
        cluster.close()


def _contenders(folder: Path, cases: int, executors: tuple[str, ...]) -> list[Contender]:
    flags = ("-q", f"--agentv-workers={SLOTS}")
    return [
        Contender(executor, folder, (*flags, f"--agentv-executor={executor}"), rf"\b{cases} passed")
        for executor in executors
    ]


def _load() -> str:
    return f" (load of the machine: {os.getloadavg()[0]:.1f})"


if __name__ == "__main__":
    sys.exit(main())
