"""Show that the corpus and the acceptance tests find faults: put each fault of mutants.yaml into a copy of the project.

    python scripts/mutants.py                # all of them
    python scripts/mutants.py evaluators 3   # those of one subject, and the third one
    python scripts/mutants.py --corpus       # without the acceptance tests

The corpus runs first, then the acceptance tests. A fault that neither finds is a survivor; it makes the exit code 1, as
does a fault whose text is not there any more. Tests that hang with a fault find it too.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

ROOT = Path(__file__).parents[1]
TABLE = Path(__file__).with_name("mutants.yaml")
COPIED = ("pytest_agentv", "tests", "examples", "docs", "conftest.py", "pyproject.toml", "README.md")
ACCEPTANCE = "tests/acceptance"
CORPUS = f"{ACCEPTANCE}/test_corpus.py"
LONGEST_TEST, LONGEST_RUN = 90, 1800
NOT_FOUND = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
FOUND = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)


class Mutant(NamedTuple):
    """A fault, the behaviour that it breaks, and who finds it soonest."""

    number: int
    subject: str
    behaviour: str
    old: str
    new: str
    hint: tuple[str, ...]
    """The folders of the corpus that find it; they run first."""

    def stages(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the tests to run one after another, each with who is said to have found the fault."""
        if self.hint:
            yield "corpus", [CORPUS, "-m", "", "-k", " or ".join(self.hint)]
        yield "corpus", [CORPUS, "-m", "", "-n", "2"]
        yield "acceptance", [ACCEPTANCE, f"--deselect={CORPUS}", "-n", "2"]
        yield "acceptance", [ACCEPTANCE, "-n", "2", "-m", "kills or slow"]


def read_table() -> list[Mutant]:
    table = yaml.safe_load(TABLE.read_text("utf-8"))
    entries = [(subject, entry) for subject, entries in table.items() for entry in entries]
    return [
        Mutant(number, subject, entry["behaviour"], entry["old"], entry["new"], tuple(entry.get("hint", "").split()))
        for number, (subject, entry) in enumerate(entries, start=1)
    ]


def copy_project(target: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, target / name)


def sites(mutant: Mutant, project: Path) -> list[Path]:
    """Return the files that hold a fault's text, each as often as it is there."""
    files = sorted((project / "pytest_agentv").rglob("*.py"))
    return [path for path in files for _ in range(path.read_text("utf-8").count(mutant.old))]


def run_tests(project: Path, tests: list[str]) -> tuple[int, str]:
    """Run tests on the copy; return the exit code, and the first test that failed."""
    options = ("-x", "-q", "-p", "no:cacheprovider", f"--timeout={LONGEST_TEST}")
    command = [sys.executable, "-m", "pytest", *options, *tests]
    environment = {**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, timeout=LONGEST_RUN, check=False
        )
    except subprocess.TimeoutExpired:
        return pytest.ExitCode.INTERRUPTED, "hung"
    failed = re.search(r"^(?:FAILED|ERROR) (tests/\S+)", done.stdout, re.MULTILINE)
    return done.returncode, failed[1] if failed else done.stdout[-300:]


def try_mutant(mutant: Mutant, project: Path, *, with_acceptance: bool) -> tuple[str, str]:
    """Return who found the fault, `survived` or `stale`, and by what test or why."""
    found = sites(mutant, project)
    if len(found) != 1:
        return "stale", f"its text is there {len(found)} times: mend scripts/mutants.yaml"
    (path,) = found
    whole = path.read_text("utf-8")
    path.write_text(whole.replace(mutant.old, mutant.new), "utf-8")
    try:
        stages = (each for each in mutant.stages() if with_acceptance or each[0] == "corpus")
        runs = ((finder, *run_tests(project, tests)) for finder, tests in stages)
        finder, exit_code, text = next((run for run in runs if run[1] not in NOT_FOUND), ("survived", None, ""))
    finally:
        path.write_text(whole, "utf-8")
    if exit_code is None:
        return finder, text
    if exit_code not in FOUND or (
        text.startswith("tests/") and run_tests(project, [text, "-m", ""])[0] != pytest.ExitCode.OK
    ):
        return "stale", f"{text} fails without the fault too"
    return finder, text


def main(words: list[str]) -> int:
    wanted = {word for word in words if word != "--corpus"}
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        project = Path(folder)
        copy_project(project)
        for mutant in read_table():
            if not wanted or wanted & {str(mutant.number), mutant.subject}:
                outcome, text = try_mutant(mutant, project, with_acceptance="--corpus" not in words)
                print(f"{outcome:11}{mutant.number:2} {mutant.subject}: {mutant.behaviour}  [{text}]", flush=True)
                counts[outcome] += 1
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))
    return 0 if set(counts) <= {"corpus", "acceptance"} else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
