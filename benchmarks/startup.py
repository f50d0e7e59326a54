"""Starting pytest in a folder without evals: what the plugin costs those who do not use it."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from measure import WITHOUT_PLUGIN, Contender, compare, create_parser, exit_code, print_comparisons
from suites import write_nothing

MAX_MILLISECONDS = 20
MAX_MODULES = 15

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
        folder = write_nothing(Path(name) / "empty")
        without, with_plugin = comparisons = compare(contenders(folder), options.rounds)
        added = sorted(modules(folder) - modules(folder, *WITHOUT_PLUGIN))
    print_comparisons(f"pytest --collect-only of an empty folder, median of {options.rounds} runs", comparisons)
    milliseconds = (with_plugin.seconds - without.seconds) * 1000
    print(f"\nthe plugin adds {milliseconds:.1f} ms and {len(added)} modules: {', '.join(added)}")
    exceeded = [f"{milliseconds:.1f} ms > {MAX_MILLISECONDS} ms"] if milliseconds > MAX_MILLISECONDS else []
    exceeded += [f"{len(added)} modules > {MAX_MODULES}"] if len(added) > MAX_MODULES else []
    return exit_code(options.check, exceeded)


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
