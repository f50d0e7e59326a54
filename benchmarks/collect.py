"""Collecting eval cases, compared with collecting as many parametrized no-op functions."""

import sys
import tempfile
from pathlib import Path

from measure import WITHOUT_PLUGIN, Contender, add_cases_option, compare, create_parser, exit_code, print_comparisons
from suites import write_functions, write_jsonl, write_table, write_yaml

MAX_RATIO = 2.0
MAX_PEAK_MB = 250
FILES = 100


def main() -> int:
    parser = create_parser(__doc__, rounds=5)
    add_cases_option(parser, 10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        comparisons = compare(contenders(Path(name), options.cases), options.rounds)
    print_comparisons(f"pytest --collect-only of {options.cases} items, median of {options.rounds} runs", comparisons)
    exceeded = [f"{item.name}: ratio {item.ratio:.2f} > {MAX_RATIO}" for item in comparisons if item.ratio > MAX_RATIO]
    exceeded += [
        f"{item.name}: peak {item.peak_mb:.0f} MB > {MAX_PEAK_MB} MB"
        for item in comparisons[1:]
        if item.peak_mb > MAX_PEAK_MB
    ]
    return exit_code(options.check, exceeded)


def contenders(folder: Path, cases: int) -> list[Contender]:
    """The functions come first: they are what the others are compared with."""
    expected = rf"\b{cases} tests collected"
    collect = ("--collect-only", "-q")
    return [
        Contender("functions", write_functions(folder / "functions", cases), (*WITHOUT_PLUGIN, *collect), expected),
        Contender("YAML, 1 file", write_yaml(folder / "yaml", cases), collect, expected),
        Contender(f"YAML, {FILES} files", write_yaml(folder / "files", cases, FILES), collect, expected),
        Contender("CSV, 1 file", write_table(folder / "csv", cases), collect, expected),
        Contender("JSONL, 1 file", write_jsonl(folder / "jsonl", cases), collect, expected),
    ]


if __name__ == "__main__":
    sys.exit(main())
