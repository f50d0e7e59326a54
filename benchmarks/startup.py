"""Starting pytest: what the plugin costs a run without evals, and what the first case of a run costs."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import PYTEST, WITHOUT_PLUGIN, Contender, compare, create_parser, exit_code, print_comparisons, run
from suites import write_functions, write_nothing, write_yaml

MAX_MILLISECONDS = 20
MAX_MODULES = 21

MAX_RATIO = 1.7
MAX_RATIO_WITHOUT_CACHES = 1.9
"""Of the CPU seconds of one case on a mock target to those of one no-op function."""

PROBE = """\
import json, sys
import pytest
pytest.main(sys.argv[1:])
print()
print(json.dumps(sorted(sys.modules)))
"""

ARGUMENTS = ("--collect-only", "-q")


def main() -> int:
    options = create_parser(__doc__, rounds=20).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exceeded = [*without_evals(folder, options.rounds), *first_case(folder, options.rounds)]
    return exit_code(options.check, exceeded)


def without_evals(folder: Path, rounds: int) -> list[str]:
    """Compare runs without evals, with the plugin and without; return the limits that were exceeded."""
    empty = write_nothing(folder / "empty")
    without, with_plugin = comparisons = compare(contenders(empty), rounds)
    added = sorted(modules(empty) - modules(empty, *WITHOUT_PLUGIN))
    print_comparisons(f"pytest --collect-only of an empty folder, median of {rounds} runs", comparisons)
    milliseconds = (with_plugin.seconds - without.seconds) * 1000
    print(f"\nthe plugin adds {milliseconds:.1f} ms and {len(added)} modules: {', '.join(added)}")
    exceeded = [f"{milliseconds:.1f} ms > {MAX_MILLISECONDS} ms"] if milliseconds > MAX_MILLISECONDS else []
    return exceeded + ([f"{len(added)} modules > {MAX_MODULES}"] if len(added) > MAX_MODULES else [])


def first_case(folder: Path, rounds: int) -> list[str]:
    """Compare one case on a mock target with one no-op function; return the limits that were exceeded."""
    function, case = write_functions(folder / "function", 1), write_yaml(folder / "case", 1)
    programs = {
        "with caches of bytecode": (PYTEST, MAX_RATIO),
        "where bytecode cannot be written": (unwritable(folder / "bytecode", function, case), MAX_RATIO_WITHOUT_CACHES),
    }
    exceeded = []
    for title, (program, limit) in programs.items():
        comparisons = compare(
            [
                Contender("a no-op function", function, WITHOUT_PLUGIN, "1 passed", program),
                Contender("listing a case", case, ARGUMENTS, "1 test collected", program),
                Contender("a case on a mock target", case, (), "1 passed", program),
            ],
            rounds,
        )
        print_comparisons(f"One case against one no-op function, {title}", comparisons)
        ratio = comparisons[-1].cpu_ratio
        exceeded += [f"{title}: {ratio:.2f} x > {limit} x"] if ratio > limit else []
    return exceeded


def unwritable(bytecode: Path, *folders: Path) -> tuple[str, ...]:
    """Return pytest as in a container: bytecode as an installer writes it, and none of pytest's own."""
    prefix = ("-X", f"pycache_prefix={bytecode}")
    for folder in folders:
        run(Contender("installer", folder, ("--assert=plain",), "1 passed", (sys.executable, *prefix, *PYTEST[1:])))
    return (sys.executable, "-B", *prefix, *PYTEST[1:])


def contenders(folder: Path) -> list[Contender]:
    return [
        Contender("without the plugin", folder, (*WITHOUT_PLUGIN, *ARGUMENTS), "no tests collected"),
        Contender("with the plugin", folder, ARGUMENTS, "no tests collected"),
    ]


def modules(folder: Path, *arguments: str) -> set[str]:
    """Return the names of the modules that such a run of pytest leaves in `sys.modules`."""
    command = [sys.executable, "-c", PROBE, "-p", "no:cacheprovider", *ARGUMENTS, *arguments]
    output = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    return set(json.loads(output.splitlines()[-1]))


if __name__ == "__main__":
    sys.exit(main())
