"""How each case did against the baseline stands in the results file, whatever else the file holds."""

import json
import os

import pytest

CASES = "repeat: 2\ndefaults: {input: q, assert: [{equals: hello world}]}\ncases: [{id: a}, {id: b}]\n"
TORN = b'{"eval_id": "a", "sco'


def compare(project, out):
    """Run against a baseline, into a file that may hold other lines."""
    return project.run("--agentv-baseline", f"--agentv-out={out}", mode=())


@pytest.fixture
def compared(project):
    project.write("a.eval.yaml", CASES)
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world}]\n")
    assert project.run("--agentv-update-baseline", mode=()).exit_code == 0
    return project


def test_figures_stand_at_the_end_of_the_lines_of_this_run_and_all_other_bytes_stay(compared):
    path = compared.path / "r.jsonl"
    assert compare(compared, "r.jsonl").exit_code == 0
    before = path.read_bytes()
    lines = before.decode().splitlines()
    assert [list(json.loads(line))[-1] for line in lines] == ["baseline"] * 2
    path.write_bytes(before + TORN)
    assert compare(compared, "r.jsonl").exit_code == 0
    assert path.read_bytes().startswith(before + TORN + b"\n")
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()[3:]]
    assert [(each["eval_id"], each["baseline"]["state"]) for each in records] == [("a", "compared"), ("b", "compared")]
    assert all(each["lm_provider_request"] for each in records), "the prompt is not lost"


def test_a_file_that_cannot_be_replaced_keeps_all_results(compared, monkeypatch):
    replace = os.replace

    def refuse(source, target, **keys):
        if str(target).endswith("r.jsonl"):
            raise OSError(28, "No space left on device")
        replace(source, target, **keys)

    monkeypatch.setattr("os.replace", refuse)
    run = compare(compared, "r.jsonl")
    assert "r.jsonl: cannot be written: No space left on device" in run.text
    records = [json.loads(line) for line in (compared.path / "r.jsonl").read_text("utf-8").splitlines()]
    assert [each["status"] for each in records] == ["pass", "pass"]
    assert not any("baseline" in each for each in records)
