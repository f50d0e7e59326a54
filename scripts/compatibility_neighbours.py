"""What makes each neighbour special, tried with eval cases."""

import html
import json
import re
import time
from collections import Counter

from compatibility_bench import NOT_PASSED, OUTCOMES, Bench, CheckError, eval_file
from compatibility_checks import expect, expect_one_call_each, expect_usual, node_id

STATUSES = {"pass": "passed", "fail": "failed", "error": "error"}
_POOL = """
from concurrent.futures import ProcessPoolExecutor

def pytest_agentv_executor():
    return ProcessPoolExecutor(2)
"""
DIST_MODES = ("load", "loadfile", "loadscope", "loadgroup", "worksteal")


def check_xdist(bench: Bench) -> None:
    """`--dist` load, loadfile, loadscope, loadgroup, worksteal, each."""
    bench.write("evals/more.eval.yaml", eval_file({f"more-{number}": "passed" for number in range(12)}))
    expected = OUTCOMES | {f"more-{number}": "passed" for number in range(12)}
    for mode in DIST_MODES:
        run = bench.run("-n", "2", "--dist", mode, "--agentv-workers=4")
        expect(run.outcomes, expected, f"outcomes with --dist {mode}")
        expect(sum(run.calls.values()), len(expected) - 1, f"calls with --dist {mode}")
    run = bench.run("--dist", "each", "--tx", "2*popen")
    expect(
        {item: count for item, count in run.items.items() if item[0] != "test_one"},
        dict.fromkeys(expected.items(), 2),
        "outcomes with --dist each",
    )


def check_rerunfailures(bench: Bench) -> None:
    """`--reruns`: each rerun is a call."""
    bench.write("evals/flaky.eval.yaml", eval_file({"flaky": "passed"}))
    for workers in ((), ("-n", "2")):
        run = bench.run("--reruns", "2", *workers)
        last = {record["node_id"].rpartition("::")[2]: STATUSES[record["status"]] for record in run.results}
        expect(last, OUTCOMES | {"flaky": "passed"}, "the last record of each case")
        expected = {"good": 1, "bad": 3, "raises": 3, "flaky": 2}
        expect({word: run.calls[word] for word in expected}, expected, "calls of the agent")
        if f"{2 * len(NOT_PASSED) + 1} rerun" not in run.text:
            raise CheckError("pytest's last line does not count the reruns")


def check_randomly(bench: Bench) -> None:
    """A shuffled order, every case once."""
    orders = set()
    for seed in (1, 2, 3):
        run = bench.run(f"--randomly-seed={seed}")
        expect_usual(run)
        expect_one_call_each(run)
        orders.add(tuple(record["node_id"] for record in run.results))
    if len(orders) < 2:
        raise CheckError("three seeds gave one order")
    expect_usual(bench.run("-n", "2", "--randomly-seed=1"))


def check_timeout(bench: Bench) -> None:
    """`--timeout`: a case that hangs is ended and named."""
    bench.write("evals/hang.eval.yaml", eval_file({"hangs": "passed", "after": "passed"}))
    started = time.monotonic()
    run = bench.run("--timeout=3", "evals/hang.eval.yaml")
    expect(run.items["after", "passed"], 1, "the case behind the one that hangs")
    if (
        run.items["hangs", "passed"]
        or "Timeout" not in run.text
        or node_id("hangs").replace("qa", "hang") not in run.text
    ):
        raise CheckError("the case that hangs was not ended and named")
    if time.monotonic() - started > 30:
        raise CheckError("the run waited for the case that hangs")


def check_asyncio(bench: Bench) -> None:
    """Its autouse fixture keeps no case in pytest's process."""
    bench.write("pooled.py", _POOL)
    run = bench.run("-p", "pooled")
    expect_usual(run)
    if " with fixtures" in run.text:
        raise CheckError("a fixture of the plugin counts as one of a conftest")


def check_html(bench: Bench) -> None:
    """`--html` shows every case."""
    expect_usual(bench.run("--html=report.html", "--self-contained-html"))
    blob = re.search(r'data-jsonblob="([^"]*)"', bench.read("report.html"))
    tests = json.loads(html.unescape(blob[1]))["tests"] if blob else {}
    found = {name: entries[-1]["result"].lower() for name, entries in tests.items() if "test_python" not in name}
    # A failed set-up has a row of its own.
    found = {name.removesuffix("::setup"): result for name, result in found.items()}
    expect(found, {node_id(name): outcome for name, outcome in OUTCOMES.items()}, "rows of the page")


def check_json_report(bench: Bench) -> None:
    """`--json-report` lists every case."""
    expect_usual(bench.run("--json-report", "--json-report-file=report.json"))
    tests = json.loads(bench.read("report.json"))["tests"]
    found = {test["nodeid"]: test["outcome"] for test in tests if "test_python" not in test["nodeid"]}
    expect(found, {node_id(name): outcome for name, outcome in OUTCOMES.items()}, "tests of the report")


def check_cov(bench: Bench) -> None:
    """`--cov` sees the agent's lines."""
    for workers in ((), ("-n", "2")):
        expect_usual(bench.run("--cov=evals", "--cov-report=json:coverage.json", *workers))
        files = json.loads(bench.read("coverage.json"))["files"]
        lines = next((file["executed_lines"] for name, file in files.items() if name.endswith("agent.py")), [])
        line = next(
            number for number, text in enumerate(bench.read("evals/agent.py").splitlines(), 1) if "raise " in text
        )
        if line not in lines:
            raise CheckError(f"the lines of the agent that ran are not covered {' '.join(workers)}".strip())


def check_sugar(bench: Bench) -> None:
    """Its lines name every case."""
    run = bench.run("--force-sugar", "-v")
    expect_usual(run)
    shown = {"passed": "{} ✓", "failed": "{} ⨯", "error": "ERROR at setup of {} "}
    for name, outcome in OUTCOMES.items():
        if shown[outcome].format(name) not in run.text:
            raise CheckError(f"no line shows '{name}' as {outcome}")


def check_split(bench: Bench) -> None:
    """`--splits 2`: the groups are the whole, and share nothing."""
    bench.run("--store-durations")
    stored = set(json.loads(bench.read(".test_durations")))
    expect(stored & set(map(node_id, OUTCOMES)), set(map(node_id, OUTCOMES)), "cases with a stored duration")
    groups = [bench.run("--splits", "2", "--group", group).items for group in ("1", "2")]
    together = sum(groups, Counter[tuple[str, str]]())
    del together["test_one", "passed"]
    expect(dict(together), dict.fromkeys(OUTCOMES.items(), 1), "cases of both groups")
    if not all(groups):
        raise CheckError("one of the groups is empty")


def check_instafail(bench: Bench) -> None:
    """`--instafail` shows each failure at once."""
    run = bench.run("--instafail", "-v")
    expect_usual(run)
    before_summary = run.text.partition("EVALUATION SUMMARY")[0]
    for name in NOT_PASSED:
        if not re.search(rf"_{{3,}} (ERROR at setup of )?{re.escape(name)} _{{3,}}", before_summary):
            raise CheckError(f"the failure of '{name}' was not shown")


def check_teamcity(bench: Bench) -> None:
    """`--teamcity`: every case is started and finished."""
    for workers in ((), ("-n", "2")):
        run = bench.run("--teamcity", *workers)
        expect_usual(run)
        for message, names in (("testStarted", OUTCOMES), ("testFinished", OUTCOMES), ("testFailed", NOT_PASSED)):
            count = len(re.findall(rf"##teamcity\[{message} [^\n]*qa_eval_yaml", run.text))
            expect(count, len(names), f"messages {message} {' '.join(workers)}".strip())
