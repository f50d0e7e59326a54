"""Run tests, and list the files and the tests that cost the most CPU time, their processes included.

    python scripts/test_costs.py -n 2
    python scripts/test_costs.py tests/acceptance -k resume

Wall-clock time says little on a machine that does other things as well. The arguments are those of pytest. What a test
costs includes its fixtures and whatever its process did since the test before.
"""

import os
import resource
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SHOWN_FILES = 40
SHOWN_TESTS = 30
PROPERTY = "cpu_seconds"
OUTPUT = "TEST_COSTS_FILE"


def cpu_seconds() -> float:
    """Return what this process and the children that it waited for have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Costs:
    """Measures where tests run, and adds up where they are reported."""

    def __init__(self) -> None:
        self.before = cpu_seconds()
        self.by_test: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Iterator[None]:
        report = yield
        if call.when == "teardown":
            now = cpu_seconds()
            report.user_properties.append((PROPERTY, now - self.before))
            self.before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == PROPERTY:
                self.by_test[report.nodeid] = float(str(value))
                if OUTPUT in os.environ:
                    with Path(os.environ[OUTPUT]).open("a", encoding="utf-8") as file:
                        file.write(f"{value:.4f}\t{report.nodeid}\n")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        by_file: dict[str, list[float]] = defaultdict(list)
        for nodeid, cost in self.by_test.items():
            by_file[nodeid.partition("::")[0]].append(cost)
        terminalreporter.section(f"CPU seconds: {sum(self.by_test.values()):.1f}")
        for file, costs in sorted(by_file.items(), key=lambda entry: -sum(entry[1]))[:SHOWN_FILES]:
            terminalreporter.write_line(f"{sum(costs):8.2f}  {len(costs):5} tests  {file}")
        terminalreporter.write_line("")
        for nodeid, cost in sorted(self.by_test.items(), key=lambda entry: -entry[1])[:SHOWN_TESTS]:
            terminalreporter.write_line(f"{cost:8.2f}  {nodeid}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Costs())


def main() -> int:
    here = Path(__file__).parent
    found = [str(here), *filter(None, [os.environ.get("PYTHONPATH")])]
    command = [sys.executable, "-m", "pytest", "-p", "test_costs", *sys.argv[1:]]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(found)}
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
