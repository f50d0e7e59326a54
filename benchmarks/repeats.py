"""What repeats and verdicts cost the runs that do not ask for them: function calls, the same on a busy machine."""

import argparse
import sys
import tempfile
from pathlib import Path

from measure import Contender, exit_code, run
from suites import write_jsonl

FEW, MANY = 10, 310
MAX_RATIO = 1.02
ONE_ANSWER = ("--agentv-repeat=1", "--agentv-min-pass-rate=1", "--agentv-stop=certain", "--agentv-gate=cases")
ROOMS = (
    "stats/",
    "engine/repeats.py",
    "session/repeats.py",
    "session/gates.py",
    "reports/verdict",
    "reports/judged_cases.py",
)

COUNTED = f"""\
import collections, sys, threading

counts, inside = collections.Counter(), collections.Counter()
rooms = tuple("/pytest_agentv/" + room for room in {ROOMS!r})

def count(frame, event, argument):
    if event in ("call", "c_call"):
        thread = threading.get_ident()
        counts[thread] += 1
        inside[thread] += event == "call" and any(room in frame.f_code.co_filename for room in rooms)

import pytest

threading.setprofile(count)
sys.setprofile(count)
code = pytest.main()
sys.setprofile(None)
print("calls:", sum(counts.values()), sum(inside.values()))
sys.exit(code)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="exit with 1 when the limit is exceeded")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        few, many = (write_jsonl(Path(name, str(count)), count) for count in (FEW, MANY))
        plain, of_plain = _calls_of_one(few, many, ())
        asked, _ = _calls_of_one(few, many, ONE_ANSWER)
    print(f"\n{'a case':<34}{plain:>8.0f} calls, {of_plain:.0f} of them in the rooms of repeats and verdicts")
    print(f"{'a case of which one answer is asked':<34}{asked:>7.0f} calls{asked / plain:>8.3f}x")
    exceeded = [f"one answer: {asked / plain:.3f} > {MAX_RATIO}"] if asked / plain > MAX_RATIO else []
    exceeded += [f"{of_plain:.1f} calls for what nobody asked for"] if of_plain > (MAX_RATIO - 1) * plain else []
    return exit_code(options.check, exceeded)


def _calls_of_one(few: Path, many: Path, arguments: tuple[str, ...]) -> tuple[float, float]:
    """Return the calls that each case adds, and those of them in `ROOMS`: what a short run and a long one differ by."""
    short, long = (_calls(folder, count, arguments) for folder, count in ((few, FEW), (many, MANY)))
    total, inside = ((after - before) / (MANY - FEW) for before, after in zip(short, long, strict=True))
    return total, inside


def _calls(folder: Path, count: int, arguments: tuple[str, ...]) -> tuple[int, int]:
    program = (sys.executable, "-c", COUNTED, "-p", "no:cacheprovider")
    counted = Contender("cases", folder, ("-q", *arguments), rf"\b{count} passed", program)
    run(counted)  # what is compiled and cached once does not count
    total, inside = run(counted).output.rpartition("calls: ")[2].split()
    return int(total), int(inside)


if __name__ == "__main__":
    sys.exit(main())
