"""Answers of repeated cases are paid for once: after a kill, from the cache, in a run that goes on."""

import json
import shutil

import pytest
from repeating_agent import answered, asked, counts, write_project, write_suite
from thorough import varied

from .conftest import agentv

pytestmark = pytest.mark.slow


@pytest.fixture
def project(project):
    write_project(project)
    return project


def results(project, name="own.jsonl"):
    return {line["eval_id"]: line for line in map(json.loads, (project.path / name).read_text().splitlines())}


SUITE = {"tent": "ppppp", "lamp": "ppkpp", "hook": "pfppp"}


@pytest.mark.kills
@pytest.mark.parametrize("flags", [(), varied(("--agentv-workers=2",)), ("--agentv-workers=20",)])
def test_a_run_that_was_killed_among_answers_pays_for_none_of_them_twice(project, flags):
    write_suite(project, SUITE, repeat=5)
    flags = (*flags, "--agentv-stop=never")
    project.run("--agentv-out=own.jsonl", *flags, subprocess=True)
    before, done = set(asked(project.path)), answered(project.path)
    assert "lamp 2" in before - done
    resumed = project.run("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl", *flags)
    again = asked(project.path)
    assert set(again) & before == before - done, "only the answers in flight are asked again"
    assert before | set(again) == {f"{name} {number}" for name in SUITE for number in range(5)}
    assert len(again) == 15 - len(done)
    last = results(project)
    assert {name: result["status"] for name, result in last.items()} == {"tent": "pass", "lamp": "pass", "hook": "fail"}
    assert all(result["repeat"]["judged"] == 5 for result in last.values())
    for result in last.values():
        assert result["execution_metrics"]["cost_usd"] == result["spent"]["answer"]["cost_usd"] == 5 * 0.25
    assert "Cost:             $3.7500" in resumed.lines


@pytest.mark.kills
def test_ctrl_c_among_answers_ends_the_run_and_loses_none(project):
    write_suite(project, {"tent": "ppippw", "lamp": "ppppp"}, repeat=5)
    run = project.run("--agentv-out=own.jsonl", subprocess=True)
    assert run.exit_code == pytest.ExitCode.INTERRUPTED
    assert run.internals == []
    assert asked(project.path) == ["tent 0", "tent 1", "tent 2"]
    assert results(project)["tent"]["error_detail"]["kind"] == "cancelled"
    run = project.run("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl")
    assert counts(asked(project.path)) == {"tent": 3, "lamp": 5}
    assert run.outcomes == {"passed": 2}


@pytest.mark.kills
@pytest.mark.parametrize("flags", [(), varied(("-n1",))], ids=str)
def test_answers_of_an_edited_case_are_kept_although_its_older_version_has_a_verdict(project, flags):
    write_suite(project, {"tent": "p", "lamp": "ppppp"}, repeat=5)
    project.run("--agentv-out=own.jsonl", *flags)
    asked(project.path)
    write_suite(project, {"tent": "p", "lamp": "pppkp"}, repeat=5)
    own = ("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl", *flags)
    project.run(*own, "--agentv-stop=never", subprocess=True)
    assert asked(project.path) == [f"lamp {number}" for number in range(4)]
    assert project.run(*own, "--agentv-eval-id=tent").outcomes["passed"] == 1
    run = project.run(*own, "--agentv-retry-errors")
    assert (asked(project.path), run.outcomes) == (["lamp 3", "lamp 4"], {"passed": 2})
    assert "Cost:             $3.7500" in run.lines  # with the answers to the older version


@pytest.mark.kills
@pytest.mark.parametrize("flags", [(), varied(("-n1",))], ids=str)
def test_further_answers_of_a_finished_case_are_kept_until_it_has_them_all(project, flags):
    suite = {"tent": "p|repeat: 1", "lamp": "pppppkppp"}
    write_suite(project, suite, repeat=3)
    own = ("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl", "--agentv-stop=never", *flags)
    project.run("--agentv-out=own.jsonl", "--agentv-stop=never")
    write_suite(project, suite, repeat=9)
    project.run(*own, subprocess=True)
    assert project.run(*own, "--agentv-eval-id=tent").outcomes["passed"] == 1
    asked(project.path)
    run = project.run(*own)
    assert asked(project.path) == [f"lamp {number}" for number in range(5, 9)]
    assert results(project)["lamp"]["repeat"]["judged"] == 9
    assert "Cost:             $2.5000" in run.lines


@pytest.mark.kills
def test_answers_of_one_target_are_kept_although_another_one_has_a_verdict(project):
    targets = [
        f"{{name: {name}, provider: python, callable: repeating_agent.py:answer}}" for name in ("default", "other")
    ]
    project.write("targets.yaml", f"targets: [{', '.join(targets)}]\n")
    write_suite(project, {"lamp": "pppkp"}, repeat=5)
    other = ("--agentv-target=other", "--agentv-stop=never", "--agentv-workers=1")
    project.run("--agentv-out=own.jsonl", *other, subprocess=True)
    asked(project.path)
    own = ("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl")
    assert project.run(*own).outcomes == {"passed": 1}
    assert counts(asked(project.path)) == {"lamp": 5}, "the other target has answers of its own"
    assert project.run(*own, *other).outcomes == {"passed": 1}
    assert asked(project.path) == ["lamp 3", "lamp 4"]


@pytest.mark.kills
def test_ctrl_c_while_a_suspect_is_asked_again_loses_none(project):
    write_suite(project, {"lamp": "fffffffifff"}, repeat=5)
    project.run("--agentv-update-baseline", "--agentv-out=first.jsonl")
    baseline = project.path / "agentv.baseline.jsonl"
    baseline.write_text(baseline.read_text().replace('"scores": [0, 0, 0, 0, 0]', '"scores": [1, 1, 1, 1, 1]'))
    asked(project.path)
    run = project.run("--agentv-baseline", "--agentv-out=own.jsonl", subprocess=True)
    assert run.exit_code == pytest.ExitCode.INTERRUPTED
    assert asked(project.path) == [f"lamp {number}" for number in range(8)]
    run = project.run("--agentv-baseline", "--agentv-resume=own.jsonl", "--agentv-out=own.jsonl")
    assert asked(project.path) == sorted(f"lamp {number}" for number in range(7, 15))
    assert "BROKEN         lamp   5/5 -> 0/5, again 1/10    q 0.002" in run.text


@pytest.mark.kills
def test_answers_that_were_carried_to_another_file_survive_a_second_kill(project):
    write_suite(project, {"lamp": "ppkpw"}, repeat=5)
    project.run("--agentv-out=first.jsonl", subprocess=True)
    asked(project.path)
    run = project.run("--agentv-resume=first.jsonl", "--agentv-out=own.jsonl", "--timeout=2")
    assert run.outcomes == {"errors": 1}
    assert asked(project.path) == ["lamp 2", "lamp 3", "lamp 4"]
    run = project.run("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl", "--agentv-repeat=4")
    assert (asked(project.path), run.outcomes["passed"]) == ([], 1)
    assert "Cost:             $1.0000" in run.lines


def test_more_answers_of_a_cached_case_cost_only_what_is_new(project):
    write_suite(project, {"tent": "ppppp"}, repeat=3)
    project.run("--agentv-cache")
    assert asked(project.path) == ["tent 0", "tent 1", "tent 2"]
    write_suite(project, {"tent": "ppppp"}, repeat=5)
    run = project.run("--agentv-cache")
    assert asked(project.path) == ["tent 3", "tent 4"]
    assert run.by_id["tent"]["repeat"]["cached"] == 3
    assert run.by_id["tent"]["repeat"]["same_text"] is False
    assert "Cost:             $0.5000" in run.lines
    assert project.run("--agentv-cache").by_id["tent"]["cached"] is True
    assert asked(project.path) == []


def test_the_first_answer_of_a_repeated_case_is_that_of_a_case_without_repeats(project):
    write_suite(project, {"tent": "ppp"})
    project.run("--agentv-cache")
    write_suite(project, {"tent": "ppp"}, repeat=3)
    asked(project.path)
    project.run("--agentv-cache")
    assert asked(project.path) == ["tent 1", "tent 2"]


def test_a_judge_is_asked_for_each_answer_even_if_they_are_equal(project):
    project.write("repeating_agent.py", JUDGED)
    project.write("targets.yaml", JUDGED_TARGETS)
    write_suite(project, {"tent": "hello"}, repeat=3)
    text = (project.path / "a.eval.yaml").read_text()
    project.write(
        "a.eval.yaml", text.replace("{name: words, type: heuristic, hits: [hello]}", "{name: j, type: llm_judge}")
    )
    for _ in range(2):
        assert project.run("--agentv-cache").statuses == {"tent": "pass"}
        assert (project.path / "judge.txt").read_text() == "judge judge judge "


JUDGED = """
from pathlib import Path

def answer(prompt):
    return "hello"

def judge(prompt):
    with Path("judge.txt").open("a") as file:
        file.write("judge ")
    return '{"score": 1, "hits": [], "misses": [], "reasoning": ""}'
"""
JUDGED_TARGETS = """
targets:
  - {name: default, provider: python, callable: repeating_agent.py:answer, judge_target: judge}
  - {name: judge, provider: python, callable: repeating_agent.py:judge}
"""


def test_a_finished_case_is_held_against_the_rules_of_now_without_a_call(project):
    write_suite(project, {"tent": "ppfpf"}, repeat=5, min_pass_rate=0.8)
    never = "--agentv-stop=never"
    assert project.run("--agentv-out=own.jsonl", never).exit_code == 1
    asked(project.path)
    write_suite(project, {"tent": "ppfpf|group: shop"}, repeat=5, min_pass_rate=0.6)
    run = project.run("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl", never)
    assert asked(project.path) == []
    assert run.outcomes == {"passed": 1}
    run = project.run("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl", never, "--agentv-min-pass-rate=1")
    assert asked(project.path) == []
    assert "3 of 5 answers pass, 5 are needed (threshold 1, min_pass_rate 1 of the command line)" in run.lines


def test_a_case_that_was_asked_once_needs_only_the_other_answers(project):
    write_suite(project, {"tent": "ppp"})
    project.run("--agentv-out=own.jsonl")
    write_suite(project, {"tent": "ppp"}, repeat=3)
    asked(project.path)
    project.run("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl")
    assert asked(project.path) == ["tent 1", "tent 2"]


def test_a_case_that_is_to_have_one_answer_keeps_the_first_of_those_that_it_has(project):
    write_suite(project, {"tent": "fpp", "lamp": "pfp", "rope": "ppp"}, repeat=3)
    flags = ("--agentv-out=own.jsonl", "--agentv-resume=own.jsonl")
    project.run(flags[0], "--agentv-stop=never")
    asked(project.path)
    write_suite(project, {"tent": "fpp", "lamp": "pfp", "rope": "ppp"})
    run = project.run(*flags)
    assert asked(project.path) == []
    assert run.outcomes == {"failed": 1, "passed": 2}
    found = results(project)
    assert [("repeat" in found[name], found[name]["score"]) for name in ("tent", "lamp", "rope")] == [
        (False, 0),
        (False, 1),
        (False, 1),
    ]
    assert project.run(*flags).outcomes == run.outcomes
    assert asked(project.path) == []


def test_a_case_that_needs_more_answers_keeps_those_that_it_has(project):
    """It stopped early and now all are wanted, as with a baseline, or it is to have more."""
    write_suite(project, {"tent": "pfppp", "lamp": "ppppp", "rope": "fpfpp"}, repeat=5, min_pass_rate=0.6)
    flags = ("--agentv-out=own.jsonl", "--agentv-resume=own.jsonl")
    project.run(flags[0])
    assert counts(asked(project.path)) == {"tent": 4, "lamp": 3, "rope": 5}
    assert results(project)["rope"]["repeat"]["stopped"] == "certain pass"
    all_answers = project.run(*flags, "--agentv-update-baseline")
    assert "Baseline written to: agentv.baseline.jsonl (3 cases x 5)" in all_answers.lines
    assert results(project)["rope"]["repeat"]["pass_rate"] == 0.6
    assert asked(project.path) == ["lamp 3", "lamp 4", "tent 4"]
    assert "Cost:             $3.7500" in all_answers.lines
    assert [results(project)[name]["repeat"]["passes"] for name in ("tent", "lamp")] == [4, 5]
    more = project.run(*flags, "--agentv-repeat=6", "--agentv-stop=never")
    assert asked(project.path) == ["lamp 5", "rope 5", "tent 5"]
    assert "Cost:             $4.5000" in more.lines
    tent = results(project)["tent"]
    assert (tent["repeat"]["scores"], tent["candidate_answer"]) == ([1, 0, 1, 1, 1, 1], "bye")
    project.run(*flags, "--agentv-repeat=3", "--agentv-stop=never")
    assert asked(project.path) == []
    assert results(project)["tent"]["repeat"]["scores"] == [1, 0, 1]


def test_retrying_an_error_asks_for_the_missing_answers_only(project):
    write_suite(project, {"tent": "ppnpp"}, repeat=5)
    project.write("repeating_agent.py", FLAKY)
    project.run("--agentv-out=own.jsonl", "--agentv-stop=never")
    asked(project.path)
    run = project.run(
        "--agentv-resume=own.jsonl", "--agentv-out=own.jsonl", "--agentv-retry-errors", "--agentv-stop=never"
    )
    assert asked(project.path) == ["tent 2"]
    assert run.outcomes == {"passed": 1}
    assert "Cost:             $1.5000" in run.lines  # six answers, one of which could not be judged


def test_a_case_without_a_verdict_keeps_its_answers_and_is_judged_by_the_rules_of_now(project):
    """Only its last result but one held the answers, so they were paid for again. Or it stayed an error."""
    write_suite(project, {"tent": "ppee"}, repeat=4, min_pass_rate=0.5)
    flags = ("--agentv-out=own.jsonl", "--agentv-resume=own.jsonl")
    assert project.run(flags[0]).outcomes == {"passed": 1}
    assert asked(project.path) == ["tent 0", "tent 1"]
    assert project.run(*flags, "--agentv-min-pass-rate=1").outcomes == {"errors": 1}
    assert asked(project.path) == ["tent 2", "tent 3"]
    project.run(*flags, "--agentv-min-pass-rate=1", "--agentv-retry-errors")
    assert asked(project.path) == ["tent 2", "tent 3"]
    run = project.run(*flags)
    assert (asked(project.path), run.outcomes) == ([], {"passed": 1})
    assert "Cost:             $0.5000, known for 2 of 6 calls" in run.lines


def test_the_results_file_alone_tells_what_was_paid_on_another_machine(project):
    write_suite(project, {"tent": "ppe", "lamp": "ppp"}, repeat=3)
    flags = ("--agentv-out=own.jsonl", "--agentv-resume=own.jsonl", "--agentv-retry-errors", "--agentv-stop=never")
    project.run(flags[0], flags[3])
    shutil.rmtree(project.path / ".agentv")
    asked(project.path)
    assert "Cost:             $1.7500, known for 7 of 9 calls" in project.run(*flags).lines
    assert asked(project.path) == ["tent 0", "tent 1", "tent 2"], "lamp is in the file"
    assert "Cost:             $1.7500, known for 7 of 10 calls" in project.run(*flags).lines
    assert asked(project.path) == ["tent 2"]


def test_a_case_whose_test_was_renamed_costs_what_it_did(project):
    text = 'def test_a(agentv):\n    agentv.run("p", id="tent", evaluators=[{"contains": "hello"}])\n'
    project.write("test_shop.py", text)
    project.run("--agentv-out=own.jsonl")
    asked(project.path)
    project.write("test_shop.py", text.replace("test_a", "test_b"))
    for _ in range(2):
        run = project.run("--agentv-out=own.jsonl", "--agentv-resume=own.jsonl")
        assert (asked(project.path), "Cost:             $0.2500" in run.lines) == ([], True)


FLAKY = """
from pathlib import Path

def answer(prompt, request):
    with Path("asked.txt").open("a") as file:
        file.write(f"{request.eval_id} {request.answer}\\n")
    text = {"text": "hello", "cost_usd": 0.25}
    if request.answer == 2 and not Path("failed").exists():
        Path("failed").touch()
        return {"text": "", "finish_reason": "content_filter", "cost_usd": 0.25}
    return text
"""


@pytest.mark.kills
def test_a_worker_that_dies_among_answers_leaves_them_to_the_next_run(project):
    write_suite(project, {"lamp": "ppkpp", "tent": "ppppp", "hook": "ppppp"}, repeat=5)
    project.run("-n", "2", "--agentv-out=own.jsonl", "--agentv-stop=never")
    done = answered(project.path)
    assert {"lamp 0", "lamp 1"} <= done
    asked(project.path)
    run = project.run(
        "--agentv-resume=own.jsonl", "--agentv-out=own.jsonl", "--agentv-retry-errors", "--agentv-stop=never"
    )
    again = asked(project.path)
    assert not done & set(again)
    assert "Cost:             $3.7500" in run.lines
    assert run.exit_code == 0
    assert {name: result["repeat"]["judged"] for name, result in results(project).items()} == dict.fromkeys(
        ("lamp", "tent", "hook"), 5
    )


def test_a_rerun_that_goes_on_tells_of_the_answers_that_it_replaced_and_of_their_cost(project):
    write_suite(project, {"tent": "ppnpp"}, repeat=5)
    project.write("repeating_agent.py", FLAKY.replace(".touch()", ".touch() if request.reruns else None"))
    first = project.run("--agentv-out=own.jsonl", "--agentv-stop=never", "--reruns=1")
    assert {"Cost:             $2.5000", "Reruns:           1"} <= set(first.lines)
    assert len(asked(project.path)) == 10
    flags = ("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl", "--agentv-retry-errors", "--agentv-stop=never")
    run = project.run(*flags)
    assert (asked(project.path), run.outcomes) == (["tent 2"], {"passed": 1})
    assert "Cost:             $2.7500" in run.lines
    assert results(project)["tent"]["spent"]["answer"]["calls"] == 11


def said(project, run, capsys):
    """Return cost and reruns as the summary says, and as a report on the results file does."""
    capsys.readouterr()
    agentv(["report", str(project.path / "own.jsonl")])
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    header = next(number for number, row in enumerate(rows) if "Cost" in row)
    table = dict(zip(rows[header], rows[header + 2], strict=True))
    names = ("Cost", "Reruns")
    lines = dict(line.split(":", 1) for line in run.lines if line.startswith(names))
    return [tuple(told.get(name, "0").strip() for name in names) for told in (lines, table)]


@pytest.mark.parametrize("mode", [(), ("-n", "2"), varied(("--agentv-cache",))], ids=str)
def test_answers_that_a_case_took_over_count_once_whatever_follows(project, capsys, mode):
    flags = ("--agentv-out=own.jsonl", "--agentv-resume=own.jsonl", *mode)
    calls = []

    def paid():
        calls.extend(asked(project.path))
        return f"${len(calls) * 0.25:.4f}"

    write_suite(project, {"tent": "ppp", "lamp": "ppp"})
    project.run(flags[0], "--agentv-repeat=3", *mode)
    run = project.run(*flags, "--agentv-repeat=5")
    assert said(project, run, capsys) == [(paid(), "0")] * 2
    for prompt, repeat, calls_so_far in (("pppp", 5, 15), ("ppp", 5, 15), ("pppp", 6, 17), ("pppp", 1, 17)):
        write_suite(project, {"tent": prompt, "lamp": "ppp"})
        run = project.run(*flags, f"--agentv-repeat={repeat}")
        assert said(project, run, capsys) == [(paid(), "0")] * 2
        assert len(calls) == calls_so_far


COSTLY = """
from pathlib import Path

def answer(prompt, request):
    with Path("asked.txt").open("a") as file:
        file.write(f"{request.eval_id} {request.answer}\\n")
    return {"text": "hello", "cost_usd": 0.25}

def judge(prompt):
    with Path("judged.txt").open("a") as file:
        file.write("call\\n")
    if Path("down.txt").exists():
        raise RuntimeError("down")
    return '{"score": 1, "hits": [], "misses": [], "reasoning": ""}'
"""


@pytest.mark.parametrize(
    "mode", [(), varied(("--agentv-include-answers",)), ("-n2", "--agentv-include-answers")], ids=str
)
def test_answers_that_were_not_judged_are_judged_later_and_count_once(project, capsys, mode):
    project.write("repeating_agent.py", COSTLY)
    project.write("targets.yaml", JUDGED_TARGETS)
    project.write(
        "a.eval.yaml", "evalcases: [{id: c, expected_outcome: x, input: hi, evaluators: [{type: llm_judge}]}]\n"
    )
    flags = ("--agentv-out=own.jsonl", "--agentv-resume=own.jsonl", *mode)
    calls = 0
    project.write("down.txt", "")
    project.run(flags[0], *mode, "--agentv-repeat=2", "--agentv-stop=never")
    (project.path / "down.txt").unlink()
    for repeat, flag in ((2, "--agentv-retry-errors"), (3, "--agentv-stop=never"), (4, "--agentv-stop=never")):
        run = project.run(*flags, flag, f"--agentv-repeat={repeat}")
        calls += len(asked(project.path))
        assert calls == repeat
        assert said(project, run, capsys) == [(f"${calls * 0.25:.4f}", "0")] * 2
        record = results(project)["c"]
        judged = (project.path / "judged.txt").read_text().splitlines()
        assert (record["spent"]["answer"]["calls"], record["spent"]["judge"]["calls"]) == (calls, len(judged))
    run = project.run(*flags, "--agentv-repeat=1")
    assert (asked(project.path), (project.path / "judged.txt").read_text().splitlines()) == ([], judged)
    assert said(project, run, capsys) == [(f"${calls * 0.25:.4f}", "0")] * 2


@pytest.mark.parametrize(
    "mode", [(), varied(("--agentv-include-answers",)), ("-n2", "--agentv-include-answers")], ids=str
)
def test_answers_that_a_case_is_not_to_have_any_more_still_cost_what_they_did(project, capsys, mode):
    project.write("repeating_agent.py", COSTLY)
    write_suite(project, {"tent": "ppppp"})
    calls = 0
    for repeat in (5, 3, 5, 2, 4, 1, 5):
        resume = ("--agentv-resume=own.jsonl",) if calls else ()
        run = project.run("--agentv-out=own.jsonl", *resume, *mode, f"--agentv-repeat={repeat}", "--agentv-stop=never")
        calls += len(asked(project.path))
        assert said(project, run, capsys) == [(f"${calls * 0.25:.4f}", "0")] * 2
        record = results(project)["tent"]
        assert record["spent"]["answer"]["cost_usd"] == calls * 0.25
        assert record["execution_metrics"]["cost_usd"] == repeat * 0.25
    assert calls == 5, "the store still holds the answers that a later result was not to have"


@pytest.mark.kills
def test_answers_that_are_left_of_a_killed_case_with_more_answers_still_cost_what_they_did(project):
    write_suite(project, {"tent": "pppkp"}, repeat=5)
    project.run("--agentv-out=own.jsonl", "--agentv-stop=never", subprocess=True)
    assert answered(project.path) == {"tent 0", "tent 1", "tent 2"}
    run = project.run("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl", "--agentv-repeat=2")
    assert "Cost:             $0.7500" in run.lines
