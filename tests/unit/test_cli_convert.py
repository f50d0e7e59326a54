"""`agentv convert`: results files from JSONL to YAML and back."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from results_files import read_results

from pytest_agentv.cli.main import main

RECORD = {"eval_id": "a", "score": 1, "hits": [], "candidate_answer": "two\nlines\n", "details": {"camelKey": "1e3"}}

TRY = "Try: agentv convert --help"

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | st.floats(-9, 9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@given(st.lists(st.dictionaries(st.text(max_size=5), values, min_size=1, max_size=4), min_size=1, max_size=4))
def test_there_and_back_is_the_same(tmp_path_factory, records):
    folder = tmp_path_factory.getbasetemp()
    source, there, back = (folder / name for name in ("c.jsonl", "c.yaml", "c2.jsonl"))
    source.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert main(["convert", str(source), "--force"]) == 0
    assert main(["convert", str(there), "--force", "-o", str(back)]) == 0
    assert list(read_results(back).results) == records


def test_what_cannot_be_read_is_told_and_left_out(agentv):
    Path("r.jsonl").write_text('{"a": 1}\nno json\n[]\n{"a": "\\ud800", "b": NaN}\n{"brok')
    run = agentv("convert", "r.jsonl")
    assert (run.exit_code, run.out) == (1, "Converted 2 records to r.yaml\n")
    assert run.err == (
        "r.jsonl:2: the line is invalid JSON: Expecting value, column 1; it was skipped\n"
        "r.jsonl:3: expected a result (a mapping), got a list; it was skipped\n"
        "r.jsonl:5: the last line is incomplete, as after a crash; it was skipped\n"
    )
    assert Path("r.yaml").read_text() == "---\na: 1\n---\na: \N{REPLACEMENT CHARACTER}\nb: null\n"


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
