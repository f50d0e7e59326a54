"""What surrounds items: fixtures and hooks of conftest files keep cases from running ahead, those of plugins do not."""

import pytest
from pooled import TWO
from scripted_agent import TARGETS, numbered, read_calls, write_agent, write_cases, write_plugin
from thorough import varied

SKIPS = """
import pytest

def pytest_runtest_setup(item):
    if item.name == "case-2":
        pytest.skip("not today")
"""
AUTOUSE = """
import pytest

@pytest.fixture(autouse=True)
def quiet():
    yield
"""
HELD = "cases ran one after another, because {} has the hook {}, which may skip them or change what they see: "


@pytest.fixture
def project(project):
    write_agent(project)
    return project


def calls(project):
    return read_calls(project.path)


def remarks(run, start):
    return [line for line in run.lines if line.startswith(start)]


def test_a_fixture_of_a_plugin_keeps_no_case_from_running_ahead_and_none_here(project):
    write_plugin(project, AUTOUSE)
    write_cases(project, numbered(3) | {"case-0": "start_of case-2; say hello"})
    assert project.run("--agentv-workers=3").outcomes == {"passed": 3}
    assert "agentv: executor ProcessPoolExecutor: 3 answers" in project.run(*TWO).lines


@pytest.mark.parametrize(("place", "is_imported"), [("", False), ("sub/", True), varied("sub/", False)])
def test_a_fixture_that_a_conftest_holds_keeps_its_cases_here_and_in_turn(project, place, is_imported):
    project.write("helpers.py", AUTOUSE)
    project.write("conftest.py", "import pytest\n")
    project.write(f"{place}conftest.py", "from helpers import quiet as calm\n" if is_imported else AUTOUSE)
    project.write("targets.yaml", TARGETS.replace("agent.py", f"{project.path}/agent.py"))
    write_cases(project, numbered(3), f"{place}a.eval.yaml")
    run = project.run(*TWO)
    assert run.outcomes == {"passed": 3}
    assert calls(project).most == 1
    assert "agentv: executor ProcessPoolExecutor: 0 answers; 3 ran in this process: 3 with fixtures" in run.lines


@pytest.mark.parametrize("flags", [(), ("--agentv-workers=4",), varied(("-n2", "--agentv-workers=4")), TWO])
def test_a_case_that_a_hook_of_a_conftest_skips_is_not_asked(project, flags):
    project.write("conftest.py", SKIPS)
    write_cases(project, numbered(4))
    run = project.run(*flags)
    assert run.outcomes == {"passed": 3, "skipped": 1}
    assert sorted(calls(project).started) == sorted(run.statuses) == ["case-0", "case-1", "case-3"]
    assert "Total eval cases: 3 (3 passed, 0 failed, 0 errors)" in run.lines
    held = remarks(run, HELD.format("conftest.py", "pytest_runtest_setup"))
    here = remarks(run, "agentv: executor ProcessPoolExecutor: 0 answers; 3 ran in this process: 3 with hooks")
    assert (len(held), len(here)) == (bool(flags) and flags != TWO, flags == TWO)


def test_a_hook_holds_only_below_its_folder(project):
    project.write("targets.yaml", TARGETS.replace("agent.py", f"{project.path}/agent.py"))
    project.write(
        "sub/conftest.py", "def pytest_runtest_protocol(item):\n    return True if item.name == 'under-1' else None\n"
    )
    write_cases(project, numbered(6, "in_flight 3"), "0/a.eval.yaml")
    write_cases(project, numbered(3, word="under"), "sub/a.eval.yaml")
    run = project.run("--agentv-workers=3", "0", "sub")
    assert calls(project).most == 3
    assert sorted(set(run.statuses) - set(numbered(6))) == ["under-0", "under-2"]
    (told,) = remarks(run, "cases ran one after another")
    assert told.startswith(HELD.format("sub/conftest.py", "pytest_runtest_protocol"))


def test_pytests_recipe_for_incremental_tests_ends_with_the_first_failure(project):
    project.write(
        "conftest.py",
        """
        import pytest

        def pytest_runtest_makereport(item, call):
            if call.excinfo is not None and not call.excinfo.errisinstance(pytest.xfail.Exception):
                item.parent.failed = item

        def pytest_runtest_setup(item):
            if hasattr(item.parent, "failed"):
                pytest.xfail("previous failed")
        """,
    )
    write_cases(project, numbered(6) | {"case-2": "say no"})
    run = project.run("--agentv-workers=4")
    assert run.outcomes == {"passed": 2, "failed": 1, "xfailed": 3}
    assert calls(project).started == ["case-0", "case-1", "case-2"]


def test_a_batch_takes_no_case_that_a_hook_may_skip(project):
    project.write("conftest.py", SKIPS)
    project.write(
        "targets.yaml",
        "targets: [{name: default, provider: cli, provider_batching: true, workers: 4, "
        f"command_template: 'echo call >> {project.path}/asked.txt; test {{EVAL_ID}} != batch && echo hello'}}]\n",
    )
    write_cases(project, numbered(4))
    run = project.run("--agentv-workers=4")
    assert sorted(run.statuses) == ["case-0", "case-1", "case-3"]
    assert (project.path / "asked.txt").read_text().split() == ["call"] * 6, (
        "a batch of one, which fails, and then its case"
    )
    assert remarks(run, "cases ran one after another")


APP = """
import time

WORD = "own"

def answer(prompt):
    time.sleep(0.05)
    return WORD
"""
PATCH = """
import time
import pytest

@pytest.fixture
def patched(monkeypatch):
    monkeypatch.setattr("app.WORD", "patched")
    yield
    time.sleep(0.1)
"""
OWN = "evalcases:\n" + "".join(f"  - {{id: own-{n}, input: q, assert: [equals: own]}}\n" for n in range(3))
TEST = "def test_app(patched):\n    pass\n"
FIXED = "fixtures: [patched]\nevalcases:\n  - {id: fixed, input: q, assert: [equals: patched]}\n"


@pytest.mark.parametrize("flags", [(), varied(("-n1",))], ids=["here", "worker"])
def test_no_case_runs_while_another_item_has_patched_its_target(project, flags):
    project.write("conftest.py", PATCH)
    project.write("app.py", APP)
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: 'app:answer'}]\n")
    project.write("pytest.ini", "[pytest]\npython_files = *_test.py\n")
    for name, text in {"a.eval.yaml": OWN, "b_test.py": TEST, "c.eval.yaml": OWN, "d.eval.yaml": FIXED}.items():
        project.write(name, text)
    project.write("e.eval.yaml", OWN)
    assert project.run("--agentv-workers=2", *flags).outcomes == {"passed": 11}


def test_one_call_answers_the_cases_before_and_behind_a_test_that_patches(project):
    """They are judged before the test starts."""
    project.write("conftest.py", PATCH)
    project.write(
        "app.py", APP + "\ndef judge(answer):\n    time.sleep(0.06 * (answer != 'a'))\n    return WORD == 'own'\n"
    )
    project.write("answers.jsonl", "".join(f'{{"id": "{name}", "text": "{name}"}}\n' for name in "abc"))
    command = "echo call >> calls; cat answers.jsonl"
    project.write(
        "targets.yaml",
        f'targets: [{{name: default, provider: cli, provider_batching: true, command_template: "{command}"}}]\n',
    )
    project.write("pytest.ini", "[pytest]\npython_files = *_test.py\n")
    case = "  - {{id: {}, input: q, assert: [python: 'app.py:judge']}}\n"
    project.write("a.eval.yaml", f"evalcases:\n{case.format('a')}")
    project.write("b_test.py", TEST)
    project.write("c.eval.yaml", f"evalcases:\n{case.format('b')}{case.format('c')}")
    assert project.run().outcomes == {"passed": 4}
    assert (project.path / "calls").read_text().split() == ["call"]
