"""What writing each result under the lock costs a run of instant cases, compared with writing all in one piece."""

import statistics
import sys
import tempfile
from pathlib import Path

from measure import Contender, Run, add_cases_option, create_parser, exit_code, take_turns
from suites import write_jsonl

MAX_SHARE = 0.10

IN_ONE_PIECE = """\
from pytest_agentv.runtime.files import LockedAppender

append, close = LockedAppender.append, LockedAppender.close
kept = []


def write_all(self):
    append(self, b"".join(kept))
    kept.clear()
    close(self)


LockedAppender.append = lambda self, data: kept.append(data)
LockedAppender.close = lambda self: write_all(self) if kept else close(self)
"""


def main() -> int:
    parser = create_parser(__doc__, rounds=5)
    add_cases_option(parser, 10_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        pairs = _contenders(Path(name), options.cases)
        runs = take_turns([contender for pair in pairs for contender in pair], options.rounds)
    print(f"\n{options.cases} instant cases, median of {options.rounds} runs")
    print(f"{'':<16}{'each at once':>14}{'in one piece':>14}{'share':>8}{'of CPU s':>10}")
    exceeded = []
    for each, together in pairs:
        share = _print(each.name, runs[each.name], runs[together.name])
        exceeded += [f"{each.name}: {share:.1%} > {MAX_SHARE:.0%}"] if share > MAX_SHARE else []
    return exit_code(options.check, exceeded)


def _contenders(folder: Path, cases: int) -> list[tuple[Contender, Contender]]:
    each, together = write_jsonl(folder / "each", cases), write_jsonl(folder / "together", cases)
    (together / "conftest.py").write_text(IN_ONE_PIECE)
    expected = rf"\b{cases} passed"
    flags = {f"{workers} in flight": ("-q", f"--agentv-workers={workers}") for workers in (1, 50)}
    return [
        (Contender(name, each, flag, expected), Contender(f"{name}, in one piece", together, flag, expected))
        for name, flag in flags.items()
    ]


def _print(name: str, each: list[Run], together: list[Run]) -> float:
    """Print a line and return the share of the run's time that writing each result takes."""
    pairs = list(zip(each, together, strict=True))
    share = statistics.median((a.seconds - b.seconds) / a.seconds for a, b in pairs)
    cpu_share = statistics.median((a.cpu_seconds - b.cpu_seconds) / a.cpu_seconds for a, b in pairs)
    seconds = [statistics.median(run.seconds for run in runs) for runs in (each, together)]
    print(f"{name:<16}{seconds[0]:>14.2f}{seconds[1]:>14.2f}{share:>8.1%}{cpu_share:>10.1%}")
    return share


if __name__ == "__main__":
    sys.exit(main())
