"""`agentv merge`: which results count, what is told, what is refused, what is written."""

import json
from pathlib import Path

TRY = "\nTry: agentv merge --help\n"


def result(eval_id, status="pass", *, at=0, shard=None, **more):
    """Return a line of a results file; `at` is the second at which the case ended."""
    value = {
        "timestamp": f"2026-11-21T12:00:{at:02}.000Z",
        "eval_id": eval_id,
        "score": 1.0 if status == "pass" else 0.0,
        "target": "default",
        "status": status,
        "node_id": f"evals/a.eval.yaml::{eval_id}",
        "run_id": f"run-{at}",
        "eval_file": "evals/a.eval.yaml",
        "duration_ms": 5.5,
    }
    return {**value, **({"shard": shard} if shard else {}), **more}


def shard(index, cases, total=3, suite="s", count=2):
    return {"index": index, "count": count, "cases": cases, "total": total, "suite": suite}


def write(name, *results):
    Path(name).write_text("".join(json.dumps(each) + "\n" for each in results))


def merged(name="all.jsonl"):
    return list(map(json.loads, Path(name).read_text().splitlines()))


def test_the_verdict_on_a_file_that_is_overwritten_is_none_on_the_merged_one(agentv):
    rest = {"dataset": "a", "hits": [], "misses": [], "candidate_answer": ""}
    write("all.jsonl", result("a", **rest), result("b", "fail", **rest))
    write("1.jsonl", result("a", "fail", **rest), result("b", **rest))
    gate = {"name": "gate::run", "failed": False, "reason": "the pass rate 50.0 % of 2 cases reaches 50.0 %"}
    contract = {"verdict": "no baseline", "n": 2, "mean": 0.5, "errors": [], "gate": "run", "gates": [gate]}
    contract["judged_with_run"] = ["evals/a.eval.yaml::b"]
    Path("all.verdict.json").write_text(json.dumps(contract))
    assert agentv("report", "all.jsonl").out.splitlines()[1] == "## ✅ Evaluations: 1 passed, 1 judged with the run"
    assert agentv("merge", "1.jsonl", "-o", "all.jsonl", "--overwrite").exit_code == 0
    assert not Path("all.verdict.json").exists()
    assert agentv("report", "all.jsonl").out.splitlines()[1] == "## ❌ Evaluations: 1 passed, 1 failed"


def test_a_damaged_store_of_answers_does_not_prevent_a_merge(agentv):
    write("1.jsonl", result("a", at=1))
    Path(".agentv").mkdir()
    Path(".agentv/answers.sqlite").write_bytes(b"\xff" * 5000)
    run = agentv("merge", "1.jsonl", "-o", "all.jsonl")
    assert (run.exit_code, len(merged())) == (0, 1)
    assert "could not be copied, so that a resumed run pays for them again: file is not a database" in run.err


def test_shards_of_an_earlier_split_are_not_counted_with_those_of_the_last(agentv):
    write("1.jsonl", result("a", at=1, shard=shard(1, 9, 3, count=4)), result("b", at=2, shard=shard(1, 2, 3, count=2)))
    run = agentv("merge", "1.jsonl", "-o", "all.jsonl")
    assert run.err == (
        "1 of 3 cases has no result: shard 1/2 has results of 1 of its 2 cases; shard 2/2 has no results\n"
    )


def test_what_a_run_without_shards_added_to_merged_shards_is_not_missing(agentv):
    write("1.jsonl", result("a", shard=shard(1, 2)), result("b", "error", shard=shard(1, 2)))
    write("2.jsonl")
    assert agentv("merge", "1.jsonl", "2.jsonl", "-o", "all.jsonl").exit_code == 1
    run_id = merged()[0]["run_id"]
    write("all.jsonl", *merged(), result("b", at=5, run_id=run_id), result("c", at=6, run_id=run_id))
    run = agentv("merge", "all.jsonl", "1.jsonl", "-o", "again.jsonl")
    assert (run.exit_code, len(merged("again.jsonl"))) == (0, 3)
    assert "no result" not in run.err
    write("3.jsonl", result("a", shard=shard(1, 2)), result("b", at=5), result("c", at=6, run_id="of another run"))
    assert agentv("merge", "3.jsonl", "-o", "3.jsonl").exit_code == 1, "of the evals as they were, for all we know"


def test_what_holds_no_results_is_refused(agentv):
    write("empty.jsonl")
    write("base.jsonl", {"agentv_baseline": 1}, {"eval_id": "a"})
    Path("folder").mkdir()
    for name, text in {
        "empty.jsonl": f"the files hold no results{TRY}",
        "base.jsonl": "base.jsonl: is a baseline, not a results file\n",
        "folder": "folder: cannot be merged: expected a regular file, not a folder, a pipe or a device\n",
    }.items():
        run = agentv("merge", name, "-o", "all.jsonl")
        assert (run.exit_code, run.err) == (2, f"agentv merge: {text}")
    assert not Path("all.jsonl").exists()


def test_a_write_that_fails_leaves_all_as_it_was(agentv, monkeypatch):
    write("1.jsonl", result("a"), result("b"))
    before = Path("1.jsonl").read_bytes()
    Path("1.verdict.json").write_text("{}")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    run = agentv("merge", "1.jsonl", "-o", "1.jsonl")
    assert (run.exit_code, run.err) == (2, "agentv merge: 1.jsonl: cannot be written: No space left on device\n")
    assert Path("1.jsonl").read_bytes() == before
    assert sorted(path.name for path in Path().glob("[!.]*")) == ["1.jsonl", "1.verdict.json"], "the verdict stays"


def test_cases_that_failed_as_expected_are_counted_by_themselves(agentv):
    write("1.jsonl", result("a", "fail", at=1), result("b", "fail", at=2, xfail="known"), result("c", at=3, xfail=""))
    said = agentv("merge", "1.jsonl", "-o", "all.jsonl").out
    assert said == "Merged 3 results of 1 file into all.jsonl: 1 passed, 1 failed, 1 failed as expected\n"


def test_many_cases_with_several_results_are_summed_up(agentv):
    write("1.jsonl", *(result(f"c{number}", "error") for number in range(13)))
    write("2.jsonl", *(result(f"c{number}", at=1) for number in range(13)))
    run = agentv("merge", "1.jsonl", "2.jsonl", "-o", "all.jsonl")
    assert len(run.err.splitlines()) == 11
    assert run.err.endswith("3 more cases with several results\n")


def test_results_of_a_newer_version_are_told_once_where_they_are_read(agentv):
    for name in ("old.jsonl", "older.jsonl"):
        write(name, result("a", threshold=1), result("b", threshold=1))
    write("new.jsonl", *(result(each, schema_version=2, threshold=1) for each in ("a", "b")))
    for command in (
        ("compare", "new.jsonl", "old.jsonl"),
        ("compare", "old.jsonl", "older.jsonl", "new.jsonl"),
        ("report", "new.jsonl", "-o", "report.html"),
    ):
        run = agentv(*command)
        told = "new.jsonl:1: schema_version: expected 1 or less, got 2: a newer pytest-agentv wrote it"
        assert (run.exit_code, run.err.count(told), run.err.count("schema_version")) == (0, 1, 1)
