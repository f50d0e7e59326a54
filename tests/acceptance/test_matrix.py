"""Several targets, and other matrices: each combination is an item with a name of its own."""

import pytest
from thorough import varied

from .conftest import WITH_WORKERS_ON_REQUEST

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


@WITH_WORKERS_ON_REQUEST
def test_each_combination_is_an_item(project_in_all_modes):
    run = project_in_all_modes.run()
    assert statuses(run) == {
        "tent@gpt-formal": ("gpt", "pass"),
        "tent@gpt-friendly": ("gpt", "fail"),
        "tent@claude-formal": ("claude", "fail"),
        "tent@claude-friendly": ("claude", "pass"),
    }
    assert {result["eval_id"] for result in run.results} == {"tent@formal", "tent@friendly"}
    table = [line for line in run.lines if "  passed  " in line or line.startswith(("gpt-f", "claude-f"))]
    assert [line.split()[:4] for line in table] == [
        ["cases", "passed", "mean", "cost"],
        ["claude-formal", "1", "0", "0.000"],
        ["claude-friendly", "1", "1*", "1.000*"],
        ["gpt-formal", "1", "1*", "1.000*"],
        ["gpt-friendly", "1", "0", "0.000"],
    ]
    assert "They disagree on 1 of 1 cases:" in run.lines
    disagreed = next(line for line in run.lines if line.startswith("  a.eval.yaml::tent: "))
    assert set(disagreed.partition(": ")[2].split(", ")) == {
        "gpt-formal pass",
        "gpt-friendly fail",
        "claude-formal fail",
        "claude-friendly pass",
    }
    assert len({result["case_hash"] for result in run.results}) == 2


def test_combinations_are_selected_like_other_items(project):
    project.remembers = True
    assert set(statuses(project.run("-k", "claude"))) == {"tent@claude-formal", "tent@claude-friendly"}
    assert set(statuses(project.run("a.eval.yaml::tent@gpt-formal"))) == {"tent@gpt-formal"}
    assert set(statuses(project.run("--agentv-target=gpt"))) == {"tent@gpt-formal", "tent@gpt-friendly"}
    assert len(statuses(project.run("--agentv-eval-id=tent"))) == 4
    assert len(statuses(project.run("--agentv-eval-id=tent@formal"))) == 2
    project.run()
    assert set(statuses(project.run("--lf"))) == {"tent@gpt-friendly", "tent@claude-formal"}


@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        (("--agentv-target=gpt,claude",), ()),
        varied(("--agentv-target=gpt,claude",), ("-n", "2")),
        (("--agentv-target", "gpt", "--agentv-target=claude"), ()),
    ],
)
def test_several_targets_of_the_command_line_run_all_cases(project_in_all_modes, flags):
    project_in_all_modes.write("a.eval.yaml", PLAIN)
    run = project_in_all_modes.run(*flags)
    assert statuses(run) == {
        "tent@gpt": ("gpt", "pass"),
        "tent@claude": ("claude", "fail"),
        "stove@gpt": ("gpt", "pass"),
        "stove@claude": ("claude", "fail"),
    }
    assert {result["eval_id"] for result in run.results} == {"tent", "stove"}
    assert "Rerun:  pytest a.eval.yaml::tent@claude --agentv-target=gpt,claude" in run.text


def test_targets_of_a_file_and_those_of_the_ini_file(project):
    project.write("a.eval.yaml", f"execution: {{targets: [gpt, claude]}}\n{PLAIN}")
    assert set(statuses(project.run())) == {"tent@gpt", "tent@claude", "stove@gpt", "stove@claude"}
    assert set(statuses(project.run("--agentv-target=default"))) == {
        "tent@gpt",
        "tent@claude",
        "stove@gpt",
        "stove@claude",
    }
    project.write("a.eval.yaml", PLAIN)
    project.write("pytest.ini", "[pytest]\nagentv_target = gpt, claude\n")
    assert len(statuses(project.run())) == 4
    assert statuses(project.run("--agentv-target=gpt")) == {"tent": ("gpt", "pass"), "stove": ("gpt", "pass")}


def test_prompts_of_a_matrix_stand_in_files(project):
    project.write("prompts/short.md", "Briefly: {{ question }}\n")
    project.write("prompts/long.md", "At length: {{ question }}\n")
    project.write("q.csv", "n,question\n1,Why?\n")
    project.write("a.eval.yaml", """
        matrix: {prompt: [prompts/short.md, prompts/long.md]}
        evalcases: {from: q.csv}
        case:
          id: "q-{{ n }}"
          evaluators: [{name: w, type: heuristic, hits: [default]}]
        """)  # fmt: skip
    run = project.run("--agentv-dump-prompts=dumped")
    assert statuses(run) == {"q-1@short": ("default", "pass"), "q-1@long": ("default", "pass")}
    assert sorted(
        result["lm_provider_request"]["question"] for result in run.results if "lm_provider_request" in result
    )


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


WRONG = {
    "matrix: 5": "1: matrix: expected a mapping, got the number 5",
    "matrix: {target: gpt}": "1: matrix.target: expected a list of at least one value, got the text 'gpt'",
    "matrix: {tone: []}": "1: matrix.tone: expected a list of at least one value, got an empty list",
    "matrix: {prompt: [5]}": "1: matrix.prompt[0]: expected the path of a prompt, got the number 5",
    "matrix: {tone: [a, a]}": "1: matrix.tone[1]: 'a' is there twice",
    "{matrix: {target: [a]}, execution: {targets: [b]}, evalcases: []}": (
        "1: matrix.target: execution.targets is there as well: keep one"
    ),
    "matrix: {a: [x-y, x], b: [z, y-z]}": (
        "1: matrix: several combinations have the name 'x-y-z' (change one of their values)"
    ),
}


def test_a_matrix_that_is_wrong_is_an_error_of_its_file(project):
    for number, header in enumerate(WRONG):
        project.write(f"{number}.eval.yaml", header + (PLAIN if header.startswith("matrix") else ""))
    run = project.run()
    for number, message in enumerate(WRONG.values()):
        assert f"{number}.eval.yaml:{message}" in run.text


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


def test_a_column_that_a_variable_of_the_matrix_hides_is_a_warning(project):
    project.write("rows.csv", "id,tone,other,target\ntent,,,gpt\nstove,rude,,\n")
    project.write("a.eval.yaml", f"""
        matrix:
          other: [a]
          tone: [formal]
          target: [gpt]
        evalcases: {{from: rows.csv}}
        case: {{id: "{{{{ id }}}}", input: "Be {{{{ tone }}}} {{{{ other }}}}", {EVALUATOR}}}
        """)  # fmt: skip
    warning = "a.eval.yaml:3: matrix.tone: the column 'tone' of rows.csv:3 is not read: the variable of the matrix"
    run = project.run("--agentv-target=gpt")
    assert warning in run.text
    assert run.text.count("takes its place") == 1


def test_a_variable_of_a_case_that_a_variable_of_the_matrix_replaces_is_a_warning(project):
    said = "is not read: the variable of the matrix takes its place"
    rows = [("a", "vars: {tone: own, x: 1}, "), ("b", "")]
    case = f'input: "Be {{{{ tone }}}}", {EVALUATOR}'
    cases = "".join(f"  - {{id: {eval_id}, {own}{case}}}\n" for eval_id, own in rows)
    matrix = "matrix: {tone: [formal], target: [gpt]}\n"
    project.write("a.eval.yaml", f"{matrix}defaults: {{vars: {{tone: usual}}}}\nevalcases:\n{cases}")
    project.write("rows.csv", "id\ntent\nstove\n")
    project.write(
        "b.eval.yaml", f"{matrix}evalcases: {{from: rows.csv}}\ncase: {{id: '{{{{ id }}}}', vars: {{tone: x}}, {case}}}"
    )
    project.write(
        "rows.json", '[{"id": "r"}, {"id": "s", "vars": {"tone": "own"}, "input": "x", "assert": ["polite"]}]'
    )
    project.write("c.eval.yaml", f"{matrix}evalcases: {{from: rows.json}}\n")
    text = project.run("--collect-only").text
    assert f"a.eval.yaml:4: evalcases[0].vars.tone: {said}" in text
    assert f"b.eval.yaml:3: case.vars.tone: {said}" in text
    assert f"c.eval.yaml:1: matrix.tone: the variable 'tone' of rows.json:1 {said}" in text
    assert text.count("takes its place") == 3


def test_variables_of_a_matrix_are_no_reason_for_a_hint(project):
    assert "stays as it is" not in project.run().text


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


def test_an_unknown_target_of_a_matrix_is_an_error_of_its_cases(project):
    project.write("a.eval.yaml", f"execution: {{targets: [gpt, cluade]}}\n{PLAIN}")
    run = project.run()
    assert statuses(run)["tent@cluade"] == ("cluade", "error")
    assert statuses(run)["tent@gpt"] == ("gpt", "pass")


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
