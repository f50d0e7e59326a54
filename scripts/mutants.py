"""Show that the tests find faults: put each fault of mutants.yaml into a copy of the project and run its tests.

    python scripts/mutants.py            # all of them
    python scripts/mutants.py engine     # those of one folder
    python scripts/mutants.py 3 17       # some of them, by number

A fault that no test finds is a survivor; it makes the exit code 1, as does a fault whose text is not there any more.
Tests that hang with a fault find it too; they are counted apart, since a failure says more.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("mutants.yaml")
COPIED = ("pytest_agentv", "tests", "examples", "docs", "conftest.py", "pyproject.toml", "README.md")
LONGEST_TEST, LONGEST_RUN = 90, 400
HUNG = "hung"
FOUND = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)


@dataclass(frozen=True)
class Mutant:
    """A fault, and the tests that should find it."""

    number: int
    folder: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"{self.number:2} {self.folder}: {self.old.strip()[:70]!r} -> {self.new.strip()[:40]!r}"


def read_table() -> list[Mutant]:
    entries = yaml.safe_load(TABLE.read_text("utf-8"))
    return [
        Mutant(number, entry["in"], entry["old"], entry["new"], tuple(entry["tests"].split()))
        for number, entry in enumerate(entries, start=1)
    ]


def chosen(mutants: list[Mutant], words: list[str]) -> list[Mutant]:
    return [mutant for mutant in mutants if not words or str(mutant.number) in words or mutant.folder in words]


def copy_project(target: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target / name)


def sites(mutant: Mutant, project: Path) -> list[Path]:
    """Return the files below the fault's folder that hold its text."""
    files = sorted((project / "pytest_agentv" / mutant.folder).rglob("*.py"))
    return [path for path in files if mutant.old in path.read_text("utf-8")]


def run_tests(project: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """Run tests on the copy; return the exit code, and the first test that failed."""
    options = ("-x", "-q", "-p", "no:cacheprovider", f"--timeout={LONGEST_TEST}")
    command = [sys.executable, "-m", "pytest", *options, *tests]
    environment = {**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, timeout=LONGEST_RUN, check=False
        )
    except subprocess.TimeoutExpired:
        return pytest.ExitCode.INTERRUPTED, HUNG
    if re.search(r"^E +Failed: Timeout", done.stdout, re.MULTILINE):
        return done.returncode, HUNG
    failed = re.search(r"^(?:FAILED|ERROR) (tests/\S+)", done.stdout, re.MULTILINE)
    return done.returncode, failed[1] if failed else done.stdout[-300:]


def try_mutant(mutant: Mutant, project: Path) -> tuple[str, str]:
    """Return `killed`, `hung`, `survived` or `stale`, and by what or why."""
    found = sites(mutant, project)
    if len(found) != 1 or found[0].read_text("utf-8").count(mutant.old) != 1:
        return "stale", f"its text is in {len(found)} files, or more than once: mend scripts/mutants.yaml"
    (path,) = found
    whole = path.read_text("utf-8")
    path.write_text(whole.replace(mutant.old, mutant.new), "utf-8")
    try:
        exit_code, text = run_tests(project, mutant.tests)
    finally:
        path.write_text(whole, "utf-8")
    if exit_code == pytest.ExitCode.OK:
        return "survived", ""
    if text == HUNG:
        return HUNG, ""
    return ("killed" if exit_code in FOUND else "stale"), text


def report(mutants: list[Mutant], project: Path) -> Iterator[str]:
    for mutant in mutants:
        outcome, text = try_mutant(mutant, project)
        print(f"{outcome:9}{mutant.title}  {text}", flush=True)
        yield outcome


def main(words: list[str]) -> int:
    mutants = chosen(read_table(), words)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        project = Path(folder)
        copy_project(project)
        counts = Counter(report(mutants, project))
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 0 if set(counts) <= {"killed", HUNG} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
