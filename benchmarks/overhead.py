"""Instant cases: what each one costs, in a short run and in a long one."""

import statistics
import sys
import tempfile
from pathlib import Path

from measure import Contender, Run, create_parser, difference, exit_code, take_turns
from suites import write_functions, write_jsonl

FEW, MANY = 1_000, 10_000
MAX_RATIO = 1.3
"""Cost of a case of the long run to one of the short run; the same ratio for no-op functions is about 1.1."""
MAX_GROWTH_KB = 7


def main() -> int:
    options = create_parser(__doc__, rounds=3).parse_args()
    with tempfile.TemporaryDirectory() as name:
        kinds = _contenders(Path(name))
        runs = take_turns([contender for kind in kinds.values() for contender in kind], options.rounds)
    print(f"\nOne case of {FEW} and of {MANY}, start-up subtracted, median of {options.rounds} runs")
    print(f"{'':<34}{'ms, few':>9}{'ms, many':>9}{'ratio':>8}{'KB per case':>13}")
    exceeded = []
    for kind, contenders in kinds.items():
        one, few, many = (runs[contender.name] for contender in contenders)
        ratio, growth = _print(kind, one, few, many)
        if "cases" in kind:
            exceeded += [f"{kind}: ratio {ratio:.2f} > {MAX_RATIO}"] if ratio > MAX_RATIO else []
            exceeded += [f"{kind}: {growth:.1f} KB per case > {MAX_GROWTH_KB} KB"] if growth > MAX_GROWTH_KB else []
    return exit_code(options.check, exceeded)


def _contenders(folder: Path) -> dict[str, list[Contender]]:
    """For each kind a run of one case, one of few and one of many."""
    counts = (1, FEW, MANY)
    suites = {count: write_jsonl(folder / f"cases-{count}", count) for count in counts}
    functions = {count: write_functions(folder / f"functions-{count}", count) for count in counts}
    kinds = {f"cases, {workers} in flight": (suites, f"--agentv-workers={workers}") for workers in (1, 50)}
    return {
        kind: [Contender(f"{kind}, {count}", folders[count], ("-q", flag), rf"\b{count} passed") for count in counts]
        for kind, (folders, flag) in {**kinds, "no-op functions": (functions, "-pno:agentv")}.items()
    }


def _print(kind: str, one: list[Run], few: list[Run], many: list[Run]) -> tuple[float, float]:
    short = difference(few, one) / (FEW - 1) * 1000
    long = difference(many, one) / (MANY - 1) * 1000
    growth = statistics.median(b.peak_mb - a.peak_mb for a, b in zip(few, many, strict=True)) / (MANY - FEW) * 1024
    print(f"{kind:<34}{short:>9.3f}{long:>9.3f}{long / short:>7.2f}x{growth:>13.1f}")
    return long / short, growth


if __name__ == "__main__":
    sys.exit(main())
