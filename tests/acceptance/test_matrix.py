"""Several targets, and other matrices: each combination is an item with a name of its own."""

import pytest

TARGETS = """
targets:
  - {name: default, provider: mock, response: "default formal"}
  - {name: gpt, provider: mock, response: "gpt formal"}
  - {name: claude, provider: mock, response: "claude friendly"}
"""
EVALUATOR = "evaluators: [{name: w, type: heuristic, hits: ['{{ tone }}']}]"
MATRIX = f"""
matrix:
  target: [gpt, claude]
  tone: [formal, friendly]
evalcases:
  - {{id: tent, input: "Be {{{{ tone }}}}", {EVALUATOR}}}
"""
PLAIN = """
evalcases:
  - {id: tent, input: hi, evaluators: [{name: w, type: heuristic, hits: [gpt]}]}
  - {id: stove, input: hi, target: claude, evaluators: [{name: w, type: heuristic, hits: [formal]}]}
"""


@pytest.fixture(autouse=True)
def files(pytester):
    (pytester.path / "targets.yaml").write_text(TARGETS)
    (pytester.path / "a.eval.yaml").write_text(MATRIX)


def statuses(run):
    return {result["node_id"].partition("::")[2]: (result["target"], result["status"]) for result in run.results}


def test_a_resumed_run_keeps_what_each_combination_has(project):
    out = ("--agentv-out=own.jsonl",)
    project.run(*out, "-k", "gpt")
    lines = (project.path / "own.jsonl").read_text().count("\n")
    project.run(*out, "--agentv-resume=own.jsonl")
    assert (lines, (project.path / "own.jsonl").read_text().count("\n")) == (2, 4)


@pytest.mark.parametrize("where", ["command line", "ini file"])
def test_evals_in_python_run_once_for_each_target(project, where):
    project.write("test_evals.py", """
        import pytest

        def test_it(agentv):
            assert agentv.run("hi", evaluators=[{"name": "w", "type": "heuristic", "hits": ["gpt"]}])

        @pytest.mark.parametrize("agentv_target", ["default"])
        def test_own(agentv, agentv_target):
            assert agentv_target == "default"
        """)  # fmt: skip
    if where == "ini file":
        project.write("pytest.ini", "[pytest]\nagentv_target = gpt, claude\n")
    run = project.run("test_evals.py", *(["--agentv-target=gpt,claude"] if where == "command line" else []))
    assert statuses(run) == {"test_it[gpt]": ("gpt", "pass"), "test_it[claude]": ("claude", "fail")}
    assert run.outcomes == {"passed": 2, "failed": 1}
    assert statuses(project.run("test_evals.py", "--agentv-target=gpt")) == {"test_it": ("gpt", "pass")}


@pytest.mark.parametrize("where", ["module", "conftest.py"])
def test_a_fixture_of_the_project_chooses_the_target_instead(project, where):
    """Both forms of the docs: a fixture with parameters, and one that returns a name."""
    project.write("several/" + ("conftest.py" if where == "conftest.py" else "test_several.py"), """
        import pytest

        @pytest.fixture(params=["default", "claude"])
        def agentv_target(request):
            return request.param

        def test_each(agentv_target):
            assert agentv_target in ("default", "claude")
        """)  # fmt: skip
    if where == "conftest.py":
        project.write("several/test_several.py", "def test_each(agentv_target):\n    assert agentv_target != 'gpt'\n")
    project.write("test_one.py", """
        import pytest

        class TestOne:
            @pytest.fixture
            def agentv_target(self):
                return "default"

            def test_it(self, agentv):
                assert agentv.run("hi", evaluators=[{"name": "w", "type": "heuristic", "hits": ["default"]}])
        """)  # fmt: skip
    run = project.run("several", "test_one.py", "--agentv-target=gpt,claude")
    assert run.outcomes == {"passed": 3}
    assert [result["target"] for result in run.results] == ["default"]


def test_rows_and_cases_of_a_matrix_are_chosen_by_the_ids_that_they_have_without_it(project):
    project.write("rows.csv", "id,question\ntent,a\nstove,b\n")
    table = "evalcases: {from: rows.csv}\ncase: {id: '{{ id }}', input: '{{ question }}', assert: [contains: f]}\n"
    project.write("b.eval.yaml", f"matrix: {{tone: [formal, short], target: [gpt]}}\n{table}")
    run = project.run("--agentv-eval-id=tent", "--agentv-target=claude")
    assert set(statuses(run)) == {
        *("tent@claude-formal", "tent@claude-friendly"),  # a.eval.yaml
        *("tent@formal-claude", "tent@short-claude"),  # the order of the axes stays that of the file
    }


def test_the_target_of_a_case_that_the_matrix_overrules_is_a_warning(project):
    project.write("a.eval.yaml", f"execution: {{targets: [gpt, claude]}}\n{PLAIN}")
    warning = "a.eval.yaml:5: evalcases[1].target: is not read: the targets of the file's matrix are asked"
    assert warning in project.run().text
    assert warning not in project.run("--agentv-target=gpt,claude").text
    project.write("a.eval.yaml", f"execution: {{targets: [gpt]}}\ndefaults: {{target: gpt}}\n{PLAIN}")
    assert project.run().text.count("is not read") == 1


def test_marks_may_use_the_variables_of_a_matrix(project):
    project.write("a.eval.yaml", f"""
        matrix: {{tone: [formal, friendly], target: [gpt, claude]}}
        evalcases:
          - {{id: tent, marks: ["{{{{ tone }}}}"], input: "Be {{{{ tone }}}}", {EVALUATOR}}}
        """)  # fmt: skip
    assert set(statuses(project.run("-m", "formal"))) == {"tent@formal-gpt", "tent@formal-claude"}
    project.write("rows.csv", "id,topic\ntent,a\nstove,b\n")
    project.write("a.eval.yaml", f"""
        matrix: {{tone: [formal, friendly], target: [gpt]}}
        evalcases: {{from: rows.csv}}
        case: {{id: "{{{{ id }}}}", tags: ["{{{{ topic }}}}-{{{{ tone }}}}"], input: "Be {{{{ tone }}}}", {EVALUATOR}}}
        """)  # fmt: skip
    assert set(statuses(project.run("-k", "b-formal"))) == {"stove@formal-gpt"}


def test_a_slow_target_with_one_worker_does_not_hold_up_the_other(project):
    """The slow target answers its first case once the other has answered all of its cases, two at a time."""
    project.write("agent.py", """
        import threading

        CASES = 6
        lock, both, done = threading.Lock(), threading.Barrier(2, timeout=60), threading.Event()
        answered, slow_now = 0, 0

        def quick(prompt):
            global answered
            both.wait()  # fails unless two cases are in flight
            with lock:
                answered += 1
                if answered == CASES:
                    done.set()
            return "yes"

        def slow(prompt):
            global slow_now
            with lock:
                slow_now += 1
                alone = slow_now == 1
            waited = done.wait(60)
            with lock:
                slow_now -= 1
            return "yes" if waited and alone else "no"
        """)  # fmt: skip
    project.write("targets.yaml", """
        targets:
          - {name: slow, provider: python, callable: 'agent.py:slow', workers: 1}
          - {name: quick, provider: python, callable: 'agent.py:quick', workers: 2}
        """)  # fmt: skip
    checks = "evaluators: [{name: w, type: heuristic, hits: ['yes']}]"
    cases = "\n".join(f"  - {{id: c{number}, input: hi, {checks}}}" for number in range(6))
    project.write("a.eval.yaml", f"matrix: {{target: [slow, quick]}}\nevalcases:\n{cases}\n")
    run = project.run()
    assert (run.exit_code, run.outcomes) == (0, {"passed": 12})
