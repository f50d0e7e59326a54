"""The live line of a run: on a terminal that somebody watches, and nowhere else."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import warm
from scripted_agent import numbered, write_agent, write_cases
from thorough import varied

pty = pytest.importorskip("pty", reason="needs a terminal")

LINE = re.compile(r"\d+/6 done, \d+ in flight")


def printed_on_a_terminal(folder: Path, *flags: str, **environment: str) -> str:
    """Return what pytest writes to a terminal of its own."""
    ours, theirs = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name not in ("CI", "TERM", "COLUMNS")}
    process = warm.Popen(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--agentv-workers=2", *flags],
        cwd=folder,
        env={**variables, "TERM": "xterm", "COLUMNS": "120", **environment},
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.STDOUT,
    )
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        data = b"".join(iter(lambda: read_from(terminal.fileno()), b""))
    assert process.wait(30) == pytest.ExitCode.OK
    return data.decode()


def read_from(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:  # how Linux says that nobody has the terminal open any more
        return b""


@pytest.fixture
def folder(project):
    write_agent(project)
    write_cases(project, numbered(6, "sleep 0.3; say hello"))
    return project.path


def test_a_terminal_shows_how_far_the_run_is_and_keeps_nothing_of_it(folder):
    text = printed_on_a_terminal(folder)
    assert LINE.search(text)
    assert "0/6 done, 2 in flight" in text
    shown = re.sub(r"\r\n[^\r\n]*\x1b\[K.*?\x1b\[\d+G", "", text)  # drawn where the cursor then returns
    assert not LINE.search(shown)
    assert "Total eval cases: 6 (6 passed, 0 failed, 0 errors)" in shown


@pytest.mark.parametrize(
    ("flags", "environment"),
    [
        varied(("-q",), {}),
        ((), {"CI": "true"}),
        varied((), {"TERM": "dumb"}),
        pytest.param(("-n2",), {}, marks=pytest.mark.slow),
    ],
    ids=["quiet", "CI", "dumb", "n2"],
)
def test_a_quiet_run_a_log_and_workers_show_no_live_line(folder, flags, environment):
    text = printed_on_a_terminal(folder, *flags, **environment)
    assert "6 passed" in text
    assert not LINE.search(text)
    assert "\x1b[K" not in text
