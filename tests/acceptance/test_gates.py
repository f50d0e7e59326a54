"""Runs that are judged as a whole: against a baseline, by a pass rate, by tags."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from results_files import read_results
from thorough import tries, variation, varied

from pytest_agentv.store.writers import verdict_path

from .conftest import WITH_WORKERS_ON_REQUEST

AGENT = """
    import os, random, threading
    from collections import Counter

    asked, lock = Counter(), threading.Lock()

    def answer(prompt):
        case = prompt.split()[-1]
        with lock:
            asked[case] += 1
            number = asked[case]
        if os.environ.get("DOWN") == case:
            raise RuntimeError("out of order")
        if os.environ.get("CRASH") == case:
            os._exit(3)
        if case in os.environ.get("BROKEN", "").split():
            return "no"
        rate = float(os.environ.get("RATE", "1"))
        return "yes" if random.Random(f"{os.environ.get('SEED')} {case} {number}").random() < rate else "no"
"""
TARGETS = "targets: [{name: default, provider: python, callable: 'agent.py:answer'}]\n"
BASELINE = "agentv.baseline.jsonl"


def suite(count, head="", first=0, **extra):
    """Return an eval file of cases c0, c1, …; `extra` has further keys of single cases."""
    lines = [head, "evalcases:"]
    for number in range(first, first + count):
        more = f", {extra[f'c{number}']}" if f"c{number}" in extra else ""
        question = f"input_messages: [{{role: user, content: ask c{number}}}]"
        words = "evaluators: [{name: w, type: heuristic, hits: ['yes']}]"
        lines.append(f"  - {{id: c{number}, expected_outcome: x, {question}, {words}{more}}}")
    return "\n".join(lines) + "\n"


def write(project, text):
    project.write("evals/agent.py", AGENT)
    project.write("evals/targets.yaml", TARGETS)
    project.write("evals/a.eval.yaml", text)
    return project


@pytest.fixture(scope="module")
def baseline(shared_project):
    project = write(shared_project(), suite(3))
    assert project.run("--agentv-update-baseline").exit_code == 0
    return (project.path / BASELINE).read_text("utf-8")


@pytest.fixture
def small(project, baseline):
    """Three cases with one answer each, and their baseline: all pass."""
    write(project, suite(3)).write(BASELINE, baseline)
    return project


def section(run):
    """Return the section EVALUATION STATISTICS as one text."""
    lines = [line.rstrip() for line in run.lines]
    first = next(number for number, line in enumerate(lines) if "EVALUATION STATISTICS" in line)
    rest = [line for line in lines[first + 1 :] if not line.startswith("- generated")]
    end = next((number for number, line in enumerate(rest) if line.startswith("====")), len(rest))
    return "\n".join(rest[:end])


def verdict(project, number):
    return json.loads((project.path / f"out-{number}.verdict.json").read_text("utf-8"))


@pytest.mark.parametrize(
    ("head", "mode"),
    [
        pytest.param("", (), id="once-plain"),
        pytest.param("repeat: 3", (), id="repeated-plain"),
        varied("", ("-n", "2"), id="once-n2"),
        varied("repeat: 3", ("-n", "2"), id="repeated-n2"),
    ],
)
def test_a_case_that_became_required_must_pass_in_a_resumed_run_as_well(project, monkeypatch, head, mode):
    gate = ("--agentv-gate=run", "--agentv-min-rate=0.5")
    write(project, suite(3, head))
    monkeypatch.setenv("BROKEN", "c1")
    assert project.run("--agentv-out=own.jsonl", *gate).exit_code == 0
    project.write("evals/a.eval.yaml", suite(3, head, c1="required: true, group: shop"))
    monkeypatch.delenv("BROKEN")  # who is asked again passes
    more = ("--agentv-repeat=4",) if head else ()
    for flags in ((), more):
        run = project.run("--agentv-resume=own.jsonl", "--agentv-out=own.jsonl", *gate, *flags, mode=mode)
        assert (run.exit_code, run.outcomes["failed"]) == (1, 1)
        assert "FAILED evals/a.eval.yaml::c1" in run.text
    last = {line["eval_id"]: line for line in read_results(project.path / "own.jsonl").results}
    assert [(last["c1"]["required"], last["c1"]["group"]), "required" in last["c0"]] == [(True, "shop"), False]


FLAGS = ("--agentv-baseline", "--agentv-workers=20")


CASES = tries(12, 48)


def test_a_suite_with_two_broken_cases(project, monkeypatch):
    """The same figures in one process, with 20 workers and with two processes."""
    write(project, suite(CASES, "repeat: 5\nmin_pass_rate: 0.6"))
    monkeypatch.setenv("RATE", "0.95")
    monkeypatch.setenv("SEED", "before")
    assert project.run("--agentv-update-baseline", "--agentv-workers=20").exit_code == 0
    monkeypatch.setenv("SEED", "after")
    monkeypatch.setenv("BROKEN", "c3 c8")
    runs = [
        project.run("--agentv-baseline", "--junitxml=plain.xml"),
        project.run(*FLAGS),
        project.run(*FLAGS, "--junitxml=n2.xml", mode=("-n", "2")),
    ]
    text = section(runs[0])
    assert f"{CASES} cases, 5 answers each; 20 more to confirm 2 suspects" in text
    assert re.search(r"^BROKEN         c3   [45]/5 -> 0/5, again 0/10    q 0\.0\d+$", text, re.MULTILINE)
    assert re.search(r"^BROKEN         c8   [45]/5 -> 0/5, again 0/10    q 0\.0\d+$", text, re.MULTILINE)
    assert text.endswith("GATE: FAILED, 2 cases are broken")
    assert [section(run) for run in runs] == [text] * 3
    assert [run.exit_code for run in runs] == [1, 1, 1]
    assert [verdict(project, number)["broke"] for number in (2, 3, 4)] == [
        ["evals/a.eval.yaml::c3", "evals/a.eval.yaml::c8"]
    ] * 3
    for name in ("plain.xml", "n2.xml"):
        [case] = [
            case
            for case in ElementTree.parse(project.path / name).iter("testcase")
            if (case.get("classname"), case.get("name")) == (BASELINE, "regression")
        ]
        assert case.find("failure").get("message") == "2 cases are broken"
    for number, run in enumerate(runs, start=2):
        lines = {line["eval_id"]: line for line in run.results}
        assert len(run.results) == len(lines) == CASES, "one line for each case, with the answers that confirmed it"
        assert [lines["c3"]["attempts"], sum(line["attempts"] for line in run.results)] == [15, 5 * CASES + 20]
        assert list(lines["c3"])[-2:] == ["repeat", "baseline"]
        assert lines["c3"]["baseline"].keys() == {"passes", "judged", "delta", "p", "q", "broke", "state"}
        told = {case.pop("case").partition("::")[2]: case for case in verdict(project, number)["cases"]}
        assert {name: {**line["baseline"], "target": "default"} for name, line in lines.items()} == told


def test_a_run_without_evaluations_says_that_nothing_is_judged(project):
    project.write("test_x.py", "def test_one(): ...")
    run = project.run("--agentv-baseline")
    assert "agentv: no evaluation was collected, so there is no verdict" in run.lines
    assert run.exit_code == 0
    assert "agentv: no" not in project.run().text
    write(project, suite(1))
    assert "no evaluation was collected" not in project.run("--agentv-update-baseline").text


@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        (("--agentv-baseline",), ()),
        (("--agentv-gate=run", "--agentv-min-rate=0.9"), ("-n", "2")),
        varied(("--agentv-baseline",), ("-n", "2")),
        varied(("--agentv-gate=run", "--agentv-min-rate=0.9"), ()),
    ],
    ids=str,
)
def test_a_run_whose_cases_are_all_skipped_says_that_nothing_is_judged(small, flags, mode):
    small.write("evals/a.eval.yaml", suite(3, "skip: later"))
    run = small.run(*flags, mode=mode)
    assert "agentv: no case was judged, so there is no verdict" in run.lines
    assert (run.exit_code, run.outcomes, run.internals) == (0, {"skipped": 3}, [])


def test_a_baseline_that_is_not_there_costs_nothing(project):
    run = write(project, suite(2)).run("--agentv-baseline")
    assert (run.exit_code, run.results) == (4, [])
    assert f"the baseline {BASELINE} is not there: write it with --agentv-update-baseline" in run.text


def test_a_broken_baseline_costs_nothing(small):
    (small.path / BASELINE).write_text("{}\n")
    run = small.run("--agentv-baseline")
    assert (run.exit_code, run.results) == (4, [])
    assert f"{BASELINE}:1: is not a baseline" in run.text
    assert run.internals == []


def test_a_baseline_holds_no_answers_and_a_second_one_is_equal(small):
    text = (small.path / BASELINE).read_text("utf-8")
    assert text.count("\n") == 4
    assert '"scores": [1]' in text
    assert "yes" not in text
    assert small.run("--agentv-update-baseline").exit_code == 0
    assert (small.path / BASELINE).read_text("utf-8") == text


@WITH_WORKERS_ON_REQUEST
def test_a_skipped_case_is_not_in_a_new_baseline(small, mode):
    small.write("evals/a.eval.yaml", suite(3, c1="skip: flaky tool"))
    run = small.run("--agentv-update-baseline", mode=mode)
    assert "(2 cases x 1), without 1 that was skipped" in " ".join(section(run).split())
    assert "::c1" not in (small.path / BASELINE).read_text("utf-8"), "a baseline that is written anew is of this run"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("-k", "c1"), "does not go with -k"),
        (("-m", "x"), "does not go with -m"),
        (("--lf",), "does not go with --lf"),
        (("-x",), "does not go with -x or --maxfail"),
        (("evals/a.eval.yaml::c1",), "does not go with a single case on the command line"),
        (("--agentv-eval-id=c1",), "does not go with --agentv-eval-id"),
        (("--agentv-dry-run",), "does not go with --agentv-dry-run"),
        (("--agentv-cache",), "does not go with --agentv-cache"),
        (("--agentv-stop=certain",), "does not go with --agentv-stop=certain"),
        (("--reruns=2",), "does not go with --reruns"),
        (("--agentv-sample=2",), "does not go with --agentv-sample"),
    ],
)
def test_what_is_no_baseline_is_refused_before_anything_is_paid_for(small, flags, reason):
    before = (small.path / BASELINE).read_text("utf-8")
    run = small.run("--agentv-update-baseline", *flags)
    assert (run.exit_code, run.results) == (4, [])
    assert f"--agentv-update-baseline {reason}" in run.text
    assert (small.path / BASELINE).read_text("utf-8") == before


@WITH_WORKERS_ON_REQUEST
def test_a_part_of_the_files_is_no_baseline_and_costs_nothing(small, mode):
    small.write("evals/b.eval.yaml", suite(2, first=10))
    assert small.run("--agentv-update-baseline").exit_code == 0
    before = (small.path / BASELINE).read_text("utf-8")
    run = small.run("--agentv-update-baseline", "evals/b.eval.yaml", mode=mode)
    assert (run.exit_code, run.results) == (4, [])
    assert "--agentv-update-baseline needs all cases: evals/a.eval.yaml was not collected" in run.text
    assert (small.path / BASELINE).read_text("utf-8") == before


def test_cases_that_a_conftest_left_out_are_missing_from_a_baseline(small):
    """It is known before anything is paid for, in one process."""
    small.write("conftest.py", """
        def pytest_collection_modifyitems(config, items):
            config.hook.pytest_deselected(items=items[1:])
            del items[1:]
        """)  # fmt: skip
    run = small.run("--agentv-update-baseline")
    assert (run.exit_code, run.results) == (4, [])
    assert "--agentv-update-baseline needs all cases: some were deselected" in run.text


def test_a_broken_baseline_is_not_written_over(small):
    """It may hold how often it was written, and answers to add to."""
    (small.path / BASELINE).write_text("<<<<<<< HEAD\n")
    run = small.run("--agentv-update-baseline")
    assert (run.exit_code, run.results) == (4, [])
    assert "merge conflict: resolve it; delete the file to write the baseline anew" in " ".join(run.text.split())


def test_in_ci_a_baseline_is_written_by_force_only(small, monkeypatch):
    monkeypatch.setenv("CI", "true")
    run = small.run("--agentv-update-baseline")
    assert (run.exit_code, run.results) == (4, [])
    assert "is refused where CI is set" in run.text
    assert small.run("--agentv-update-baseline=force").exit_code == 0
    assert small.run("--agentv-update-baseline=force", "-k", "c1").exit_code == 4, "it lifts that refusal only"


def test_a_run_with_errors_is_no_baseline(small, monkeypatch):
    before = (small.path / BASELINE).read_text("utf-8")
    monkeypatch.setenv("DOWN", "c1")
    run = small.run("--agentv-update-baseline")
    assert run.exit_code == 1
    assert "the baseline was not updated: 1 of 3 cases could not be judged" in " ".join(section(run).split())
    assert (small.path / BASELINE).read_text("utf-8") == before


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("-k", "c1"), "1 of 3 cases (some were deselected)"),
        (("--agentv-eval-id=c1",), "1 of 3 cases (some were deselected)"),
        (("evals/a.eval.yaml::c1",), "1 of 3 cases (a single case on the command line)"),
    ],
)
def test_a_part_of_the_cases_gets_no_verdict(small, monkeypatch, flags, reason):
    monkeypatch.setenv("BROKEN", "c1")
    run = small.run("--agentv-baseline", "--agentv-gate=run", *flags)
    assert section(run).endswith(f"No verdict     {reason}")
    assert run.outcomes["failed"] == 1, "there is no verdict that the case could be left to"
    assert "GATE" not in run.text
    assert verdict(small, 1)["verdict"] == "no verdict"


@variation
def test_a_part_of_the_cases_gets_no_verdict_with_workers_either(small):
    run = small.run("--agentv-baseline", "-k", "c1", mode=("-n", "2"))
    assert section(run).endswith("No verdict     1 of 3 cases (some were deselected)")
    assert run.exit_code == 0


@WITH_WORKERS_ON_REQUEST
def test_a_run_that_judges_no_case_of_its_baseline_is_not_green(small, mode):
    small.write("evals/b.eval.yaml", suite(2, first=8))
    small.run("--agentv-update-baseline")
    (small.path / "evals/a.eval.yaml").unlink()
    small.write("evals/b.eval.yaml", suite(2, first=8, c8="skip: later", c9="skip: later"))
    run = small.run("--agentv-baseline", *mode)
    assert (run.exit_code, run.outcomes) == (1, {"skipped": 2, "failed": 1})
    assert "GATE: FAILED, stale baseline: no case of it is comparable" in section(run)
    small.write("evals/b.eval.yaml", suite(2, first=8))
    for flags in (("--agentv-run=asked",), ("-k", "nothing"), ("--agentv-dry-run",)):
        assert small.run("--agentv-baseline", *flags, *mode).exit_code in (0, 5), flags


def test_a_baseline_of_another_root_directory_is_not_called_gone(small):
    """Its files have other names from there. They are beside it."""
    run = small.run(f"--rootdir={small.path.parent}", f"--agentv-baseline={small.path / BASELINE}")
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert "stale baseline: no case of it is comparable" in section(run)


@pytest.mark.parametrize("text", ["def test_a(): ...\n", "def test_a(agentv): ...\n"])
@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["plain", "n2"])
def test_a_baseline_whose_files_are_gone_is_refused(small, text, mode):
    (small.path / "evals/a.eval.yaml").unlink()
    small.write("evals/test_plain.py", text)
    run = small.run("--agentv-baseline", *mode)
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    said = "the baseline agentv.baseline.jsonl is stale: the files of its cases are gone (evals/a.eval.yaml)"
    assert f"ERROR: {said}; --agentv-update-baseline writes it anew" in run.lines
    assert small.run("--agentv-baseline", "--setup-plan", *mode).exit_code == 0
    assert small.run(*mode).exit_code == 0


def test_files_that_were_not_collected_leave_no_verdict_and_files_that_are_gone_make_the_baseline_stale(small):
    small.write("evals/b.eval.yaml", suite(2, first=10))
    small.run("--agentv-update-baseline")
    run = small.run("--agentv-baseline", "evals/b.eval.yaml")
    assert section(run).endswith("No verdict     2 of 5 cases (no case of evals/a.eval.yaml was run)")
    (small.path / "evals/a.eval.yaml").unlink()
    run = small.run("--agentv-baseline")
    assert section(run).endswith("GATE: FAILED, stale baseline: 3 cases are gone")
    assert run.exit_code == 1


def test_failing_cases_that_no_verdict_judges_are_not_green(small, monkeypatch):
    """They are XFAIL by then: whether all cases of the baseline ran shows at the end only."""
    small.write("evals/b.eval.yaml", suite(2, first=10))
    small.run("--agentv-update-baseline")
    monkeypatch.setenv("BROKEN", "c10")
    run = small.run("--agentv-baseline", "--agentv-gate=run", "evals/b.eval.yaml")
    assert (run.exit_code, run.outcomes) == (1, {"passed": 1, "xfailed": 1, "failed": 1})
    reason = "there is no verdict to judge them by: 2 of 5 cases (no case of evals/a.eval.yaml was run)"
    assert f"GATE run: FAILED, 1 case failed, and {reason}" in " ".join(section(run).split())


@WITH_WORKERS_ON_REQUEST
def test_a_case_that_its_mark_expects_to_fail_needs_no_verdict(small, monkeypatch, mode):
    """It is XFAIL by the user's own mark, which the run has not to judge."""
    small.write("evals/b.eval.yaml", suite(2, first=10, c10="xfail: known"))
    small.run("--agentv-update-baseline")
    monkeypatch.setenv("BROKEN", "c10")
    run = small.run("--agentv-baseline", "--agentv-gate=run", "evals/b.eval.yaml", mode=mode)
    assert (run.exit_code, run.outcomes) == (0, {"passed": 1, "xfailed": 1})
    assert section(run).endswith("No verdict     2 of 5 cases (no case of evals/a.eval.yaml was run)")


@pytest.mark.parametrize("mode", [varied((), id="plain"), pytest.param(("-n", "2"), id="n2")])
def test_a_skipped_case_is_not_gone(small, mode):
    small.write("evals/a.eval.yaml", suite(3, c1="skip: flaky tool"))
    run = small.run("--agentv-baseline", "--agentv-gate=run", mode=mode)
    assert (run.exit_code, run.outcomes) == (0, {"passed": 3, "skipped": 1})
    assert "Skipped 1" in section(run)
    assert "2 compared" in section(run)
    told = verdict(small, 1)
    assert (told["gone"], told["skipped"]) == ([], ["evals/a.eval.yaml::c1"])
    assert {"case": "evals/a.eval.yaml::c1", "state": "skipped"}.items() <= told["cases"][-1].items()


def test_a_file_whose_cases_are_all_skipped_is_no_missing_file(small):
    small.write("evals/b.eval.yaml", suite(2, first=10))
    small.run("--agentv-update-baseline")
    small.write("evals/b.eval.yaml", suite(2, "skip: later", first=10))
    run = small.run("--agentv-baseline")
    assert (run.exit_code, verdict(small, 2)["skipped"]) == (0, ["evals/b.eval.yaml::c10", "evals/b.eval.yaml::c11"])


def test_a_case_that_is_gone_stays_gone_beside_a_skipped_one(small):
    small.write("evals/a.eval.yaml", suite(2, c1="skip: flaky tool"))
    run = small.run("--agentv-baseline")
    assert run.exit_code == 1
    assert section(run).endswith("GATE: FAILED, stale baseline: 1 case is gone")


def test_a_combination_that_is_skipped_is_not_gone(small, monkeypatch):
    small.write(
        "evals/targets.yaml", TARGETS.replace("]", ", {name: other, provider: python, callable: 'agent.py:answer'}]")
    )
    small.write("evals/conftest.py", """
        import os, pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                if os.environ.get("SKIPPED") == item.name:
                    item.add_marker(pytest.mark.skip("later"))
        """)  # fmt: skip
    small.run("--agentv-update-baseline", "--agentv-target=default,other")
    monkeypatch.setenv("SKIPPED", "c1@other")
    run = small.run("--agentv-baseline", "--agentv-target=default,other")
    told = verdict(small, 2)
    assert run.exit_code == 0
    assert [(case["case"], case["target"]) for case in told["cases"] if case["state"] == "skipped"] == [
        ("evals/a.eval.yaml::c1", "other")
    ]


@WITH_WORKERS_ON_REQUEST
def test_a_target_that_is_gone_is_gone_for_cases_that_fail_too(small, monkeypatch, mode):
    """A failing case had the name of that of the other target, which was then "skipped": the gate could be green."""
    small.write(
        "evals/targets.yaml", TARGETS.replace("]", ", {name: other, provider: python, callable: 'agent.py:answer'}]")
    )
    monkeypatch.setenv("BROKEN", "c0 c1 c2")
    small.run("--agentv-update-baseline", "--agentv-target=default,other")
    run = small.run("--agentv-baseline", "--agentv-gate=run", mode=mode)
    told = verdict(small, 2)
    assert (told["gone"], told["skipped"], run.exit_code) == (
        *([f"evals/a.eval.yaml::c{number} (other)" for number in range(3)], [], 1),
    )
    assert "stale baseline: 3 cases are gone: the run has no case of the target other" in told["reasons"]


def test_cases_that_nobody_asked_for_leave_no_verdict(small):
    small.write("evals/b.eval.yaml", suite(2, first=10))
    small.run("--agentv-update-baseline")
    small.write("evals/b.eval.yaml", suite(2, "target: paid", first=10))
    small.write("evals/targets.yaml", TARGETS.replace("]", ", {name: paid, provider: openai, model: m, api_key: k}]"))
    run = small.run("--agentv-baseline", "-o", "agentv_run=asked-if-paid")
    assert section(run).endswith("No verdict     3 of 5 cases (2 not asked for)")
    assert (run.exit_code, run.outcomes) == (0, {"passed": 3, "skipped": 2})


def test_a_run_that_stops_at_its_first_failure_gets_no_verdict(small, monkeypatch):
    monkeypatch.setenv("BROKEN", "c0")
    run = small.run("--agentv-baseline", "-x")
    assert section(run).endswith("No verdict     the run broke off before its end")
    assert BASELINE not in run.text.split("short test summary")[1]


def test_a_file_that_cannot_be_collected_leaves_no_verdict(small):
    small.write("evals/b.eval.yaml", "evalcases: 5\n")
    run = small.run("--agentv-baseline", "--continue-on-collection-errors")
    assert section(run).endswith("No verdict     1 file could not be collected")
    assert run.exit_code == 1


def test_a_worker_that_crashes_leaves_no_verdict(small, monkeypatch):
    monkeypatch.setenv("CRASH", "c1")
    run = small.run("--agentv-baseline", mode=("-n", "2"))
    assert section(run).endswith("No verdict     a worker crashed")
    assert section(run).startswith("3 cases"), "the one on which it crashed as well"
    assert verdict(small, 1)["errors"] == ["evals/a.eval.yaml::c1"], "else it is no verdict on these results"
    assert run.exit_code == 1


def test_the_line_of_each_case_says_how_it_did_against_the_baseline(small, monkeypatch):
    monkeypatch.setenv("DOWN", "c2")
    small.write("evals/a.eval.yaml", suite(4, c1="threshold: 0.5"))
    run = small.run("--agentv-baseline")
    assert {line["eval_id"]: line["baseline"] for line in run.results} == {
        "c0": {"passes": 1, "judged": 1, "delta": 0, "p": 1, "q": 1, "broke": False, "state": "compared"},
        "c1": {"broke": False, "state": "changed"},
        "c2": {"passes": 1, "judged": 1, "broke": False, "state": "error"},
        "c3": {"broke": False, "state": "new"},
    }
    run = small.run("--agentv-resume=out-1.jsonl", "--agentv-out=out-2.jsonl")
    assert ["baseline" in line for line in run.results] == [False] * 4, "that run was judged by none"


def test_without_a_verdict_no_line_tells_of_the_baseline(small):
    for flags in (("--agentv-baseline", "-k", "c1"), ("--agentv-update-baseline",), ("--agentv-gate=off",)):
        assert not any("baseline" in line for line in small.run(*flags).results)


def test_a_dry_run_gets_no_verdict(small):
    run = small.run("--agentv-baseline", "--agentv-dry-run")
    assert section(run).endswith("No verdict     a dry run: its scores mean nothing")
    assert "Pass rate" not in section(run), "all cases pass, with a mean score of 0"
    assert "mean" not in verdict(small, 1)
    assert run.exit_code == 0


def test_errors_keep_the_gate_red(small, monkeypatch):
    monkeypatch.setenv("DOWN", "c1")
    run = small.run("--agentv-baseline", "--agentv-gate=run")
    assert run.exit_code == 1
    assert "on 2 of 3 cases; -33.3 to +0.0 whatever the other one is" in section(run)
    assert section(run).endswith("GATE: FAILED, 1 case could not be judged")


def test_a_resumed_run_that_retries_errors_is_judged_whole(small, monkeypatch):
    """It has all its cases, and the tests that are none."""
    small.write("test_other.py", "def test_other(): ...\n")
    monkeypatch.setenv("DOWN", "c1")
    assert small.run("--agentv-out=own.jsonl").outcomes == {"passed": 3, "errors": 1}
    monkeypatch.setenv("DOWN", "")
    monkeypatch.setenv("BROKEN", "c1")
    gate = ("--agentv-gate=run", "--agentv-min-rate=0.9")
    run = small.run("--agentv-resume=own.jsonl", "--agentv-retry-errors", *gate)
    assert run.outcomes == {"passed": 3, "xfailed": 1, "failed": 1}
    assert "FAILED gate::run - the pass rate 66.7 % of 3 cases is below 90.0 %" in run.text


def test_judged_with_the_run(project, monkeypatch):
    """Failing cases are left to the verdict on the run; a required one is not."""
    write(project, suite(10, c9="required: true"))
    monkeypatch.setenv("BROKEN", "c1")
    run = project.run("--agentv-gate=run", "--agentv-min-rate=0.9", "-rx")
    assert (run.exit_code, run.outcomes) == (0, {"passed": 10, "xfailed": 1})
    assert "XFAIL evals/a.eval.yaml::c1 - judged with the run" in run.text
    assert "Total eval cases: 10 (9 passed, 0 failed, 1 judged with the run, 0 errors)" in run.text
    assert section(run).endswith("GATE run: passed, the pass rate 90.0 % of 10 cases reaches 90.0 %")
    run = project.run("--agentv-gate=run", "--agentv-min-rate=0.95")
    assert (run.exit_code, run.outcomes) == (1, {"passed": 9, "xfailed": 1, "failed": 1})
    assert "FAILED gate::run - the pass rate 90.0 % of 10 cases is below 95.0 %" in run.text
    monkeypatch.setenv("BROKEN", "c9")
    run = project.run("--agentv-gate=run", "--agentv-min-rate=0.5")
    assert (run.exit_code, run.outcomes) == (1, {"passed": 10, "failed": 1})


def test_judged_with_the_run_in_two_processes(project, monkeypatch):
    write(project, suite(4))
    monkeypatch.setenv("BROKEN", "c1")
    flags = ("--agentv-gate=run", "--agentv-min-rate=0.8", "--junitxml=j.xml")
    run = project.run(*flags, mode=("-n", "2"))
    assert (run.exit_code, run.outcomes) == (1, {"passed": 3, "xfailed": 1, "failed": 1})
    root = ElementTree.parse(project.path / "j.xml").getroot().find("testsuite")
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("5", "1", "1")


def test_a_run_that_writes_the_baseline_has_to_pass_its_other_gates(project, monkeypatch):
    """Failing cases were left to gates that nobody asked then: a run of which nothing passed was green."""
    write(project, suite(4, "tags: [sums]"))
    monkeypatch.setenv("RATE", "0")
    run = project.run("--agentv-gate=run", "--agentv-min-rate=0.9", "--agentv-update-baseline")
    assert run.exit_code == 1
    assert (run.outcomes["failed"], run.outcomes["xfailed"]) == (1, 4)
    assert "GATE run: FAILED, the pass rate 0.0 % of 4 cases is below 90.0 %" in run.text
    assert "Baseline written to:" in run.text
    project.write("pytest.ini", "[pytest]\nagentv_gates =\n    sums: min_rate=0.5\n")
    run = project.run("--agentv-gate=run", "--agentv-update-baseline")
    assert run.exit_code == 1
    assert "GATE sums: FAILED" in run.text
    monkeypatch.setenv("RATE", "1")
    assert project.run("--agentv-gate=run", "--agentv-min-rate=0.9", "--agentv-update-baseline").exit_code == 0


def test_strict_fails_what_cannot_be_told(small):
    assert small.run("--agentv-baseline").exit_code == 0
    run = small.run("--agentv-baseline", "--agentv-gate=strict")
    assert run.exit_code == 1
    assert "GATE: FAILED, cannot tell: so few cases would hardly show any drop" in section(run)


def test_a_gate_that_is_off_tells_and_fails_nothing(small, monkeypatch):
    small.write("evals/a.eval.yaml", suite(2))
    run = small.run("--agentv-baseline", "--agentv-gate=off")
    assert run.exit_code == 0
    assert section(run).endswith("GATE: not enforced, stale baseline: 1 case is gone")
    assert run.outcomes == {"passed": 2, "xfailed": 1}


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--agentv-gate=run",), "--agentv-gate=run has nothing to judge the run by"),
        (("--agentv-gate=strict",), "--agentv-gate=strict has nothing to judge the run by"),
        (("--agentv-min-rate=0.5",), "--agentv-min-rate judges the run as a whole: it needs --agentv-gate=run"),
        (("--agentv-gate=always",), "unknown gate 'always': expected one of cases, run, strict, off"),
        (("--agentv-confirm=-1",), "-1 answers are out of range: expected 0 to 100"),
        (("--agentv-update-baseline=x",), "unknown way to update the baseline 'x'"),
    ],
)
def test_a_gate_that_would_judge_nothing_is_refused(project, flags, reason):
    run = write(project, suite(2)).run(*flags)
    assert (run.exit_code, run.results) == (4, [])
    assert reason in run.text


GATES = """
    [pytest]
    agentv_gates =
        booking: min_rate=0.9 tier=critical
        smalltalk: min_rate=0.9 tier=advisory
"""
TAGS = {"c0": "tags: [booking]", "c1": "tags: [smalltalk]", "c2": "tags: [booking]"}


@WITH_WORKERS_ON_REQUEST
def test_a_resumed_run_tells_which_cases_its_gates_judged(project, monkeypatch, mode):
    project.write("pytest.ini", GATES)
    write(project, suite(4, **TAGS))
    monkeypatch.setenv("BROKEN", "c0 c1 c3")
    flags = ("--agentv-gate=run", "--agentv-out=run.jsonl")
    for more in ((), ("--agentv-resume=run.jsonl",)):
        project.run(*flags, *more, mode=mode if more else ())
        contract = json.loads((project.path / "run.verdict.json").read_text())
        assert contract["judged_with_run"] == ["evals/a.eval.yaml::c0"]


def test_gates_by_tag(project, monkeypatch):
    project.write("pytest.ini", GATES)
    write(project, suite(4, **TAGS))
    monkeypatch.setenv("BROKEN", "c0 c1 c3")
    run = project.run("--agentv-gate=run", "--junitxml=j.xml", "-rfx")
    assert run.exit_code == 1
    assert "FAILED gate::booking - the pass rate 50.0 % of 2 cases is below 90.0 %" in run.text
    assert "XFAIL gate::smalltalk - the pass rate 0.0 % of 1 case is below 90.0 % (advisory)" in run.text
    statuses = {
        case.get("name"): [child.tag for child in case if child.tag in ("failure", "skipped")]
        for case in ElementTree.parse(project.path / "j.xml").iter("testcase")
    }
    assert statuses == {
        "c0": ["skipped"],  # its tag's gate judges it
        "c1": ["failure"],  # an advisory gate judges nothing
        "c2": [],
        "c3": ["failure"],
        "booking": ["failure"],
        "smalltalk": ["skipped"],
    }
    assert verdict(project, 1)["judged_with_run"] == ["evals/a.eval.yaml::c0"]


def test_gates_that_are_off_leave_no_case_to_themselves(project, monkeypatch):
    project.write("pytest.ini", GATES)
    write(project, suite(4, **TAGS))
    monkeypatch.setenv("BROKEN", "c0")
    run = project.run("--agentv-gate=off", "--agentv-min-rate=0.9", "-rf")
    assert run.exit_code == 1
    assert (run.by_id["c0"]["status"], run.outcomes["failed"]) == ("fail", 1)
    assert "FAILED evals/a.eval.yaml::c0" in run.text


@pytest.mark.parametrize("mode", [(), ("-n", "2")], ids=["plain", "n2"])
def test_a_gate_on_a_tag_that_no_case_has_is_a_usage_error(project, mode):
    project.write("pytest.ini", GATES)
    write(project, suite(2, c0="tags: [bookings]", c1="tags: [smalltalk]"))
    run = project.run(mode=mode)
    assert run.results == []
    assert "agentv_gates: no case has the tag 'booking' (did you mean 'bookings'?)" in run.text
    assert run.exit_code != 0


@pytest.mark.parametrize(
    ("flags", "mode"),
    [
        pytest.param((), (), id="cases-plain"),
        pytest.param(("--agentv-gate=run",), (), id="run-plain"),
        varied((), ("-n", "2"), id="cases-n2"),
        varied(("--agentv-gate=run",), ("-n", "2"), id="run-n2"),
    ],
)
def test_a_gate_of_cases_in_files_that_were_not_collected_gets_no_verdict(project, mode, flags, monkeypatch):
    """One file could not be run by itself, as editors do: "no case has the tag 'booking'"."""
    project.write("pytest.ini", GATES)
    write(project, suite(2, c0="tags: [booking]"))
    project.write("evals/more/b.eval.yaml", suite(2, "tags: [smalltalk]", first=10))
    run = project.run("evals/more", *flags, mode=mode)
    assert run.exit_code == 0
    assert "GATE booking: not enforced, none of its cases was collected: no verdict" in section(run)
    assert "GATE smalltalk: passed" in section(run)
    assert run.outcomes == {"passed": 3, "xfailed": 1}
    monkeypatch.setenv("BROKEN", "c10")
    run = project.run("evals/more/b.eval.yaml", *flags, mode=mode)
    assert (run.exit_code, run.outcomes["failed"]) == (1, 1), "no gate judges it"
    assert verdict(project, 2)["gates"][-1] == {
        "name": "gate::booking",
        "failed": False,
        "reason": "none of its cases was collected: no verdict",
        "not_enforced": True,
    }


@pytest.mark.parametrize("mode", [(), varied(("-n", "2"))], ids=["plain", "n2"])
@pytest.mark.parametrize("path", ["evals/more", "evals/more/b.eval.yaml"])
def test_a_gate_gets_no_verdict_on_a_part_of_its_cases(project, mode, path, monkeypatch):
    """A gate on all files was red, and on one of them green. A folder is a whole for `--agentv-min-rate`."""
    project.write("pytest.ini", "[pytest]\nagentv_gates = booking: min_rate=0.4\n")
    write(project, suite(2, "tags: [booking]"))
    project.write("evals/more/b.eval.yaml", suite(2, "tags: [booking]", first=10))
    monkeypatch.setenv("BROKEN", "c0 c1 c10")
    flags = ("--agentv-gate=run", "--agentv-min-rate=0.4")
    whole = project.run(*flags, mode=mode)
    assert "GATE booking: FAILED, the pass rate 25.0 % of 4 cases is below 40.0 %" in section(whole)
    run = project.run(path, *flags, mode=mode)
    reasons = {each["name"]: each["reason"] for each in verdict(project, 2)["gates"] if each.get("not_enforced")}
    reason = "evals/a.eval.yaml was not collected: no verdict"
    if path.endswith(".yaml"):
        assert reasons == {"gate::run": reason, "gate::booking": reason}
        assert f"GATE run: not enforced, {reason}" in section(run)
        assert (run.exit_code, run.outcomes["failed"], run.outcomes["xfailed"]) == (1, 1, 2), "each case for itself"
        assert "judged with the run" not in run.text
    else:
        assert reasons == {"gate::booking": reason}
        assert "GATE run: passed, the pass rate 50.0 % of 2 cases reaches 40.0 %" in section(run)
        assert (run.exit_code, "failed" in run.outcomes) == (0, False)


@pytest.mark.parametrize(
    ("ini", "path"),
    [
        ("testpaths = evals/more", "evals/more"),
        ("testpaths = evals/m*", "evals"),
        ("norecursedirs = old .*", "evals/more"),
        ("addopts = --ignore=evals/old", "evals/more"),
        ("addopts = --ignore-glob=*/ol?", "evals/more"),
        ("norecursedirs = evals/old .*", "evals/more"),
        ("collect_ignore = ['evals/old']", "evals/more"),
        ("", "."),
    ],
)
def test_files_that_no_run_collects_leave_out_nothing(project, ini, path, monkeypatch):
    is_python = ini.startswith("collect_ignore")
    project.write("conftest.py", f"{ini}\n" if is_python else "")
    project.write("pytest.ini", f"[pytest]\n{'' if is_python else ini}\nagentv_gates =\n    booking: min_rate=0.4\n")
    write(project, suite(2, "tags: [booking]"))
    (project.path / "evals/old").mkdir()
    (project.path / "evals/a.eval.yaml").rename(project.path / "evals/old/a.eval.yaml")
    project.write("evals/more/b.eval.yaml", suite(2, "tags: [booking]", first=10))
    run = project.run(path, "--agentv-gate=run", "--agentv-min-rate=0.4")
    count = len(run.results)
    assert f"GATE run: passed, the pass rate 100.0 % of {count} cases reaches 40.0 %" in section(run)
    assert f"GATE booking: passed, the pass rate 100.0 % of {count} cases reaches 40.0 %" in section(run)


def test_a_file_whose_cases_a_function_makes_may_have_any_tag(project, monkeypatch):
    """Its tags were taken for none: the gate was green on a part of its cases, and refused on the function's."""
    project.write("pytest.ini", "[pytest]\nagentv_gates = booking: min_rate=0.4\n")
    write(project, suite(2, "tags: [booking]"))
    project.write("evals/made.eval.yaml", "evalcases: {from: 'gen.py:make'}\n")
    project.write(
        "evals/gen.py",
        "def make():\n"
        "    for name in ('x', 'y'):\n"
        "        yield {'id': name, 'tags': ['booking'], 'input': 'q', 'assert': [{'contains': 'no such word'}]}\n",
    )
    assert "GATE booking: passed, the pass rate 50.0 % of 4 cases" in section(project.run("--agentv-gate=run"))
    part = project.run("evals/a.eval.yaml", "--agentv-gate=run")
    assert "GATE booking: not enforced, evals/made.eval.yaml was not collected: no" in section(part)
    alone = project.run("evals/made.eval.yaml", "--agentv-gate=run")
    assert "no case has the tag" not in alone.text
    assert alone.exit_code == 1


def test_a_gate_is_judged_where_files_without_its_cases_are_left_out(project):
    project.write("pytest.ini", GATES)
    write(project, suite(2, "tags: [smalltalk]"))
    project.write("evals/more/b.eval.yaml", suite(2, "tags: [booking]", first=10))
    text = section(project.run("evals/more", "--agentv-gate=run"))
    assert "GATE booking: passed" in text
    assert "GATE smalltalk: not enforced, none of its cases was collected: no verdict" in text


def test_evals_in_python_alone_get_no_verdict_of_gates_on_cases_of_files(project):
    project.write("pytest.ini", GATES)
    write(project, suite(2, c0="tags: [booking]", c1="tags: [smalltalk]"))
    project.write("evals/test_python.py", IN_PYTHON)
    run = project.run("evals/test_python.py")
    assert "GATE booking: not enforced, none of its cases was collected: no verdict" in section(run)
    assert run.exit_code == 0


def test_a_file_that_cannot_be_read_is_not_told_as_a_tag_that_no_case_has(project):
    project.write("pytest.ini", GATES)
    write(project, suite(2, c0="tags: [smalltalk]"))
    project.write("evals/b.eval.yaml", "evalcases: [")
    run = project.run("--continue-on-collection-errors")
    assert "no case has the tag" not in run.text
    assert "invalid YAML" in run.text
    assert run.exit_code == 1
    assert section(run).endswith("No verdict     1 file could not be collected")


def test_a_wrong_line_of_the_gates_is_a_usage_error(project):
    project.write("pytest.ini", GATES.replace("tier=critical", "teir=critical"))
    run = write(project, suite(2)).run()
    assert run.exit_code != 0
    assert "agentv_gates: 'booking: min_rate=0.9 teir=critical': unknown word 'teir=critical'" in run.text


def test_last_failed_forgets_a_gate_that_turned_green(small, monkeypatch):
    small.remembers = True
    remembered = small.path / ".pytest_cache/v/cache/lastfailed"
    small.write("evals/a.eval.yaml", suite(2))
    assert small.run("--agentv-baseline").exit_code == 1
    assert f"{BASELINE}::regression" in json.loads(remembered.read_text())
    assert small.run("--agentv-baseline", "--lf").exit_code == 0, "no verdict with --lf"
    small.write("evals/a.eval.yaml", suite(3))
    assert small.run("--agentv-baseline").exit_code == 0
    assert json.loads(remembered.read_text()) == {}


def test_last_failed_does_not_say_that_cases_are_missing_when_it_may_have_left_out_none(project, monkeypatch):
    """After a red gate it selects all cases, and said that all five were a part of all."""
    project.remembers = True
    monkeypatch.setenv("RATE", "0")
    write(project, suite(5))
    gate = ("--agentv-gate=run", "--agentv-min-rate=0.9")
    assert project.run(*gate).exit_code == 1
    run = project.run(*gate, "--lf")
    assert section(run).endswith("No verdict     5 cases may be a part of all (--lf)")


def test_the_verdict_reaches_hooks_files_and_the_step_summary(small, monkeypatch):
    small.write(
        "conftest.py",
        """
        import json

        def pytest_agentv_summary(results, verdict):
            print("told", len(results), verdict["verdict"])
        """,
    )
    page = small.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    small.write("evals/a.eval.yaml", suite(2))
    run = small.run("--agentv-baseline", "-s")
    assert "told 2 stale" in run.text
    assert verdict(small, 1)["gates"] == [
        {"name": f"{BASELINE}::regression", "failed": True, "reason": "stale baseline: 1 case is gone"}
    ]
    text = page.read_text("utf-8")
    assert text.startswith("## ❌ Evaluations: 2 passed\n")
    assert "- The gate failed: `stale baseline: 1 case is gone`" in text
    assert "### Statistics\n\n```text\n2 cases, 1 answer each\n" in text


def test_repeats_alone_bring_the_section_and_the_verdict_file(project):
    write(project, suite(2, "repeat: 3"))
    run = project.run("--agentv-stop=never")
    assert (run.exit_code, run.outcomes) == (0, {"passed": 2}), "no gate, no report"
    assert section(run).startswith("2 cases, 3 answers each\nPass rate      100.0 %  95 %: 1.2 to 100.0")
    assert "The answers were always the same text: repeats tell nothing here" in section(run)
    assert verdict(project, 1)["verdict"] == "no baseline"


def test_without_repeats_and_gates_there_is_neither(project):
    run = write(project, suite(2)).run()
    assert "EVALUATION STATISTICS" not in run.text
    assert not (project.path / "out-1.verdict.json").exists()


EARLIER = ("out.verdict.json", '{"verdict": "unchanged"}')
OUT = "--agentv-out=out.jsonl"
IN_PYTHON = """
    def test_one(agentv):
        agentv.run("asked", expected_outcome="x", evaluators=[{"type": "contains", "value": "yes"}])
"""


def test_files_that_differ_behind_their_last_dot_have_verdicts_of_their_own(project):
    """`run.2` wrote over the verdict on `run.1`."""
    write(project, suite(2, "repeat: 2"))
    for number in (1, 2):
        project.run(f"--agentv-out={project.path / f'run.{number}'}")
    found = sorted(path.name for path in project.path.glob("*.verdict.json"))
    assert found == ["run.1.verdict.json", "run.2.verdict.json"]


@pytest.mark.parametrize(
    ("results", "verdict"),
    [
        ("run.jsonl", "run.verdict.json"),
        ("run.yaml", "run.yaml.verdict.json"),
        ("run.yml", "run.yml.verdict.json"),
        ("run.json", "run.json.verdict.json"),
        ("run.1", "run.1.verdict.json"),
    ],
)
def test_results_of_one_name_and_several_formats_have_verdicts_of_their_own(results, verdict):
    """`run.yaml` wrote over the verdict on `run.jsonl`, whose report then showed it."""
    assert verdict_path(Path("there", results)) == Path("there", verdict)


@pytest.mark.parametrize("flags", [(), ("-n2",), ("--agentv-dry-run",), ("evals/test_python.py",)], ids=" ".join)
def test_a_run_without_a_verdict_leaves_none_on_an_earlier_run(project, flags):
    write(project, suite(2))
    project.write("evals/test_python.py", IN_PYTHON)
    project.write(*EARLIER)
    project.run(OUT, *flags)
    assert (project.path / "out.jsonl").read_text()
    assert not (project.path / EARLIER[0]).exists()


def test_a_resumed_run_without_a_verdict_leaves_none_on_the_run_that_it_goes_on_with(project):
    write(project, suite(2))
    project.run(OUT, "--agentv-gate=strict", "--agentv-min-rate=0.1")
    assert (project.path / EARLIER[0]).exists()
    project.run(OUT, "--agentv-resume=out.jsonl")
    assert not (project.path / EARLIER[0]).exists()


@pytest.mark.parametrize("arguments", [(), ("evals/test_python.py",)], ids=["cases", "python"])
def test_while_a_run_goes_on_there_is_no_verdict_on_an_earlier_one(project, arguments):
    write(project, suite(1))
    project.write("evals/test_python.py", IN_PYTHON)
    project.write(*EARLIER)
    project.write(
        "evals/agent.py",
        """
        from pathlib import Path

        def answer(_):
            return "no" if Path("out.verdict.json").exists() else "yes"
        """,
    )
    assert project.run(OUT, "--agentv-gate=strict", "--agentv-min-rate=0.1", *arguments).exit_code == 0
    assert json.loads((project.path / EARLIER[0]).read_text())["verdict"] == "no baseline"


@pytest.mark.parametrize("flags", [("--collect-only",), ("evals/test_plain.py",)], ids=" ".join)
def test_a_run_that_evaluates_nothing_keeps_the_verdict(project, flags):
    write(project, suite(1))
    project.write("evals/test_plain.py", "def test_plain(): pass\n")
    project.write(*EARLIER)
    project.run(OUT, *flags)
    assert (project.path / EARLIER[0]).exists()


def test_a_suspect_is_asked_again_once_however_often_the_run_is_resumed(project, monkeypatch):
    write(project, suite(3, "repeat: 5\nmin_pass_rate: 0.6"))
    project.run("--agentv-update-baseline")
    monkeypatch.setenv("BROKEN", "c1")
    project.run("--agentv-baseline")
    count = len((project.path / "out-2.jsonl").read_text().splitlines())
    run = project.run("--agentv-baseline", "--agentv-resume=out-2.jsonl", "--agentv-out=out-2.jsonl")
    assert "10 more to confirm 1 suspect" in section(run)
    assert len((project.path / "out-2.jsonl").read_text().splitlines()) == count
    run = project.run("--agentv-baseline", "--agentv-confirm=0")
    assert "more to confirm" not in section(run)


def test_tests_that_evaluate_are_judged_as_well(project):
    project.write(
        "test_agent.py",
        """
        import os, pytest

        @pytest.fixture
        def agentv_provider():
            return lambda prompt: os.environ.get("ANSWER", "yes")

        @pytest.mark.parametrize("number", range(6))
        def test_it(agentv, number):
            agentv.run(f"ask {number}", evaluators=[{"name": "w", "type": "heuristic", "hits": ["yes"]}])
        """,
    )
    run = project.run("--agentv-update-baseline")
    assert (run.exit_code, len((project.path / BASELINE).read_text().splitlines())) == (0, 7)
    assert section(project.run("--agentv-baseline")).splitlines()[3].endswith("6 compared")


def test_cases_of_a_test_that_is_skipped_or_ends_early_are_not_gone(project, monkeypatch):
    """A test may evaluate several cases, with ids of their own."""
    project.write(
        "test_agent.py",
        """
        import os, pytest

        WORDS = [{"name": "w", "type": "heuristic", "hits": ["yes"]}]

        @pytest.fixture
        def agentv_provider():
            return lambda prompt: "no" if prompt == os.environ.get("BROKEN") else "yes"

        @pytest.mark.xfail(strict=False)
        def test_first(agentv):
            assert agentv.run("one", id="one", evaluators=WORDS)
            assert agentv.run("two", id="two", evaluators=WORDS)

        @pytest.mark.skipif(bool(os.environ.get("SKIP")), reason="later")
        def test_second(agentv):
            agentv.run("three", id="three", evaluators=WORDS)
        """,
    )
    assert project.run("--agentv-update-baseline").exit_code == 0
    monkeypatch.setenv("BROKEN", "one")
    monkeypatch.setenv("SKIP", "1")
    run = project.run("--agentv-baseline")
    assert (run.exit_code, run.outcomes) == (0, {"xfailed": 1, "skipped": 1, "passed": 1})
    assert verdict(project, 2)["skipped"] == ["test_agent.py::three", "test_agent.py::two"]


def test_neither_the_baseline_nor_the_verdict_holds_what_answers_say(project, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "hunter2-very-secret")
    write(project, suite(2, "repeat: 5"))
    agent = project.path / "evals/agent.py"
    agent.write_text(agent.read_text().replace('return "yes"', 'return "yes " + os.environ["MY_API_KEY"]'))
    page = project.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    assert project.run("--agentv-update-baseline").exit_code == 0
    monkeypatch.setenv("BROKEN", "c1")
    run = project.run("--agentv-baseline")
    assert "BROKEN" in section(run)
    files = [project.path / name for name in (BASELINE, "out-2.verdict.json", "out-2.jsonl")]
    assert all("hunter2" not in text for text in [run.text, *(path.read_text("utf-8") for path in (*files, page))])


def test_the_results_may_be_yaml(small, monkeypatch):
    monkeypatch.setenv("BROKEN", "c1")
    run = small._pytester.runpytest_inprocess("--agentv-baseline", "--agentv-out=o.yaml")
    assert "Difference     -33.3" in run.stdout.str()
    assert json.loads((small.path / "o.yaml.verdict.json").read_text())["verdict"] == "inconclusive"
    lines = read_results(small.path / "o.yaml").results
    assert {line["eval_id"]: line["baseline"]["delta"] for line in lines} == {"c0": 0, "c1": -1, "c2": 0}
    monkeypatch.setenv("BROKEN", "c0 c1 c2")
    run = small._pytester.runpytest_inprocess("--agentv-resume=o.yaml", "--agentv-threshold=0.5")
    run.assert_outcomes(passed=2, failed=1)
    again = read_results(small.path / "o.yaml")
    assert (len(again.results), again.problems) == (6, ())


def test_reruns_of_cases_that_are_left_to_the_verdict_are_none(project, monkeypatch):
    """An XFAIL is not run again: the verdict would judge the luckiest of several answers."""
    write(project, suite(3))
    monkeypatch.setenv("BROKEN", "c1")
    run = project.run("--agentv-gate=run", "--agentv-min-rate=0.5", "--reruns=2")
    assert run.outcomes == {"passed": 3, "xfailed": 1}
    assert len(run.results) == 3
