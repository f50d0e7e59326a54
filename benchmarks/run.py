"""Running eval cases on a mock target with one evaluator, compared with running as many no-op functions."""

import sys
import tempfile
from pathlib import Path

from measure import WITHOUT_PLUGIN, Contender, add_cases_option, compare, create_parser, exit_code, print_comparisons
from suites import write_functions, write_jsonl, write_yaml

MAX_RATIO = 2.5


def main() -> int:
    parser = create_parser(__doc__, rounds=5)
    add_cases_option(parser, 1_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        comparisons = compare(contenders(Path(name), options.cases), options.rounds)
    print_comparisons(f"pytest run of {options.cases} items, median of {options.rounds} runs", comparisons)
    exceeded = [f"{item.name}: ratio {item.ratio:.2f} > {MAX_RATIO}" for item in comparisons if item.ratio > MAX_RATIO]
    return exit_code(options.check, exceeded)


def contenders(folder: Path, cases: int) -> list[Contender]:
    """The functions come first: they are what the others are compared with."""
    expected = rf"\b{cases} passed"
    return [
        Contender("functions", write_functions(folder / "functions", cases), (*WITHOUT_PLUGIN, "-q"), expected),
        Contender("YAML", write_yaml(folder / "yaml", cases), ("-q",), expected),
        Contender("JSONL", write_jsonl(folder / "jsonl", cases), ("-q",), expected),
    ]


if __name__ == "__main__":
    sys.exit(main())
