"""Lists the tests that name each scenario of the requirements, and fails on a scenario that no test names.

    python scripts/scenarios.py                     prints the list; the exit code is 1 on a gap
    python scripts/scenarios.py --write FOLDER      writes tests/scenarios.txt anew, from the requirements in a folder

Tests name scenarios with `@pytest.mark.scenario("TITLE")`, folders of `tests/corpus` with a line `# scenario: TITLE` in
`run.txt`. The requirements are no part of the project, so their titles stand in `tests/scenarios.txt`.
"""

import argparse
import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
TITLES = ROOT / "tests" / "scenarios.txt"


def read_requirements(folder: Path) -> Iterator[str]:
    """Yield the lines of the list: a heading for each requirement, and its titles."""
    for path in sorted(folder.glob("*.md")):
        heading = ""
        for kind, title in re.findall(
            r"^#{3,4} (Requirement|Scenario): *(.+?) *$", path.read_text("utf-8"), re.MULTILINE
        ):
            if kind == "Requirement":
                heading = f"\n# {path.name}: {title}"
            else:
                yield from filter(None, (heading, title))
                heading = ""


def read_tests() -> Iterator[tuple[str, str]]:
    """Yield the titles that tests name, each with the test."""
    for path in sorted((ROOT / "tests").rglob("*.py")):
        text = path.read_text("utf-8")
        if "mark.scenario" in text:
            yield from _named(ast.parse(text).body, path.relative_to(ROOT).as_posix())
    for path in sorted((ROOT / "tests" / "corpus").glob("*/run.txt")):
        for title in re.findall(r"^# scenario: *(.+?) *$", path.read_text("utf-8"), re.MULTILINE):
            yield title, path.parent.relative_to(ROOT).as_posix()


def _named(body: Sequence[ast.stmt], place: str) -> Iterator[tuple[str, str]]:
    for node in body:
        here = place
        parts: Sequence[ast.AST] = [node]
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            here, parts = f"{place}::{node.name}", node.decorator_list
        for call in (each for part in parts for each in ast.walk(part)):
            if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.scenario":
                yield ast.literal_eval(call.args[0]), here
        if isinstance(node, ast.ClassDef):
            yield from _named(node.body, here)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", metavar="FOLDER", type=Path)
    folder = parser.parse_args().write
    if folder is not None:
        TITLES.write_text("\n".join(read_requirements(folder)).lstrip() + "\n", encoding="utf-8")
    tests: defaultdict[str, list[str]] = defaultdict(list)
    for title, test in read_tests():
        tests[title].append(test)
    titles = [line for line in TITLES.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    for title in dict.fromkeys(titles):
        print("\n    ".join((title, *tests[title])))
    gaps = [f"no test names the scenario {title!r}" for title in dict.fromkeys(titles) if not tests[title]]
    gaps += [f"{tests[title][0]} names no scenario: {title!r}" for title in tests if title not in titles]
    print("\n".join(gaps), file=sys.stderr, end="\n" if gaps else "")
    return 1 if gaps else 0


if __name__ == "__main__":
    sys.exit(main())
