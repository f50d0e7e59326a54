"""Going on with a run: what is finished is carried over, the rest is run, and the summary is that of one run."""

import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from subprocess import DEVNULL

import pytest
import warm
from scripted_agent import figures, numbered, read_calls, write_agent, write_cases
from thorough import varied

from .conftest import WITH_WORKERS_ON_REQUEST, Project, agentv

SUITE = {**numbered(6), "case-1": "say nothing", "case-2": "fail out of tokens"}
"""Six cases, of which one fails and one is an error."""


def slow(value):
    return pytest.param(value, marks=pytest.mark.slow)


@pytest.fixture
def project(project):
    write_agent(project)
    write_cases(project, SUITE)
    return project


@pytest.fixture(scope="module")
def finished(shared_project):
    """Return a run of the suite, and what it wrote."""
    project = shared_project()
    write_agent(project)
    write_cases(project, SUITE)
    return run(project), (project.path / "own.jsonl").read_bytes()


@pytest.fixture
def whole(project, finished):
    """The run that wrote `own.jsonl`, in which the cases of the project are finished."""
    (project.path / "own.jsonl").write_bytes(finished[1])
    return finished[0]


def called(project):
    """Return the ids that were called since they were last asked for."""
    started = read_calls(project.path).started
    (project.path / "calls.jsonl").unlink(missing_ok=True)
    return sorted(started)


def results(project, name="own.jsonl"):
    return [json.loads(line) for line in (project.path / name).read_text().splitlines()]


def run(project, *flags, out="own.jsonl", mode=None):
    return project.run(*(() if out is None else (f"--agentv-out={out}",)), *flags, mode=mode)


def cut_to(project, *eval_ids, name="own.jsonl"):
    """Leave only the lines of some cases in a results file, as if the run had been killed after them."""
    path = project.path / name
    lines = [line for line in path.read_text().splitlines() if json.loads(line)["eval_id"] in eval_ids]
    path.write_text("".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("mode", [(), ("-n2",), ("--agentv-workers=4",)], ids=["plain", "n2", "workers"])
def test_a_resumed_run_calls_the_rest_and_ends_as_if_it_had_not_been_interrupted(project, whole, mode):
    cut_to(project, "case-0", "case-1", "case-4")
    with (project.path / "own.jsonl").open("a") as file:
        file.write('{"timestamp": "2026-11-2')  # what a killed writer leaves
    resumed = run(project, *mode, "--agentv-resume=own.jsonl")
    assert called(project) == ["case-2", "case-3", "case-5"]
    assert resumed.outcomes == whole.outcomes == {"passed": 4, "failed": 1, "errors": 1}
    assert [line for line in figures(resumed.lines) if "it was skipped" not in line] == figures(whole.lines)
    assert len({result["run_id"] for result in complete(project)}) == 1


def complete(project):
    """Return the results that are whole."""
    lines = (project.path / "own.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


@WITH_WORKERS_ON_REQUEST
def test_the_summary_names_the_file_that_a_run_went_on_from_if_it_writes_another_one(project_in_all_modes):
    """Without a file it is the newest of the folder, and not that of --agentv-out."""
    project = project_in_all_modes
    write_agent(project)
    write_cases(project, numbered(2))
    project.run("--agentv-out=own.jsonl")
    project.run("--agentv-out=.agentv/results/eval_2.jsonl")
    shown = project.run("--agentv-out=own.jsonl", "--agentv-resume").lines
    written = shown.index("Results written to: own.jsonl")
    assert shown[written + 1] == "Resumed from:       .agentv/results/eval_2.jsonl"
    assert "Resumed from" not in project.run("--agentv-out=own.jsonl", "--agentv-resume=own.jsonl").text


@WITH_WORKERS_ON_REQUEST
@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [((), ("--agentv-dry-run",), "of calls"), (("--agentv-dry-run",), (), "of a dry run")],
    ids=["dry run after calls", "calls after a dry run"],
)
def test_mocked_results_are_not_mixed_with_those_of_calls(project, first, second, kind, mode):
    """The second eval file was told that another process, which was this one, resumed the file."""
    write_cases(project, {"second": "say hello"}, "b.eval.yaml")
    run(project, *first)
    written = (project.path / "own.jsonl").read_bytes()
    called(project)
    refused = run(project, "--agentv-resume=own.jsonl", *second, *mode)
    assert refused.exit_code not in (0, pytest.ExitCode.INTERNAL_ERROR)
    message = f"--agentv-resume: own.jsonl holds results {kind}"
    assert message in refused.text
    assert "is not over" not in refused.text
    assert called(project) == []
    assert (project.path / "own.jsonl").read_bytes() == written
    assert refused.internals == []


@WITH_WORKERS_ON_REQUEST
def test_all_runs_of_a_file_count_as_of_shards_that_were_put_together(project, whole, mode):
    shards = results(project)[:5]
    for record in shards[3:]:
        record["run_id"] = "another"
    project.write("own.jsonl", "".join(f"{json.dumps(record)}\n" for record in shards))
    resumed = run(project, *mode, "--agentv-resume=own.jsonl")
    assert called(project) == ["case-5"]
    assert "Total eval cases: 6 (4 passed, 1 failed, 1 error)" in resumed.lines
    written = (project.path / "own.jsonl").read_bytes()
    again = run(project, *mode, "--agentv-resume=own.jsonl")
    assert called(project) == []
    assert (project.path / "own.jsonl").read_bytes() == written
    assert again.outcomes == resumed.outcomes == {"passed": 4, "failed": 1, "errors": 1}


BAD_VALUES = {
    '"score":"0,5"': "score: expected a number from 0 to 1, got the text '0,5'",
    '"score":5': "score: expected a number from 0 to 1, got the number 5",
    '"score":true': "score: expected a number from 0 to 1, got true",
    '"score":NaN': "score: expected a number from 0 to 1, got the number nan",
    '"hits":5': "hits: expected a valid tuple, got the number 5",
    '"hits":[5]': "hits.0: expected a valid string, got the number 5",
    '"status":"weird"': "status: expected 'pass', 'fail' or 'error', got the text 'weird'",
    '"eval_id":null': "eval_id: expected a valid string, got null",
}


@WITH_WORKERS_ON_REQUEST
def test_a_bad_line_is_skipped_with_its_place_and_its_case_is_run_again(project, mode):
    prompts = numbered(len(BAD_VALUES) + 1)
    write_cases(project, prompts)
    run(project)
    lines = (project.path / "own.jsonl").read_text().splitlines()
    spoilt = []
    for line, value in zip(lines[1:], BAD_VALUES, strict=True):
        record = json.loads(line)
        key = value.partition(":")[0].strip('"')
        del record[key]
        spoilt.append(f"{json.dumps(record)[:-1]}, {value}}}")
    project.write("own.jsonl", "\n".join([lines[0], *spoilt]) + "\n")
    for store in (project.path / ".agentv").glob("answers.sqlite*"):
        store.unlink()
    called(project)
    resumed = run(project, *mode, "--agentv-resume=own.jsonl")
    assert called(project) == sorted(prompts)[1:]
    assert resumed.outcomes == {"passed": len(prompts)}
    said = [f"own.jsonl:{number}: {text}; the result was skipped" for number, text in enumerate(BAD_VALUES.values(), 2)]
    assert [line for line in resumed.lines if "was skipped" in line] == said
    assert resumed.internals == []


def test_results_of_an_older_version_are_not_carried_over_and_one_line_says_why(project, whole):
    path = project.path / "own.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records[:3]:
        record.pop("target_hash", None)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    resumed = run(project, "--agentv-resume=own.jsonl")
    assert called(project) == ["case-0", "case-1", "case-2"]
    (line,) = [line for line in resumed.lines if "target_hash" in line]
    assert line.startswith("own.jsonl: 2 results do not tell with which target")


TWO = """
def cheap(prompt):
    return {"text": "hello", "cost_usd": 1.0}

def dear(prompt):
    return {"text": "hello", "cost_usd": 2.0}
"""


def test_the_costs_of_another_target_and_of_an_edited_case_stay_apart_and_count_once(project, capsys):
    """The report has the cases of both targets, as for two runs in one file."""
    project.write("two.py", TWO)
    named = ("cheap", "dear")
    targets = ", ".join(f"{{name: {name}, provider: python, callable: two.py:{name}}}" for name in named)
    project.write("targets.yaml", f"targets: [{targets}]\n")
    write_cases(project, {"a": "say hello", "b": "say hello"})
    run(project, "--agentv-target=dear")
    write_cases(project, {"a": "say hello", "b": "say hello again"})
    edited = run(project, "--agentv-target=dear", "--agentv-resume=own.jsonl")
    assert "Cost:             $6.0000" in edited.lines
    resumed = run(project, "--agentv-target=cheap", "--agentv-resume=own.jsonl", "--agentv-html=run.html")
    assert "Cost:             $2.0000" in resumed.lines
    assert "Reruns" not in resumed.text
    assert "$1.0000 a case" in (project.path / "run.html").read_text()
    agentv(["report", str(project.path / "own.jsonl")])
    written = capsys.readouterr().out
    assert "Evaluations: 4 passed" in written
    assert "| $8.0000 |" in written


NEEDS_A_FILE = """
from pathlib import Path


def answer(prompt):
    if prompt.startswith("broken") and not Path("up").exists():
        raise ValueError("down")
    return "hello"
"""

TESTS_OF_AN_OUTAGE = """
def test_judged(agentv):
    assert agentv.run("hi", evaluators=[{"contains": "hello"}])

def test_broken(agentv):
    assert agentv.run("hi", id="first", evaluators=[{"contains": "hello"}])
    assert agentv.run("broken", id="second", evaluators=[{"contains": "hello"}])

def test_plain(): ...
"""


@pytest.fixture
def outage(pytester, mode):
    """Run pytest on tests that evaluate after an outage, and maybe on an eval file beside them."""
    project = Project(pytester.path, ())
    project.write("agent.py", NEEDS_A_FILE)
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    project.write("test_evals.py", TESTS_OF_AN_OUTAGE)

    def run_after(*flags, has_file):
        if has_file:
            cases = "".join(
                f"  - {{id: {name}, input: {name}, evaluators: [{{contains: hello}}]}}\n" for name in ("fine", "broken")
            )
            project.write("a.eval.yaml", f"evalcases:\n{cases}")
        found = pytester.runpytest_inprocess(
            "-p", "no:hypothesispytest", "test_evals.py", *(["a.eval.yaml"] * has_file)
        )
        found.assert_outcomes(passed=2 + has_file, errors=1 + has_file)
        project.write("up", "")
        return pytester.runpytest_inprocess("-p", "no:hypothesispytest", "--agentv-retry-errors", *flags, *mode)

    return run_after


@pytest.mark.parametrize("has_file", [True, False], ids=["beside a file", "alone"])
def test_errors_of_tests_are_retried_beside_eval_files_and_without_them(outage, mode, has_file):
    retried = outage(has_file=has_file)
    assert (retried.ret, retried.parseoutcomes()["passed"]) == (0, 1 + has_file)
    assert mode or retried.parseoutcomes()["deselected"] == 2 + has_file
    total = 3 + 2 * has_file
    assert f"Total eval cases: {total} ({total} passed, 0 failed, 0 errors)" in retried.outlines


BREAKS_ONCE = """
from pathlib import Path

MARK = Path("broke")


def answer(prompt):
    if not MARK.exists():
        MARK.touch()
        raise ValueError("no tokens")
    return "hello"
"""


@WITH_WORKERS_ON_REQUEST
def test_a_case_that_broke_for_one_target_is_retried_whatever_it_did_for_another(pytester, mode):
    """The last result of its id is that of the other target, which passed."""
    project = Project(pytester.path, mode)
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: breaks, provider: python, callable: agent.py:answer}
          - {name: works, provider: mock, response: hello}
        """,
    )
    project.write("agent.py", BREAKS_ONCE)
    case = "{id: a, expected_outcome: o, input: hi, evaluators: [{contains: hello}]}"
    project.write("a.eval.yaml", f"execution: {{targets: [breaks, works]}}\nevalcases: [{case}]\n")
    (pytester.path / ".agentv/results").mkdir(parents=True)
    assert run(project, out=".agentv/results/eval_1.jsonl", mode=()).outcomes == {"passed": 1, "errors": 1}
    retried = pytester.runpytest_inprocess("-p", "no:hypothesispytest", "--agentv-retry-errors", *mode)
    assert "Total eval cases: 2 (2 passed, 0 failed, 0 errors)" in retried.outlines
    told = results(project, ".agentv/results/eval_1.jsonl")
    assert [(each["node_id"], each["status"]) for each in told] == [
        ("a.eval.yaml::a@breaks", "error"),
        ("a.eval.yaml::a@works", "pass"),
        ("a.eval.yaml::a@breaks", "pass"),
    ]


OF_TWO_TARGETS = """
def default(prompt):
    if prompt == "x":
        raise ValueError("down")
    return "hello"


def other(prompt):
    if prompt == "y":
        raise ValueError("down")
    return "hello"
"""
OF_TWO_TARGETS_IN_PYTHON = """
def test_a(agentv):
    assert agentv.run("x", id="a", evaluators=[{"contains": "hello"}])

def test_b(agentv):
    assert agentv.run("y", id="b", evaluators=[{"contains": "hello"}])
"""


@pytest.fixture(params=[slow("file"), "file that names its target", slow("tests")])
def two_targets(pytester, request):
    """Run two cases with two targets. The first case broke for the first target, the second one for the second."""
    project = Project(pytester.path, ())
    project.write("two.py", OF_TWO_TARGETS)
    targets = "".join(
        f"  - {{name: {name}, provider: python, callable: two.py:{called}}}\n"
        for name, called in (("default", "default"), ("other", "other"), ("named", "default"))
    )
    project.write("targets.yaml", f"targets:\n{targets}")
    if request.param == "tests":
        project.write("test_two.py", OF_TWO_TARGETS_IN_PYTHON)
    else:
        cases = "".join(
            f"  - {{id: {name}, input: {prompt}, evaluators: [{{contains: hello}}]}}\n" for name, prompt in ("ax", "by")
        )
        named = "execution: {target: named}\n" if "names" in request.param else ""
        project.write("a.eval.yaml", f"{named}evalcases:\n{cases}")
    run_pytest = partial(pytester.runpytest_inprocess, "-p", "no:hypothesispytest")
    for flags in ((), ("--agentv-resume", "--agentv-target=other")):
        run_pytest(*flags).assert_outcomes(passed=1, errors=1)
    return partial(run_pytest, "--agentv-retry-errors")


@WITH_WORKERS_ON_REQUEST
@pytest.mark.parametrize(
    ("target", "broken", "other"), [((), "a", "b"), (("--agentv-target=other",), "b", "a")], ids=str
)
def test_the_errors_to_retry_are_those_of_the_target_of_the_run(two_targets, mode, target, broken, other):
    """The run was green: its error was deselected, and what the other target had passed stood for it."""
    retried = two_targets(*target, *mode)
    assert (retried.ret, retried.parseoutcomes()["errors"]) == (1, 1)
    # The other target's error is selected as well, because a fixture might have chosen that target.
    assert retried.parseoutcomes()["passed"] == 1
    (told,) = (line for line in retried.outlines if line.startswith("ERROR "))
    assert told.split(" - ")[0].endswith(broken)
    assert "Total eval cases: 2 (1 passed, 0 failed, 1 error)" in retried.outlines
    assert two_targets(*target, *mode, "-k", f"::{other} or test_{other}").ret != 0


CHOSEN_LATER = """
from pathlib import Path


def default(prompt):
    if prompt == "y" and not Path("up").exists():
        raise ValueError("down")
    return "hello"


def other(prompt):
    if not Path("other-is-up").exists():
        raise ValueError("down")
    return "hello"
"""
CHOOSERS = {
    "hook": """
        def pytest_agentv_case(case):
            return case.replace(target="other") if case.eval_id == "{name}" else None
        """,
    "fixture": """
        import pytest

        @pytest.fixture
        def agentv_target(request):
            return "other" if request.node.name == "test_{name}" else "default"
        """,
}


@pytest.fixture(params=["hook", slow("fixture"), "call"])
def chosen_later(pytester, request):
    """Run a and b; b breaks. From then on, something that no file tells chooses another target for one of them."""
    project = Project(pytester.path, ())
    project.write("two.py", CHOSEN_LATER)
    names = ("default", "other")
    targets = "".join(f"  - {{name: {name}, provider: python, callable: two.py:{name}}}\n" for name in names)
    project.write("targets.yaml", f"targets:\n{targets}")
    if request.param != "hook":
        project.write("test_two.py", OF_TWO_TARGETS_IN_PYTHON)
    else:
        cases = "".join(
            f"  - {{id: {name}, input: {prompt}, evaluators: [{{contains: hello}}]}}\n" for name, prompt in ("ax", "by")
        )
        project.write("a.eval.yaml", f"evalcases:\n{cases}")
    run_pytest = partial(pytester.runpytest_inprocess, "-p", "no:hypothesispytest")

    def choose_for(name):
        run_pytest().assert_outcomes(passed=1, errors=1)
        if request.param == "call":
            prompt = {"a": '"x"', "b": '"y"'}[name]
            case = f'{{"input": {prompt}, "execution": {{"target": "other"}}}}'
            project.write("test_two.py", OF_TWO_TARGETS_IN_PYTHON.replace(prompt, case))
        else:
            project.write("conftest.py", CHOOSERS[request.param].replace("{name}", name))
        return run_pytest

    return choose_for


@WITH_WORKERS_ON_REQUEST
def test_an_error_of_a_target_that_no_file_names_is_retried(chosen_later, mode):
    """The pass of the target that the file names stood for it: the run was green, and asked nothing."""
    run_pytest = chosen_later("a")
    run_pytest("--agentv-resume", "--agentv-retry-errors").assert_outcomes(errors=2)
    Path("up").touch()
    retried = run_pytest("--agentv-retry-errors", *mode)
    assert retried.ret == 1
    retried.assert_outcomes(passed=1, errors=1)
    assert "Total eval cases: 2 (1 passed, 0 failed, 1 error)" in retried.outlines
    Path("other-is-up").touch()
    mended = run_pytest("--agentv-retry-errors", *mode)
    assert (mended.ret, mended.parseoutcomes()["passed"]) == (0, 1)
    assert "Total eval cases: 2 (2 passed, 0 failed, 0 errors)" in mended.outlines


def test_an_error_of_a_target_that_no_file_names_counts_in_a_run_that_leaves_it_out(chosen_later):
    run_pytest = chosen_later("a")
    run_pytest("--agentv-resume", "--agentv-retry-errors").assert_outcomes(errors=2)
    Path("up").touch()
    left_out = ("--deselect=a.eval.yaml::a", "--deselect=test_two.py::test_a")
    retried = run_pytest("--agentv-retry-errors", *left_out)
    assert (retried.ret, retried.parseoutcomes()["passed"]) == (1, 1)
    assert "Total eval cases: 2 (1 passed, 0 failed, 1 error)" in retried.outlines


@WITH_WORKERS_ON_REQUEST
def test_a_pass_of_a_target_that_no_file_names_stands_for_an_error_of_the_one_of_the_file(chosen_later, mode):
    """The error stood for it, so each such run was red."""
    run_pytest = chosen_later("b")
    Path("other-is-up").touch()
    for flags in (("--agentv-resume",), ()):
        retried = run_pytest("--agentv-retry-errors", *flags, *mode)
        assert retried.ret == 0
        assert "Total eval cases: 2 (2 passed, 0 failed, 0 errors)" in retried.outlines


def test_an_error_of_the_target_of_the_run_counts_although_its_item_is_skipped(two_targets, pytester):
    """It is selected, but nothing asks it: what the other target passed must not stand for it."""
    skip = "item.name.endswith('a') and pytest.skip('not today')"
    pytester.makeconftest(f"import pytest\ndef pytest_runtest_setup(item):\n    {skip}")
    retried = two_targets()
    assert retried.ret == 1
    assert "Total eval cases: 2 (1 passed, 0 failed, 1 error)" in retried.outlines


@pytest.mark.parametrize(
    "flags",
    [(), varied(("-n2",)), ("--agentv-retry-errors",), ("--agentv-dry-run",)],
    ids=["plain", "n2", "retry", "dry"],
)
def test_a_run_that_was_killed_before_its_first_result_is_resumed_with_all_cases(project, flags):
    """Its file is empty; a job that always resumes failed from then on."""
    project.write("own.jsonl", "")
    resumed = run(project, *flags, "--agentv-resume=own.jsonl")
    assert len(called(project)) == (0 if "--agentv-dry-run" in flags else 6)
    assert (len(results(project)), resumed.lines.count("Resumed from:       own.jsonl")) == (6, 0)
    assert resumed.outcomes["passed"] >= 4


@WITH_WORKERS_ON_REQUEST
def test_what_was_not_checked_is_kept_in_resumed_and_merged_results(project, monkeypatch, mode):
    (project.path / "a.eval.yaml").unlink()
    checks = "[{not-contains: x, path: a.b}, {contains: hi}]"
    project.write("b.eval.yaml", f"evalcases: [{{id: a, input: hi, assert: {checks}}}]\n")
    project.write("targets.yaml", """targets: [{name: default, provider: mock, response: 'hi {"c": 1}'}]\n""")
    run(project, "--agentv-out=own.jsonl")
    run(project, "--agentv-resume=own.jsonl", out="resumed.jsonl", mode=mode)
    monkeypatch.chdir(project.path)
    assert agentv(["merge", "resumed.jsonl", "--out", "merged.jsonl"]) == 0
    for name in ("own.jsonl", "resumed.jsonl", "merged.jsonl"):
        [result] = results(project, name)
        told = [each.get("unchecked") for each in result["evaluator_results"]]
        assert told == ["a.b is missing: the answer has c", None]


@WITH_WORKERS_ON_REQUEST
def test_tests_that_evaluate_cannot_go_on_from_a_missing_file(project, mode):
    (project.path / "a.eval.yaml").unlink()
    project.write("test_it.py", "def test_it(agentv): ...\n")
    broken = run(project, "--agentv-resume=missing.jsonl", *mode)
    assert broken.exit_code == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: --agentv-resume: missing.jsonl holds no results file to go on from" in broken.lines


def test_results_of_a_newer_format_are_not_taken_for_what_they_may_not_say(project, whole):
    newer = [{**each, "schema_version": each["schema_version"] + 1} for each in results(project)]
    project.write("newer.jsonl", "".join(f"{json.dumps(each)}\n" for each in newer))
    called(project)
    refused = run(project, "--agentv-resume=newer.jsonl", out=None)
    reason = "schema_version: expected 1 or less, got 2: a newer pytest-agentv wrote it; the result was skipped"
    message = f"newer.jsonl holds no results of a run of pytest-agentv; newer.jsonl:1: {reason}"
    assert f"ERROR: --agentv-resume: {message}" in refused.lines
    assert (called(project), refused.exit_code) == ([], pytest.ExitCode.USAGE_ERROR)


PYTHON_AGENT = """
import prices


def answer(prompt, extra=0):
    try:
        from late import END
    except ImportError:
        END = ""
    return prices.WORD + END
"""


def stale_project(project):
    """Write targets of several kinds, and a judge that is a model and one that is a script."""
    targets = [
        {"name": "mock", "provider": "mock", "response": "hello"},
        {"name": "python", "provider": "python", "callable": "own_agent.py:answer", "judge_target": "judge"},
        {"name": "cli", "provider": "cli", "command_template": f"{sys.executable} main.py --end ! {{PROMPT}}"},
        {"name": "judge", "provider": "mock", "response": '{"score": 1}'},
    ]
    project.write("targets.yaml", json.dumps({"targets": targets}))
    project.write("own_agent.py", PYTHON_AGENT)
    project.write("main.py", "import helper, sys\nprint(helper.WORD)\n")
    for name in ("prices", "helper"):
        project.write(f"{name}.py", "WORD = 'hello'\n")
    project.write("late.py", "END = ''\n")
    project.write("other.py", "")
    project.write("judge.py", "import json, rules, sys\nprint(json.dumps({'score': rules.SCORE}))\n")
    project.write("rules.py", "SCORE = 1\n")
    project.write("judge.md", "Judge {{candidate_answer}}: is it {{expected_outcome}}?\n")
    project.write("ideal.md", "hello\n")
    words = {"name": "words", "type": "heuristic", "hits": ["hello"]}
    script = {"name": "script", "type": "code_judge", "script": [sys.executable, "judge.py"]}
    model = {"name": "model", "type": "llm_judge", "prompt": "judge.md"}
    ideal = {"role": "assistant", "content": [{"type": "file", "value": "ideal.md"}]}
    cases = [
        {"id": "mock", "execution": {"target": "mock", "evaluators": [words]}},
        {"id": "python", "execution": {"target": "python", "evaluators": [words]}},
        {"id": "cli", "execution": {"target": "cli", "evaluators": [words]}},
        {"id": "script", "execution": {"target": "mock", "evaluators": [script]}},
        {"id": "model", "execution": {"target": "python", "evaluators": [model]}},
        {"id": "ideal", "execution": {"target": "mock", "evaluators": [words]}, "expected_messages": [ideal]},
    ]
    case = {"expected_outcome": "says hello", "input": "Say hello"}
    project.write("b.eval.yaml", json.dumps({"evalcases": [{**case, **each} for each in cases]}))
    (project.path / "a.eval.yaml").unlink()


CHANGES = [
    ("targets.yaml", '"response": "hello"', '"response": "hello again"', {"mock", "script", "ideal"}),
    ("targets.yaml", '"command_template"', '"verbose": true, "command_template"', set()),
    ("targets.yaml", "--end !", "--end ?", {"cli"}),
    ("targets.yaml", '"judge_target"', '"arguments": {"extra": 1}, "judge_target"', {"python", "model"}),
    ("targets.yaml", '{\\"score\\": 1}', '{\\"score\\": 1.0}', {"model"}),
    ("own_agent.py", "return", "return 'oh ' +", {"python", "model"}),
    ("prices.py", "hello", "hello!", {"python", "model"}),
    ("late.py", "''", "'!'", {"python", "model"}),
    ("helper.py", "hello", "hello!", {"cli"}),
    ("main.py", "print", "print ", {"cli"}),
    ("judge.py", "import json, ", "import json, os, ", {"script"}),
    ("rules.py", "1", "1.0", {"script"}),
    ("judge.md", "Judge", "Grade", {"model"}),
    ("ideal.md", "hello", "hello, hello", {"ideal"}),
    ("other.py", "", "new", set()),
]
"""Files, what is changed in them, and the cases that run again."""


@pytest.mark.slow
def test_what_an_answer_or_its_judgement_came_from_is_part_of_the_case(project):
    stale_project(project)
    assert run(project).outcomes == {"passed": 6}
    before = (project.path / "own.jsonl").read_bytes()
    for file, old, new, again in CHANGES:
        path = project.path / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new) if old else new)
        assert run(project, "--agentv-resume=own.jsonl").outcomes == {"passed": 6}
        assert {result["eval_id"] for result in results(project)[6:]} == again, (file, new)
        path.write_text(text)
        (project.path / "own.jsonl").write_bytes(before)


@WITH_WORKERS_ON_REQUEST
def test_a_secret_that_changed_is_another_target_and_stands_nowhere(project, mode, monkeypatch):
    monkeypatch.setenv("AGENT_API_KEY", "quite-secret-1")
    target = {
        "name": "default",
        "provider": "cli",
        "command_template": "echo hello",
        "env": {"K": "${{ AGENT_API_KEY }}"},
    }
    project.write("targets.yaml", json.dumps({"targets": [target]}))
    write_cases(project, {"one": "say hello"})
    assert run(project).outcomes == {"passed": 1}
    run(project, *mode, "--agentv-resume=own.jsonl")
    assert len(results(project)) == 1
    monkeypatch.setenv("AGENT_API_KEY", "quite-secret-2")
    run(project, *mode, "--agentv-resume=own.jsonl")
    first, second = results(project)
    assert first["target_hash"] != second["target_hash"]
    assert first["grading_hash"] == second["grading_hash"]
    assert "quite-secret" not in (project.path / "own.jsonl").read_text()


@WITH_WORKERS_ON_REQUEST
def test_the_summary_of_a_resumed_run_counts_what_was_selected(project, whole, mode):
    resumed = run(project, *mode, "--agentv-resume=own.jsonl", "-k", "case-0 or case-1")
    assert called(project) == []
    assert "Total eval cases: 2 (1 passed, 1 failed, 0 errors)" in resumed.lines


@pytest.mark.kills
@WITH_WORKERS_ON_REQUEST
@pytest.mark.parametrize("flag", ["--agentv-resume", "--agentv-out"])
def test_a_file_that_another_run_writes_is_not_resumed_until_that_run_ends_even_if_it_is_killed(
    project, whole, mode, flag
):
    cut_to(project, "case-0")
    write_cases(project, {**SUITE, "case-3": "sleep 60"})
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"{flag}=own.jsonl"]
    first = warm.Popen([*command, *mode], cwd=project.path, stdout=DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while "case-3" not in read_calls(project.path).started and time.monotonic() < deadline:
            time.sleep(0.05)
        refused = run(project, *mode, "--agentv-resume=own.jsonl", out=None)
    finally:
        first.kill()
        first.wait()
    assert refused.exit_code != 0
    said = "--agentv-resume: a run that uses own.jsonl is not over; wait for its end, or end it"
    assert any(said in line for line in refused.lines)
    write_cases(project, SUITE)
    deadline = time.monotonic() + 30
    while (last := run(project, "--agentv-resume=own.jsonl")).exit_code != 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert last.outcomes == {"passed": 4, "failed": 1, "errors": 1}


def test_what_was_paid_for_is_not_lost_when_a_variable_is_missing_for_once(project, monkeypatch):
    project.write(
        "targets.yaml",
        "targets: [{name: default, provider: python, callable: agent.py:answer, arguments: {}}]\n".replace(
            "{}", "{request: '${{ AGENT_MODE }}'}"
        ),
    )
    project.write("agent.py", "def answer(prompt, request):\n    return 'hello'\n")
    monkeypatch.setenv("AGENT_MODE", "fast")
    assert run(project).outcomes == {"passed": 6}
    monkeypatch.delenv("AGENT_MODE")
    assert run(project, "--agentv-resume=own.jsonl").outcomes == {"errors": 6}
    monkeypatch.setenv("AGENT_MODE", "fast")
    resumed = run(project, "--agentv-resume=own.jsonl")
    assert resumed.outcomes == {"passed": 6}
    assert "Total eval cases: 6 (6 passed, 0 failed, 0 errors)" in resumed.lines
    records = results(project)
    assert len(records) == 18
    assert [record["timestamp"] for record in records[12:]] == [record["timestamp"] for record in records[:6]]


@pytest.mark.parametrize("repeat", [[], ["--agentv-repeat=2"]], ids=["once", "repeated"])
@WITH_WORKERS_ON_REQUEST
def test_a_new_tag_asks_nothing_anew_and_counts(project, mode, repeat):
    suite = numbered(3)
    write_cases(project, suite, **{"case-1": {"tags": ["old"]}})
    run(project, *mode, *repeat)
    assert set(called(project)) == {"case-0", "case-1", "case-2"}
    write_cases(project, suite, **{"case-1": {"tags": ["new", "more"]}, "case-2": {"tags": ["new"]}})
    project.write("pytest.ini", "[pytest]\nagentv_gates =\n    new: min_rate=0.9\n")
    resumed = run(project, *mode, *repeat, "--agentv-resume=own.jsonl", "--agentv-gate=run")
    assert called(project) == []
    assert "of 2 cases" in next(line for line in resumed.lines if line.startswith("GATE new: passed"))
    last = {line["eval_id"]: line.get("tags") for line in results(project)}
    assert last == {"case-0": None, "case-1": ["new", "more"], "case-2": ["new"]}


SAME = """
import pytest


@pytest.mark.parametrize("number", range(3))
def test_it(agentv, number):
    assert agentv.run("Say it", id="same", evaluators=[{"contains": "hello"}], repeat=REPEAT)
"""
COUNTING = """
import os
from pathlib import Path

ASKED = Path("asked")


def answer(prompt):
    ASKED.write_text((ASKED.read_text() if ASKED.exists() else "") + "x")
    if ASKED.read_text() == "x" * DIES_AT:
        os._exit(9)
    return "hello"
"""


@pytest.mark.parametrize(
    ("repeat", "dies_at", "asked"), [(1, 0, 3), varied(2, 0, 6), pytest.param(2, 4, 7, marks=pytest.mark.kills)]
)
def test_parameters_of_a_test_that_ask_the_same_keep_their_own_answers(pytester, repeat, dies_at, asked):
    """The fourth question is the second one of the second parameter; the first one has answers under the same id."""
    project = Project(pytester.path, ())
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]")
    project.write("agent.py", COUNTING.replace("DIES_AT", str(dies_at)))
    project.write("test_same.py", SAME.replace("REPEAT", str(repeat)))
    project.run("--agentv-out=own.jsonl", subprocess=True)
    for _ in range(2):
        assert run(project, "--agentv-resume=own.jsonl").outcomes == {"passed": 3}
    # What was finished and not yet written at the end of the process is asked again.
    assert asked <= len((project.path / "asked").read_text()) <= asked + 1
    assert len(results(project)) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
@pytest.mark.parametrize(
    ("flag", "outcomes", "asked"),
    [
        ("--agentv-resume", {"passed": 1, "errors": 1}, []),
        ("--agentv-retry-errors", {"passed": 1, "deselected": 1}, ["fail_once mark\ud800"]),
    ],
)
def test_results_of_a_file_and_of_ids_that_utf8_cannot_hold_are_found(project, flag, outcomes, asked):
    """The file is the only one: the resumed file was taken for that of another project."""
    (project.path / "a.eval.yaml").unlink()
    prompts = ("say hello", "fail_once mark")
    cases = [{"id": f"{prompt}\ud800", "input": prompt, "expected_outcome": "o"} for prompt in prompts]
    text = "".join(f"{json.dumps({**case, 'evaluators': [{'contains': 'hello'}]})}\n" for case in cases)
    project.write(f"{os.fsdecode(bytes([0xE9]))}.eval.jsonl", text)
    first = run(project, out=".agentv/results/eval_1.jsonl")
    assert first.outcomes == {"passed": 1, "errors": 1}
    assert called(project) == ["fail_once mark\ud800", "say hello\ud800"]
    assert run(project, flag, out=None).outcomes == outcomes
    assert called(project) == asked
