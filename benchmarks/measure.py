"""Runs contenders in turns as child processes and compares them: seconds, CPU seconds, peak memory, ratios."""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MEGABYTE = 1024 * 1024
RSS_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in a unit of `ru_maxrss`: macOS counts bytes, Linux kilobytes."""

WITHOUT_PLUGIN = ("-p", "no:agentv")

PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every run compiles what users compile once


@dataclass(frozen=True, slots=True)
class Contender:
    """One command that takes part."""

    name: str
    folder: Path
    arguments: tuple[str, ...]
    """For the program."""
    expected: str = ""
    """A regular expression that the output must match: a run that did not do the work must not win."""
    program: tuple[str, ...] = PYTEST


@dataclass(frozen=True, slots=True)
class Run:
    """What one child process used."""

    seconds: float
    cpu_seconds: float
    peak_mb: float
    output: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A contender's medians, and its ratios to the first contender."""

    name: str
    seconds: float
    cpu_seconds: float
    peak_mb: float
    ratio: float
    """Median of the ratios of each round, so that a slow spell of the machine hits both sides of a ratio."""
    cpu_ratio: float


def run(contender: Contender) -> Run:
    """Run a contender once. Ends the benchmark with the end of the output when it did not do the work."""
    command = [*contender.program, *contender.arguments]
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, cwd=contender.folder, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if not re.search(contender.expected, text):
        raise SystemExit(f"{contender.name}: no {contender.expected!r} in the output, which ends with\n{text[-1500:]}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * RSS_UNIT / MEGABYTE, text)


def compare(contenders: Sequence[Contender], rounds: int) -> list[Comparison]:
    """Run all contenders in turns and compare them with the first."""
    return _comparisons(take_turns(contenders, rounds))


def take_turns(contenders: Sequence[Contender], rounds: int) -> dict[str, list[Run]]:
    """Run all contenders in turns, `rounds` times, after one round that only warms up the file caches."""
    for contender in contenders:
        run(contender)
    runs: dict[str, list[Run]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        in_turn = contenders if number % 2 == 0 else contenders[::-1]
        for contender in in_turn:
            runs[contender.name].append(run(contender))
    return runs


def difference(runs: Sequence[Run], base: Sequence[Run]) -> float:
    """Return the median seconds by which runs are longer than those of the base in the same round."""
    return statistics.median(run.seconds - other.seconds for run, other in zip(runs, base, strict=True))


def _comparisons(runs: Mapping[str, list[Run]]) -> list[Comparison]:
    base = next(iter(runs.values()))
    return [
        Comparison(
            name=name,
            seconds=statistics.median(run.seconds for run in own),
            cpu_seconds=statistics.median(run.cpu_seconds for run in own),
            peak_mb=statistics.median(run.peak_mb for run in own),
            ratio=statistics.median(a.seconds / b.seconds for a, b in zip(own, base, strict=True)),
            cpu_ratio=statistics.median(a.cpu_seconds / b.cpu_seconds for a, b in zip(own, base, strict=True)),
        )
        for name, own in runs.items()
    ]


def print_comparisons(title: str, comparisons: Sequence[Comparison]) -> None:
    print(f"\n{title}")
    print(f"{'':<34}{'seconds':>9}{'ratio':>8}{'CPU s':>9}{'ratio':>8}{'peak MB':>9}")
    for item in comparisons:
        numbers = f"{item.seconds:>9.3f}{item.ratio:>7.2f}x{item.cpu_seconds:>9.3f}{item.cpu_ratio:>7.2f}x"
        print(f"{item.name:<34}{numbers}{item.peak_mb:>9.1f}")


def exit_code(check: bool, exceeded: Sequence[str]) -> int:
    """Print the limits that were exceeded; 1 if there are any and they are to be enforced."""
    for line in exceeded:
        print(f"over the limit: {line}")
    return 1 if check and exceeded else 0


def create_parser(description: str | None, rounds: int) -> argparse.ArgumentParser:
    """Create a parser with the options that all benchmarks share: `rounds` and `check`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rounds", type=int, default=rounds, help="runs of each contender (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a limit is exceeded")
    return parser


def add_cases_option(parser: argparse.ArgumentParser, cases: int) -> None:
    parser.add_argument("--cases", type=int, default=cases, help="size of the suites (default: %(default)s)")
