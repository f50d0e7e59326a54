"""Other evaluation tools that ask the same model: so many cases, so many requests at a time."""

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from measure import Contender
from peers import Load, Pair

PYDANTIC_EVALS = """\
import sys
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains

url, cases, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
agent = Agent(OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="x")))


async def answer(prompt):
    return (await agent.run(prompt)).output


dataset = Dataset(
    name="benchmark",
    cases=[Case(name=f"case-{number}", inputs=f"Say hello to customer {number}") for number in range(cases)],
    evaluators=[Contains("hello")],
)
report = dataset.evaluate_sync(answer, max_concurrency=workers, progress=False)
print(sum(all(value.value for value in case.assertions.values()) for case in report.cases), "passed")
"""

INSPECT_AI = """\
import os, sys
os.environ["OPENAI_API_KEY"] = "x"
from inspect_ai import Task, eval as run
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import includes
from inspect_ai.solver import generate

url, cases, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
samples = [Sample(id=f"case-{n}", input=f"Say hello to customer {n}", target="hello") for n in range(cases)]
task = Task(dataset=MemoryDataset(samples), solver=generate(), scorer=includes())
(log,) = run(
    task,
    model="openai/gpt-4o",
    model_base_url=f"{url}/v1",
    max_samples=workers,
    max_connections=workers,
    display="none",
    log_dir="logs",
)
print(sum(sample.scores["includes"].value == "C" for sample in log.samples), "passed")
"""

DEEPEVAL = """\
import os, sys
os.environ["DEEPEVAL_TELEMETRY_OPT_OUT"] = "YES"
from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig
from deepeval.metrics import BaseMetric
from deepeval.models import GPTModel
from deepeval.test_case import LLMTestCase

url, cases, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model = GPTModel(model="gpt-4o", api_key="x", base_url=f"{url}/v1")


class Contains(BaseMetric):
    # deepeval judges answers that are there already: here the metric asks the model
    threshold = 0.5
    async_mode = True

    def measure(self, test_case):
        raise NotImplementedError

    async def a_measure(self, test_case, *args, **kwargs):
        answer, _ = await model.a_generate(test_case.input)
        self.score = float("hello" in answer)
        self.success = self.score >= self.threshold
        self.reason = ""
        return self.score

    def is_successful(self):
        return self.success

    @property
    def __name__(self):
        return "contains"


result = evaluate(
    [LLMTestCase(input=f"Say hello to customer {n}", actual_output="hello") for n in range(cases)],
    [Contains()],
    async_config=AsyncConfig(max_concurrent=workers, throttle_value=0),
    display_config=DisplayConfig(show_indicator=False, print_results=False),
    cache_config=CacheConfig(write_cache=False, use_cache=False),
)
print(sum(case.success for case in result.test_results), "passed")
"""

PROMPTFOO = """\
prompts: ['Say hello to customer {{{{customer}}}}']
providers: [{{id: 'openai:chat:gpt-4o', config: {{apiBaseUrl: '{url}/v1', apiKey: x}}}}]
defaultTest: {{assert: [{{type: contains, value: hello}}]}}
tests:
{tests}
"""

SCRIPTS = {
    "pydantic-evals": (PYDANTIC_EVALS, ("pydantic-evals", "pydantic-ai-slim[openai]")),
    "inspect_ai": (INSPECT_AI, ("inspect_ai", "openai")),
    "deepeval": (DEEPEVAL, ("deepeval",)),
}
"""By tool: what it runs, and the packages that it needs."""


def install_llm_peers(folder: Path, load: Load, url: str) -> list[Pair]:
    """Install the tools that can be had and return how each is run; what cannot be installed is passed over."""
    install: dict[str, Callable[[Path, Load, str], Pair]] = {
        **{name: partial(_python_peer, name) for name in SCRIPTS},
        "promptfoo": _promptfoo,
    }
    pairs = []
    for name, installed in install.items():
        try:
            pairs.append(installed(folder / name, load, url))
        except (OSError, subprocess.SubprocessError) as error:
            print(f"{name} cannot be installed here: {error}")
    return pairs


def _python_peer(name: str, folder: Path, load: Load, url: str) -> Pair:
    script, packages = SCRIPTS[name]
    venv.create(folder / "venv", with_pip=True)
    python = str(folder / "venv/bin/python")
    _run(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
    (folder / "run.py").write_text(script)

    def contender(name: str, load: Load) -> Contender:
        arguments = (url, str(load.cases), str(load.workers))
        return Contender(name, folder, arguments, rf"\b{load.cases} passed", (python, "run.py"))

    return contender(name, load), contender(f"{name}, one", replace(load, cases=1))


def _promptfoo(folder: Path, load: Load, url: str) -> Pair:
    npm = shutil.which("npm")
    if npm is None:
        raise FileNotFoundError("there is no npm")
    folder.mkdir(parents=True)
    _run(npm, "install", "--no-audit", "--no-fund", "--loglevel=error", "promptfoo", cwd=folder)

    def contender(name: str, load: Load) -> Contender:
        config = folder / f"config{load.cases}.yaml"
        tests = "".join(f"  - vars: {{customer: {number}}}\n" for number in range(load.cases))
        config.write_text(PROMPTFOO.format(url=url, tests=tests))
        quiet = ("PROMPTFOO_DISABLE_TELEMETRY=1", "PROMPTFOO_DISABLE_UPDATE=1", f"PROMPTFOO_CONFIG_DIR={folder}/home")
        flags = ("--no-cache", "--no-progress-bar", "--no-table", "--no-write", f"--max-concurrency={load.workers}")
        program = ("env", *quiet, str(folder / "node_modules/.bin/promptfoo"))
        return Contender(name, folder, ("eval", "-c", config.name, *flags), rf"\b{load.cases} passed", program)

    return contender("promptfoo", load), contender("promptfoo, one", replace(load, cases=1))


def _run(*command: str, cwd: Path | None = None) -> None:
    print("running", " ".join(command[:1] + command[-3:]), file=sys.stderr)
    subprocess.run(command, cwd=cwd, check=True, timeout=600)
