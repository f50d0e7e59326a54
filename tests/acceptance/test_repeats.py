"""Cases that are asked more than once: `repeat`, `min_pass_rate`, and what they meet."""

import pytest
from repeating_agent import asked, counts, write_project, write_suite

from .conftest import WITH_WORKERS_ON_REQUEST

SUITE = {
    "tent": "ppppp",
    "lamp": "pfpff",
    "hook": "pfppp",
    "pump": "pepep",
    "rope": "p|repeat: 1",
    "cord": "pf|repeat: 2, min_pass_rate: 0.5",
}


@pytest.fixture
def project(project):
    write_project(project)
    return project


def test_answers_of_one_case_run_side_by_side_and_count_as_workers(project):
    write_project(project, workers=3)
    project.write("repeating_agent.py", SLOW_AGENT)
    write_suite(project, {"tent": "ppppp"}, repeat=5)
    run = project.run("--agentv-stop=never")
    assert run.statuses == {"tent": "pass"}
    levels = [int(line) for line in (project.path / "levels.txt").read_text().split()]
    assert max(levels) == 3


SLOW_AGENT = """
import asyncio
from pathlib import Path
running = 0

async def answer(prompt):
    global running
    running += 1
    with Path("levels.txt").open("a") as file:
        file.write(f"{running}\\n")
    for _ in range(500):
        if max(map(int, Path("levels.txt").read_text().split())) >= 3:
            break
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.03)
    running -= 1
    return "hello"
"""


@WITH_WORKERS_ON_REQUEST
def test_it_is_said_once_that_the_command_line_asks_for_fewer_answers(project, mode):
    write_suite(project, {"tent": "ppp", "lamp": "ppp", "rope": "p|repeat: 1"}, repeat=3)
    run = project.run("--agentv-repeat=2", *mode)
    said = [line for line in run.lines if "--agentv-repeat=2 beats the 3 answers that its file asks for" in line]
    assert len(said) == 1


def test_required_and_group_are_in_the_record(project):
    write_suite(project, {"pii": "p|required: true, group: privacy", "tent": "p"})
    results = project.run().by_id
    assert (results["pii"]["required"], results["pii"]["group"]) == (True, "privacy")
    assert not {"required", "group", "repeat", "answers"} & set(results["tent"])


def test_all_answers_are_included_on_demand_with_secrets_masked(project, monkeypatch):
    monkeypatch.setenv("SHOP_API_KEY", "hello-8d1f0a7c55")
    project.write("repeating_agent.py", LEAKING_AGENT)
    write_suite(project, {"tent": "ppp"}, repeat=3)
    run = project.run("--agentv-include-answers", "--agentv-stop=never")
    answers = run.by_id["tent"]["answers"]
    assert [answer["candidate_answer"].split()[0] for answer in answers] == ["0", "1", "2"]
    assert {answer["status"] for answer in answers} == {"pass"}
    assert not {"eval_id", "case_hash", "run_id"} & set(answers[0])
    files = [path for path in project.path.rglob("*") if path.suffix == ".jsonl" or "sqlite" in path.name]
    everything = b"".join(path.read_bytes() for path in files)
    assert b"a.eval.yaml::tent" in (project.path / ".agentv/answers.sqlite").read_bytes()
    assert b"8d1f0a7c55" not in everything + run.text.encode()


LEAKING_AGENT = """
import os

def answer(prompt, request):
    return f"{request.answer} hello {os.environ['SHOP_API_KEY']}"
"""


def test_after_a_failure_x_starts_no_further_answer(project):
    write_suite(project, {"lamp": "fffff", "tent": "ppppp", "hook": "ppppp"}, repeat=5)
    run = project.run("-x")
    assert run.outcomes == {"failed": 1}
    assert counts(asked(project.path)) == {"lamp": 1}


def test_each_answer_is_decided_by_the_hook(project):
    project.write(
        "conftest.py", "def pytest_agentv_assert(case, result):\n    return '2' not in result.candidate_answer\n"
    )
    write_suite(project, {"tent": "ppppp"}, repeat=5, min_pass_rate=0.8)
    run = project.run("--agentv-stop=never")
    repeat = run.by_id["tent"]["repeat"]
    assert (repeat["passes"], repeat["scores"]) == (4, [1, 1, 1, 1, 1])
    assert run.statuses == {"tent": "pass"}
    assert "assertion" not in run.by_id["tent"]


@WITH_WORKERS_ON_REQUEST
def test_a_rerun_asks_all_answers_anew_and_is_warned_of_once(project, mode):
    write_suite(project, {"tent": "pppp", "lamp": "fppp", "hook": "fppp"}, repeat=2)
    run = project.run("--reruns=2", *mode)
    assert run.outcomes["failed"] == 2
    last = {result["eval_id"]: result for result in run.results}
    assert {name: result.get("reruns") for name, result in last.items()} == {"tent": None, "lamp": 2, "hook": 2}
    assert asked(project.path) == ["hook 0"] * 3 + ["lamp 0"] * 3 + ["tent 0", "tent 1"]
    assert {"Cost:             $2.0000", "Reruns:           4"} <= set(run.lines)
    said = [line for line in run.lines if "all 2 answers are asked anew" in line]
    assert len(said) == 1


@pytest.mark.kills
def test_an_item_that_is_ended_keeps_the_answers_that_were_paid_for(project):
    write_suite(project, {"tent": "ppw"}, repeat=3)
    run = project.run("--timeout=2", "--agentv-out=own.jsonl")
    assert run.outcomes == {"errors": 1}
    assert asked(project.path) == ["tent 0", "tent 1", "tent 2"]
    assert "Cost:             $0.5000" in run.lines
    again = project.run("--agentv-repeat=2", "--agentv-out=own.jsonl", "--agentv-resume=own.jsonl")
    assert (asked(project.path), again.outcomes["passed"]) == ([], 1)
    assert "Cost:             $0.5000" in again.lines


def test_provider_batching_makes_a_call_for_each_answer_of_all_cases(project, python):
    project.write(
        "targets.yaml",
        f"""
        targets:
          - name: default
            provider: cli
            provider_batching: true
            command_template: {python} batch.py {{EVAL_ID}} {{OUTPUT_FILE}}
        """,
    )
    project.write("batch.py", BATCH)
    write_suite(project, {"tent": "p|repeat: 3", "lamp": "f|repeat: 3", "rope": "p|repeat: 1"})
    run = project.run()
    assert run.statuses == {"tent": "pass", "lamp": "fail", "rope": "pass"}
    assert (project.path / "calls.txt").read_text().split() == ["batch"] * 3
    assert [run.by_id[name].get("repeat", {}).get("asked") for name in ("tent", "lamp", "rope")] == [3, 1, None]


BATCH = """
import json, sys
eval_id, output = sys.argv[1:]
with open("calls.txt", "a") as calls:
    calls.write(eval_id + "\\n")
with open(output, "w") as file:
    for name in ("tent", "lamp", "rope"):
        file.write(json.dumps({"id": name, "text": "bye" if name == "lamp" else "hello"}) + "\\n")
"""


def test_an_eval_in_python_is_asked_as_often_as_it_says(project):
    project.write(
        "test_shop.py",
        """
        WORDS = [{"name": "words", "type": "heuristic", "hits": ["hello"]}]

        def test_tent(agentv):
            result = agentv.run("pfppp", evaluators=WORDS, repeat=5, min_pass_rate=0.8)
            assert result
            assert result.repeat.passes == 4

        def test_lamp(agentv):
            agentv.run("pff", evaluators=WORDS, repeat=3).assert_passed()

        def test_given(agentv):
            assert agentv.evaluate("hello", evaluators=WORDS).repeat is None
        """,
    )
    run = project.run("--agentv-repeat=5", "test_shop.py::test_given")
    assert run.exit_code == 0
    run = project.run("test_shop.py")
    assert run.outcomes == {"passed": 2, "failed": 1}
    assert "1 of 2 answers pass, 3 of 3 are needed (threshold 1, min_pass_rate 1, the default)" in run.text
    assert counts(asked(project.path)) == {"test_tent": 5, "test_lamp": 2}
