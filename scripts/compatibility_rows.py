"""The rows of the table: versions and neighbours, what is installed for each, and what is checked."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import compatibility_neighbours as neighbours
from compatibility_checks import COMMON_CHECKS, Check

PROJECT: Final = Path(__file__).parents[1]
PYTEST_MINORS: Final = ("8.0", "8.1", "8.2", "8.3", "8.4", "9.0", "9.1", "9.2")
PYTHONS: Final = ("3.11", "3.12", "3.13")


@dataclass(frozen=True, slots=True)
class Row:
    """Something to try the plugin with."""

    name: str
    requirements: tuple[str, ...] = ()
    """What is installed over the project's own dependencies."""
    special: tuple[Check, ...] = ()
    """Checks beyond those that every row has."""
    python: str | None = None
    """Minor version of the interpreter; None: the one that runs this script."""
    packages: tuple[str, ...] = ()
    """Packages whose versions the row is about, beside pytest."""
    remark: str = ""
    """What the neighbour itself cannot do, whatever is tested with it."""

    @property
    def checks(self) -> tuple[Check, ...]:
        return (*COMMON_CHECKS, *self.special)


def oldest_requirements() -> tuple[str, ...]:
    """Return the project's dependencies, each at the lowest version that it declares."""
    declared: list[str] = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    return tuple(requirement.replace(">=", "==") for requirement in declared)


def neighbour(package: str, check: Check, remark: str = "") -> Row:
    return Row(package, (package,), (check,), packages=(package,), remark=remark)


ROWS: Final[tuple[Row, ...]] = (
    *(Row(f"pytest {minor}", (f"pytest=={minor}.*",)) for minor in PYTEST_MINORS),
    *(Row(f"Python {version}", python=version) for version in PYTHONS),
    Row("oldest declared dependencies", oldest_requirements()),
    neighbour(
        "pytest-xdist",
        neighbours.check_xdist,
        "It ignores all `xdist_group` marks in these versions: `--dist loadgroup` spreads items as `load` does.",
    ),
    neighbour(
        "pytest-rerunfailures",
        neighbours.check_rerunfailures,
        "In `--junitxml` each attempt is a test case, and a repeated attempt looks passed, as for all tests.",
    ),
    neighbour("pytest-randomly", neighbours.check_randomly),
    neighbour(
        "pytest-timeout",
        neighbours.check_timeout,
        "Its clock starts when an item's turn comes. `--agentv-timeout` ends the call itself, and is retried.",
    ),
    neighbour("pytest-asyncio", neighbours.check_asyncio),
    neighbour("pytest-html", neighbours.check_html),
    neighbour("pytest-json-report", neighbours.check_json_report),
    neighbour("pytest-cov", neighbours.check_cov, "Sees code in pytest's processes (`provider: python`) only."),
    neighbour("pytest-sugar", neighbours.check_sugar, "An item whose set-up failed has no line in its list."),
    neighbour("pytest-split", neighbours.check_split),
    neighbour("pytest-instafail", neighbours.check_instafail),
    neighbour(
        "teamcity-messages",
        neighbours.check_teamcity,
        "Makes levels of its tree from `/` and `(` in names, and shows `.` as `_`.",
    ),
)
