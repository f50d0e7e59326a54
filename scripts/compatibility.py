"""Try the plugin with the versions and neighbours that it is to work with, and write down what was seen.

    python scripts/compatibility.py                      # print the table
    python scripts/compatibility.py --only 'pytest 8.0'  # some rows only, by name
    python scripts/compatibility.py --write              # put the rows into docs/compatibility.md

Environments are made in a temporary folder, with pip. The exit code is 1 where a check failed or could not be made.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final

from compatibility_bench import Bench, CheckError
from compatibility_checks import COMMON_CHECKS, Check, title
from compatibility_environments import Environments, InstallError, versions
from compatibility_rows import PROJECT, ROWS, Row

PAGE: Final = PROJECT / "docs" / "compatibility.md"
BEGIN: Final = "<!-- compatibility.py writes from here -->"
END: Final = "<!-- to here -->"
COMMON: Final = "common"
"""What the table calls the checks that every row has."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of a row."""

    row: Row
    versions: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        tried = [COMMON, *map(title, self.row.special)]
        result = "passed" if not self.failures else "**failed**: " + "; ".join(self.failures)
        cells = (self.row.name, ", ".join(self.versions), "; ".join(tried), result, self.row.remark)
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def main() -> int:
    options = _parser().parse_args()
    rows = [row for row in ROWS if not options.only or row.name in options.only]
    with tempfile.TemporaryDirectory(prefix="compatibility-") as name:
        folder = Path(name)
        environments = Environments(folder / "environments")
        with ThreadPoolExecutor(options.jobs) as pool:
            seen = list(pool.map(lambda row: _try_row(row, environments, folder / "projects"), rows))
    if options.write:
        PAGE.write_text(replace_table(PAGE.read_text("utf-8"), seen), "utf-8")
    else:
        print("\n".join(table({one.row.name: one.line for one in seen})))
    return int(any(one.failures for one in seen))


def table(lines: dict[str, str]) -> list[str]:
    """Return the lines of the table, in the order of the rows; what a row's line says is given by its name."""
    common = "; ".join(map(title, COMMON_CHECKS))
    return [
        f"*{COMMON}* stands for: {common}.",
        "",
        "| with | versions seen | what was run | result | remark |",
        "|---|---|---|---|---|",
        *(lines[row.name] for row in ROWS if row.name in lines),
    ]


def replace_table(page: str, seen: Sequence[Seen]) -> str:
    """Return the page with the rows that were tried; the others stay as they are."""
    above, begin, rest = page.partition(BEGIN)
    _, end, below = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE}: the lines '{BEGIN}' and '{END}' are missing")
    lines = rows_of(page) | {one.row.name: one.line for one in seen}
    return f"{above}{begin}\n\n" + "\n".join(table(lines)) + f"\n\n{end}{below}"


def rows_of(page: str) -> dict[str, str]:
    """Return the lines of a page's table by what stands in their first cell."""
    inner = page.partition(BEGIN)[2].partition(END)[0]
    lines = [line for line in inner.splitlines() if line.startswith("| ")][1:]
    return {line.split(" | ")[0].removeprefix("| "): line for line in lines}


def _try_row(row: Row, environments: Environments, folder: Path) -> Seen:
    try:
        python = environments.create(row)
        found = tuple(versions(python, (*row.packages, "pytest")))
    except InstallError as error:
        _report(row, [str(error)])
        return Seen(row, failures=(f"not run: {error}",))
    failures = [failure for check in row.checks if (failure := _try_check(row, check, folder, python))]
    _report(row, failures)
    return Seen(row, found, tuple(failures))


def _try_check(row: Row, check: Check, folder: Path, python: Path) -> str | None:
    try:
        check(Bench(folder / row.name.replace(" ", "-") / check.__name__, python))
    except CheckError as error:
        return f"{title(check)}: {error}"
    except TimeoutExpired:
        return f"{title(check)}: pytest did not end"
    except (LookupError, ValueError) as error:  # a report that has another shape than it had
        return f"{title(check)}: {error!r}"
    return None


def _report(row: Row, failures: Sequence[str]) -> None:
    print(f"{row.name}: {'; '.join(failures) or 'passed'}", file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [row.name for row in ROWS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"one of: {', '.join(names)}")
    parser.add_argument("--write", action="store_true", help=f"write the rows into {PAGE.relative_to(PROJECT)}")
    parser.add_argument("--jobs", type=int, default=2, help="rows that are tried at a time (default: 2)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
