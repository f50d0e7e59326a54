"""Rows of a CSV file on two targets with six checks each, compared with running as many no-op functions."""

import sys
import tempfile
from pathlib import Path

from measure import WITHOUT_PLUGIN, Contender, compare, create_parser, exit_code, print_comparisons
from suites import write_checked_table, write_functions

MAX_RATIO = 2.0
ROWS = 200
TARGETS = 2
CHECKS = 6


def main() -> int:
    parser = create_parser(__doc__, rounds=5)
    parser.add_argument("--rows", type=int, default=ROWS, help="rows of the table (default: %(default)s)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        comparisons = compare(contenders(Path(name), options.rows), options.rounds)
    print_comparisons(
        f"{options.rows} rows x {TARGETS} targets x {CHECKS} checks, median of {options.rounds} runs", comparisons
    )
    exceeded = [
        f"{item.name}: CPU ratio {item.cpu_ratio:.2f} > {MAX_RATIO}"
        for item in comparisons[1:]
        if item.cpu_ratio > MAX_RATIO
    ]
    return exit_code(options.check, exceeded)


def contenders(folder: Path, rows: int) -> list[Contender]:
    """The functions come first: one for each check of each item."""
    checks = rows * TARGETS * CHECKS
    items = rows * TARGETS
    return [
        Contender(
            "functions, one for each check",
            write_functions(folder / "checks", checks),
            (*WITHOUT_PLUGIN, "-q"),
            rf"\b{checks} passed",
        ),
        Contender(
            "functions, one for each item",
            write_functions(folder / "items", items),
            (*WITHOUT_PLUGIN, "-q"),
            rf"\b{items} passed",
        ),
        Contender("rows of a table", write_checked_table(folder / "table", rows), ("-q",), rf"\b{items} passed"),
    ]


if __name__ == "__main__":
    sys.exit(main())
