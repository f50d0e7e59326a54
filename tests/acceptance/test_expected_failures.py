"""Cases that a mark `xfail` expects to fail: what the results file says of them, and reports that are made from it."""

import csv
import json
from typing import Any

import pytest

from pytest_agentv.cli.convert import run as convert
from pytest_agentv.cli.report import run as report

from .conftest import IN_ONE_PROCESS, WITH_WORKERS_ON_REQUEST, Project

TARGETS = "targets: [{name: default, provider: mock, response: hello}]"
AGENT = """
def answer(prompt):
    with open("asked", "a") as file:
        file.write("x")
    return "hello"
"""
CASE = "expected_outcome: x, input: hi, evaluators: [{contains: %s}]"
FAILS, PASSES = CASE % "nothing", CASE % "hello"
EVALS = f"""
evalcases:
  - {{id: good, {PASSES}}}
  - {{id: known, xfail: a known gap, {FAILS}}}
"""
CONFTEST = """
import pytest

MARKS = {
    "strict": pytest.mark.xfail(reason="not yet", strict=True),
    "bare": pytest.mark.xfail,
    "crash": pytest.mark.xfail(reason="cannot be asked"),
    "other": pytest.mark.xfail(raises=ValueError),
    "elsewhere": pytest.mark.xfail("1 == 2", reason="not here"),
}

def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in MARKS:
            item.add_marker(MARKS[item.name])
"""


@pytest.fixture
def shop(project_in_all_modes: Project) -> Project:
    project_in_all_modes.write("targets.yaml", TARGETS)
    project_in_all_modes.write("a.eval.yaml", EVALS)
    return project_in_all_modes


def told_by(shop: Project, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert report([str(shop.path / "out-1.jsonl"), *arguments]) == 0
    return capsys.readouterr().out


def marks_of(results: list[dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    return {each["eval_id"]: (each.get("xfail"), each.get("xfail_strict")) for each in results}


def test_records_tell_which_low_scores_pytest_expects(shop: Project) -> None:
    names = ("strict", "bare", "crash", "other", "elsewhere")
    cases = "".join(f"  - {{id: {name}, {FAILS if name != 'crash' else CASE % '1, bogus: 1'}}}\n" for name in names)
    shop.write("a.eval.yaml", f"{EVALS}{cases}")
    shop.write("conftest.py", CONFTEST)
    run = shop.run()
    assert marks_of(run.results) == {
        "good": (None, None),
        "known": ("a known gap", None),
        "strict": ("not yet", True),
        "bare": ("", None),
        "crash": (None, None),
        "other": (None, None),
        "elsewhere": (None, None),
    }
    assert run.outcomes == {"passed": 1, "xfailed": 4, "failed": 2}


@IN_ONE_PROCESS
def test_with_runxfail_nothing_is_expected(shop: Project) -> None:
    run = shop.run("--runxfail")
    assert run.outcomes == {"passed": 1, "failed": 1}
    assert marks_of(run.results)["known"] == (None, None)


@IN_ONE_PROCESS
def test_reports_from_the_file_say_what_the_run_said(shop: Project, capsys: pytest.CaptureFixture[str]) -> None:
    run = shop.run()
    assert run.exit_code == 0
    assert "Total eval cases: 2 (1 passed, 0 failed, 1 failed as expected, 0 errors)" in run.lines
    assert "## ✅ Evaluations: 1 passed, 1 failed as expected" in told_by(shop, capsys)
    assert json.loads(told_by(shop, capsys, "--format=gitlab-codequality")) == []
    junit = told_by(shop, capsys, "--format=junit")
    assert 'tests="2" skipped="1" failures="0" errors="0"' in junit
    assert '<skipped type="pytest.xfail" message="a known gap" />' in junit
    page = shop.path / "page.html"
    told_by(shop, capsys, f"--out={page}")
    assert "Passed: 1 of 2 cases pass, 1 failed as expected." in page.read_text("utf-8")


@IN_ONE_PROCESS
def test_a_case_that_passes_against_a_strict_mark_is_red_in_reports_too(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.write("a.eval.yaml", f"evalcases:\n  - {{id: good, {PASSES}}}\n  - {{id: strict, {PASSES}}}\n")
    shop.write("conftest.py", CONFTEST)
    assert shop.run("--agentv-html=run.html").outcomes == {"passed": 1, "failed": 1}
    comment = told_by(shop, capsys)
    assert "## ❌ Evaluations: 1 passed, 1 failed\n" in comment
    assert "- Failed because they passed (strict `xfail`): `a.eval.yaml::strict`" in comment
    junit = told_by(shop, capsys, "--format=junit")
    assert 'tests="2" skipped="0" failures="1" errors="0"' in junit
    assert '<failure message="[XPASS(strict)] not yet" />' in junit
    (entry,) = json.loads(told_by(shop, capsys, "--format=gitlab-codequality"))
    assert entry["description"] == "a.eval.yaml::strict: [XPASS(strict)] not yet"
    page = shop.path / "page.html"
    told_by(shop, capsys, f"--out={page}")
    for written in (page, shop.path / "run.html"):
        assert "Failed: 1 case passed against a strict `xfail`." in written.read_text("utf-8")


@IN_ONE_PROCESS
def test_the_page_of_a_run_tells_strict_passes_from_other_failures(shop: Project) -> None:
    shop.write(
        "a.eval.yaml", f"evalcases:\n  - {{id: strict, {PASSES}}}\n  - {{id: torn, {PASSES}, fixtures: [torn]}}\n"
    )
    fixture = "@pytest.fixture\ndef torn():\n    yield\n    raise ValueError('torn down')\n"
    shop.write("conftest.py", f"{CONFTEST}\n\n{fixture}")
    shop.write("test_it.py", "import pytest\n\n\n@pytest.mark.xfail(strict=True)\ndef test_plain():\n    pass\n")
    shop.run("--agentv-html=run.html")
    said = "Failed: 1 case failed outside of the evaluation and 1 case passed against a strict `xfail`."
    assert said in (shop.path / "run.html").read_text("utf-8")


@WITH_WORKERS_ON_REQUEST
def test_a_resumed_run_records_the_marks_of_now_and_asks_nothing(shop: Project) -> None:
    shop.write(
        "agent.py",
        "def answer(prompt):\n    with open('asked', 'a') as file:\n        file.write('x')\n    return 'hello'\n",
    )
    shop.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]")
    shop.run()
    shop.write("a.eval.yaml", EVALS.replace(" xfail: a known gap,", ""))
    run = shop.run("--agentv-resume=out-1.jsonl")
    assert run.outcomes == {"passed": 1, "failed": 1}
    assert marks_of(run.results) == {"good": (None, None), "known": (None, None)}
    shop.write("a.eval.yaml", EVALS)
    again = shop.run("--agentv-resume=out-2.jsonl", "--agentv-out=out-2.jsonl")
    assert again.outcomes == {"passed": 1, "xfailed": 1}
    lines = [json.loads(line) for line in (shop.path / "out-2.jsonl").read_text("utf-8").splitlines()]
    assert [each.get("xfail") for each in lines if each["eval_id"] == "known"][-1] == "a known gap"
    assert (shop.path / "asked").read_text() == "xx"


@WITH_WORKERS_ON_REQUEST
def test_a_repeated_case_and_a_test_have_the_mark_too(shop: Project) -> None:
    shop.write(
        "test_it.py",
        """
        import pytest

        @pytest.mark.xfail(reason="in Python")
        def test_it(agentv):
            assert agentv.run("hi", evaluators=[{"contains": "nothing"}])
        """,
    )
    run = shop.run("--agentv-repeat=2", "--agentv-stop=never", "--agentv-include-answers")
    assert run.outcomes == {"passed": 1, "xfailed": 2}
    assert marks_of(run.results) == {
        "good": (None, None),
        "known": ("a known gap", None),
        "test_it": ("in Python", None),
    }
    assert "xfail" not in run.by_id["known"]["answers"][0]


@WITH_WORKERS_ON_REQUEST
def test_the_reason_of_a_mark_holds_no_secret(shop: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-not-to-be-seen-4711-4711-4711"
    monkeypatch.setenv("SHOP_API_KEY", secret)
    shop.write("a.eval.yaml", EVALS.replace("a known gap", secret))
    run = shop.run()
    assert run.outcomes == {"passed": 1, "xfailed": 1}
    assert secret not in json.dumps(run.results)
    assert secret not in run.text


@IN_ONE_PROCESS
def test_a_required_case_may_be_expected_to_fail_where_the_run_is_judged_as_a_whole(
    shop: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.write("a.eval.yaml", EVALS.replace("xfail:", "required: true, xfail:"))
    pages = [shop.path / name for name in ("live.html", "later.html")]
    run = shop.run("--agentv-gate=run", "--agentv-min-rate=0.3", f"--agentv-html={pages[0]}")
    assert (run.exit_code, run.outcomes["xfailed"]) == (0, 1)
    told_by(shop, capsys, f"--out={pages[1]}")
    assert ["Failed:" in page.read_text("utf-8") for page in pages] == [False, False]
    assert "Total eval cases: 2 (1 passed, 0 failed, 1 failed as expected, 0 errors)" in run.lines
    assert "## ✅ Evaluations: 1 passed, 1 failed as expected" in told_by(shop, capsys)


@IN_ONE_PROCESS
def test_cases_of_a_run_without_a_verdict_are_not_said_to_be_judged_with_it(shop: Project) -> None:
    run = shop.run("--agentv-gate=run", "--agentv-min-rate=0.3", "--deselect=a.eval.yaml::good")
    assert "Total eval cases: 1 (0 passed, 0 failed, 1 failed as expected, 0 errors)" in run.lines


@WITH_WORKERS_ON_REQUEST
def test_a_dry_run_fails_no_case_for_passing_against_a_strict_mark(shop: Project) -> None:
    shop.write("pytest.ini", "[pytest]\nxfail_strict = true\n")
    shop.write(
        "test_it.py",
        """
        import pytest

        @pytest.mark.xfail(reason="in Python")
        def test_it(agentv):
            assert agentv.run("hi", evaluators=[{"contains": "nothing"}])

        @pytest.mark.xfail(reason="no evaluation")
        def test_other():
            pass
        """,
    )
    run = shop.run("--agentv-dry-run")
    assert run.outcomes == {"passed": 1, "xpassed": 2, "failed": 1}
    assert "Total eval cases: 3 (3 passed, 0 failed, 0 errors)" in run.lines
    assert "FAILED test_it.py::test_other - [XPASS(strict)] no evaluation" in run.lines


@WITH_WORKERS_ON_REQUEST
def test_an_error_under_a_mark_that_expects_any_exception_is_red_for_what_it_is(shop: Project) -> None:
    shop.write("a.eval.yaml", f"evalcases:\n  - {{id: crash, {CASE % '1, bogus: 1'}}}\n")
    shop.write("conftest.py", CONFTEST)
    run = shop.run()
    assert (run.exit_code, run.outcomes) == (1, {"xfailed": 1})
    said = "a case could not be judged, which its mark `xfail` does not excuse, so the run fails: a.eval.yaml::crash"
    assert said in run.lines
    assert "its test went on" not in run.text


@WITH_WORKERS_ON_REQUEST
def test_a_spreadsheet_tells_which_low_scores_were_expected(shop: Project) -> None:
    shop.run()
    assert convert([str(shop.path / "out-1.jsonl"), f"--out={shop.path / 'out.csv'}"]) == 0
    with (shop.path / "out.csv").open(newline="") as file:
        rows = sorted((row["eval_id"], row["status"], row["xfail"]) for row in csv.DictReader(file))
    assert rows == [
        ("good", "pass", ""),
        ("known", "fail", "a known gap"),
    ]
