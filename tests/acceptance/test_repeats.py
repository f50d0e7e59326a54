"""Cases that are asked more than once: `repeat`, `min_pass_rate`, and what they meet."""

import re
import xml.etree.ElementTree as ET

import pytest
from repeating_agent import asked, counts, write_project, write_suite
from thorough import varied

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


def test_each_case_is_one_item_and_is_judged_by_as_many_answers_as_it_takes(project_in_all_modes):
    project = project_in_all_modes
    write_project(project)
    write_suite(project, SUITE, repeat=5, min_pass_rate=0.8)
    run = project.run("--junitxml=junit.xml")
    assert run.statuses == {
        "tent": "pass", "lamp": "fail", "hook": "pass", "pump": "error", "rope": "pass", "cord": "pass",
    }  # fmt: skip
    assert run.outcomes == {"passed": 4, "failed": 1, "errors": 1}
    expected = {"tent": 4, "lamp": 4, "hook": 5, "pump": 4, "rope": 1, "cord": 1}
    assert counts(asked(project.path)) == expected
    repeats = {eval_id: result.get("repeat") for eval_id, result in run.by_id.items()}
    assert repeats["rope"] is None
    lamp = repeats["lamp"]
    assert lamp == {
        "planned": 5, "asked": 4, "judged": 4, "passes": 2, "errors": 0, "needed": 4, "min_pass_rate": 0.8,
        "min_pass_rate_source": "file", "scores": [1, 0, 1, 0], "stopped": "certain fail",
        "pass_rate": pytest.approx(2 / 3), "pass_rate_low": lamp["pass_rate_low"],
        "pass_rate_high": lamp["pass_rate_high"], "flaky": True, "same_text": False,
    }  # fmt: skip
    assert run.by_id["lamp"]["score"] == 0.5
    assert run.by_id["lamp"]["candidate_answer"] == "bye"
    assert run.by_id["lamp"]["execution_metrics"]["cost_usd"] == 1
    assert (repeats["cord"]["needed"], repeats["cord"]["min_pass_rate_source"]) == (1, "case")
    headline = "2 of 4 answers pass, 4 of 5 are needed (threshold 1, min_pass_rate 0.8 of the file)"
    assert headline in run.lines
    assert (
        "Scores of the answers: 1.000, 0.000, 1.000, 0.000. What follows is about the first failing one." in run.lines
    )
    error = "cannot be judged: 2 answers pass, 4 of 5 are needed, 2 could not be had"
    assert re.search(rf"^ERROR a.eval.yaml::pump - {error[:20]}", run.text, re.MULTILINE)
    assert run.by_id["pump"]["error"].startswith(error)
    assert run.by_id["pump"]["error_detail"] == {"stage": "provider", "kind": "crash"}
    assert run.internals == []
    properties = {
        case.get("name"): {each.get("name"): each.get("value") for each in case.iter("property")}
        for case in ET.parse(project.path / "junit.xml").iter("testcase")
    }
    told = {name: value for name, value in properties["lamp"].items() if name in JUNIT}
    assert told == {"agentv_repeat": "5", "agentv_judged": "4", "agentv_passes": "2", "agentv_stopped": "certain fail"}
    rates = [float(properties["lamp"][f"agentv_pass_rate{end}"]) for end in ("_low", "", "_high")]
    assert rates == [lamp["pass_rate_low"], lamp["pass_rate"], lamp["pass_rate_high"]]
    assert not JUNIT & set(properties["rope"])


JUNIT = {"agentv_repeat", "agentv_judged", "agentv_passes", "agentv_stopped"}


@pytest.mark.parametrize("flags", [(), ("--agentv-workers=20",), varied(("-n", "2", "--agentv-workers=20"))])
def test_all_answers_are_asked_when_nothing_stops_early_and_the_figures_are_the_same(project, flags):
    write_suite(project, SUITE, repeat=5, min_pass_rate=0.8)
    run = project.run("--agentv-stop=never", *flags)
    assert counts(asked(project.path)) == {"tent": 5, "lamp": 5, "hook": 5, "pump": 5, "rope": 1, "cord": 2}
    lamp, pump = run.by_id["lamp"]["repeat"], run.by_id["pump"]["repeat"]
    assert (lamp["asked"], lamp["passes"], lamp["pass_rate"], lamp.get("stopped")) == (5, 2, 0.4, None)
    assert (round(lamp["pass_rate_low"], 3), round(lamp["pass_rate_high"], 3)) == (0.118, 0.769)
    assert (pump["asked"], pump["judged"], pump["errors"], pump["scores"]) == (5, 3, 2, [1, 1, 1])
    assert "2 of 5 answers pass, 4 are needed (threshold 1, min_pass_rate 0.8 of the file)" in run.lines
    assert "cannot be judged: 3 answers pass, 4 of 5 are needed, 2 could not be had" in run.text


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


@pytest.mark.parametrize(
    ("ini", "file", "case", "flags", "planned", "rate"),
    [
        ("", {}, "", (), None, None),
        ("agentv_repeat = 2\nagentv_min_pass_rate = 0.5", {}, "", (), 2, (0.5, "ini")),
        ("agentv_repeat = 2", {"repeat": 3}, "", (), 3, (1, "default")),
        ("", {"repeat": 3, "min_pass_rate": 0.6}, "|repeat: 4, min_pass_rate: 0.25", (), 4, (0.25, "case")),
        (
            "",
            {"repeat": 3},
            "|repeat: 4",
            ("--agentv-repeat=2", "--agentv-min-pass-rate=0.5"),
            2,
            (0.5, "command line"),
        ),
        ("", {"repeat": 3}, "", ("--agentv-repeat=1",), None, None),
        ("", {"repeat": 3}, "|repeat: 1", (), None, None),
    ],
)
def test_the_command_line_beats_the_case_the_file_and_the_ini_file(project, ini, file, case, flags, planned, rate):
    project.write("pytest.ini", f"[pytest]\n{ini}\n")
    write_suite(project, {"tent": f"pppp{case}"}, **file)
    repeat = project.run("--agentv-stop=never", *flags).by_id["tent"].get("repeat")
    assert (repeat and repeat["planned"]) == planned
    assert (repeat and (repeat["min_pass_rate"], repeat["min_pass_rate_source"])) == rate
    assert len(asked(project.path)) == (planned or 1)


@WITH_WORKERS_ON_REQUEST
def test_it_is_said_once_that_the_command_line_asks_for_fewer_answers(project, mode):
    write_suite(project, {"tent": "ppp", "lamp": "ppp", "rope": "p|repeat: 1"}, repeat=3)
    run = project.run("--agentv-repeat=2", *mode)
    said = [line for line in run.lines if "--agentv-repeat=2 beats the 3 answers that its file asks for" in line]
    assert len(said) == 1


WRONG = {
    "repeat: 0": "repeat: expected a whole number from 1 to 100, got the number 0",
    "repeat: 2.5": "repeat: expected a whole number from 1 to 100, got the number 2.5",
    "repeat: true": "repeat: expected a whole number from 1 to 100, got true",
    "repeat: 101": "repeat: expected a whole number from 1 to 100, got the number 101",
    "min_pass_rate: 80": "min_pass_rate: expected a number from 0 to 1, got the number 80",
    "required: 1": "required: expected true or false, got the number 1",
    "group: [a]": "group: expected a text, got a list",
}


def test_a_wrong_value_is_an_error_with_its_line(project):
    for number, keys in enumerate(WRONG):
        write_suite(project, {"tent": f"p|{keys}"}, f"{number}.eval.yaml")
    run = project.run()
    for number, fault in enumerate(WRONG.values()):
        assert f"{number}.eval.yaml:3: evalcases[0].{fault}" in run.text
    assert asked(project.path) == []


@pytest.mark.parametrize("flag", ["--agentv-repeat=0", "--agentv-min-pass-rate=2", "--agentv-stop=often"])
def test_a_wrong_option_is_a_usage_error(project, flag):
    write_suite(project, {"tent": "p"})
    run = project.run(flag)
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    assert "expected" in run.text or "out of range" in run.text


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


def test_a_dry_run_mocks_all_answers(project):
    write_suite(project, SUITE, repeat=5, min_pass_rate=0.8)
    run = project.run("--agentv-dry-run")
    assert run.exit_code == 0
    assert asked(project.path) == []
    assert run.by_id["lamp"]["repeat"]["passes"] == 4


def test_after_a_failure_x_starts_no_further_answer(project):
    write_suite(project, {"lamp": "fffff", "tent": "ppppp", "hook": "ppppp"}, repeat=5)
    run = project.run("-x")
    assert run.outcomes == {"failed": 1}
    assert counts(asked(project.path)) == {"lamp": 1}


def test_fixtures_are_set_up_once_for_all_answers(project):
    project.write("conftest.py", COUNTING_FIXTURE)
    write_suite(project, {"tent": "ppp"}, repeat=3, fixtures="[counted]")
    assert project.run().exit_code == 0
    assert (project.path / "fixture.txt").read_text() == "up down "


COUNTING_FIXTURE = """
from pathlib import Path
import pytest

def note(word):
    with Path("fixture.txt").open("a") as file:
        file.write(f"{word} ")

@pytest.fixture
def counted():
    note("up")
    yield
    note("down")
"""


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


def test_a_timeout_of_an_answer_is_an_unknown_answer(project):
    write_suite(project, {"tent": "pwppp"}, repeat=5, min_pass_rate=0.6)
    run = project.run("--agentv-timeout=0.3", "--agentv-max-retries=0", "--agentv-stop=never")
    repeat = run.by_id["tent"]["repeat"]
    assert (run.statuses["tent"], repeat["passes"], repeat["errors"]) == ("pass", 4, 1)


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


def test_answers_are_counted_by_the_live_line_and_paid_for_in_the_summary(project):
    write_suite(project, {"tent": "ppp", "lamp": "fff"}, repeat=3)
    run = project.run()
    assert "Cost:             $1.0000" in run.lines
    assert "Tokens:           60 (40 in, 20 out)" in run.lines


def test_each_answer_has_a_trace_of_its_own(project):
    write_suite(project, {"tent": "ppp"}, repeat=3)
    project.run("--agentv-dump-traces=traces", "--agentv-dump-prompts=prompts")
    names = sorted(path.name for path in (project.path / "traces").iterdir())
    assert names == ["tent_answer-2_attempt-1.json", "tent_answer-3_attempt-1.json", "tent_attempt-1.json"]
    assert [path.name for path in (project.path / "prompts").iterdir()] == ["tent.json"]


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
