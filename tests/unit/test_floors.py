"""The releases that `.ci/run` installs to try the oldest ones are those that `pyproject.toml` names."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]


def test_the_oldest_releases_that_are_tried_are_those_that_pip_may_install():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = (ROOT / "tests/floors.txt").read_text("utf-8").splitlines()
    assert _releases(project["dependencies"]) == _releases(line for line in lines if not line.startswith("#"))


def _releases(requirements):
    return {
        requirement.name: {Version(each.version) for each in requirement.specifier}
        for requirement in map(Requirement, requirements)
    }
