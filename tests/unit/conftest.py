"""The `agentv` command, run in this process."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"


@dataclass
class CommandRun:
    """What a command printed, and its exit code."""

    exit_code: int
    out: str
    err: str


@pytest.fixture
def agentv(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., CommandRun]:
    """Run a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    [command] = entry_points(group="console_scripts", name="agentv")
    main = command.load()

    def run(*arguments: str) -> CommandRun:
        capsys.readouterr()
        exit_code = main(arguments)
        return CommandRun(exit_code, *capsys.readouterr())

    return run


@pytest.fixture
def golden() -> Callable[[str], str]:
    """Return the text of a golden file."""
    return lambda name: (GOLDEN / name).read_text("utf-8")
