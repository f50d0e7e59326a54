"""The examples of the checkout, run from its root as the README says."""

import json
import os
import re
import shutil
import subprocess
import sys
from typing import Any

import pytest
import warm
from docs_pages import ROOT, read_page
from docs_reader import run_in, shows

pytestmark = pytest.mark.skipif(not (ROOT / "examples").is_dir(), reason="only the checkout has the examples")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run pytest in the root of the checkout; return its exit code, its output and the results."""

    def run_pytest(*args: str) -> tuple[int, str, list[dict[str, Any]]]:
        out = tmp_path_factory.mktemp("examples") / "results.jsonl"
        finished = warm.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--agentv-out={out}", *args],
            cwd=ROOT,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        results = [json.loads(line) for line in out.read_text("utf-8").splitlines()] if out.exists() else []
        return finished.returncode, finished.stdout, results

    return run_pytest


@pytest.fixture(scope="module")
def all_examples(tmp_path_factory):
    """Run the first command of the README; return its exit code, its output and the results of the order desk."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    missing = folder / "missing/fastapi.py"  # which only `.[dev]` installs
    missing.parent.mkdir()
    missing.write_text("raise ModuleNotFoundError('no fastapi', name='fastapi')\n", "utf-8")
    finished = run_in(folder, f"PYTHONPATH={missing.parent} pytest examples")
    (out,) = folder.glob(".agentv/results/*.jsonl")
    results = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    of_desk = [result for result in results if result["eval_file"].startswith("examples/order_desk/")]
    return finished.returncode, finished.stdout, of_desk


@pytest.mark.slow
def test_what_the_readme_shows_of_the_examples_is_printed(all_examples):
    exit_code, output, _ = all_examples
    shown = next(block for block in read_page(ROOT / "README.md").blocks if block.language == "text")
    assert shows(output, shown.text), output
    assert exit_code == 0


def written_ids(folder):
    """Return the ids that stand in the eval files of a folder, read without the plugin."""
    yaml_ids = [
        found
        for path in folder.rglob("*.eval.yaml")
        for found in re.findall(r"^  - id: (\S+)$", path.read_text("utf-8"), re.MULTILINE)
    ]
    lines = [line for path in folder.rglob("*.eval.jsonl") for line in path.read_text("utf-8").splitlines()]
    return sorted(yaml_ids + [json.loads(line)["id"] for line in lines])


@pytest.mark.slow
@pytest.mark.scenario("Execute example.test.yaml")
def test_every_case_of_the_examples_passes_and_has_a_result(all_examples):
    exit_code, output, results = all_examples
    assert exit_code == 0, output
    assert sorted(result["eval_id"] for result in results) == written_ids(ROOT / "examples/order_desk")
    assert {result["status"] for result in results} == {"pass"}
    assert len(results) >= 15
    assert "warning" not in output


@pytest.mark.scenario("SDK feature example")
def test_the_readme_of_the_examples_tries_the_judge_without_a_run():
    (command,) = re.findall(r"^python3 (\S+) < (\S+)$", (ROOT / "examples/README.md").read_text("utf-8"), re.MULTILINE)
    script, case = (ROOT / path for path in command)
    with case.open("rb") as given:
        made = subprocess.run([sys.executable, script], cwd=ROOT, stdin=given, capture_output=True, check=True)
    judgement = json.loads(made.stdout)
    assert (round(judgement["score"], 2), judgement["misses"]) == (0.67, ["XX-999 was not looked up"])


@pytest.mark.slow
def test_the_commands_of_the_examples_readme_select_what_they_say(run, all_examples):
    assert "pytest examples/order_desk -k return -v" in (ROOT / "examples/README.md").read_text("utf-8")
    exit_code, output, _ = run("examples", "-k", "return or failing", "--collect-only", "-q")
    assert exit_code == 0
    assert "examples/failing" not in output, "they are not collected unless they are named"
    assert {line.partition("::")[2] for line in output.splitlines() if line.startswith("examples/order_desk/")} == {
        *("return-too-late", "return-with-guideline", "return-with-guideline-in-process", "return-of-mixed-order"),
        *(result["eval_id"] for result in all_examples[2] if "returns" in result["eval_file"]),
    }
    exit_code, _, results = run("examples/order_desk", "--agentv-eval-id=best-seller")
    assert exit_code == 0
    assert [result["eval_id"] for result in results] == ["best-seller"]


@pytest.mark.slow
def test_the_failing_examples_end_as_their_expected_outcomes_say(run):
    text = (ROOT / "examples/failing/failing.yaml").read_text("utf-8")
    promises = dict(re.findall(r"- id: (\S+)\n    criteria: (FAILED|ERROR)", text))
    assert len(promises) == text.count("- id: ") >= 9
    exit_code, output, results = run("examples/failing/failing.yaml")
    assert exit_code == 1
    outcomes = {result["eval_id"]: {"fail": "FAILED", "error": "ERROR"}.get(result["status"]) for result in results}
    assert outcomes == promises
    for eval_id, promise in promises.items():
        assert f"\n{promise} examples/failing/failing.yaml::{eval_id} - " in output
    by_id = {result["eval_id"]: result for result in results}
    assert by_id["wrong-expectation"]["score"] == 0.5
    assert by_id["under-its-threshold"]["threshold"] == 0.9
    assert "searched: examples/failing/attachments/lost.csv" in by_id["missing-attachment"]["error"]
    assert "did you mean 'contains'?" in by_id["misspelt-evaluator"]["error"]
    assert "KeyError" in by_id["crashing-judge"]["error"] or "TypeError" in by_id["crashing-judge"]["error"]
    assert by_id["no-answer-in-time"]["attempts"] == 3
    assert "ORDER_DESK_EXAMPLE_KEY" in by_id["missing-variable"]["error"]
    assert by_id["missing-variable"]["attempts"] == 0
    assert by_id["judge-without-result"]["evaluator_results"][0]["raw_output"] == "looks good to me\n"
