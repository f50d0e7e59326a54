"""`agentv convert`: results files from JSONL to YAML and back."""

import json
import os
from pathlib import Path

import pytest

RECORD = {"eval_id": "a", "score": 1, "hits": [], "candidate_answer": "two\nlines\n", "details": {"camelKey": "1e3"}}

TRY = "Try: agentv convert --help"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["r.jsonl", "./link.jsonl"])
@pytest.mark.parametrize("kind", ["jsonl", "yaml", "csv", "junit"])
def test_results_are_not_overwritten_by_what_is_made_of_them(agentv, name, kind):
    text = json.dumps(RECORD) + "\n" + "half"
    Path("r.jsonl").write_text(text)
    Path("link.jsonl").symlink_to("r.jsonl")
    run = agentv("convert", "r.jsonl", "--force", f"--format={kind}", "-o", name)
    assert (run.exit_code, run.out) == (2, "")
    assert run.err == f"agentv convert: {Path(name)} is the file to convert; --out names another file\n{TRY}\n"
    assert Path("r.jsonl").read_text() == text
    assert Path(name).read_text() == text


def test_a_file_that_is_overwritten_keeps_its_permissions_and_its_link(agentv):
    Path("r.jsonl").write_text(json.dumps(RECORD) + "\n")
    Path("real.yaml").write_text("old")
    Path("real.yaml").chmod(0o600)
    Path("r.yaml").symlink_to("real.yaml")
    assert agentv("convert", "r.jsonl", "--force").exit_code == 0
    assert (Path("r.yaml").is_symlink(), Path("real.yaml").stat().st_mode & 0o777) == (True, 0o600)
    assert Path("real.yaml").read_text().startswith("---\neval_id: a\n")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_waited_for(agentv, make):
    make("r.jsonl")
    run = agentv("convert", "r.jsonl")
    assert run.exit_code == 2
    message = "r.jsonl: cannot be converted: expected a regular file, not a folder, a pipe or a device"
    assert run.err == f"agentv convert: {message}\n"
