"""Runs that are judged as a whole: against a baseline, by a pass rate, by tags."""

import json
import re
from xml.etree import ElementTree

import pytest
from results_files import read_results
from thorough import tries, varied

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
    gate = ("--agentv-gate=run", "--agentv-fail-under=0.5")
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


def test_a_baseline_of_another_root_directory_is_not_called_gone(small):
    """Its files have other names from there. They are beside it."""
    run = small.run(f"--rootdir={small.path.parent}", f"--agentv-baseline={small.path / BASELINE}")
    assert run.exit_code == pytest.ExitCode.TESTS_FAILED
    assert "stale baseline: no case of it is comparable" in section(run)


@WITH_WORKERS_ON_REQUEST
def test_a_case_that_its_mark_expects_to_fail_needs_no_verdict(small, monkeypatch, mode):
    """It is XFAIL by the user's own mark, which the run has not to judge."""
    small.write("evals/b.eval.yaml", suite(2, first=10, c10="xfail: known"))
    small.run("--agentv-update-baseline")
    monkeypatch.setenv("BROKEN", "c10")
    run = small.run("--agentv-baseline", "--agentv-gate=run", "evals/b.eval.yaml", mode=mode)
    assert (run.exit_code, run.outcomes) == (0, {"passed": 1, "xfailed": 1})
    assert section(run).endswith("No verdict     2 of 5 cases (no case of evals/a.eval.yaml was run)")


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


@pytest.mark.kills
def test_a_worker_that_crashes_leaves_no_verdict(small, monkeypatch):
    monkeypatch.setenv("CRASH", "c1")
    run = small.run("--agentv-baseline", mode=("-n", "2"))
    assert section(run).endswith("No verdict     a worker crashed")
    assert section(run).startswith("3 cases"), "the one on which it crashed as well"
    assert verdict(small, 1)["errors"] == ["evals/a.eval.yaml::c1"], "else it is no verdict on these results"
    assert run.exit_code == 1


def test_a_resumed_run_that_retries_errors_is_judged_whole(small, monkeypatch):
    """It has all its cases, and the tests that are none."""
    small.write("test_other.py", "def test_other(): ...\n")
    monkeypatch.setenv("DOWN", "c1")
    assert small.run("--agentv-out=own.jsonl").outcomes == {"passed": 3, "errors": 1}
    monkeypatch.setenv("DOWN", "")
    monkeypatch.setenv("BROKEN", "c1")
    gate = ("--agentv-gate=run", "--agentv-fail-under=0.9")
    run = small.run("--agentv-resume=own.jsonl", "--agentv-retry-errors", *gate)
    assert run.outcomes == {"passed": 3, "xfailed": 1, "failed": 1}
    assert "FAILED gate::run - the pass rate 66.7 % of 3 cases is below 90.0 %" in run.text


def test_a_run_that_writes_the_baseline_has_to_pass_its_other_gates(project, monkeypatch):
    """Failing cases were left to gates that nobody asked then: a run of which nothing passed was green."""
    write(project, suite(4, "tags: [sums]"))
    monkeypatch.setenv("RATE", "0")
    run = project.run("--agentv-gate=run", "--agentv-fail-under=0.9", "--agentv-update-baseline")
    assert run.exit_code == 1
    assert (run.outcomes["failed"], run.outcomes["xfailed"]) == (1, 4)
    assert "GATE run: FAILED, the pass rate 0.0 % of 4 cases is below 90.0 %" in run.text
    assert "Baseline written to:" in run.text
    project.write("pytest.ini", "[pytest]\nagentv_gates =\n    sums: min_rate=0.5\n")
    run = project.run("--agentv-gate=run", "--agentv-update-baseline")
    assert run.exit_code == 1
    assert "GATE sums: FAILED" in run.text
    monkeypatch.setenv("RATE", "1")
    assert project.run("--agentv-gate=run", "--agentv-fail-under=0.9", "--agentv-update-baseline").exit_code == 0


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


@pytest.mark.parametrize(
    ("ini", "path"),
    [
        ("testpaths = evals/m*", "evals"),
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
    run = project.run(path, "--agentv-gate=run", "--agentv-fail-under=0.4")
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
    gate = ("--agentv-gate=run", "--agentv-fail-under=0.9")
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
    project.run(OUT, "--agentv-gate=strict", "--agentv-fail-under=0.1")
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
    assert project.run(OUT, "--agentv-gate=strict", "--agentv-fail-under=0.1", *arguments).exit_code == 0
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
    run = project.run("--agentv-gate=run", "--agentv-fail-under=0.5", "--reruns=2")
    assert run.outcomes == {"passed": 3, "xfailed": 1}
    assert len(run.results) == 3
