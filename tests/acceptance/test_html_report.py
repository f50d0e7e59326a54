"""`--agentv-html` and `agentv report`: the same report with workers, after a resumed run, and from the file."""

import base64
import gzip
import json
import os
import re
import sys
from pathlib import Path

import pytest

from .conftest import IN_ONE_PROCESS, WITH_WORKERS_ON_REQUEST, Project, agentv

SECRET = "sk-not-to-be-seen-4711-4711-4711"
AGENT = f"""
import os
def ask(prompt):
    call = {{"tool": "search", "input": {{"q": prompt, "key": os.environ["SHOP_API_KEY"]}}, "output": [1, 2]}}
    said = [{{"role": "assistant", "content": "One moment.", "tool_calls": [call]}}]
    return {{"output_messages": [*said, {{"role": "assistant", "content": "120 euros </script> {SECRET}"}}]}}
"""
TARGETS = "targets: [{name: default, provider: python, callable: 'agent.py:ask'}]"
SUITE = """
tags: [shop]
evalcases:
  - {id: good, expected_outcome: A price, input: How much?, evaluators: [{type: heuristic, name: p, hits: ["120"]}]}
  - {id: bad, expected_outcome: A weight, input: How heavy?, evaluators: [{type: heuristic, name: w, hits: ["kg"]}]}
"""


def data_of(page: str) -> list[object]:
    blocks = re.findall(r'<script type="text/plain" id="\w+">([^<]*)</script>', page)
    return [json.loads(gzip.decompress(base64.b64decode(block))) for block in blocks]


def without_times(page: str) -> str:
    """Return what a report says, without what differs from run to run."""
    said = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL) + json.dumps(data_of(page)[0])
    said = re.sub(r"[\d.]+ (ms|s|min)\b|out-\d\.jsonl|\d{4}-\d\d-\d\d \d\d:\d\d( UTC)?", "#", said)
    return re.sub(r'<g opacity.*?</svg>|<div class="trades">.*?</figure>|, \d+, "[pf]"', "#", said, flags=re.DOTALL)


@pytest.fixture
def shop(project_in_all_modes: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("SHOP_API_KEY", SECRET)
    project_in_all_modes.write("agent.py", AGENT)
    project_in_all_modes.write("targets.yaml", TARGETS)
    project_in_all_modes.write("shop.eval.yaml", SUITE)
    return project_in_all_modes


@WITH_WORKERS_ON_REQUEST
def test_a_run_writes_its_report_and_its_file_makes_the_same(shop: Project) -> None:
    run = shop.run("--agentv-html=new/report.html")
    assert "Report written to: new/report.html" in run.lines
    page = (shop.path / "new/report.html").read_text("utf-8")
    index, details = data_of(page)
    assert [row[0] for row in index["rows"]] == ["bad", "good"]
    assert details[0]["question"] == "How heavy?"
    assert details[0]["text"] == "120 euros </script> ***"
    assert details[0]["messages"][0]["calls"][0]["tool"] == "search"
    assert details[0]["expected"] == "A weight"
    assert "Failed: 1 of 2 fail." in page
    assert SECRET not in page + json.dumps(data_of(page))
    assert "***" in json.dumps(details)

    results = next(shop.path.glob("out-*.jsonl"))
    assert agentv(["report", str(results), "-o", str(shop.path / "later.html")]) == 0
    assert without_times((shop.path / "later.html").read_text("utf-8")) == without_times(page)


@IN_ONE_PROCESS
def test_a_resumed_run_has_the_same_report(shop: Project) -> None:
    shop.run("--agentv-html=whole.html")
    shop.run("-k", "good", "--agentv-out=part.jsonl")
    run = shop.run("--agentv-resume=part.jsonl", "--agentv-html=resumed.html", "--agentv-out=part.jsonl")
    assert run.exit_code == 1
    whole, resumed = ((shop.path / name).read_text("utf-8") for name in ("whole.html", "resumed.html"))
    assert without_times(resumed).replace("part.jsonl", "#") == without_times(whole)


@WITH_WORKERS_ON_REQUEST
def test_commands_of_cases_are_those_of_the_terminal_and_find_them(project_in_all_modes: Project) -> None:
    """They named one target of several."""
    project = project_in_all_modes
    mocks = "{name: gpt, provider: mock, response: no}, {name: careful, provider: mock, response: no}"
    project.write("mine/targets.yaml", f"targets: [{mocks}]")
    for folder in ("evals", "app"):
        check = "evaluators: [{name: w, type: heuristic, hits: [x]}]"
        project.write(f"{folder}/p.eval.yaml", f"evalcases: [{{id: tent, input: hi, {check}}}]")
    own = ("--agentv-targets-file=mine/targets.yaml", "--agentv-target=gpt,careful")
    run = project.run(*own, "--agentv-html=own.html", "--agentv-out=run.jsonl")
    told = {line.removeprefix("Rerun:  ") for line in run.lines if line.startswith("Rerun:")}
    assert len(told) == 4
    assert commands_of(project.path / "own.html") == told
    agentv(["report", str(project.path / "run.jsonl"), "-o", str(project.path / "later.html")])
    assert commands_of(project.path / "later.html") == {
        f"pytest {folder}/p.eval.yaml --agentv-eval-id=tent --agentv-target={name}"
        for folder in ("evals", "app")
        for name in ("gpt", "careful")
    }
    again = project.run(*own[:1], *["evals/p.eval.yaml::tent@gpt", "--agentv-target=gpt,careful"])
    assert again.outcomes == {"failed": 1}
    alone = project.run(*own[:1], *["evals/p.eval.yaml", "--agentv-eval-id=tent", "--agentv-target=careful"])
    assert alone.outcomes == {"failed": 1}


def commands_of(path: Path) -> set[str]:
    return {detail["rerun"] for detail in data_of(path.read_text("utf-8"))[1]}


@IN_ONE_PROCESS
def test_a_case_that_was_skipped_is_not_gone_in_the_report(shop: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The terminal said "Skipped 1", the report "1 gone"."""
    shop.run("--agentv-update-baseline")
    path = shop.path / "shop.eval.yaml"
    path.write_text(path.read_text("utf-8").replace("id: good", "id: good, skip: later"), "utf-8")
    run = shop.run("--agentv-baseline", "--agentv-out=run.jsonl", "--agentv-html=own.html", "-p", "no:cacheprovider")
    assert any(line.startswith("Skipped 1") for line in run.lines)
    base = str(shop.path / "agentv.baseline.jsonl")
    agentv(["report", str(shop.path / "run.jsonl"), base, "-o", str(shop.path / "later.html")])
    capsys.readouterr()
    for name in ("own.html", "later.html"):
        page = (shop.path / name).read_text("utf-8")
        assert ("1 skipped" in page, "1 gone" in page) == (True, False), name


def headline_of(path: Path) -> str:
    found = re.search(r"<h1>(.*?)</h1>", path.read_text("utf-8"))
    assert found
    return found[1]


WAVERING = """
import os
import collections
asked = collections.Counter()
def ask(prompt):
    asked[prompt] += 1
    return "120" if "GOOD" in os.environ or asked[prompt] % 5 < 2 else "no idea"
"""
REPEATED = """
repeat: 5
min_pass_rate: 0.2
evaluators: [{type: heuristic, name: p, hits: ["120"]}]
evalcases:
"""


@pytest.fixture
def regressed(shop: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A suite whose cases all pass, and whose gate fails: they broke against the baseline."""
    shop.write("agent.py", WAVERING)
    cases = "".join(f"  - {{id: c{n}, expected_outcome: A price, input: How much is {n}?}}\n" for n in range(6))
    shop.write("shop.eval.yaml", REPEATED + cases)
    monkeypatch.setenv("GOOD", "1")
    assert shop.run("--agentv-stop=never", "--agentv-update-baseline").exit_code == 0
    monkeypatch.delenv("GOOD")
    return shop


@IN_ONE_PROCESS
def test_a_report_from_the_file_has_the_verdict_of_the_run(
    regressed: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--agentv-stop=never", "--agentv-baseline", "--agentv-confirm=0", "--agentv-html=own.html")
    run = regressed.run(*flags, "--agentv-out=run.jsonl")
    assert run.exit_code == 1
    assert run.outcomes["passed"] == 6
    own, later, path = (regressed.path / name for name in ("own.html", "later.html", "run.jsonl"))
    assert headline_of(own) == "Failed: 6 cases broke against the baseline."
    assert agentv(["report", str(path), "-o", str(later)]) == 0
    assert headline_of(later) == "Failed at a gate: 6 cases are broken."
    capsys.readouterr()
    assert agentv(["report", str(path)]) == 0
    comment = capsys.readouterr().out.splitlines()
    assert comment[1].startswith("## ❌ Evaluations: 6 passed")
    assert "- The gate failed: `6 cases are broken`" in comment

    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[1:]), "utf-8")
    assert agentv(["report", str(path), "-o", str(later)]) == 0
    assert "run.verdict.json: left out, it is no verdict on these results" in capsys.readouterr().err
    assert headline_of(later) == "Passed: all 5 cases pass."


@IN_ONE_PROCESS
def test_a_part_of_a_run_with_a_baseline_has_no_verdict(regressed: Project) -> None:
    regressed.run("--agentv-baseline", "--agentv-html=own.html", "--agentv-out=run.jsonl", "-k", "c3")
    assert headline_of(regressed.path / "own.html") == "No verdict: the one case passes."
    assert agentv(["report", str(regressed.path / "run.jsonl"), "-o", str(regressed.path / "later.html")]) == 0
    assert headline_of(regressed.path / "later.html") == "No verdict: the one case passes."


STOPPING = """
import pytest
@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    if item.name == "good":
        pytest.exit("enough")
"""
BREAKING = "def pytest_runtest_teardown(item):\n    assert item.name != 'good'\n"


@IN_ONE_PROCESS
@pytest.mark.parametrize(
    ("conftest", "said"),
    [
        (STOPPING, "Failed: the run broke off before its end."),
        (BREAKING, "Failed: 1 case failed outside of the evaluation."),
    ],
)
def test_a_run_that_went_wrong_beside_its_cases_is_not_green(shop: Project, conftest: str, said: str) -> None:
    shop.write("conftest.py", conftest)
    run = shop.run("--agentv-html=report.html", "--deselect=shop.eval.yaml::bad")
    assert run.exit_code != 0
    assert headline_of(shop.path / "report.html") == said


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_a_folder_whose_name_is_no_utf_8_loses_no_result(project):
    """pytest-xdist cannot send such names to workers."""
    folder = os.fsdecode(b"sh\xffop")
    project.write(f"{folder}/targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    cases = "[{id: a, input: hi, assert: [{contains: hello}]}, {id: b, input: hi, assert: [{contains: bye}]}]"
    project.write(f"{folder}/a.eval.yaml", f"evalcases: {cases}\n")
    run = project.run("--agentv-html=report.html")
    assert (run.outcomes, run.internals) == ({"passed": 1, "failed": 1}, [])
    assert not any(line.startswith("Results were lost") for line in run.lines)
    assert (project.path / "report.html").is_file()
