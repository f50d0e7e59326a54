"""Other evaluation tools, doing the same: so many cases, each of which only waits, so many at a time.

As we do, each reads its cases from a file and prints its report; those that can keep the results in a file.
"""

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from measure import Contender

Program = tuple[str, ...]

Pair = tuple[Contender, Contender]
"""The whole run, and one of a single case."""

PYDANTIC_EVALS = """\
import asyncio, sys
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains

if sys.argv[1] == "prepare":
    count = int(sys.argv[2])
    dataset = Dataset(
        name="benchmark",
        cases=[Case(name=f"case-{number}", inputs=f"Say hello to customer {number}") for number in range(count)],
        evaluators=[Contains("hello")],
    )
    dataset.to_file(f"cases{count}.yaml")
    sys.exit()

cases, workers, seconds = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) / 1000


async def answer(prompt):
    await asyncio.sleep(seconds)
    return "hello"


dataset = Dataset.from_file(f"cases{cases}.yaml")
report = dataset.evaluate_sync(answer, max_concurrency=workers, progress=False)
report.print()
print(sum(all(value.value for value in case.assertions.values()) for case in report.cases), "passed")
"""

INSPECT_AI = """\
import asyncio, json, sys
from inspect_ai import Task, eval as run
from inspect_ai.dataset import json_dataset
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import includes
from inspect_ai.solver import solver

if sys.argv[1] == "prepare":
    count = int(sys.argv[2])
    with open(f"cases{count}.jsonl", "w") as file:
        for n in range(count):
            print(json.dumps({"id": f"case-{n}", "input": f"Say hello to customer {n}", "target": "hello"}), file=file)
    sys.exit()

cases, workers, seconds = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) / 1000


@solver
def answer():
    async def solve(state, generate):
        await asyncio.sleep(seconds)
        state.output = ModelOutput.from_content("mock", "hello")
        return state

    return solve


task = Task(dataset=json_dataset(f"cases{cases}.jsonl"), solver=answer(), scorer=includes())
(log,) = run(task, model="mockllm/model", max_samples=workers, display="plain", log_dir="logs")
print(sum(sample.scores["includes"].value == "C" for sample in log.samples), "passed")
"""

DEEPEVAL = """\
import asyncio, json, os, sys
os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "YES"
from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric
from deepeval.dataset import EvaluationDataset

if sys.argv[1] == "prepare":
    count = int(sys.argv[2])
    with open(f"cases{count}.json", "w") as file:
        json.dump([{"input": f"Say hello to customer {n}", "actual_output": "hello"} for n in range(count)], file)
    sys.exit()

cases, workers, seconds = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) / 1000


class Contains(BaseMetric):
    # deepeval judges answers that are there already: here the metric does the waiting
    threshold = 0.5
    async_mode = True

    def measure(self, test_case):
        raise NotImplementedError

    async def a_measure(self, test_case, *args, **kwargs):
        await asyncio.sleep(seconds)
        self.score = float("hello" in test_case.actual_output)
        self.success = self.score >= self.threshold
        self.reason = ""
        return self.score

    def is_successful(self):
        return self.success

    @property
    def __name__(self):
        return "contains"


dataset = EvaluationDataset()
keys = {"input_key_name": "input", "actual_output_key_name": "actual_output"}
dataset.add_test_cases_from_json_file(f"cases{cases}.json", **keys)
result = evaluate(
    dataset.test_cases,
    [Contains()],
    async_config=AsyncConfig(max_concurrent=workers, throttle_value=0),
    display_config=DisplayConfig(show_indicator=False),
    cache_config=CacheConfig(write_cache=False, use_cache=False),
)
print(sum(case.success for case in result.test_results), "passed")
"""

PROMPTFOO_PROVIDER = """\
const seconds = Number(process.env.BENCHMARK_DELAY_MS);
module.exports = class {
  id() { return 'waiting'; }
  async callApi() {
    await new Promise((resolve) => setTimeout(resolve, seconds));
    return { output: 'hello' };
  }
};
"""


@dataclass(frozen=True, slots=True)
class Load:
    """What each tool has to do."""

    cases: int
    workers: int
    delay_ms: int


def install_peers(folder: Path, load: Load) -> list[Pair]:
    """Install the peers that can be had and return how each is run; what cannot be installed is passed over."""
    scripts = {"pydantic-evals": PYDANTIC_EVALS, "inspect_ai": INSPECT_AI, "deepeval": DEEPEVAL}
    install: dict[str, Callable[[Path, Load], Pair]] = {
        **{package: partial(_python_peer, package, script) for package, script in scripts.items()},
        "promptfoo": _promptfoo,
        "agentv": _agentv,
    }
    pairs = []
    for name, installed in install.items():
        try:
            pairs.append(installed(folder / name, load))
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{name} cannot be installed here: {error}")
    return pairs


def install_ours(folder: Path) -> Program:
    """Install this project with xdist and nothing else, as the peers are, and return the program that runs pytest."""
    python = _python_with(folder, str(Path(__file__).parent.parent), "pytest-xdist")
    return (python, "-m", "pytest", "-p", "no:cacheprovider")


def _python_with(folder: Path, *packages: str) -> str:
    """Install packages into a new environment and return its Python."""
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv/bin/python")
    _run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
    return python


def _python_peer(package: str, script: str, folder: Path, load: Load) -> Pair:
    python = _python_with(folder, package)
    (folder / "run.py").write_text(script)

    def contender(name: str, load: Load) -> Contender:
        _run(python, "run.py", "prepare", str(load.cases), cwd=folder)
        arguments = (str(load.cases), str(load.workers), str(load.delay_ms))
        return Contender(name, folder, arguments, rf"\b{load.cases} passed", (python, "run.py"))

    return contender(package, load), contender(f"{package}, one", replace(load, cases=1))


def _npm_install(folder: Path, package: str) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("there is no npm")
    folder.mkdir(parents=True)
    _run(npm, "install", "--no-audit", "--no-fund", "--loglevel=error", package, cwd=folder)


def _agentv(folder: Path, load: Load) -> Pair:
    """AgentV itself, whose mock target waits."""
    _npm_install(folder, "agentv")
    (folder / ".agentv").mkdir()
    target = f"name: default, provider: mock, response: hello, delay_ms: {load.delay_ms}, workers: {load.workers}"
    (folder / ".agentv/targets.yaml").write_text(f"targets:\n  - {{{target}}}\n")
    return _agentv_run("agentv", folder, load), _agentv_run("agentv, one", folder, replace(load, cases=1))


def _agentv_run(name: str, folder: Path, load: Load) -> Contender:
    case = "  - {{id: c{number}, input: Say hello to customer {number}, criteria: hello, assertions: [{check}]}}\n"
    check = "{type: contains, value: hello}"
    cases = "".join(case.format(number=number, check=check) for number in range(load.cases))
    file = folder / f"cases{load.cases}.eval.yaml"
    file.write_text(f"name: cases{load.cases}\ntarget: default\ntests:\n{cases}")
    arguments = ("eval", file.name, f"--workers={load.workers}")
    return Contender(name, folder, arguments, rf"Passed: {load.cases}\b", (str(folder / "node_modules/.bin/agentv"),))


def _promptfoo(folder: Path, load: Load) -> Pair:
    _npm_install(folder, "promptfoo")
    (folder / "provider.js").write_text(PROMPTFOO_PROVIDER)
    return _promptfoo_run("promptfoo", folder, load), _promptfoo_run("promptfoo, one", folder, replace(load, cases=1))


def _promptfoo_run(name: str, folder: Path, load: Load) -> Contender:
    tests = "".join(f"  - vars: {{customer: {number}}}\n" for number in range(load.cases))
    config = folder / f"config{load.cases}.yaml"
    config.write_text(
        "prompts: ['Say hello to customer {{customer}}']\nproviders: ['file://provider.js']\n"
        f"defaultTest: {{assert: [{{type: contains, value: hello}}]}}\ntests:\n{tests}"
    )
    quiet = ("PROMPTFOO_DISABLE_TELEMETRY=1", "PROMPTFOO_DISABLE_UPDATE=1", f"PROMPTFOO_CONFIG_DIR={folder}/home")
    program = ("env", *quiet, f"BENCHMARK_DELAY_MS={load.delay_ms}", str(folder / "node_modules/.bin/promptfoo"))
    flags = (
        "--no-cache",
        "--no-progress-bar",
        "--no-write",
        f"--output=results{load.cases}.json",
        f"--max-concurrency={load.workers}",
    )
    return Contender(name, folder, ("eval", "-c", config.name, *flags), rf"\b{load.cases} passed", program)


def _run(*command: str, cwd: Path | None = None) -> None:
    print("running", " ".join(command[:1] + command[-3:]), file=sys.stderr)
    subprocess.run(command, cwd=cwd, check=True, timeout=600)
