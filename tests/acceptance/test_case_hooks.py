"""The hooks of conftest files around cases: adjust, see the response, decide, see the result, see the run."""

import pytest

MOCK = "targets: [{name: default, provider: mock, response: hello world}]\n"


def prepared(project, suite):
    project.write("targets.yaml", MOCK)
    project.write("qa.eval.yaml", suite(a="hello", b="nothing"))
    return project


@pytest.fixture
def project(project, suite):
    return prepared(project, suite)


@pytest.fixture
def any_mode(project_in_all_modes, suite):
    return prepared(project_in_all_modes, suite)


def notes(project, name="notes.txt"):
    path = project.path / name
    return sorted(path.read_text().splitlines()) if path.exists() else []


def test_with_workers_every_hook_sees_each_case_once_and_the_summary_the_whole_run(project):
    project.write(
        "conftest.py",
        """
        def note(*words):
            with open("notes.txt", "a") as file:
                print(*words, file=file)

        def pytest_agentv_case(case):
            note("case", case.eval_id)

        def pytest_agentv_response(case, response):
            note("response", case.eval_id, response.output_messages[-1].content)

        def pytest_agentv_assert(case, result):
            note("assert", case.eval_id, result.score, result.status, result.duration_ms is not None)

        def pytest_agentv_result(case, result):
            note("result", case.eval_id, result.status, result.line)

        def pytest_agentv_summary(results):
            note("summary", *(result.eval_id for result in results))
        """,
    )
    run = project.run(mode=("-n", "2"))
    assert run.statuses == {"a": "pass", "b": "fail"}
    assert "assertion" not in run.by_id["a"]
    assert notes(project) == [
        "assert a 1.0 pass True",
        "assert b 0.0 fail True",
        "case a",
        "case b",
        "response a hello world",
        "response b hello world",
        "result a pass 2",
        "result b fail 6",
        "summary a b",
    ]


def test_a_changed_case_is_what_is_run_and_what_its_hash_covers(project):
    plain = project.run().by_id
    project.write(
        "conftest.py",
        """
        def pytest_agentv_case(case):
            if case.eval_id == "b":
                (words,) = case.evaluators
                return case.replace(evaluators=(words.replace(hits=("world",)),))
        """,
    )
    run = project.run()
    assert run.statuses == {"a": "pass", "b": "pass"}
    assert run.by_id["a"]["case_hash"] == plain["a"]["case_hash"]
    assert run.by_id["b"]["case_hash"] != plain["b"]["case_hash"]
    assert project.run().by_id["b"]["case_hash"] == run.by_id["b"]["case_hash"]


BLANK = """
evalcases:
  - {id: a, input: "", assert: [contains: hello]}
  - {id: b, input: Say it, assert: [contains: hello]}
"""
ASKS = """
from pytest_agentv import InputMessage, TextPart

def pytest_agentv_case(case):
    text = {text}
    return case.replace(
        question=text,
        messages=(InputMessage("user", (TextPart(text),)),),
        input_messages=({{"role": "user", "content": text}},),
    )
"""


ASKED = {"'hi'": (), "case.question": ("evalcases[0].input",), "' '": ("evalcases[0].input", "b")}
"""What the hook lets ask, and the places whose input is blank then."""


def test_the_warning_of_a_blank_input_looks_at_what_hooks_let_ask(project):
    (project.path / "qa.eval.yaml").unlink()
    for number, text in enumerate(ASKED):
        project.write(f"{number}/qa.eval.yaml", BLANK)
        project.write(f"{number}/conftest.py", ASKS.format(text=text))
    run, strict = project.run(), project.run("--agentv-strict")
    for number, places in enumerate(ASKED.values()):
        told = {line.split(": ")[-3] for line in run.lines if f" {number}/qa.eval.yaml" in line and "is blank" in line}
        assert told == set(places)
        wrong = {"a": "error" if places else "pass", "b": "error" if len(places) > 1 else "pass"}
        in_folder = [result for result in strict.results if result["eval_file"] == f"{number}/qa.eval.yaml"]
        assert {result["eval_id"]: result["status"] for result in in_folder} == wrong
    assert {result["status"] for result in run.results} == {"pass"}


def test_the_nearest_assert_hook_speaks_first_and_none_leaves_it_to_the_next(project, suite):
    project.write("sub/near.eval.yaml", suite(c="hello", d="nothing"))
    project.write("conftest.py", "def pytest_agentv_assert(case, result):\n    return 'far'\n")
    project.write(
        "sub/conftest.py", "def pytest_agentv_assert(case, result):\n    return None if case.eval_id == 'c' else True\n"
    )
    run = project.run()
    assert run.statuses == {"a": "fail", "b": "fail", "c": "fail", "d": "pass"}
    assert run.by_id["c"]["assertion"] == "far"


def test_hooks_of_a_conftest_hold_below_its_folder_only(project, suite):
    project.write("sub/near.eval.yaml", suite(c="hello"))
    hooks = ("assert", "case", "response", "result")
    project.write(
        "sub/conftest.py",
        "def note(*words):\n    with open('notes.txt', 'a') as file:\n        print(*words, file=file)\n"
        + "".join(f"def pytest_agentv_{hook}(case):\n    note('{hook}', case.eval_id)\n" for hook in hooks),
    )
    project.run("--agentv-workers=3")
    assert notes(project) == [f"{hook} c" for hook in hooks]


def test_lists_in_a_changed_response_are_recorded(project):
    """They were written as the `repr` of the messages, and resumed runs skipped the line."""
    project.write(
        "conftest.py",
        """
        from pytest_agentv import Message, ToolCall

        def pytest_agentv_response(case, response):
            return response.replace(output_messages=[Message("assistant", "hello", [ToolCall("t")])])
        """,
    )
    run = project.run()
    assert run.by_id["a"]["output_messages"] == [
        {"role": "assistant", "content": "hello", "tool_calls": [{"tool": "t"}]}
    ]


CHANGES = {
    "threshold='0.5'": "threshold='0.5': expected a number from 0 to 1, or None",
    "threshold=-1": "threshold=-1: expected a number from 0 to 1, or None",
    "threshold=float('nan')": "threshold=nan: expected a number from 0 to 1, or None",
    "threshold=True": "threshold=True: expected a number from 0 to 1, or None",
    "repeat=2, min_pass_rate=-1": "min_pass_rate=-1: expected a number from 0 to 1, or None",
    "repeat=0": "repeat=0: expected a whole number from 1 to 100, or None",
    "repeat=1000": "repeat=1000: expected a whole number from 1 to 100, or None",
    "repeat=2.0": "repeat=2.0: expected a whole number from 1 to 100, or None",
    "required='no'": "required='no': expected True or False",
    "expected_outcome=None": "expected_outcome=None: expected a text",
    "group=7": "group=7: expected a text, or None",
    "evaluators='words'": "evaluators='words': expected a tuple of at least one Evaluator, or None",
    "evaluators=()": "evaluators=(): expected a tuple of at least one Evaluator, or None for the default judge",
    "evaluators=[{'type': 'contains'}]": "evaluators[0]={'type': 'contains'}: expected an Evaluator",
    "evaluators=[each.model_copy(update={'weight': float('nan')}) for each in case.evaluators]": (
        "the weight nan of evaluator 'words': expected a number of 0 or more"
    ),
    "eval_id='other'": "eval_id='other': expected 'a', since it names the case in the results",
    "threshold=0, repeat=1, min_pass_rate=1, group='g', target=None, evaluators=list(case.evaluators)": None,
}
ODD_VALUES = {
    "case(case):\n    return 5": "case returned a value of type int: expected an EvalCase (case.replace(...)) or None",
    "response(case):\n    return 5": (
        "response returned a value of type int: expected a ProviderResponse (response.replace(...)) or None"
    ),
    "assert(case):\n    return 5": (
        "assert returned a value of type int: expected True, False, a text that says why the case fails, or None"
    ),
    "response(response):\n    return response.replace(output_messages='fine')": (
        "response returned a ProviderResponse whose output_messages is a str: expected a list"
    ),
    "response(case):\n    raise SystemExit(3)": "response raised SystemExit: 3",
    "response(case):\n    __import__('pytest').skip('no')": "response raised Skipped: no",
}


def test_what_a_hook_changes_follows_the_rules_and_an_odd_value_is_told_with_what_was_expected(project, suite):
    (project.path / "qa.eval.yaml").unlink()
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: 'agent.py:answer'}]\n")
    project.write(
        "agent.py",
        "def answer(prompt, request):\n    open('asked.txt', 'a').write(prompt + '\\n')\n    return 'hello world'\n",
    )
    hooks = {
        f"case(case):\n    return case.replace({change})": told and f"case returned a case with {told}"
        for change, told in CHANGES.items()
    } | ODD_VALUES
    for number, body in enumerate(hooks):
        project.write(f"{number}/conftest.py", f"def pytest_agentv_{body}\n")
        project.write(f"{number}/qa.eval.yaml", suite(a="hello").replace("Say hello", f"number-{number}"))
    run = project.run()
    found = {result["eval_file"]: result.get("error") for result in run.results}
    for number, told in enumerate(hooks.values()):
        error = found[f"{number}/qa.eval.yaml"]
        assert error is None if told is None else error.startswith(f"pytest_agentv_{told}"), (number, error)
    asked = {int(line[7:]) for line in (project.path / "asked.txt").read_text().split()}
    assert not asked & set(range(len(CHANGES) - 1)), "what cannot be asked costs nothing"
    assert run.internals == []


def test_cases_that_could_not_be_judged_are_not_asked_about_and_are_told_of(project, suite):
    project.write("qa.eval.yaml", suite(a="hello", broken="hello").replace("Say hello}]", "Say hello}]", 1))
    project.write("bad.eval.yaml", "evalcases: [{id: unloadable}]\n")
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    project.write("agent.py", "def answer(prompt):\n    raise RuntimeError('down')\n")
    project.write(
        "conftest.py",
        """
        def pytest_agentv_assert(case, result):
            return True

        def pytest_agentv_result(case, result):
            with open("notes.txt", "a") as file:
                print(case and case.eval_id, result.eval_id, result.status, file=file)
        """,
    )
    assert project.run().outcomes == {"errors": 3}
    assert notes(project) == ["None unloadable error", "a a error", "broken broken error"]


def test_a_dry_run_is_not_decided_by_hooks(project):
    project.write("conftest.py", "def pytest_agentv_assert(case, result):\n    return False\n")
    assert project.run("--agentv-dry-run").outcomes == {"passed": 2}


def test_a_blocking_hook_holds_up_its_own_case_only(project, suite):
    """Each of ten hooks waits until all ten are called: they would wait for ever if one held up the others."""
    project.write("qa.eval.yaml", suite(**{f"c{number}": "hello" for number in range(10)}))
    project.write(
        "conftest.py",
        """
        import threading

        together = threading.Barrier(10)

        def pytest_agentv_response(case):
            together.wait(timeout=60)

        def pytest_agentv_assert(case):
            together.wait(timeout=60)

        def pytest_agentv_result(case):
            together.wait(timeout=60)
        """,
    )
    run = project.run("--agentv-workers=10")
    assert run.outcomes == {"passed": 10}


def test_a_decision_is_carried_over_on_resume_and_told_once(project):
    project.write(
        "conftest.py",
        """
        def pytest_agentv_assert(case, result):
            return case.eval_id == "b"

        def pytest_agentv_result(case, result):
            with open("notes.txt", "a") as file:
                print(case.eval_id, result.status, file=file)
        """,
    )
    assert project.run().statuses == {"a": "fail", "b": "pass"}
    recorded = (project.path / "out-1.jsonl").read_text()
    run = project.run("--agentv-resume=out-1.jsonl", "--agentv-out=out-1.jsonl")
    assert run.outcomes == {"passed": 1, "failed": 1}
    assert (project.path / "out-1.jsonl").read_text() == recorded, "nothing was judged again"
    assert "Assertion: pytest_agentv_assert says that the case fails" in run.text
    assert notes(project) == ["a fail", "b pass"]


@pytest.mark.parametrize("body", ["return case.replace(question='other')", "raise RuntimeError"])
def test_a_case_that_a_hook_changed_is_not_carried_over_from_before(project, body):
    project.run()
    project.write("conftest.py", f"def pytest_agentv_case(case):\n    if case.eval_id == 'a':\n        {body}\n")
    run = project.run("--agentv-resume=out-1.jsonl")
    assert [result["eval_id"] for result in run.results] == ["a", "b"]
    run_ids = {result["eval_id"]: result["timestamp"] for result in run.results}
    before = {result["eval_id"]: result["timestamp"] for result in project.run("--agentv-resume=out-1.jsonl").results}
    assert run_ids["b"] == before["b"], "what was not changed is carried over"
    assert run_ids["a"] != before["a"]


def test_the_summary_hook_gets_records_and_is_not_called_without_cases(project):
    project.write("test_python.py", "def test_one(): ...\n")
    project.write(
        "conftest.py",
        """
        def pytest_agentv_summary(results):
            with open("notes.txt", "a") as file:
                print([(result.eval_id, result.score, type(result).__name__) for result in results], file=file)
        """,
    )
    project.run("test_python.py")
    project.run("--collect-only")
    assert notes(project) == []
    project.run("-p", "no:terminal")
    assert notes(project) == ["[('a', 1.0, 'EvalResult'), ('b', 0.0, 'EvalResult')]"]


def test_what_a_hook_logs_belongs_to_its_case(project, suite):
    project.write("qa.eval.yaml", suite(a="hello", b="nothing", c="hello"))
    project.write(
        "conftest.py",
        """
        import logging

        def pytest_agentv_response(case):
            logging.warning("response of %s", case.eval_id)

        def pytest_agentv_result(case):
            logging.warning("result of %s", case.eval_id)
        """,
    )
    text = project.run("--agentv-workers=3").text
    assert "response of b" in text
    assert "result of b" in text
    assert "of a" not in text, "only the failed case is shown"
