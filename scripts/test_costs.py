"""Run tests, and list the files and the tests that cost the most CPU time, their processes included, or wait longest.

    python scripts/test_costs.py -n 2
    python scripts/test_costs.py tests/acceptance -k resume

The arguments are those of pytest. The cost of a test includes its fixtures and whatever its process did since the test
before. Look at the tests that wait on an idle machine only: on a busy one, all tests wait.
"""

import os
import resource
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SHOWN_FILES = 40
SHOWN_TESTS = 30
CPU, WALL = "cpu_seconds", "wall_seconds"
OUTPUT = "TEST_COSTS_FILE"


def cpu_seconds() -> float:
    """Return what this process and the children that it waited for have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Costs:
    """Measures where tests run, and adds up where they are reported."""

    def __init__(self) -> None:
        self.before = self.now()
        self.cpu: dict[str, float] = {}
        self.waits: dict[str, float] = {}

    @staticmethod
    def now() -> dict[str, float]:
        return {CPU: cpu_seconds(), WALL: time.monotonic()}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[None]:
        report = yield
        if call.when == "teardown":
            now = self.now()
            report.user_properties.extend((name, now[name] - self.before[name]) for name in now)
            self.before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = {name: float(str(value)) for name, value in report.user_properties if name in (CPU, WALL)}
        if found:
            self.cpu[report.nodeid] = found[CPU]
            self.waits[report.nodeid] = max(0.0, found[WALL] - found[CPU])
            if OUTPUT in os.environ:
                with Path(os.environ[OUTPUT]).open("a", encoding="utf-8") as file:
                    file.write(f"{found[CPU]:.4f}\t{found[WALL]:.4f}\t{report.nodeid}\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for title, costs in (("CPU", self.cpu), ("Waiting", self.waits)):
            by_file: dict[str, list[float]] = defaultdict(list)
            for nodeid, cost in costs.items():
                by_file[nodeid.partition("::")[0]].append(cost)
            terminalreporter.section(f"{title} seconds: {sum(costs.values()):.1f}")
            for file, of_file in sorted(by_file.items(), key=lambda entry: -sum(entry[1]))[:SHOWN_FILES]:
                terminalreporter.write_line(f"{sum(of_file):8.2f}  {len(of_file):5} tests  {file}")
            terminalreporter.write_line("")
            for nodeid, cost in sorted(costs.items(), key=lambda entry: -entry[1])[:SHOWN_TESTS]:
                terminalreporter.write_line(f"{cost:8.2f}  {nodeid}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs())


def main() -> int:
    here = Path(__file__).parent
    found = [str(here), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-m", "pytest", "-p", "test_costs", "--durations=1", *sys.argv[1:]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(found)}
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
