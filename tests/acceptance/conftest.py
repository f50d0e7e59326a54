"""A project of a user, and pytest run over it: in one process and with two workers."""

import json
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import pytest
import warm
from thorough import varied

MOCK_TARGETS = """
targets:
  - name: default
    provider: mock
    response: hello world
"""

SDK = "from pytest_agentv.sdk import Result, code_judge, create_target_client\n\n\n"
"""The first line of a judge script of a user."""

OTHER_PLUGINS = tuple(
    word
    for name in (
        *("hypothesispytest", "anyio", "pytest-teamcity", "xdist.looponfail"),
        *("pastebin", "faulthandler", "legacypath", "doctest", "recwarn"),
    )
    for word in ("-p", f"no:{name}")  # `argparse` would compare `-pno:name` with the names of all options
)
"""Plugins of this checkout's environment, and those of pytest that no run here needs.

hypothesis imports itself at the end of each run, which takes a second. Each of the others takes a half per cent of a
short run.
"""


def pytest_collection_modifyitems() -> None:
    """Load what runs in this process need, which the controller of workers has not to do.

    `pytester` forgets what a run imported. pydantic cannot be imported twice, its models are slow to build again for
    each run, and there must not be two classes of one name.
    """
    warm.load_all("pytest_agentv")
    warm.load_prices()


def agentv(words: Iterable[str]) -> int:
    """Run the command `agentv` in this process, by its entry point, and return its exit code."""
    (entry, *_) = entry_points(group="console_scripts", name="agentv")
    return int(entry.load()([*words]))


@dataclass
class Run:
    """What a pytest run printed and wrote."""

    exit_code: int
    lines: list[str]
    results: list[dict[str, Any]]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def internals(self) -> list[str]:
        """Lines of tracebacks through this package: users must never see one."""
        return [line for line in self.lines if "pytest_agentv/" in line or "INTERNALERROR" in line]

    @property
    def outcomes(self) -> dict[str, int]:
        """The counts of pytest's last line, such as `{"passed": 1, "errors": 2}`; empty when nothing ran."""
        try:
            return pytest.RunResult.parse_summary_nouns(self.lines)
        except ValueError:
            return {}

    @property
    def by_id(self) -> dict[str, dict[str, Any]]:
        assert len({result["eval_id"] for result in self.results}) == len(self.results), "a case ran twice"
        return {result["eval_id"]: result for result in self.results}

    @property
    def statuses(self) -> dict[str, str]:
        return {eval_id: result["status"] for eval_id, result in self.by_id.items()}


class Project:
    """A folder with eval files and targets.

    With a `pytester` it runs pytest in this process, and otherwise in a forked one.
    """

    def __init__(self, path: Path, mode: tuple[str, ...], pytester: pytest.Pytester | None = None) -> None:
        self.path = path
        self.mode = mode
        self._pytester = pytester
        self._runs = 0
        self.remembers = False
        """Whether a run remembers its failures for the next one, in a folder with ten files."""

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    def script(self, name: str, text: str) -> Path:
        """Write a Python script, with `{python}` in other files standing for what runs it."""
        return self.write(name, text)

    def run(self, *args: str, mode: tuple[str, ...] | None = None, subprocess: bool = False) -> Run:
        """Run pytest; its results go to a new file each time."""
        self._runs += 1
        out = self.path / f"out-{self._runs}.jsonl"
        run = self._run_forked if subprocess or self._pytester is None else self._pytester.runpytest_inprocess
        chosen = self.mode if mode is None else mode
        with warnings.catch_warnings():
            warnings.simplefilter("default")  # this checkout's own run makes them errors; a user's does not
            finished = run(*OTHER_PLUGINS, *self._unasked_plugins(args), *chosen, f"--agentv-out={out}", *args)
        results = [json.loads(line) for line in out.read_text("utf-8").split("\n") if line] if out.exists() else []
        return Run(int(finished.ret), [*finished.outlines, *finished.errlines], results)

    def _unasked_plugins(self, args: Iterable[str]) -> list[str]:
        """Leave out the plugins that no flag asks for. That for reruns opens a socket and a thread in each run."""
        flags: dict[str, str | tuple[str, ...]]
        flags = {"rerunfailures": "--reruns", "setuponly": "--setup", "setupplan": "--setup", "timeout": "--timeout"}
        flags |= {} if self.remembers else {"cacheprovider": ("--lf", "--stepwise")}
        left_out = [name for name, flag in flags.items() if not any(arg.startswith(flag) for arg in args)]
        return [word for name in left_out for word in ("-p", f"no:{name}")]

    def _run_forked(self, *args: str) -> pytest.RunResult:
        command = [sys.executable, "-m", "pytest", f"--basetemp={self.path}/base-{self._runs}", *args]
        finished = warm.run(command, cwd=self.path, stdin=DEVNULL, capture_output=True, encoding="utf-8")
        return pytest.RunResult(finished.returncode, finished.stdout.splitlines(), finished.stderr.splitlines(), 0)


IN_ONE_PROCESS = pytest.mark.parametrize("mode", [()], ids=["plain"])
"""For a test of a module that runs in all modes, if workers cannot make a difference to it."""

WITH_WORKERS_ON_REQUEST = pytest.mark.parametrize("mode", [pytest.param((), id="plain"), varied(("-n", "2"), id="n2")])
"""For a test that workers can hardly make a difference to, or whose way through them another test shows."""


SLOW_WITH_WORKERS = pytest.mark.parametrize(
    "mode", [pytest.param((), id="plain"), pytest.param(("-n", "2"), id="n2", marks=pytest.mark.slow)]
)
"""For a test that takes long with workers: `.ci/run` has it with them."""


@pytest.fixture(params=[(), ("-n", "2")], ids=["plain", "n2"])
def mode(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The flags of a run. `-n 0` is no mode: the plugin looks at workers and at their controller only."""
    chosen: tuple[str, ...] = request.param
    return chosen


class _NoRecorder:
    """Stands for pytester's recorder of hook calls, which no test here reads: it takes 6 % of a short run."""

    ret: int | None = None

    def getcalls(self, names: object) -> list[object]:
        return []


@pytest.fixture
def unrecorded(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setattr(pytester, "make_hook_recorder", lambda manager: _NoRecorder())
    return pytester


@pytest.fixture
def project_in_all_modes(unrecorded: pytest.Pytester, mode: tuple[str, ...]) -> Project:
    """Run each test twice: in one process, and with two workers."""
    return Project(unrecorded.path, mode, unrecorded)


@pytest.fixture
def project(unrecorded: pytest.Pytester) -> Project:
    return Project(unrecorded.path, (), unrecorded)


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Project]:
    """Return a function that makes a project for a whole module: its fixtures run pytest once for many tests."""

    def make(*mode: str) -> Project:
        return Project(tmp_path_factory.mktemp("shared"), mode)

    return make


@pytest.fixture
def python() -> str:
    return sys.executable


@pytest.fixture
def suite() -> Callable[..., str]:
    """Return the text of an eval file of heuristic cases: `suite(a="hello", b="nothing")` holds ids and keywords."""

    def text(**keywords: str) -> str:
        cases = [
            f"  - id: {eval_id}\n    expected_outcome: says {keyword}\n"
            f"    input_messages: [{{role: user, content: Say {keyword}}}]\n"
            f"    evaluators: [{{name: words, type: heuristic, hits: [{keyword}]}}]\n"
            for eval_id, keyword in keywords.items()
        ]
        return "evalcases:\n" + "".join(cases)

    return text
