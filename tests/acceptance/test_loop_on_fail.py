"""`pytest --looponfail` of pytest-xdist, which sends the values of all options to a process of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from busy import slowness

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="ends the run by a signal")]

LONGEST_WAIT = 60.0
"""Seconds after which what is waited for will not happen any more."""
PLUGINS = "xdist.plugin,xdist.looponfail,pytest_agentv.plugin"
"""Others in this environment fail in the process of the loop, whose output has no encoding."""


def looped(folder: Path, *args: str) -> str:
    """Return what the loop prints until it waits for changes. It is ended then."""
    log = folder.parent / "loop.txt"
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": PLUGINS}
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "--looponfail", "-p", "no:cacheprovider", *args],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + LONGEST_WAIT * slowness()
        while process.poll() is None and time.monotonic() < deadline and "waiting for changes" not in log.read_text():
            time.sleep(0.05)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(LONGEST_WAIT)
        finally:
            kill_group(process.pid)
    return log.read_text()


def kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return  # nothing was left


def test_the_loop_runs_with_options_that_are_paths(tmp_path: Path) -> None:
    """Its first run was a traceback: execnet sends no paths."""
    folder = tmp_path / "project"
    (folder / "kept").mkdir(parents=True)
    (folder / "kept" / "other.yaml").write_text("targets: [{name: default, provider: mock, response: hello}]")
    checks = "evaluators: [{contains: hello}]"
    (folder / "a.eval.yaml").write_text(f"{checks}\nevalcases: [{{id: a, input: hi}}, {{id: b, input: hi}}]\n")
    paths = ("--agentv-targets-file=kept/other.yaml", "--agentv-out=../r.jsonl", "--agentv-html=../r.html")
    text = looped(folder, *paths, "--agentv-shard=1/1")
    assert "2 passed" in text
    assert "waiting for changes" in text
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 2
    assert (tmp_path / "r.html").is_file()
