"""A fixture `agentv_provider` that asks the target that it stands in for: for which case, answer and rerun it asks."""

import json
from collections import Counter

import pytest
from busy import slowness

WRAP = """
import pytest

@pytest.fixture
def agentv_provider(agentv_provider):
    return lambda prompt: agentv_provider(f"please: {prompt}")
"""
TARGETS = """
targets:
  - {name: default, provider: python, callable: "agent.py:answer", arguments: {by: default}}
  - {name: other, provider: python, callable: "agent.py:answer", arguments: {by: other}}
"""
AGENT = """
import asyncio

async def answer(prompt, by):
    with open("calls.txt", "a") as file:
        print(by, file=file)
    if "wait" in prompt:
        await asyncio.sleep(60)
    return f"hello from {by}: {prompt}"
"""
HELLO = [{"contains": "hello"}]


@pytest.fixture(autouse=True)
def files(pytester):
    for name, text in {"conftest.py": WRAP, "targets.yaml": TARGETS, "agent.py": AGENT}.items():
        (pytester.path / name).write_text(text)


def write_case(project, name="qa", **keys):
    case = {"id": "a", "input": "hi", "evaluators": HELLO, **keys}
    project.write(f"{name}.eval.yaml", json.dumps({"evalcases": [case]}))


def asked(project):
    """Return how often each target was asked since this was last called."""
    path = project.path / "calls.txt"
    found = Counter(path.read_text().split()) if path.exists() else Counter()
    path.unlink(missing_ok=True)
    return dict(found)


def test_each_case_asks_its_own_target(project_in_all_modes):
    project = project_in_all_modes
    write_case(project, "plain")
    write_case(project, "own", execution={"target": "other"})
    matrix = {
        "execution": {"targets": ["default", "other"]},
        "evalcases": [{"id": "m", "input": "hi", "evaluators": HELLO}],
    }
    project.write("matrix.eval.yaml", json.dumps(matrix))
    project.write("test_it.py", f"""
        from concurrent.futures import ThreadPoolExecutor

        def test_fixture(agentv):
            assert agentv.run("hi", evaluators={HELLO})

        def test_case(agentv, agentv_provider):
            assert agentv.run({{"input": "hi", "target": "other"}}, evaluators={HELLO})
            assert "hello from default: please: yes" in str(agentv_provider("yes"))

        def test_threads(agentv):
            def evaluate(by):
                return agentv.run({{"input": "hi", "target": by}}, id=by, evaluators={HELLO})
            with ThreadPoolExecutor() as pool:
                assert all(pool.map(evaluate, ["default", "other"]))
        """)  # fmt: skip
    run = project.run()
    assert run.outcomes == {"passed": 7}
    answers = [(result["target"], result["candidate_answer"]) for result in run.results]
    assert sorted(answers) == sorted([(by, f"hello from {by}: please: hi") for by in ("default", "other")] * 4)


def test_the_cache_keeps_each_answer_by_its_number(project):
    write_case(project, repeat=3)
    project.write("test_it.py", f"def test_it(agentv): assert agentv.run('hi', evaluators={HELLO}, repeat=2)\n")
    first = project.run("--agentv-cache", "--agentv-workers=3")
    assert asked(project) == {"default": 5}
    assert [result["repeat"].get("cached") for result in first.results] == [None, None]
    second = project.run("--agentv-cache")
    assert asked(project) == {}
    assert sorted(result["repeat"]["cached"] for result in second.results) == [2, 3]


def test_a_rerun_asks_for_another_answer(project):
    write_case(project, evaluators=[{"contains": "goodbye"}])
    project.write("test_it.py", "def test_it(agentv): assert agentv.run('hi', evaluators=[{'contains': 'bye'}])\n")
    project.run("--agentv-cache", "--reruns=2")
    assert asked(project) == {"default": 6}


ASKING_TWICE = """
import asyncio, pytest
from concurrent.futures import ThreadPoolExecutor

def in_one_thread(provider, prompt):
    return [provider(prompt).raw for _ in "ab"]

def in_own_threads(provider, prompt):  # threads of the project's own do not know the case
    with ThreadPoolExecutor() as pool:
        return list(pool.map(provider, [prompt] * 2))

@pytest.fixture
def agentv_provider(agentv_provider, request):
    async def in_tasks(prompt):
        replies = [asyncio.to_thread(agentv_provider, prompt) for _ in "ab"]
        return (await asyncio.gather(*replies))[0]

    def answer(prompt):
        globals()[request.node.name](agentv_provider, prompt)
        return "hello"
    return in_tasks if request.node.name == "in_tasks" else answer
"""


def test_a_question_that_is_asked_twice_for_an_answer_gets_two_replies(project):
    project.write("conftest.py", ASKING_TWICE)
    for name, repeat in (("in_one_thread", 1), ("in_own_threads", 1), ("in_tasks", 2)):
        write_case(project, name, id=name, target="other", repeat=repeat)
    for calls in ({"other": 8}, {}):
        assert project.run("--agentv-cache", "--agentv-workers=2").outcomes == {"passed": 3}
        assert asked(project) == calls


IN_OWN_THREADS = """
import threading, pytest
from concurrent.futures import ThreadPoolExecutor

@pytest.fixture
def agentv_provider(agentv_provider):
    together = threading.Barrier(2)
    def answer(prompt):
        together.wait(60)
        with ThreadPoolExecutor() as pool:
            try:
                return pool.submit(agentv_provider, prompt).result()
            finally:
                together.wait(60)
    return answer
"""
"""Two answers that ask at the same time, each in a thread of its own."""


def test_threads_of_several_answers_say_how_to_tell_them_apart(project):
    project.write("conftest.py", IN_OWN_THREADS)
    write_case(project, repeat=2)
    run = project.run("--agentv-workers=2")
    assert run.outcomes == {"errors": 1}
    assert "start the thread with contextvars.copy_context().run" in run.results[0]["error"]


def test_threads_of_several_first_answers_need_not_be_told_apart(project):
    project.write("conftest.py", IN_OWN_THREADS)
    project.write("test_it.py", f"""
        from concurrent.futures import ThreadPoolExecutor

        def test_it(agentv):
            with ThreadPoolExecutor() as pool:
                assert all(pool.map(lambda word: agentv.run(word, evaluators={HELLO}), ["hi", "ho"]))
        """)  # fmt: skip
    assert project.run("--agentv-workers=2").outcomes == {"passed": 1}


def test_a_resumed_run_sees_that_the_asked_target_has_changed(project):
    write_case(project, target="other")
    run_other = f'def test_it(agentv): assert agentv.run({{"input": "hi", "target": "other"}}, evaluators={HELLO})'
    project.write("test_it.py", run_other)
    project.run("--agentv-out=first.jsonl")
    asked(project)
    for changed, calls in (("by: default", {}), ("by: other", {"other2": 2})):
        project.write("targets.yaml", TARGETS.replace(changed, f"{changed}2"))
        assert project.run("--agentv-resume=first.jsonl").outcomes == {"passed": 2}
        assert asked(project) == calls


def test_a_call_that_timed_out_is_retried_as_often_as_without_the_fixture(project):
    write_case(project, input="wait")
    project.write("test_it.py", f"def test_it(agentv): agentv.run('wait', evaluators={HELLO})\n")
    run = project.run(f"--agentv-timeout={0.2 * slowness():.1f}", "--agentv-max-retries=1")
    assert [(result["attempts"], result["error_detail"]["kind"]) for result in run.results] == [(2, "timeout")] * 2
    assert asked(project) == {"default": 4}


def test_nobody_asks_for_an_answer_that_is_not_awaited_any_more(project):
    """The first question is cancelled with the answer, and the thread cannot ask the second one."""
    project.write("conftest.py", """
        import pytest

        @pytest.fixture
        def agentv_provider(agentv_provider):
            def answer(prompt):
                try:
                    agentv_provider("wait")
                finally:
                    try:
                        agentv_provider(prompt)
                    except Exception as error:
                        noted = str(error)
                    else:
                        noted = "answered"
                    with open("noted.txt", "w") as file:
                        file.write(noted)
            return answer
        """)  # fmt: skip
    write_case(project)
    project.write("test_last.py", """
        import pathlib, time

        def test_it():
            until = time.monotonic() + 60
            while not pathlib.Path("noted.txt").exists() and time.monotonic() < until:
                time.sleep(0.01)
            assert pathlib.Path("noted.txt").read_text().endswith("nobody waits for any more")
        """)  # fmt: skip
    limit = f"--agentv-timeout={0.2 * slowness():.1f}"
    run = project.run(limit, "--agentv-max-retries=0", "qa.eval.yaml", "test_last.py")
    assert run.outcomes == {"errors": 1, "passed": 1}
    assert asked(project) == {"default": 1}


def test_a_bare_run_skips_what_asks_a_paid_target(project):
    project.write("pytest.ini", "[pytest]\nagentv_run = asked-if-paid\n")
    paid = '  - {name: paid, provider: openai, model: m, api_key: k, base_url: "http://127.0.0.1:1/v1"}\n'
    project.write("targets.yaml", TARGETS.lstrip() + paid)
    write_case(project, "free")
    write_case(project, "paid", target="paid")
    project.write("test_it.py", f"""
        import pytest

        @pytest.mark.parametrize("agentv_target", ["default", "paid"])
        def test_it(agentv): assert agentv.run("hi", evaluators={HELLO})
        """)  # fmt: skip
    run = project.run()
    assert run.outcomes == {"passed": 2, "skipped": 2}
    assert {result["target"] for result in run.results} == {"default"}
