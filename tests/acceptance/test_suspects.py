"""Cases that look broken against the baseline are asked again, in the surroundings that they need."""

import json
from xml.etree import ElementTree

import pytest
from pooled import TWO
from thorough import varied

pytestmark = pytest.mark.slow

AGENT = """
    import os
    from collections import Counter

    asked = Counter()

    def answer(prompt):
        case = prompt.split()[-1]
        asked[case] += 1
        with open(os.environ["CALLS"], "a") as file:
            file.write(f"{case}\\n")
        if os.environ.get("SERVICE", "up") == "down":
            return "no service"
        if case in os.environ.get("BROKEN", "").split():
            return "no"
        if case in os.environ.get("UNLUCKY", "").split() and asked[case] <= 5:
            return "no"
        return f"yes {asked[case]}"
"""
TARGETS = "targets: [{name: default, provider: python, callable: 'agent.py:answer'}]\n"
SUITE = """
repeat: 5
min_pass_rate: 0.2
evaluators: [{contains: "yes"}]
evalcases:
"""
CASE = "  - {{id: c{0}, expected_outcome: x, input: ask c{0}}}\n"
SERVICE = """
    import pytest

    @pytest.fixture
    def service(monkeypatch):
        monkeypatch.setenv("SERVICE", "up")
"""
PYTHON = """
    import pytest

    @pytest.mark.parametrize("name", ["p0", "p1", "p2"])
    def test_it(agentv, name):
        assert agentv.run(f"ask {name}", evaluators=[{"contains": "yes"}], repeat=5, min_pass_rate=0.2)
"""
WORKERS = ("-n", "2")


@pytest.fixture
def suspects(project, monkeypatch):
    """Return a function that writes a baseline and runs again, with cases that are broken or unlucky."""
    monkeypatch.setenv("CALLS", str(project.path / "calls"))
    project.write("agent.py", AGENT)
    project.write("targets.yaml", TARGETS)

    def run(*flags, broken="", unlucky="", mode=()):
        assert project.run("--agentv-update-baseline").exit_code == 0
        (project.path / "calls").unlink()
        monkeypatch.setenv("BROKEN", broken)
        monkeypatch.setenv("UNLUCKY", unlucky)
        return project.run("--agentv-baseline", *flags, mode=mode, subprocess=True)

    return run


def calls(project, case):
    return (project.path / "calls").read_text().split().count(case)


def broke(run):
    return {line["eval_id"] for line in run.results if line["baseline"]["broke"]}


@pytest.mark.parametrize("mode", [(), WORKERS])
def test_the_cost_of_fresh_answers_is_in_the_junit_file_as_in_the_results(project, suspects, mode):
    project.write("a.eval.yaml", SUITE + "".join(map(CASE.format, range(3))))
    costly = AGENT.replace('return "no"', 'return {"text": "no", "cost_usd": 0.25}')
    project.write("agent.py", costly.replace('return f"yes', 'return "yes" if True else f"'))
    run = suspects("--junitxml=live.xml", "--agentv-out=run.jsonl", broken="c1", mode=mode)
    lines = [json.loads(each) for each in (project.path / "run.jsonl").read_text().splitlines()]
    [line] = [each for each in lines if "confirm" in each["repeat"]]  # workers write in any order
    assert line["repeat"]["confirm"]["asked"] > 0
    assert line["execution_metrics"]["cost_usd"] == 0.25 * line["attempts"]
    case = ElementTree.parse(project.path / "live.xml").find(".//testcase[@name='c1']")
    told = {each.get("name"): each.get("value") for each in case.find("properties")}
    assert float(told["agentv_cost_usd"]) == line["execution_metrics"]["cost_usd"]
    assert int(told["agentv_attempts"]) == line["attempts"]
    assert told["agentv_line"] == str(line["line"])
    assert len(told) == len(case.find("properties"))
    assert run.internals == []


@pytest.mark.parametrize("mode", [(), varied(WORKERS)])
def test_a_case_with_fixtures_is_asked_again_while_these_are_there(project, suspects, monkeypatch, mode):
    monkeypatch.setenv("SERVICE", "down")
    project.write("conftest.py", SERVICE)
    project.write("a.eval.yaml", SUITE.replace("evalcases:", "fixtures: [service]\nevalcases:") + "".join(
        map(CASE.format, range(3))
    ))  # fmt: skip
    run = suspects(broken="c0", unlucky="c1", mode=mode)
    assert broke(run) == {"c0"}
    assert [calls(project, case) for case in ("c0", "c1", "c2")] == [15, 15, 5]
    assert "BROKEN         c0   5/5 -> 0/5, again 0/10    q 0.00" in run.text
    assert "May be chance  c1 5/5 -> 0/5, again 10/10" in run.text
    assert "Not confirmed" not in run.text
    questions = sorted(line["lm_provider_request"]["question"] for line in run.results)
    assert questions == ["ask c0", "ask c1", "ask c2"], "one line for each case, with all that it said first"
    assert run.exit_code == 1


@pytest.mark.parametrize("mode", [(), WORKERS])
def test_an_eval_in_python_is_asked_again_in_its_test(project, suspects, mode):
    project.write("test_p.py", PYTHON)
    run = suspects("--agentv-gate=run", broken="p0", unlucky="p1", mode=mode)
    assert broke(run) == {"test_it[p0]"}
    assert [calls(project, case) for case in ("p0", "p1", "p2")] == [15, 15, 5]
    assert len(run.results) == 3
    assert run.exit_code == 1


HANGING = """
    import asyncio, os

    asked = 0

    async def answer(prompt):
        global asked
        asked += 1
        if "BROKEN" not in os.environ or not os.environ["BROKEN"]:
            return f"yes {asked}"
        if asked > 7:
            await asyncio.sleep(600)
        return "no"
"""


def test_a_case_whose_fresh_answers_take_too_long_stays_judged(project, suspects, monkeypatch):
    """Its item is not ended by the time limit of an item: its verdict was there before."""
    monkeypatch.setenv("CALLS", str(project.path / "calls"))
    (project.path / "calls").touch()
    project.write("agent.py", HANGING)
    project.write("conftest.py", SERVICE)
    project.write("a.eval.yaml", SUITE.replace("evalcases:", "fixtures: [service]\nevalcases:") + CASE.format(0))
    run = suspects("--timeout=2", broken="c0")
    assert (run.outcomes, [line["status"] for line in run.results]) == ({"failed": 2, "warnings": 1}, ["fail"])
    assert broke(run) == {"c0"}
    assert "Not confirmed" in run.text


def test_nothing_is_asked_again_where_the_run_is_about_to_stop_or_is_a_part(project, suspects):
    project.write("test_p.py", PYTHON)
    run = suspects("-x", broken="p0")
    assert (calls(project, "p0"), run.outcomes) == (5, {"failed": 1})
    assert "No verdict     the run broke off before its end" in run.text
    run = project.run("--agentv-baseline", "-k", "p0", subprocess=True)
    assert "No verdict     1 of 3 cases (some were deselected)" in run.text
    assert calls(project, "p0") == 10


def test_a_run_of_tests_that_evaluate_is_checked_before_anything_is_paid_for(project, suspects):
    project.write("test_p.py", PYTHON)
    for flags, reason in (
        (("--agentv-baseline=none.jsonl",), "the baseline none.jsonl is not there"),
        (("--agentv-gate=run",), "has nothing to judge the run by"),
        (("--agentv-update-baseline", "-k", "p0"), "--agentv-update-baseline does not go with -k"),
    ):
        run = project.run(*flags, subprocess=True)
        assert (run.exit_code, (project.path / "calls").exists()) == (4, False)
        assert reason in run.text
    assert project.run("--agentv-baseline=none.jsonl", "--collect-only", subprocess=True).exit_code == 0


@pytest.mark.parametrize("mode", [(), varied(WORKERS)])
def test_shards_of_tests_that_evaluate_share_these_in_a_run_with_a_baseline(project, suspects, mode):
    project.write("test_p.py", PYTHON)
    runs = [suspects("--agentv-shard=1/2", mode=mode)]
    runs.append(project.run("--agentv-baseline", "--agentv-shard=2/2", mode=mode, subprocess=True))
    names = [line["eval_id"] for run in runs for line in run.results]
    assert sorted(names) == ["test_it[p0]", "test_it[p1]", "test_it[p2]"], "each is paid for once"
    assert [run.exit_code for run in runs] == [0, 0]


def test_a_suspect_that_is_not_asked_again_is_named_and_judged_by_its_answers(project, suspects):
    """With --maxfail the run may end with any failing case; this one does not reach it."""
    project.write("test_p.py", PYTHON)
    run = suspects("--maxfail=5", broken="p0")
    assert calls(project, "p0") == 5
    assert broke(run) == {"test_it[p0]"}
    text = " ".join(run.text.split())
    assert "these could not be asked again, so their answers of this run decide: test_it[p0]" in text
    [verdict] = project.path.glob("out-2.verdict.json")
    assert json.loads(verdict.read_text())["unconfirmed"] == ["test_p.py::test_it[p0]"]


def test_what_a_case_said_stays_in_its_line_when_it_is_asked_again(project, suspects):
    project.write("a.eval.yaml", SUITE + "".join(map(CASE.format, range(2))))
    run = suspects(*TWO, "--agentv-include-answers", broken="c0")
    [line] = [line for line in run.results if line["eval_id"] == "c0"]
    assert (line["candidate_answer"], line["attempts"]) == ("no", 15)
    assert line["lm_provider_request"]["question"] == "ask c0"
    assert len(line["answers"]) == 5
    assert line["repeat"]["confirm"]["asked"] == 10
    assert "agentv: executor ProcessPoolExecutor: 20 answers" in run.lines, "the fresh ones as well"


OTHER = """
    import os

    def first(prompt):
        return "yes"

    def second(prompt):
        return "no" if os.environ.get("BROKEN") else "yes"
"""


@pytest.mark.parametrize("mode", [(), varied(WORKERS)])
def test_each_target_of_a_matrix_is_asked_again(project, monkeypatch, mode):
    project.write("agent.py", OTHER)
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: a, provider: python, callable: "agent.py:first"}
          - {name: b, provider: python, callable: "agent.py:second"}
        """,
    )
    project.write("a.eval.yaml", "execution: {targets: [a, b]}" + SUITE + "".join(map(CASE.format, range(3))))
    assert project.run("--agentv-update-baseline").exit_code == 0
    monkeypatch.setenv("BROKEN", "1")
    run = project.run("--agentv-baseline", mode=mode, subprocess=True)
    assert "Not confirmed" not in run.text
    asked = {line["node_id"]: line["repeat"]["confirm"]["asked"] for line in run.results if line["baseline"]["broke"]}
    assert asked == {f"a.eval.yaml::c{number}@b": 10 for number in range(3)}
