"""Answers that are kept for later runs, and one call for all cases of a target."""

import json
import re

import pytest
from fake_llm import FakeLlm, Reply
from pooled import TWO
from scripted_agent import numbered, read_calls, write_agent, write_cases
from thorough import varied

from .conftest import SDK, WITH_WORKERS_ON_REQUEST

pytestmark = pytest.mark.slow


@pytest.fixture
def project(project):
    write_agent(project)
    return project


def called(project):
    """Return the ids that were called since they were last asked for."""
    started = read_calls(project.path).started
    (project.path / "calls.jsonl").unlink(missing_ok=True)
    return sorted(started)


@pytest.mark.scenario("Caching control")
@pytest.mark.parametrize(("days", "calls"), [(30, 2), (0, 3)])
def test_without_the_flag_answers_are_kept_and_not_reused(project, days, calls):
    project.write("pytest.ini", f"[pytest]\nagentv_keep_answers = {days}\n")
    write_cases(project, numbered(2))
    project.run()
    project.run("--agentv-cache")
    assert [result.get("cached") for result in project.run().results] == [None] * 2
    assert called(project) == ["case-0"] * calls + ["case-1"] * calls
    assert (project.path / ".agentv/answers.sqlite").exists() == bool(days)


def test_the_latency_of_a_kept_answer_is_that_of_its_call(project):
    target = "{name: default, provider: cli, command_template: sleep 0.06; echo hello}"
    project.write("targets.yaml", f"targets: [{target}]\n")
    case = "{id: a, expected_outcome: o, input: q, evaluators: [{name: fast, latency: 40}]}"
    project.write("a.eval.yaml", f"evalcases: [{case}]\n")
    (first,), (second,) = (project.run("--agentv-cache").results for _ in range(2))
    assert [first["status"], second["status"]] == ["fail", "fail"]
    assert (second["cached"], second["execution_metrics"]) == (True, first["execution_metrics"])


def test_a_dry_run_neither_fills_nor_uses_the_store(project):
    write_cases(project, numbered(2))
    for calls in (["case-0", "case-1"], []):
        dry = project.run("--agentv-cache", "--agentv-dry-run")
        assert {result["candidate_answer"] for result in dry.results} == {'{"answer":"Mock dry-run response"}'}
        assert [result.get("cached") for result in dry.results] == [None] * 2
        project.run("--agentv-cache")
        assert called(project) == calls


NOT_KEPT = "answers cannot be kept, so that a run which goes on with this one pays for them again: "


@pytest.mark.parametrize("mode", [[], ["-n2"], TWO, ["--agentv-repeat=2"]], ids=str)
def test_a_run_warns_once_that_its_answers_cannot_be_kept(project, mode):
    write_cases(project, numbered(4))
    (project.path / ".agentv/answers.sqlite").mkdir(parents=True)
    run = project.run(*mode)
    assert set(run.statuses.values()) == {"pass"}
    assert run.text.count(f".agentv/answers.sqlite: {NOT_KEPT}") == 1


def test_a_project_that_makes_warnings_errors_hears_of_answers_that_cannot_be_kept(project):
    write_cases(project, numbered(1))
    (project.path / ".agentv/answers.sqlite").mkdir(parents=True)
    run = project.run("-W", "error::pytest_agentv.AgentvWarning")
    assert run.outcomes == {"errors": 1}
    assert NOT_KEPT in run.text
    assert run.internals == []


BATCH = """
targets:
  - name: default
    provider: cli
    workers: 2
    provider_batching: true
    command_template: {python} -IS batch.py {{EVAL_ID}} {{OUTPUT_FILE}}
  - {{name: alone, provider: cli, command_template: "echo alone >> calls.txt; echo hello"}}
  - {{name: cannot, provider: mock, response: hello, provider_batching: true}}
"""

BATCH_PROGRAM = """
import json, re, sys
from pathlib import Path

eval_id, output = sys.argv[1:]
with open("calls.txt", "a") as calls:
    calls.write(eval_id + "\\n")
asked = re.findall(r'"id": "(case-.*?)"', Path("a.eval.yaml").read_text())
with open(output, "w") as file:
    if eval_id == "batch":
        for name in reversed(asked):
            if name != "case-missing":
                file.write(json.dumps({"id": name, "text": f"hello {name}"}) + "\\n")
        BROKEN
    else:
        file.write(json.dumps({"text": f"hello {eval_id}, alone"}))
"""


@pytest.fixture
def batched(project, python):
    """Write a target that answers all cases of a file in one call, unless it is told to break."""

    def write(prompts, broken="", **keys):
        project.write("targets.yaml", BATCH.format(python=python))
        project.write("batch.py", BATCH_PROGRAM.replace("BROKEN", broken))
        write_cases(project, prompts, **keys)

    return write


def program_calls(project, folder="."):
    path = project.path / folder / "calls.txt"
    lines = path.read_text().split() if path.exists() else []
    path.unlink(missing_ok=True)
    return lines


def answers(run):
    return {name: result["candidate_answer"] for name, result in run.by_id.items()}


@pytest.mark.scenario("Enabled for batching-capable provider")
@pytest.mark.parametrize("flags", [["--agentv-workers=1"], ["-x", "--agentv-workers=3"], ["--agentv-cache"]], ids=str)
def test_all_cases_of_a_target_go_out_in_one_call_and_get_their_own_answers(project, batched, flags):
    batched({**numbered(5), "other": "say hello"}, other={"target": "alone"})
    run = project.run(*flags)
    assert sorted(program_calls(project)) == ["alone", "batch"]
    assert answers(run) == {**{f"case-{number}": f"hello case-{number}" for number in range(5)}, "other": "hello"}
    assert run.outcomes == {"passed": 6}


def test_only_selected_cases_are_waited_for(project, batched):
    batched(numbered(5))
    assert project.run("-k", "case-1 or case-3").outcomes == {"passed": 2, "deselected": 3}
    assert program_calls(project) == ["batch"]


def test_a_case_that_cannot_be_loaded_does_not_keep_the_batch_waiting(project, batched):
    batched(numbered(4), **{"case-0": {"input": 5}, "case-2": {"input": 5}})
    run = project.run()
    assert program_calls(project) == ["batch"]
    assert run.outcomes == {"passed": 2, "errors": 2}


def test_a_case_that_breaks_before_its_call_does_not_keep_the_batch_waiting(project, batched):
    batched(numbered(3), **{"case-1": {"evaluators": [{"name": "judge", "type": "llm_judge"}]}})  # there is no judge
    run = project.run()
    assert program_calls(project) == ["batch"]
    assert run.statuses == {"case-0": "pass", "case-1": "error", "case-2": "pass"}


@pytest.mark.scenario("Enabled for batching-capable provider")
def test_the_verbose_log_says_that_the_cases_go_out_together(project, batched):
    batched(numbered(4))
    run = project.run("--agentv-verbose")
    assert run.text.count("batching: 4 cases go out in one call") == 1
    assert "go out in one call" not in project.run().text


@pytest.mark.scenario("Enabled for batching-capable provider")
@pytest.mark.scenario("Fallback when provider cannot batch")
def test_when_the_batch_fails_each_case_is_called_by_itself_and_the_verbose_log_says_why(project, batched):
    batched(numbered(2), "sys.exit('no session')")
    run = project.run("--agentv-verbose")
    together, *alone = program_calls(project)
    assert (together, sorted(alone)) == ("batch", ["case-0", "case-1"])
    assert answers(run) == {f"case-{number}": f"hello case-{number}, alone" for number in range(2)}
    said = "batching was asked for and did not work, each case is sent by itself: no session (exit code 1)"
    assert len(re.findall(re.escape(said), run.text)) == 1
    assert "batching was asked for" not in project.run().text


def test_a_batch_whose_answers_cannot_be_used_is_an_error_of_its_cases_and_its_cost_is_counted(project, batched):
    batched(numbered(2), "file.write('Done.')")
    program = (project.path / "batch.py").read_text()
    project.write("batch.py", program.replace('"text":', '"cost_usd": 1, "trace": [], "text":'))
    run = project.run("--agentv-cache")
    assert program_calls(project) == ["batch"], "no case is asked by itself"
    said = "CLI batch output, line 3: not JSON: Expecting value: line 1 column 1 (char 0)"
    assert {(result["status"], result["error"]) for result in run.results} == {("error", said)}
    assert {result["execution_metrics"]["cost_usd"] for result in run.results} == {1}


@pytest.mark.scenario("Fallback when provider cannot batch")
def test_a_provider_that_cannot_batch_is_asked_case_by_case_and_the_verbose_log_says_so(project, batched):
    batched(numbered(3))
    run = project.run("--agentv-verbose", "--agentv-target=cannot")
    assert run.outcomes == {"passed": 3}
    said = "batching was asked for and did not work, each case is sent by itself: this kind of provider cannot batch"
    assert run.text.count(said) == 1


def test_each_folder_and_each_process_has_a_batch_of_its_own(project, batched, python):
    batched(numbered(4))
    for name in ("targets.yaml", "batch.py", "a.eval.yaml"):
        project.write(f"deep/{name}", (project.path / name).read_text())
    run = project.run("--agentv-workers=3")
    assert run.outcomes == {"passed": 8}
    assert (program_calls(project), program_calls(project, "deep")) == (["batch"], ["batch"])
    run = project.run("-n2", "--dist=loadfile")
    assert run.outcomes == {"passed": 8}
    assert (program_calls(project), program_calls(project, "deep")) == (["batch"], ["batch"])


def test_a_rerun_is_a_call_of_its_own_and_a_failure_keeps_no_later_batch_from_its_cases(project, batched):
    batched(numbered(3), **{"case-1": {"evaluators": [{"name": "w", "type": "heuristic", "hits": ["alone"]}]}})
    for name in ("targets.yaml", "batch.py", "a.eval.yaml"):
        project.write(f"deep/{name}", (project.path / name).read_text())
    run = project.run("-x", "--reruns=1")
    assert run.outcomes == {"passed": 6, "rerun": 2}
    assert program_calls(project) == program_calls(project, "deep") == ["batch", "case-1"]


def test_a_resumed_run_batches_what_is_left(project, batched):
    batched(numbered(5))
    out = "--agentv-out=own.jsonl"
    project.run(out, "-k", "case-0 or case-3")
    program_calls(project)
    run = project.run(out, "--agentv-resume=own.jsonl")
    assert run.outcomes == {"passed": 5}
    assert program_calls(project) == ["batch"]
    lines = (project.path / "own.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["eval_id"] for line in lines) == [f"case-{number}" for number in range(5)]


@pytest.mark.parametrize(
    ("kind", "variable", "flag"),
    [
        ("openai", "OPENAI_BASE_URL", "--agentv-cache"),
        ("openai", "OPENAI_BASE_URL", "--agentv-resume=run.jsonl"),
        ("anthropic", "ANTHROPIC_BASE_URL", "--agentv-cache"),
        varied("anthropic", "ANTHROPIC_BASE_URL", "--agentv-resume=run.jsonl"),
        ("gemini", "GEMINI_API_BASE", "--agentv-cache"),
        varied("gemini", "GEMINI_API_BASE", "--agentv-resume=run.jsonl"),
    ],
)
def test_another_server_that_a_variable_names_is_asked_anew(project, monkeypatch, kind, variable, flag):
    project.write("targets.yaml", f"targets:\n  - {{name: default, provider: {kind}, model: m, api_key: not-needed}}\n")
    checks = "[{name: h, type: heuristic, hits: [second]}]"
    project.write("qa.eval.yaml", f"evalcases:\n  - {{id: a, expected_outcome: x, input: q, evaluators: {checks}}}\n")
    outcomes = []
    with FakeLlm() as server:
        for name, flags in (("first", ["--agentv-out=run.jsonl", "--agentv-cache"]), ("second", [flag])):
            monkeypatch.setenv(variable, server.script(name, Reply(name)))
            outcomes.append(project.run("qa.eval.yaml", *flags).outcomes)
    assert outcomes == [{"failed": 1}, {"passed": 1}]


FLAKY = """
def answer(prompt):
    with open("asked", "a") as file:
        file.write("x")
    with open("asked") as file:
        return "hello" if len(file.read()) % 2 == 0 else "nothing"
"""


@WITH_WORKERS_ON_REQUEST
@pytest.mark.parametrize("repeat", [1, 2])
def test_a_rerun_takes_another_answer_than_the_one_that_failed(project_in_all_modes, suite, repeat):
    project = project_in_all_modes
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]")
    project.write("agent.py", FLAKY if repeat == 1 else FLAKY.replace("% 2 == 0", "> 1"))
    project.write("evals/a.yaml", suite(a="hello"))
    flags = ("--reruns=1", "--agentv-cache", f"--agentv-repeat={repeat}", "-W", "ignore")
    assert project.run("evals", *flags).outcomes == {"passed": 1, "rerun": 1}
    asked = (project.path / "asked").read_text()
    assert project.run("evals", *flags).outcomes == {"passed": 1, "rerun": 1}
    assert (project.path / "asked").read_text() == asked, "answers of reruns are kept as well"


FLAKY_JUDGE = """
import json


def judge(prompt):
    with open("asked", "a") as file:
        file.write("x")
    with open("asked") as file:
        return json.dumps({"score": float(len(file.read()) > 1), "hits": [], "misses": []})
"""


def test_a_rerun_takes_another_reply_of_the_judge(project):
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: mock, response: hello, judge_target: judge}
          - {name: judge, provider: python, callable: judge.py:judge}
        """,
    )
    project.write("judge.py", FLAKY_JUDGE)
    project.write("evals/a.yaml", "evalcases: [{id: a, expected_outcome: Greets, input: hi}]\n")
    for _ in range(2):
        assert project.run("evals", "--reruns=1", "--agentv-cache").outcomes == {"passed": 1, "rerun": 1}
        assert (project.path / "asked").read_text() == "xx"


ASKING_JUDGE = (
    SDK
    + """\
@code_judge
def judge(case):
    return Result(score=create_target_client().invoke("good?").raw_text == "yes")
"""
)


def test_a_rerun_takes_another_reply_of_what_a_judge_script_asks(project):
    """It got the reply that had just failed."""
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: mock, response: hello, judge_target: helper}
          - {name: helper, provider: python, callable: helper.py:answer}
        """,
    )
    project.write("helper.py", FLAKY.replace('"hello"', '"yes"').replace("% 2 == 0", "> 1"))
    project.write("evals/judge.py", ASKING_JUDGE)
    check = "{name: j, type: code_judge, script: [python3, judge.py], target: {max_calls: 1}}"
    project.write("evals/a.yaml", f"evalcases: [{{id: a, expected_outcome: x, input: hi, evaluators: [{check}]}}]\n")
    for _ in range(2):
        assert project.run("evals", "--reruns=1", "--agentv-cache").outcomes == {"passed": 1, "rerun": 1}
        assert (project.path / "asked").read_text() == "xx", "replies of reruns are kept as well"


VOTERS = """
import json
from itertools import count
from threading import Lock

numbers, lock = count(), Lock()


def vote(prompt):
    with lock:
        number = next(numbers)
        with open("asked", "a") as file:
            file.write("x")
    score = (1.0, 0.0, 0.5)[number % 3]
    return json.dumps({"score": score, "reasoning": f"vote {number}"}) if "judge" in prompt else f"vote {number}"
"""
PANEL = "{name: %s, type: llm_judge}"
ASKING_THRICE = (
    SDK
    + """\
@code_judge
def judge(case):
    client = create_target_client()
    return Result(score=1, reasoning=", ".join(client.invoke("good?").raw_text for _ in range(3)))
"""
)
SCRIPT = "{name: %s, type: code_judge, script: [python3, judge.py], target: {max_calls: 3}}"


def composite(template, *names):
    members = ", ".join(template % name for name in names)
    return "{name: all, type: composite, aggregator: {type: weighted_average}, evaluators: [" + members + "]}"


@WITH_WORKERS_ON_REQUEST
@pytest.mark.parametrize(
    ("evaluators", "calls"),
    [
        (composite("{name: %s, required: true, weight: 2, type: llm_judge}", *"abc"), 3),
        (SCRIPT % "a", 3),
        varied(composite(SCRIPT, *"ab"), 6),
    ],
    ids=["required", "script", "scripts"],
)
def test_each_vote_of_a_panel_is_a_reply_of_its_own_and_found_again(project_in_all_modes, evaluators, calls):
    """The folder `cache-equal-questions` of the corpus has the other panels."""
    project = project_in_all_modes
    project.write("voters.py", VOTERS)
    project.write("judge.py", ASKING_THRICE)
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: mock, response: hello, judge_target: judge}
          - {name: judge, provider: python, callable: voters.py:vote}
        """,
    )
    case = f"{{id: a, expected_outcome: Greets, input: hi, evaluators: [{evaluators}]}}"
    project.write("a.eval.yaml", f"evalcases: [{case}]\n")
    (first,), (second,) = (project.run("--agentv-cache").results for _ in range(2))
    assert (project.path / "asked").read_text() == "x" * calls
    assert (first["spent"]["judge"]["calls"], "judge" in second["spent"]) == (calls, False)
    assert sorted(re.findall(r"vote (\d)", first["reasoning"])) == [str(number) for number in range(calls)]
    assert (second["score"], second["reasoning"]) == (first["score"], first["reasoning"])


UNREADABLE = """
import json
from pathlib import Path


async def vote(prompt):  # on one loop, so that each call counts for itself
    count = len(Path("asked").read_text()) if Path("asked").exists() else 0
    with open("asked", "a") as file:
        file.write("x")
    return "hm" if count in (1, 3, 4) else json.dumps({"score": 1.0, "reasoning": f"vote {count}"})
"""


@pytest.mark.parametrize("evaluators", [", ".join(PANEL % name for name in "abc"), composite(PANEL, *"abc")])
def test_only_the_vote_of_a_panel_that_could_not_be_read_is_asked_for_again(project, evaluators):
    project.write("voters.py", UNREADABLE)
    judge = "{name: judge, provider: python, callable: voters.py:vote}"
    target = "{name: default, provider: mock, response: hello, judge_target: judge}"
    project.write("targets.yaml", f"targets: [{target}, {judge}]\n")
    case = f"{{id: a, expected_outcome: Greets, input: hi, evaluators: [{evaluators}]}}"
    project.write("a.eval.yaml", f"evalcases: [{case}]\n")
    assert [project.run("--agentv-cache").statuses["a"] for _ in range(3)] == ["error", "pass", "pass"]
    assert (project.path / "asked").read_text() == "xxxxxx", "three votes, two reminders, and the second vote anew"


WAITING_JUDGE = """
import json
import time
from pathlib import Path


def judge(prompt):
    if Path("outage").exists():
        raise RuntimeError("out")
    deadline = time.monotonic() + 20
    while not Path("calls.txt").exists():
        assert time.monotonic() < deadline, "the batch waits for this judge"
        time.sleep(0.01)
    return json.dumps({"score": 1.0})
"""


def test_a_batch_does_not_wait_until_an_answer_that_waited_is_judged(project, batched):
    judged = [{"name": "j", "type": "llm_judge"}]
    batched(numbered(2), **{f"case-{number}": {"evaluators": judged} for number in range(2)})
    targets = (
        (project.path / "targets.yaml").read_text().replace("workers: 2\n", "workers: 2\n    judge_target: judge\n")
    )
    project.write("targets.yaml", f"{targets}  - {{name: judge, provider: python, callable: judge.py:judge}}\n")
    project.write("judge.py", WAITING_JUDGE)
    project.write("outage", "")
    flags = ("--agentv-cache", "--agentv-out=own.jsonl")
    assert project.run(*flags, "-k", "case-0").outcomes == {"errors": 1, "deselected": 1}
    assert program_calls(project) == ["batch"]
    (project.path / "outage").unlink()
    again = project.run(*flags, "--agentv-resume=own.jsonl", "--agentv-retry-errors")
    assert again.outcomes == {"passed": 2}
    assert program_calls(project) == ["batch"]
