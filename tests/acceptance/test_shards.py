"""Runs in shards, and the results of all of them as those of one run."""

import json
import re
from pathlib import Path

import pytest
from repeating_agent import answered, asked, counts, write_project, write_suite

from .conftest import agentv

pytestmark = pytest.mark.slow

SUITE = {
    "tent": "ppp|tags: [gear]",
    "lamp": "fff|tags: [gear]",
    "rope": "p|repeat: 1",
    "hook": "pfp|min_pass_rate: 0.5",
    "boot": "e|repeat: 1",
    "left": "p|skip: not now",
    "odd": "f|repeat: 1, xfail: known",
}
OTHER = {f"more-{number}": "p" for number in range(6)}
TESTS = """
    import pytest

    @pytest.mark.parametrize("number", range(4))
    def test_evaluates(agentv, number):
        case = {"id": f"own-{number}", "criteria": "greets", "input": "p"}
        assert agentv.run(case, evaluators=[{"name": "words", "type": "heuristic", "hits": ["hello"]}])

    def test_of_another_kind():
        pass
"""
SHARDS = 3


def write(project):
    write_project(project)
    write_suite(project, SUITE, "a.eval.yaml", repeat=3)
    write_suite(project, OTHER, "more/b.eval.yaml")
    project.write("test_evals.py", TESTS)
    return project


def lines(path: Path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def timeless(value):
    """Return a result without times, and without what names the run and its part."""
    if isinstance(value, list):
        return [timeless(item) for item in value]
    if not isinstance(value, dict):
        return value
    dropped = {"timestamp", "run_id", "shard", "start_time", "end_time"}
    times = {key for key in value if "duration" in key or key.endswith("_ms")}
    return {key: timeless(item) for key, item in value.items() if key not in dropped | times}


def summary(run):
    """Return what a run says from its summary on, without times, paths and pytest's own last line."""
    text = run.text[run.text.index("EVALUATION SUMMARY") :]
    kept = [
        line
        for line in text.splitlines()
        if not line.startswith(("Time:", "Results written", "Report:", "====", "Tokens/s"))
    ]
    return [re.sub(r"\d+(\.\d+)? ?(ms|s)\b", "<time>", line) for line in kept]


class Sharded:
    """One run, the same in three shards, their results merged, and a run that goes on with these."""

    def __init__(self, project):
        self.path = write(project).path
        self.whole = project.run()
        self.asked_by_whole = asked(self.path)
        modes = {1: (), 2: ("-n", "2"), 3: ("--agentv-workers=5",)}
        self.shards = [project.run(f"--agentv-shard={i}/{SHARDS}", *modes[i]) for i in modes]
        self.asked_by_shards = asked(self.path)
        self.merged = self.path / "all.jsonl"
        files = [str(self.path / f"out-{number}.jsonl") for number in (2, 3, 4)]
        self.exit_code = agentv(["merge", *files, "-o", str(self.merged)])
        self.results = lines(self.merged)
        self.resumed = project.run(f"--agentv-resume={self.merged}", f"--agentv-out={self.merged}")
        self.asked_by_resumed = asked(self.path)


@pytest.fixture(scope="module")
def sharded(shared_project):
    return Sharded(shared_project())


def test_each_evaluation_is_in_one_shard_and_each_shard_says_what_it_has(sharded):
    ids = [result["eval_id"] for shard in sharded.shards for result in shard.results]
    assert len(ids) == len(set(ids)), "none is paid for twice"
    assert sorted(ids) == sorted(result["eval_id"] for result in sharded.whole.results)
    assert sharded.asked_by_shards == sharded.asked_by_whole
    assert all(shard.results for shard in sharded.shards)
    passed = [run.outcomes["passed"] for run in (sharded.whole, *sharded.shards)]
    assert sum(passed[1:]) == passed[0] + SHARDS - 1, "the test of another kind passes in each"
    total = len(sharded.whole.results) + 1  # the one that is skipped
    for number, shard in enumerate(sharded.shards, start=1):
        head = f"agentv: shard {number}/3 of the evaluations; other tests run in each shard"
        assert head in shard.lines or number == 3, "with workers too"
        [left] = re.findall(
            rf"^Shard {number}/3: (\d+) evaluations are left to other shards$", shard.text, re.MULTILINE
        )
        assert total - len(shard.results) - int(left) in (0, 1)
        assert shard.outcomes.get("deselected", int(left)) == int(left)
    cases = [result for result in sharded.results if not result["eval_file"].endswith(".py")]
    assert {(result["shard"]["count"], result["shard"]["total"]) for result in cases} == {(3, len(cases))}
    assert len({result["shard"]["suite"] for result in cases}) == 1
    sizes = {result["shard"]["index"]: result["shard"]["cases"] for result in cases}
    assert sum(sizes.values()) == len(cases), "the skipped case is none that must have a result"


def test_merged_shards_are_one_run_but_for_times(sharded):
    assert sharded.exit_code == 0
    assert len({result["run_id"] for result in sharded.results}) == 1
    whole, merged = (
        sorted(map(json.dumps, map(timeless, results))) for results in (sharded.whole.results, sharded.results)
    )
    assert merged == whole


def test_a_run_that_goes_on_with_them_asks_for_nothing_and_ends_as_one_run(sharded):
    cases = [line for line in sharded.asked_by_resumed if not line.startswith("own-")]
    assert cases == [], "tests that evaluate are not carried over, with shards or without"
    assert {json.dumps(each) for each in sharded.results} <= {json.dumps(each) for each in lines(sharded.merged)}
    assert sharded.resumed.exit_code == sharded.whole.exit_code == 1
    assert sharded.resumed.outcomes == sharded.whole.outcomes
    assert summary(sharded.resumed) == summary(sharded.whole)


@pytest.fixture
def small(project):
    """Six cases; two of three shards have some, the third of eight has none."""
    write_project(project)
    write_suite(project, OTHER)
    return project


def empty_shard(project):
    """Return a shard of many to which no case falls."""
    return next(
        number
        for number in range(1, 21)
        if "deselected / 0 selected" in project.run("--collect-only", f"--agentv-shard={number}/20").text
    )


def test_an_empty_shard_is_a_good_run(small):
    shard = f"--agentv-shard={empty_shard(small)}/20"
    for flags in ((), ("-n", "2"), ("--collect-only",), ("-q",)):
        run = small.run(shard, *flags)
        assert (run.exit_code, run.results, run.internals) == (0, [], []), flags
        assert f"Shard {shard[15:]}: 6 evaluations are left to other shards" in run.lines
    assert small.run(shard, "-k", "nothing").exit_code == pytest.ExitCode.NO_TESTS_COLLECTED
    assert small.run("-k", "nothing").exit_code == pytest.ExitCode.NO_TESTS_COLLECTED


def test_a_shard_is_a_part_of_what_other_options_choose(small):
    small.remembers = True

    def chosen(*flags):
        parts = [small.run(f"--agentv-shard={number}/2", *flags).results for number in (1, 2)]
        return sorted(result["eval_id"] for part in parts for result in part)

    assert chosen("-k", "more-1 or more-2") == ["more-1", "more-2"]
    assert chosen("--agentv-eval-id=more-3") == ["more-3"]
    sample = sorted(result["eval_id"] for result in small.run("--agentv-sample=3").results)
    assert chosen("--agentv-sample=3") == sample
    assert len(chosen("--lf")) == 6


def test_a_name_has_its_shard_wherever_pytest_is_started(small):
    (small.path / ".git").mkdir()
    (small.path / "deep").mkdir()
    write_suite(small, {f"c{number}": "p" for number in range(8)}, "deep/c.eval.yaml")
    small.write("deep/pytest.ini", "[pytest]\n")
    small.write("root.ini", "[pytest]\n")
    from_root = small.run("--collect-only", "-q", "--agentv-shard=1/2", "deep/c.eval.yaml", "-c", "root.ini")
    within = small.run("--collect-only", "-q", "--agentv-shard=1/2", "deep/c.eval.yaml")
    names = [[line.rpartition("::")[2] for line in run.lines if "::" in line] for run in (from_root, within)]
    assert names[0] == names[1]
    assert 0 < len(names[0]) < 8


def test_a_shard_has_no_verdict_on_the_run(small):
    assert small.run("--agentv-update-baseline").exit_code == 0
    run = small.run("--agentv-baseline", "--agentv-shard=1/2")
    assert run.exit_code == 0
    assert "of 6 cases (--agentv-shard=1/2)" in run.text
    refused = small.run("--agentv-update-baseline", "--agentv-shard=1/2")
    assert refused.exit_code == pytest.ExitCode.USAGE_ERROR
    assert "--agentv-update-baseline does not go with --agentv-shard" in refused.text
    assert small.run("--agentv-update-baseline", "--agentv-shard=1/1").exit_code == 0


def merge(project, *names, out="all.jsonl"):
    files = [str(project.path / name) for name in names]
    return agentv(["merge", *files, "-o", str(project.path / out), "--overwrite"])


def test_the_gate_on_merged_results_is_that_of_one_run(small, capsys):
    assert small.run("--agentv-update-baseline").exit_code == 0
    write_suite(small, OTHER | {"more-1": "f", "more-4": "f"})
    flags = ("--agentv-baseline", "--agentv-confirm=0")
    whole = small.run(*flags, "--agentv-out=whole.jsonl")
    for number in (1, 2):
        small.run(f"--agentv-shard={number}/2", f"--agentv-out=part-{number}.jsonl", *flags)
    asked(small.path)
    assert merge(small, "part-1.jsonl", "part-2.jsonl") == 0
    resumed = small.run("--agentv-resume=all.jsonl", "--agentv-out=all.jsonl", *flags)
    assert asked(small.path) == []
    assert resumed.exit_code == whole.exit_code == 1
    contracts = [json.loads((small.path / f"{name}.verdict.json").read_text()) for name in ("whole", "all")]
    assert contracts[0] == contracts[1]
    capsys.readouterr()
    base = str(small.path / "agentv.baseline.jsonl")
    codes, texts = [], []
    for runs in (["whole.jsonl"], ["all.jsonl"], ["part-1.jsonl", "part-2.jsonl"]):
        codes.append(agentv(["compare", base, *(str(small.path / run) for run in runs), "--statistics", "--gate"]))
        texts.append(sorted(re.split(r"[\s,]+", capsys.readouterr().out)))  # cases are in the order of the file
    assert codes[0] == codes[1] == codes[2]
    assert texts[0] == texts[1] == texts[2]


def test_a_hook_decides_anew_on_the_answers_of_merged_shards(small):
    hook = "def pytest_agentv_assert(case):\n    return 'not today' if case.eval_id in ('more-0', 'more-1') else None\n"
    small.write("conftest.py", hook)
    for number in (1, 2):
        flags = (f"--agentv-shard={number}/2", f"--agentv-out=part-{number}.jsonl")
        small.run(*flags, "--agentv-repeat=2", "--agentv-stop=never")
    assert merge(small, "part-1.jsonl", "part-2.jsonl") == 0
    asked(small.path)
    going_on = ("--agentv-resume=all.jsonl", "--agentv-repeat=2", "--agentv-stop=never")
    small.run(*going_on)
    assert asked(small.path) == []
    run = small.run(*going_on, "--agentv-threshold=0.5")
    assert (asked(small.path), run.outcomes) == ([], {"failed": 2, "passed": 4})


def test_shards_of_other_versions_of_the_evals_or_of_a_table_are_refused(small, capsys):
    """The names of the cases of a table are the same: an answer to the old question counted as one to the new."""
    small.write(
        "table.eval.yaml",
        """
        evalcases: {from: rows.csv}
        case: {id: "{{ id }}", expected_outcome: greets, input: "{{ question }}", evaluators: [{contains: hello}]}
        """,
    )
    table = "id,question\n" + "".join(f"row-{number},p\n" for number in range(6))
    small.write("rows.csv", table)
    for number in (1, 2):
        small.run(f"--agentv-shard={number}/2", f"--agentv-out=part-{number}.jsonl")
    assert merge(small, "part-1.jsonl", "part-2.jsonl") == 0
    small.write("rows.csv", table.replace("row-1,p", "row-1,pp"))
    small.run("--agentv-shard=2/2", "--agentv-out=newer.jsonl")
    assert merge(small, "part-1.jsonl", "newer.jsonl") == 2
    assert "are of different evals" in capsys.readouterr().err
    write_suite(small, OTHER | {"more-1": "pp"})
    small.run("--agentv-shard=2/2", "--agentv-out=newest.jsonl")
    assert merge(small, "part-1.jsonl", "newest.jsonl") == 2
    small.run("--agentv-shard=1/2", "--agentv-resume=part-1.jsonl", "--agentv-out=part-1.jsonl")
    assert merge(small, "part-1.jsonl", "newest.jsonl") == 0, "resumed, the shard is one of the new evals"


@pytest.mark.kills
def test_a_shard_that_was_killed_among_answers_pays_for_none_of_them_twice(small, capsys, monkeypatch):
    """On machines of their own, which hand over their folders `.agentv`."""
    monkeypatch.chdir(small.path)
    write_suite(small, OTHER | {"lamp": "ppkpp"}, repeat=5)
    for number in (1, 2):
        small.run(f"--agentv-shard={number}/2", f"--agentv-out=part-{number}.jsonl", subprocess=True)
        (small.path / f"machine-{number}").mkdir()
        for name in (f"part-{number}.jsonl", ".agentv"):
            if (small.path / name).exists():
                (small.path / name).rename(small.path / f"machine-{number}" / name)
    done = answered(small.path)
    asked(small.path)
    assert merge(small, "machine-1/part-1.jsonl", "machine-2/part-2.jsonl") == 1, "cases are missing"
    assert re.search(r"of 7 cases ha(s|ve) no result: shard", capsys.readouterr().err)
    run = small.run("--agentv-resume=all.jsonl", "--agentv-out=all.jsonl")
    again = asked(small.path)
    assert (run.exit_code, sum(counts(again).values())) == (0, 7 * 5 - len(done))
    assert not done & set(again)
    assert "Cost:             $8.7500" in run.lines
