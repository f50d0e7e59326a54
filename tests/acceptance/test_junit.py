"""The JUnit file of a run: one test case per eval case, its figures as properties. Read with a real parser."""

import xml.etree.ElementTree as ElementTree

import pytest

from .conftest import IN_ONE_PROCESS, WITH_WORKERS_ON_REQUEST, agentv

TARGETS = """
targets:
  - name: default
    provider: cli
    command_template: >-
      printf '{"text": "hello world", "cost_usd": 0.0125,
      "token_usage": {"input": 1000, "output": 250, "cached": 50}}'
  - {name: plain, provider: mock, response: hello world}
  - {name: exits, provider: cli, command_template: echo out of order >&2; exit 3}
"""
CASES = """
evalcases:
  - id: good
    expected_outcome: x
    input: Say it
    evaluators:
      - {name: words, type: heuristic, hits: [hello]}
      - {name: "höflich & <kurz>", type: heuristic, hits: [hello, nothing], weight: 0}
      - {name: "höflich | <kurz>", type: heuristic, hits: [nothing], weight: 0}
  - id: bad
    expected_outcome: x
    input: Say it
    execution: {target: plain}
    threshold: 0.75
    evaluators: [{name: words, type: heuristic, hits: [hello, nothing]}]
  - id: broken
    expected_outcome: x
    input: Say it
    execution: {target: exits}
    evaluators: [{name: words, type: heuristic, hits: [hello]}]
  - id: skipped
    skip: not yet
    expected_outcome: x
    input: Say it
  - id: expected
    xfail: a known weakness
    expected_outcome: x
    input: Say it
    execution: {target: plain}
    evaluators: [{name: words, type: heuristic, hits: [nothing]}]
"""


@pytest.fixture
def junit(project_in_all_modes):
    """Run pytest and return the test cases of its JUnit file by their names."""
    project = project_in_all_modes
    project.write("targets.yaml", TARGETS)
    project.write("evals/qa.eval.yaml", CASES)

    def run(*arguments):
        project.run("--junitxml=junit.xml", *arguments)
        (suite,) = ElementTree.parse(project.path / "junit.xml").getroot()
        return {case.get("name"): case for case in suite}

    return run


def properties(case):
    found = [(entry.get("name"), entry.get("value")) for entry in case.iter("property")]
    assert len(dict(found)) == len(found), "a property is there twice"
    return dict(found)


def kinds(case):
    return [child.tag for child in case]


@pytest.mark.parametrize("mode", [("-n", "2")], ids=["n2"])
def test_workers_tell_failures_errors_and_skips_apart_with_their_texts(project_in_all_modes, junit):
    cases = junit()
    (suite,) = ElementTree.parse(project_in_all_modes.path / "junit.xml").getroot()
    counts = {"tests": "5", "failures": "1", "errors": "1", "skipped": "2"}
    assert {key: suite.get(key) for key in counts} == counts
    assert {name: kinds(case) for name, case in cases.items()} == {
        "good": ["properties"],
        "bad": ["properties", "failure"],
        "broken": ["properties", "error"],
        "skipped": ["properties", "skipped"],
        "expected": ["properties", "skipped"],
    }
    assert cases["bad"][1].get("message") == 'words: missing "nothing" (0.50 < 0.75)'
    assert cases["broken"][1].get("message") == 'failed on setup with "out of order (exit code 3)"'
    good = properties(cases["good"])
    scores = {name: value for name, value in good.items() if name.startswith("agentv_score_")}
    assert scores == {
        "agentv_score_words": "1.0",
        "agentv_score_höflich_kurz_": "0.5",
        "agentv_score_höflich_kurz_-2": "0.0",
    }
    assert (good["agentv_cost_usd"], good["agentv_tokens_cached"]) == ("0.0125", "50")


@IN_ONE_PROCESS
def test_the_old_family_has_them_too(junit):
    cases = junit("-o", "junit_family=xunit1")
    for case in cases.values():
        assert case.get("file") == properties(case)["agentv_file"] == "evals/qa.eval.yaml"
        assert case.get("line") == properties(case)["agentv_line"]


@WITH_WORKERS_ON_REQUEST
def test_a_rerun_counts_once_with_the_figures_of_its_last_run(project_in_all_modes, junit):
    project = project_in_all_modes
    project.write(
        "targets.yaml", "targets: [{name: default, provider: cli, command_template: 'echo x >> n; wc -l < n'}]"
    )
    project.write(
        "evals/qa.eval.yaml",
        "evalcases:\n  - {id: third, expected_outcome: x, input: y, "
        "evaluators: [{name: words, type: heuristic, hits: ['3']}]}\n",
    )
    cases = junit("--reruns", "2")
    assert list(cases) == ["third"]
    assert kinds(cases["third"]) == ["properties"]
    assert properties(cases["third"])["agentv_score_words"] == "1.0"


@IN_ONE_PROCESS
def test_control_characters_and_markup_do_not_break_the_file(project_in_all_modes, junit):
    project = project_in_all_modes
    odd = r"\u0007 \u001b[31m \ufffe \ud83d\ude00 \u202e <&>]]> \u0000 \u0085"
    project.write("targets.yaml", f'targets: [{{name: "default", provider: mock, response: "hello {odd}"}}]')
    evaluator = f'{{"name": "{odd}", "type": "heuristic", "hits": ["{odd} nowhere"]}}'
    record = (
        f'{{"id": "odd {odd}", "expected_outcome": "x", "execution": {{"target": "{odd}\\ud800"}}, '
        f'"input": "{odd}", "evaluators": [{evaluator}]}}'
    )
    project.write("evals/broken.eval.jsonl", record)
    project.write("evals/failing.eval.jsonl", record.replace(f"{odd}\\ud800", "default"))
    cases = junit("evals/broken.eval.jsonl", "evals/failing.eval.jsonl", "-o", "junit_logging=all")
    assert len(cases) == 1  # both have the same name
    (suite,) = ElementTree.parse(project.path / "junit.xml").getroot()
    broken, failing = sorted(suite, key=lambda case: case.get("classname"))
    assert (kinds(broken)[:2], kinds(failing)[:2]) == (["properties", "error"], ["properties", "failure"])
    (name,) = [name for name in properties(failing) if name.startswith("agentv_score_")]
    assert name.isprintable()
    assert "<" not in name


@WITH_WORKERS_ON_REQUEST
def test_a_file_made_of_the_results_has_the_names_of_pytests_own(project_in_all_modes, junit):
    project = project_in_all_modes
    project.write("evals/test_a.py", NAMED_TESTS)
    project.write("evals/odd.eval.yaml", ODD_CASES)
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]")
    junit("evals/test_a.py", "evals/odd.eval.yaml", "--agentv-out=r.jsonl")
    (own,) = ElementTree.parse(project.path / "junit.xml").getroot()
    assert agentv(["convert", str(project.path / "r.jsonl"), "-o", str(project.path / "r.xml")]) == 0
    (made,) = ElementTree.parse(project.path / "r.xml").getroot()
    expected = addresses(own)
    assert ("evals.test_a.TestA", "test_x") in expected
    assert ("evals.test_a", "test_q[a::b]") in expected
    assert addresses(made) == sorted([*expected, ("evals.test_a", "test_two (named)")])
    converted = {(case.get("classname"), case.get("name")): properties(case) for case in made}
    for case in own:
        assert converted[case.get("classname"), case.get("name")].items() >= properties(case).items()


NAMED_TESTS = """
import pytest

CHECKS = [{"contains": "hello"}]

class TestA:
    def test_x(self, agentv):
        assert agentv.run("x", evaluators=CHECKS)

class TestB(TestA):
    pass

@pytest.mark.parametrize("q", ["::1", "a::b", "a[b]/c.py"])
def test_q(agentv, q):
    assert agentv.run(q, evaluators=CHECKS)

def test_two(agentv):
    assert agentv.run("x", evaluators=CHECKS)
    assert agentv.run("x", id="named", evaluators=CHECKS)
"""
ODD_CASES = """
matrix: {tone: [x, y]}
evaluators: [{contains: hello}]
evalcases:
  - {id: "a::b", expected_outcome: x, input: "{{ tone }}"}
  - {id: "a[b::c]/d.py", expected_outcome: x, input: "{{ tone }}"}
"""


def addresses(suite):
    return sorted((case.get("classname"), case.get("name")) for case in suite)


@WITH_WORKERS_ON_REQUEST
def test_properties_are_plain_scalars_and_each_report_has_them(project_in_all_modes, junit):
    project_in_all_modes.write(
        "conftest.py",
        """
        def pytest_runtest_logreport(report):
            kinds = {type(value) for _, value in report.user_properties}
            with open("kinds.txt", "a") as file:
                print(report.when, len(report.user_properties), not kinds - {str, int, float}, file=file)
        """,
    )
    junit("evals/qa.eval.yaml::good", "-p", "no:cacheprovider")
    lines = (project_in_all_modes.path / "kinds.txt").read_text().splitlines()
    assert set(lines) == {f"{when} 16 True" for when in ("setup", "call", "teardown")}
