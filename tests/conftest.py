import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import warm
from brief_reports import BriefReports, are_enough
from rewriting import rewrite_once
from scheduling import ModuleScheduling, begins_early
from thorough import THOROUGH, leave_out_variations, tries

# For a path that is not there, pytest loads this file, also in the environment of the README's first command.
with suppress(ModuleNotFoundError):
    from hypothesis import settings

    # How long an example takes says more about the machine than about the code. A usual run tries the same examples
    # each time: it fails for a change, and a thorough run, which tries others, for a fault that was there before.
    settings.register_profile("agentv", deadline=None, max_examples=tries(15, 200), derandomize=not THOROUGH)
    settings.load_profile("agentv")

# A process can load NumPy once, which rouge-score imports. Runs in this process forget the modules that they load.
with suppress(ModuleNotFoundError):
    import numpy as _  # noqa: F401

# The runs that tests make are those of a developer, wherever the tests run: a test that means a CI server says so.
for variable in ("CI", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITLAB_CI", "TF_BUILD", "TEAMCITY_VERSION"):
    os.environ.pop(variable, None)

# `python3` is that of this environment. That of a version manager is a script, which takes longer than a judge.
os.environ["PATH"] = os.pathsep.join(filter(None, (str(Path(sys.executable).parent), os.environ.get("PATH"))))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A script's `&` starts programs deaf to Ctrl-C, and all that they start: tests that press it would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# The garbage collector passes over the thousands of tests: it would search them again in each run that a test makes.
gc.disable()


@pytest.fixture(autouse=True, scope="session")
def runs_start_quickly(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Start the runs that tests make, and their workers, without what each would do again.

    A run deletes the folders of earlier runs when it ends. With a root of their own, these are never those of the whole
    suite: deleting a hundred thousand files takes half a minute.
    """
    os.environ["PYTEST_DEBUG_TEMPROOT"] = str(tmp_path_factory.mktemp("root"))
    warm.start_workers_warm()
    with warm.read_once():
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Fork the workers, and the server of each, from one process that has loaded what all of them need."""
    rewrite_once(config)
    warm.start_workers_warm(that_fork_others=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ModuleScheduling | None:
    return ModuleScheduling(config, log) if config.getoption("dist") == "load" else None


collect_ignore = ["corpus"]  # projects that tests/acceptance/test_corpus.py runs


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-corpus", action="store_true", help="write what tests/corpus expects anew: read the diff")


def pytest_configure(config: pytest.Config) -> None:
    if are_enough(config):
        config.pluginmanager.register(BriefReports())


def pytest_report_header() -> str:
    return "variations: " + ("run" if THOROUGH else "left out (AGENTV_TEST_THOROUGH=1 runs them)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out_variations(config, items)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not begins_early(config.rootpath, item.nodeid))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 10, 10)  # a tenth of the tests' processor time went to collections after each 700 objects
