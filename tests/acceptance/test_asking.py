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
LINE = "asks for them"


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


@WITH_WORKERS_ON_REQUEST
def test_a_bare_run_skips_all_evals_and_says_once_how_to_ask(project_in_all_modes):
    run = project_in_all_modes.run()
    assert run.outcomes == {"passed": 1, "skipped": 7}
    assert run.results == []
    assert [line for line in run.lines if LINE in line] == [
        "7 eval cases were skipped (agentv_run = asked): --agentv-run, or their files or folders on the command line, "
        "asks for them"
    ]
    assert run.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "ran"),
    [
        (("--agentv-run",), "abc"),
        (("evals/a.yaml", "quality/b.eval.yaml::b-1"), "ab"),
        (("evals", "tests"), "a"),
        (("tests/c.eval.yaml",), "c"),
        ((".",), ""),
        (("--agentv-eval-id=a-1",), "a"),
        (("--agentv-run=asked", "evals"), "a"),
        (("-k", "a-1"), ""),
    ],
)
def test_flags_files_and_folders_ask_for_their_evals(project, arguments, ran):
    run = project.run(*arguments, "--deselect=tests/test_evals.py")
    assert {result["eval_id"][0] for result in run.results} == set(ran)
    assert ("skipped" in run.outcomes) is (LINE in run.text)


def test_workers_know_what_the_command_line_names(project):
    run = project.run("-n2", "evals", "tests")
    assert {result["eval_id"] for result in run.results} == {"a-1", "a-2"}
    assert run.outcomes == {"passed": 3, "skipped": 3}


def test_a_dry_run_and_a_resumed_run_need_not_be_asked_for(project):
    assert len(project.run("--agentv-dry-run", "evals", "quality", "tests/c.eval.yaml").results) == 6
    project.run("evals", "--agentv-out=own.jsonl")
    assert project.run("evals", "quality", "--agentv-resume=own.jsonl", "--agentv-out=own.jsonl").exit_code == 0


def test_a_named_python_file_asks_for_its_evals(project):
    assert project.run("tests/test_evals.py").outcomes == {"errors": 1}  # it ran: nothing answers as the judge
    assert project.run("tests").outcomes == {"passed": 1, "skipped": 3}


CHECKS = """
evalcases:
  - {id: free, input: hi, assert: [{contains: hi}]}
  - {id: script, input: hi, assert: [{type: code_judge, script: [python, judge.py]}]}
  - {id: embeds-free, input: hi, assert: [{similar: hi, target: other}]}
  - {id: of-a-model, input: hi, target: model, assert: [{contains: hi}]}
  - {id: of-an-agent, input: hi, target: agent, assert: [{contains: hi}]}
  - {id: judged, input: hi, rubrics: [Says hi]}
  - {id: embeds, input: hi, assert: [{similar: hi, target: model}]}
  - {id: field, input: hi, assert: [{field: {path: a, check: {similar: hi, target: model}}}]}
  - {id: member, input: hi, assert: [{name: c, type: composite, evaluators: [{similar: hi, target: model}],
     aggregator: {type: weighted_average}}]}
  - {id: calls, input: hi, assert: [{type: code_judge, script: [python, judge.py], target: true}]}
  - {id: calls-any, target: other, input: hi, assert: [{type: code_judge, script: [python, judge.py], target: true}]}
"""
TESTS = """
import pytest

HI = [{"contains": "hi"}]

@pytest.mark.parametrize("agentv_target", ["default", "model"])
def test_it(agentv):
    assert agentv.run("hi", evaluators=HI)

@pytest.mark.parametrize("agentv_target", ["model"])
def test_a_call(agentv_provider):
    agentv_provider("hi")

@pytest.mark.parametrize("key", [{"target": "model"}, {"execution": {"target": "model"}}])
def test_target_of_the_case(agentv, key):
    assert agentv.run({"input": "hi", **key}, evaluators=HI)

def test_given_answer(agentv):
    assert agentv.evaluate("hi", prompt={"input": "hi", "target": "model"}, evaluators=HI)

def test_sentence(agentv):
    assert agentv.run("hi", rubrics=["Says hi"])

def test_embeds(agentv):
    assert agentv.evaluate("hi", evaluators=[{"similar": "hi", "target": "model"}])
"""
HOOK = """
def pytest_agentv_case(case):
    return case.replace(target="model") if "paid" in case.eval_id else None
"""
FREE = {"free", "script", "embeds-free", "test_it[default]", "test_given_answer", "a", "b"}
FREE_TARGETS = """
targets:
  - {name: default, provider: mock, response: hi, judge_target: other}
  - {name: other, provider: mock, response: hi}
"""


@pytest.fixture
def checks(project_in_all_modes):
    project = project_in_all_modes
    project.write("pytest.ini", "[pytest]\nagentv_run = asked-if-paid\ntestpaths = checks hooked tests/test_evals.py\n")
    project.write("targets.yaml", TARGETS + "  - {name: other, provider: mock, response: hi}\n")
    project.write("checks/a.eval.yaml", CHECKS)
    project.write("checks/judge.py", "print('{\"score\": 1}')\n")
    project.write("tests/test_evals.py", TESTS)
    project.write("hooked/conftest.py", HOOK)
    project.write("hooked/test_hooked.py", "def test_paid(agentv):\n    agentv.run('hi', rubrics=['Is polite'])")
    cases = "".join(f"  - {{id: {name}, input: hi, assert: [contains: hi]}}\n" for name in ("a", "paid", "paid-2", "b"))
    project.write("hooked/h.eval.yaml", f"evalcases:\n{cases}")
    return project


@WITH_WORKERS_ON_REQUEST
def test_what_costs_money_to_be_answered_or_judged_has_to_be_asked_for(checks):
    """Embeddings, targets that scripts may call, and those that a test or a hook names were paid for in a bare run."""
    run = checks.run()
    assert set(run.statuses) == FREE
    assert run.outcomes == {"passed": 6, "errors": 1, "skipped": 17}, "a mock gives no embeddings"
    assert "17 eval cases were skipped (agentv_run = asked-if-paid)" in run.text
    assert run.internals == []
    assert checks.run("--agentv-dry-run", "hooked/h.eval.yaml").outcomes == {"passed": 4}
    assert checks.run("--agentv-run", "hooked/h.eval.yaml").outcomes == {"passed": 2, "errors": 2}


@WITH_WORKERS_ON_REQUEST
def test_what_stands_in_for_a_target_or_costs_nothing_need_not_be_asked_for(checks):
    stands_in = "import pytest\n\n@pytest.fixture\ndef {}():\n    return lambda prompt: {}\n"
    checks.write("conftest.py", stands_in.format("agentv_judge", '\'{"score": 1, "hits": [], "misses": []}\''))
    run = checks.run("-k", "sentence or embeds or calls")
    assert {result["eval_id"] for result in run.results} == {"embeds-free", "test_sentence"}
    checks.write("conftest.py", stands_in.format("agentv_provider", "'hi'"))
    run = checks.run("-k", "of or hooked", "-o", "testpaths=checks hooked")
    assert set(run.statuses) == {"of-a-model", "of-an-agent", "a", "b", "paid", "paid-2"}
    checks.write("conftest.py", "")
    checks.write("targets.yaml", FREE_TARGETS)
    run = checks.run("-k", "calls")
    assert {result["eval_id"] for result in run.results} == {"calls", "calls-any"}


def test_a_wrong_rule_is_a_usage_error(project):
    project.write("pytest.ini", "[pytest]\nagentv_run = never\n")
    run = project.run("evals")
    assert "agentv_run: unknown rule 'never': expected one of always, asked, asked-if-paid" in run.text
    assert run.exit_code != 0
