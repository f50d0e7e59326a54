"""Answers that are paid for and not judged yet: the run that goes on judges them and does not ask for them again."""

import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL
from xml.etree import ElementTree

import pytest
import warm
from code_stand_in import until
from fake_llm import FakeLlm, Reply
from pooled import TWO
from thorough import varied

from .conftest import agentv

pytestmark = pytest.mark.slow

VERDICT = json.dumps({"score": 1.0, "hits": ["fine"], "misses": [], "reasoning": "because"})
OUTAGE = Reply(status=401)
"""A failure that is not retried."""
TARGETS = """
targets:
  - {{name: default, provider: openai, base_url: {url}/model, api_key: k, model: gpt-4o, judge_target: judge{more}}}
  - {{name: judge, provider: openai, base_url: {url}/judge, api_key: k, model: gpt-4o}}
"""
PRICE = 0.000125
"""US dollars for an answer of the model."""
JUDGE = "{name: j, type: llm_judge}"


@pytest.fixture
def model():
    with FakeLlm() as server:
        server.script("judge", OUTAGE)
        server.script("model", Reply("hello"))
        yield server


@pytest.fixture
def project(project, model):
    write(project, model)
    return project


def write(project, model, *, prompt="hi", more="", evaluator=JUDGE, keys=""):
    project.write("targets.yaml", TARGETS.format(url=model.url, more=more))
    cases = [
        f"  - {{id: c{number}, expected_outcome: x, input: {prompt} {number}, evaluators: [{evaluator}]{keys}}}\n"
        for number in range(2)
    ]
    project.write("a.eval.yaml", "evalcases:\n" + "".join(cases))


def run(project, *args, out="own.jsonl", **options):
    return project.run(f"--agentv-out={out}", *args, **options)


def records(project, name="own.jsonl"):
    lines = [json.loads(line) for line in (project.path / name).read_text().splitlines()]
    return {line["eval_id"]: line for line in lines}


RETRY = ("--agentv-resume=own.jsonl", "--agentv-retry-errors")


IN_ONE_PROCESS, WITH_WORKERS, ELSEWHERE = [], ["-n2"], list(TWO)
CACHED = ["--agentv-cache"]
SIGNALS = {"kill": signal.SIGKILL, "^C": signal.SIGINT}


@pytest.mark.parametrize(
    "mode",
    [IN_ONE_PROCESS, WITH_WORKERS, varied(ELSEWHERE), varied(CACHED), varied(CACHED + WITH_WORKERS)],
    ids=str,
)
def test_after_an_outage_of_the_judge_the_target_is_not_asked_again(project, model, mode):
    assert run(project, *mode).outcomes == {"errors": 2}
    before = records(project)
    assert before["c0"]["error_detail"]["stage"] == "evaluator"
    assert run(project, *RETRY, *mode).outcomes == {"errors": 2}, "the judge is still out"
    model.script("judge", Reply(VERDICT))
    again = run(project, *RETRY, *mode)
    assert again.outcomes == {"passed": 2}
    assert len(model.asked("model")) == 2
    for name, record in records(project).items():
        assert record["status"] == "pass"
        assert record["execution_metrics"] == before[name]["execution_metrics"]
    assert "Cost:             $0.000250; $0.000250 for judges, known for 2 of 6 calls" in again.lines, "paid for once"


@pytest.mark.kills
@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("kill", IN_ONE_PROCESS),
        varied("^C", IN_ONE_PROCESS),
        varied("kill", WITH_WORKERS),
        ("^C", WITH_WORKERS),
        varied("kill", CACHED),
        varied("^C", CACHED),
        varied("kill", CACHED + WITH_WORKERS),
    ],
    ids=str,
)
def test_a_run_that_ends_while_its_judge_is_asked_leaves_its_answers(project, model, name, mode):
    model.script("judge", Reply(fault="hang"))
    break_off(project, model, SIGNALS[name], *mode)
    model.script("judge", Reply(VERDICT))
    again = run(project, *RETRY, *mode)
    assert again.outcomes == {"passed": 3}
    assert len(model.asked("model")) == 2
    (cost,) = (line for line in again.lines if line.startswith("Cost:"))
    assert cost.startswith("Cost:             $0.000250"), "no run before has counted it"
    assert records(project)["c0"].get("cached") is None


def break_off(project, model, number, *flags):
    """End a run while its judge is asked, when there is a result: only then is there a run to go on with."""
    targets = (project.path / "targets.yaml").read_text() + "  - {name: fine, provider: mock, response: hello}\n"
    project.write("targets.yaml", targets)
    fine = "  - {id: fine, expected_outcome: x, input: hi, target: fine, evaluators: [{contains: hello}]}\n"
    project.write(
        "a.eval.yaml", (project.path / "a.eval.yaml").read_text().replace("evalcases:\n", f"evalcases:\n{fine}")
    )
    first = begin(project, *flags)
    try:
        model.wait_for("judge", 30, 2)
        out = project.path / "own.jsonl"
        until(lambda: out.exists() and out.read_text())
    finally:
        first.send_signal(number)
        first.wait(60)


def begin(project, *flags):
    """Start a run of two workers, to be killed."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--agentv-out=own.jsonl", "--agentv-workers=2"]
    return warm.Popen([*command, *flags], cwd=project.path, stdout=DEVNULL)


@pytest.mark.kills
@pytest.mark.parametrize("mode", [IN_ONE_PROCESS, varied(WITH_WORKERS)], ids=str)
def test_a_run_that_was_killed_before_its_first_result_goes_on_with_its_answers(project, model, mode):
    model.script("judge", Reply(fault="hang"))
    first = begin(project)
    try:
        model.wait_for("judge", 30, 2)
    finally:
        first.kill()
        first.wait(60)
    model.script("judge", Reply(VERDICT))
    assert run(project, "--agentv-resume=own.jsonl", *mode).outcomes == {"passed": 2}
    assert len(model.asked("model")) == 2
    assert run(project, "--agentv-resume=own.jsonl", *mode).outcomes == {"passed": 2}
    assert len(model.asked("judge")) == 4


@pytest.mark.kills
def test_a_run_of_some_cases_keeps_the_answers_of_the_others(project, model):
    model.script("judge", Reply(fault="hang"))
    break_off(project, model, signal.SIGKILL)
    model.script("judge", Reply(VERDICT))
    assert run(project, "--agentv-resume=own.jsonl", "-k", "c0").outcomes["passed"] == 1
    assert run(project, "--agentv-resume=own.jsonl").outcomes == {"passed": 3}
    assert len(model.asked("model")) == 2


@pytest.mark.kills
@pytest.mark.parametrize(
    ("name", "mode"), [varied("kill", IN_ONE_PROCESS), ("^C", IN_ONE_PROCESS), varied("^C", WITH_WORKERS)], ids=str
)
def test_answers_of_an_edited_case_are_left_although_its_older_version_has_a_verdict(project, model, name, mode):
    model.script("judge", Reply(VERDICT))
    assert run(project).outcomes == {"passed": 2}
    write(project, model, prompt="hello")
    model.script("judge", Reply(fault="hang"))
    second = begin(project, "--agentv-resume=own.jsonl", *mode)
    try:
        model.wait_for("judge", 30, 4)
    finally:
        second.send_signal(SIGNALS[name])
        second.wait(60)
    model.script("judge", Reply(VERDICT))
    assert run(project, *RETRY).outcomes == {"passed": 2}
    assert len(model.asked("model")) == 4


@pytest.mark.kills
def test_ctrl_c_while_suspects_are_asked_again_leaves_their_answers(project, model):
    """The cases have a verdict, but it needs the further answers."""
    model.script("judge", Reply(VERDICT))
    write(project, model, keys=", repeat: 5")
    run(project, "--agentv-update-baseline", out="before.jsonl")
    judged = len(model.asked("judge"))
    model.script("judge", *[Reply(VERDICT.replace("1.0", "0.0"))] * 10, Reply(fault="hang"))
    second = begin(project, "--agentv-baseline", "--agentv-stop=never")
    try:
        model.wait_for("judge", 30, judged + 12)
    finally:
        second.send_signal(signal.SIGINT)
        second.wait(60)
    model.script("judge", Reply(VERDICT))
    again = run(project, "--agentv-resume=own.jsonl", "--agentv-baseline", "--agentv-stop=never")
    answers = len(model.asked("model"))  # the second case may be judged after Ctrl-C only, and pass
    assert answers in (10 + 10 + 10, 10 + 10 + 20), "each answer once"
    assert any(line.startswith(f"Cost:             ${(answers - 10) * PRICE:.6f}; ") for line in again.lines)


def test_answers_of_one_target_wait_although_another_one_has_a_verdict(project, model):
    targets = project.path / "targets.yaml"
    other = "  - {name: other, provider: openai, base_url: %s/other, api_key: k, model: gpt-4o, judge_target: judge}\n"
    targets.write_text(targets.read_text() + other % model.url)
    model.script("other", Reply("hello"))
    assert run(project, "--agentv-target=other").outcomes == {"errors": 2}
    model.script("judge", Reply(VERDICT))
    assert run(project, "--agentv-resume=own.jsonl").outcomes == {"passed": 2}
    assert run(project, *RETRY, "--agentv-target=other").outcomes == {"passed": 2}
    assert (len(model.asked("model")), len(model.asked("other"))) == (2, 2)


SLOW = """
import time
from pathlib import Path


def pytest_agentv_assert(case, result):
    if Path("over").exists():
        return print('{"score": 1}')
    with Path("begun").open("a") as file:
        file.write("x")
    time.sleep(60)
"""


@pytest.mark.kills
@pytest.mark.parametrize(
    ("evaluator", "name", "code"),
    [
        ("{name: s, type: code_judge, script: [python3, judge.py]}", "judge.py", SLOW + "pytest_agentv_assert(0, 0)\n"),
        ("{contains: hello}", "conftest.py", SLOW),
        (JUDGE, "conftest.py", SLOW),
    ],
    ids=["script", "hook", "hook after a judge"],
)
def test_a_run_that_is_killed_while_something_else_decides_leaves_its_answers(project, model, evaluator, name, code):
    model.script("judge", Reply(VERDICT))
    write(project, model, evaluator=evaluator)
    project.write(name, code)
    first, begun = begin(project), project.path / "begun"
    try:
        until(lambda: begun.exists() and begun.read_text() == "xx")
    finally:
        first.kill()
        first.wait(60)
    project.write("over", "")
    assert run(project, "--agentv-resume=own.jsonl").outcomes == {"passed": 2}
    assert (len(model.asked("model")), len(model.asked("judge"))) == (2, 2 if evaluator == JUDGE else 0)


@pytest.mark.kills
def test_a_worker_that_dies_while_it_judges_loses_its_answer(project, model):
    model.script("judge", Reply(fault="hang"))
    first = begin(project, *TWO)
    try:
        model.wait_for("judge", 30, 2)
        for worker in workers_of(first.pid):
            with suppress(ProcessLookupError):  # the death of one may have ended another
                os.kill(worker, signal.SIGKILL)
        first.wait(60)
    finally:
        first.kill()
        first.wait(60)
    assert {record["error_detail"]["kind"] for record in records(project).values()} == {"process"}
    model.script("judge", Reply(VERDICT))
    assert run(project, *RETRY).outcomes == {"passed": 2}
    assert len(model.asked("model")) == 4


def workers_of(pid):
    """Return the ids of the forked workers of a run; they have its command line."""
    own = Path(f"/proc/{pid}/cmdline").read_bytes()
    children = [
        child for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]
    return [int(child) for child in children if Path(f"/proc/{child}/cmdline").read_bytes() == own]


SPOILS = """
from pathlib import Path


def pytest_agentv_assert(case, result):
    path = Path("own.jsonl")
    if path.is_file() and not Path("over").exists():
        path.unlink()
        path.mkdir()
"""


def test_an_answer_whose_result_cannot_be_written_waits(project, model):
    model.script("judge", Reply(VERDICT))
    project.write("conftest.py", SPOILS)
    assert "Results were lost: own.jsonl: cannot be written: Is a directory" in run(project, "--agentv-workers=2").lines
    assert model.asked("model")
    (project.path / "own.jsonl").rmdir()
    for name in ("own.jsonl", "over"):
        project.write(name, "")
    assert run(project, "--agentv-resume=own.jsonl").outcomes == {"passed": 2}
    assert len(model.asked("model")) == 2


def test_two_items_of_one_name_get_an_answer_each(project, model):
    model.script("judge", Reply(VERDICT, delay_seconds=1), Reply(VERDICT))
    project.run("--keep-duplicates", "a.eval.yaml", "a.eval.yaml", "--agentv-workers=2")
    assert len(model.asked("model")) == 4


@pytest.mark.parametrize(
    "flags", [(), ("--agentv-repeat=2",), varied(CACHED), varied([*CACHED, "--agentv-repeat=2"])], ids=str
)
def test_a_run_that_goes_on_in_another_file_finds_them_and_counts_their_cost(project, model, flags):
    """The record that counted them first is in the other file."""
    run(project, *flags)
    model.script("judge", Reply(VERDICT))
    again = run(project, *RETRY, *flags, out="other.jsonl")
    assert again.outcomes == {"passed": 2}
    calls = len(model.asked("model"))
    assert calls == (4 if "--agentv-repeat=2" in flags else 2)
    assert (
        sum(each["execution_metrics"]["cost_usd"] for each in records(project, "other.jsonl").values()) == calls * PRICE
    )
    assert any(line.startswith(f"Cost:             ${calls * PRICE:.6f}") for line in again.lines)
    assert "From the cache" not in again.text, "the sums of this file would leave them out beside others"


def test_a_merged_file_takes_them_along(project, model, capsys):
    for name in ("c0", "c1"):
        run(project, f"--agentv-eval-id={name}", out=f"{name}.jsonl")
    assert agentv(["merge", "c0.jsonl", "c1.jsonl", "--out=all.jsonl"]) == 0, capsys.readouterr().err
    model.script("judge", Reply(VERDICT))
    assert run(project, "--agentv-resume=all.jsonl", "--agentv-retry-errors", out="all.jsonl").outcomes == {"passed": 2}
    assert len(model.asked("model")) == 2


@pytest.mark.parametrize(
    ("change", "flags"),
    [({"more": ", temperature: 1"}, []), ({"prompt": "hello"}, []), varied({"more": ", temperature: 1"}, CACHED)],
    ids=str,
)
def test_after_a_change_that_affects_the_answer_the_target_is_asked_again(project, model, change, flags):
    run(project, *flags)
    write(project, model, **change)
    model.script("judge", Reply(VERDICT))
    assert run(project, *RETRY, *flags).outcomes == {"passed": 2}
    assert len(model.asked("model")) == 4
    write(project, model)
    assert run(project, *RETRY, *flags).outcomes == {"passed": 2}
    assert len(model.asked("model")) == 4, "the change was undone, and the first answers still waited"


def test_after_a_change_of_the_grading_it_is_not(project, model):
    run(project)
    write(project, model, evaluator="{contains: hello}")
    assert run(project, *RETRY).outcomes == {"passed": 2}
    assert len(model.asked("model")) == 2


def test_after_another_weight_neither_the_target_nor_the_judge_is_asked_again(project, model):
    model.script("judge", Reply(VERDICT))
    run(project)
    write(project, model, evaluator=JUDGE.replace("}", ", weight: 2}"))
    again = run(project, *RETRY)
    assert again.outcomes == {"passed": 2}
    assert records(project)["c0"]["evaluator_results"][0]["weight"] == 2
    assert (len(model.asked("model")), len(model.asked("judge"))) == (2, 2)
    assert "Cost:             $0.000250; $0.000250 for judges" in again.lines


@pytest.mark.parametrize("mode", [IN_ONE_PROCESS, varied(WITH_WORKERS)], ids=str)
def test_a_new_run_of_tests_in_python_asks_again(project, model, mode):
    (project.path / "a.eval.yaml").unlink()
    project.write("test_a.py", "def test_a(agentv):\n    agentv.run('hi', expected_outcome='x')\n")
    run(project, *mode)
    model.script("judge", Reply(VERDICT))
    assert run(project, *mode).outcomes == {"passed": 1}
    assert len(model.asked("model")) == 2


def test_a_new_run_does_not_leave_an_answer_of_the_old_one_to_a_third(project, model):
    run(project)
    model.script("model", Reply(status=401))
    assert run(project).outcomes == {"errors": 2}
    model.script("model", Reply("another answer"))
    model.script("judge", Reply(VERDICT))
    assert run(project, *RETRY).outcomes == {"passed": 2}
    assert records(project)["c0"]["candidate_answer"] == "another answer"


@pytest.mark.parametrize("mode", [IN_ONE_PROCESS, varied(CACHED)], ids=str)
def test_each_answer_of_a_repeated_case_waits(project, model, mode):
    model.script("judge", Reply(VERDICT), OUTAGE)
    write(project, model, keys=", repeat: 3")
    flags = ("--agentv-stop=never", "--agentv-workers=1", *mode)
    run(project, *flags)
    asked = len(model.asked("model"))
    assert asked == 6
    model.script("judge", Reply(VERDICT))
    again = run(project, *RETRY, *flags)
    assert again.outcomes == {"passed": 2}
    assert len(model.asked("model")) == asked
    (cost,) = (line for line in again.lines if line.startswith("Cost:"))
    assert cost.startswith("Cost:             $0.000750; "), "of 6 answers, all of them known"


@pytest.mark.parametrize("mode", [IN_ONE_PROCESS, varied(CACHED)], ids=str)
@pytest.mark.parametrize("flags", [[], ["--agentv-repeat=2", "--agentv-stop=never"]], ids=["once", "repeated"])
def test_a_rerun_judges_an_answer_that_was_not_judged(project, model, flags, mode):
    model.script("judge", OUTAGE, OUTAGE, Reply(VERDICT))
    run = project.run("--reruns=2", "--agentv-eval-id=c0", "--agentv-workers=1", *flags, *mode)
    assert run.outcomes["passed"] == 1
    assert len(model.asked("model")) == (2 if flags else 1)


@pytest.mark.parametrize("out", ["own.jsonl", "other.jsonl"])
def test_an_answer_that_an_earlier_run_has_paid_for_waits_as_such(project, model, out):
    model.script("judge", Reply(VERDICT))
    run(project, *CACHED, out="earlier.jsonl")
    write(project, model, evaluator=JUDGE.replace("}", ", prompt: 'Good? {{candidate_answer}}'}"))
    model.script("judge", OUTAGE)
    run(project, *CACHED)
    model.script("judge", Reply(VERDICT))
    again = run(project, *RETRY, *CACHED, out=out)
    assert again.outcomes == {"passed": 2}
    assert len(model.asked("model")) == 2
    assert [each["cached"] for each in records(project, out).values()] == [True, True]
    assert "From the cache:   2" in again.lines


def test_a_run_without_the_cache_judges_what_one_with_it_has_left(project, model):
    run(project, *CACHED)
    model.script("judge", Reply(VERDICT))
    assert run(project, *RETRY).outcomes == {"passed": 2}
    assert len(model.asked("model")) == 2


COMMAND = """
import json
from pathlib import Path


def answer(prompt):
    with open("asked", "a") as file:
        file.write("x")
    return {"text": "hello", "cost_usd": 0.25}
"""


@pytest.fixture
def command(project):
    """Write a target that is a program of the project, and tells its cost."""
    target = "  - {name: default, provider: python, callable: 'agent.py:answer', judge_target: judge}\n"
    judge = (project.path / "targets.yaml").read_text().splitlines(keepends=True)[-1]
    project.write("targets.yaml", f"targets:\n{target}{judge}")
    project.write("agent.py", COMMAND)
    return project.path / "asked"


BREAKS_ONCE = """
from pathlib import Path

if not Path("broken").exists():
    Path("broken").touch()
    exit(3)
print('{"score": 1}')
"""


SCRIPT = "{name: s, type: code_judge, script: [python3, judge.py]}"
WITH_FILES = "provider: cli, command_template: printf x >> asked; echo hello"
WITHOUT_FILES = "provider: python, callable: agent.py:answer"


@pytest.mark.parametrize(
    ("target", "evaluator", "calls"), [(WITH_FILES, SCRIPT, 2), (WITH_FILES, JUDGE, 1), (WITHOUT_FILES, SCRIPT, 1)]
)
@pytest.mark.parametrize("again", ["rerun", varied("resume")])
def test_a_command_is_called_again_if_a_script_may_judge_what_it_left(
    project, model, command, target, evaluator, calls, again
):
    write(project, model, evaluator=evaluator)
    project.write("judge.py", BREAKS_ONCE)
    model.script("judge", OUTAGE, Reply(VERDICT))
    judge = (project.path / "targets.yaml").read_text().splitlines(keepends=True)[-1]
    project.write("targets.yaml", f"targets:\n  - {{name: default, {target}, judge_target: judge}}\n{judge}")
    first = run(project, "--agentv-eval-id=c0", *(["--reruns=1"] if again == "rerun" else []))
    if again == "resume":
        assert first.outcomes["errors"] == 1
        first = run(project, "--agentv-eval-id=c0", *RETRY)
    assert first.outcomes["passed"] == 1
    assert command.read_text() == "x" * calls


def test_a_hook_gets_an_answer_that_waited(project, model):
    project.write(
        "conftest.py",
        """
        def pytest_agentv_response(case, response):
            with open("shown.txt", "a") as file:
                file.write(case.eval_id)
        """,
    )
    run(project)
    model.script("judge", Reply(VERDICT))
    assert run(project, *RETRY).outcomes == {"passed": 2}
    assert len(model.asked("model")) == 2
    assert sorted((project.path / "shown.txt").read_text().split("c")) == ["", "0", "0", "1", "1"]


@pytest.mark.parametrize("mode", [IN_ONE_PROCESS, varied(CACHED)], ids=str)
def test_an_answer_that_holds_a_secret_is_not_written(project, model, mode):
    project.write(".env", "MY_API_KEY=s3cr3t-value-of-mine\n")
    model.script("model", Reply("it is s3cr3t-value-of-mine"))
    assert run(project, *mode).outcomes == {"errors": 2}
    model.script("judge", Reply(VERDICT))
    again = run(project, *RETRY, *mode)
    assert len(model.asked("model")) == 4
    assert "Cost:             $0.000500; $0.000250 for judges, known for 2 of 4 calls" in again.lines
    assert not any(b"s3cr3t" in path.read_bytes() for path in (project.path / ".agentv").glob("answers.sqlite*"))


def test_cases_of_one_name_in_two_folders_get_their_own_answers(project, model):
    model.script("model", Reply("blue", when="sky"), Reply("green", when="grass"))
    for folder, word, answer in (("a", "sky", "blue"), ("b", "grass", "green")):
        evaluators = f"[{JUDGE}, {{contains: {answer}}}]"
        text = f"evalcases:\n  - {{id: c, expected_outcome: x, input: {word}, evaluators: {evaluators}}}\n"
        project.write(f"{folder}/same.eval.yaml", text)
    assert run(project, "a", "b").outcomes == {"errors": 2}
    model.script("judge", Reply(VERDICT))
    assert run(project, "a", "b", *RETRY).outcomes == {"passed": 2}
    assert len(model.asked("model")) == 2


def costs(project, run):
    """Return what the summary, the record, JUnit and `agentv report` say that the answers cost."""
    (told,) = (line for line in run.lines if line.startswith("Cost:"))
    record = list(records(project).values())
    junit = ElementTree.parse(project.path / "j.xml").iter("property")
    return [
        float(told.split("$")[1].split(";")[0]),
        sum(each["spent"]["answer"]["cost_usd"] for each in record),
        sum(float(each.get("value")) for each in junit if each.get("name") == "agentv_cost_usd"),
        reported_cost(project),
    ]


def reported_cost(project):
    page = project.path / "comment.md"
    page.unlink(missing_ok=True)
    assert agentv(["report", str(project.path / "own.jsonl"), "--format=markdown", "-o", str(page)]) == 0
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines() if line.startswith("| ")]
    (header,) = (number for number, row in enumerate(rows) if "Cost" in row)
    return float(rows[header + 2][rows[header].index("Cost")].split("$")[1].split(";")[0])


IN_FULL = ["--agentv-include-answers"]


@pytest.mark.parametrize("mode", [IN_ONE_PROCESS, WITH_WORKERS, varied(IN_FULL), varied(ELSEWHERE)], ids=str)
def test_answers_that_were_judged_after_an_outage_keep_their_cost_beside_further_ones(project, model, mode):
    flags = (*mode, "--agentv-stop=never", "--junitxml=j.xml", "--agentv-resume=own.jsonl")
    run(project, *flags[:-1], "--agentv-repeat=2")
    model.script("judge", Reply(VERDICT))
    run(project, *flags, "--agentv-retry-errors", "--agentv-repeat=2")
    for repeat, calls in ((3, 6), (4, 8), (1, 8)):
        again = run(project, *flags, f"--agentv-repeat={repeat}")
        assert len(model.asked("model")) == calls
        assert costs(project, again) == pytest.approx([calls * PRICE] * 4)
        assert "From the cache" not in again.text
