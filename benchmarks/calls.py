"""Function calls of a case and of a no-op function: figures that do not depend on how busy the machine is."""

import argparse
import sys
import tempfile
from pathlib import Path

from measure import Contender, exit_code, run
from suites import write_functions, write_jsonl

FEW, MANY = 10, 310
MAX_RATIO = 1.8

COUNTED = """\
import collections, sys, threading

counts = collections.Counter()

def count(frame, event, argument):
    if event in ("call", "c_call"):
        counts[threading.get_ident()] += 1

import pytest

threading.setprofile(count)
sys.setprofile(count)
code = pytest.main()
sys.setprofile(None)
print("calls:", sum(counts.values()))
sys.exit(code)
"""


WARM = """\
import sys, threading
import pytest

warm, begun = [], 0

def count(frame, event, argument):
    if event == "call" and begun == ITEM and "/pytest_agentv/" in frame.f_code.co_filename:
        warm.append((frame.f_code.co_filename, frame.f_code.co_firstlineno))

class Turns:
    def pytest_runtest_logstart(self):
        global begun
        begun += 1

threading.setprofile(count)
sys.setprofile(count)
code = pytest.main(plugins=[Turns()])
sys.setprofile(None)
print("warm:", len(set(warm)), len({file for file, _ in warm}), len(warm))
sys.exit(code)
""".replace("ITEM", str(FEW // 2))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 when the limit is exceeded")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        functions = _calls_of_one(folder, "functions", ("-q", "-pno:agentv"))
        print(f"\n{'no-op function':<24}{functions:>8.0f} calls")
        exceeded = []
        for kind, workers in (("case, in turn", 1), ("case, 50 in flight", 50)):
            calls = _calls_of_one(folder, f"cases-{workers}", ("-q", f"--agentv-workers={workers}"))
            print(f"{kind:<24}{calls:>8.0f} calls{calls / functions:>7.2f}x")
            exceeded += [f"{kind}: {calls / functions:.2f} > {MAX_RATIO}"] if calls / functions > MAX_RATIO else []
        functions_of_ours, files, calls = _warm(folder / "warm")
    print(f"a warm case passes {functions_of_ours} of our functions in {files} files, with {calls} calls of these")
    return exit_code(options.check, exceeded)


def _warm(folder: Path) -> list[str]:
    """Return the functions, the files and the calls of ours that one case passes after others have run."""
    program = (sys.executable, "-c", WARM, "-p", "no:cacheprovider")
    arguments = ("-q", "--agentv-workers=1")
    counted = Contender("warm", write_jsonl(folder, FEW), arguments, rf"\b{FEW} passed", program)
    run(counted)  # what is compiled and cached once does not count
    return run(counted).output.rpartition("warm: ")[2].split()


def _calls_of_one(folder: Path, name: str, arguments: tuple[str, ...]) -> float:
    """Return the calls that each item adds: what a short run and a longer one differ by."""
    write = write_functions if name == "functions" else write_jsonl
    few, many = (
        _calls(Contender(name, write(folder / f"{name}-{count}", count), arguments, rf"\b{count} passed"))
        for count in (FEW, MANY)
    )
    return (many - few) / (MANY - FEW)


def _calls(contender: Contender) -> int:
    program = (sys.executable, "-c", COUNTED, "-p", "no:cacheprovider")
    counted = Contender(contender.name, contender.folder, contender.arguments, contender.expected, program)
    run(counted)  # what is compiled and cached once does not count
    return int(run(counted).output.rpartition("calls: ")[2])


if __name__ == "__main__":
    sys.exit(main())
