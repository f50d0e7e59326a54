"""`agentv_run`: money is spent on purpose. Which cases a command line asks for, and what is said of the others."""

import pytest

from .conftest import WITH_WORKERS_ON_REQUEST

CASES = """
evalcases:
  - {{id: {name}-1, input: hi, evaluators: [{{name: w, type: heuristic, hits: [hi]}}]}}
  - {{id: {name}-2, input: hi, evaluators: [{{name: w, type: heuristic, hits: [hi]}}]}}
"""
TARGETS = """
targets:
  - {name: default, provider: mock, response: hi, judge_target: model}
  - {name: model, provider: openai, model: m, api_key: k, base_url: "http://127.0.0.1:1/v1", max_retries: 0}
  - {name: agent, provider: codex, executable: no-such-program}
"""


FILES = {
    "pytest.ini": "[pytest]\nagentv_run = asked\n",
    "targets.yaml": TARGETS,
    "evals/a.yaml": CASES.format(name="a"),
    "quality/b.eval.yaml": CASES.format(name="b"),
    "tests/c.eval.yaml": CASES.format(name="c"),
    "tests/test_plain.py": "def test_plain(): pass\n",
    "tests/test_evals.py": "def test_it(agentv):\n    assert agentv.run('hi', rubrics=['Says hi'])\n",
}


@pytest.fixture(autouse=True)
def files(pytester):
    for name, text in FILES.items():
        (pytester.path / name).parent.mkdir(exist_ok=True)
        (pytester.path / name).write_text(text)


def test_workers_know_what_the_command_line_names(project):
    run = project.run("-n2", "evals", "tests")
    assert {result["eval_id"] for result in run.results} == {"a-1", "a-2"}
    assert run.outcomes == {"passed": 3, "skipped": 3}


