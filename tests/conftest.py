import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import warm
from hypothesis import settings
from thorough import tries

# How long an example takes says more about the machine than about the code.
settings.register_profile("agentv", deadline=None, max_examples=tries(50, 200))
settings.load_profile("agentv")

# Tests start hundreds of programs, and each would compile the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# `python3` is that of this environment. That of a version manager is a script, which takes longer than a judge.
os.environ["PATH"] = os.pathsep.join(filter(None, (str(Path(sys.executable).parent), os.environ.get("PATH"))))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A script's `&` starts programs deaf to Ctrl-C, and all that they start: tests that press it would wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def no_step_summary() -> Iterator[None]:
    """Keep the runs that tests make off the summary page of the step that runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def runs_start_quickly() -> Iterator[None]:
    """Start the runs that tests make, and their workers, without what each would do again."""
    warm.start_workers_warm()
    with warm.read_once():
        yield
