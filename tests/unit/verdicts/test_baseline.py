"""The baseline file."""

import re

import pytest
from verdict_cases import case

from pytest_agentv.errors import FileError
from pytest_agentv.reports.reading import baseline_of, baseline_text, read_baseline

TEXT = """\
{"agentv_baseline": 1, "judge": "gpt@9f3c", "repeat": 5, "target": "azure", "target_hash": "51c0"}
{"case": "evals/a.yaml::lamp", "grading": "grading", "hash": "hash of lamp", "scores": [1, 1, 1, 1, 1], "threshold": 1}
{"case": "evals/a.yaml::tent", "grading": "grading", "group": "catalogue", "hash": "hash of tent", \
"scores": [1, 1, 0.4, 1, 1], "threshold": 0.8}
"""


@pytest.fixture
def write(tmp_path):
    path = tmp_path / "agentv.baseline.jsonl"

    def write(text):
        path.write_text(text, encoding="utf-8", newline="\n")
        return path

    return write


def test_what_was_written_is_read(write):
    baseline = read_baseline(write(TEXT))
    assert baseline_text(baseline) == TEXT
    assert len(baseline.sha256) == 64
    assert [(each.name, each.passes, each.judged) for each in baseline.cases] == [
        ("evals/a.yaml::lamp", 5, 5),
        ("evals/a.yaml::tent", 4, 5),
    ]


def test_what_the_scores_do_not_say_is_written(write):
    baseline = baseline_of([case("a", 5).replace(passes=2)])
    assert '"passes": 2' in baseline_text(baseline)
    assert read_baseline(write(baseline_text(baseline))).cases[0].passes == 2


def test_only_a_test_in_python_that_is_not_named_like_its_case_is_written():
    python = {"eval_file": "evals/test_a.py", "node_id": "evals/a.yaml::lamp"}
    for changes in ({"node_id": "evals/a.yaml::lamp@azure"}, python):
        assert '"test"' not in baseline_text(baseline_of([case("lamp", 5, **changes)]))
    text = baseline_text(baseline_of([case("lamp", 5, eval_file="evals/test_a.py", node_id="evals/test_a.py::test_b")]))
    assert '"test": "evals/test_a.py::test_b"' in text


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", ':1: is not a baseline: expected a first line {"agentv_baseline": 1, ...}'),
        (f"<<<<<<< HEAD\n{TEXT}", ":1: holds the marks of a merge conflict: resolve it"),
        (f"{TEXT}{{broken\n", ":4: invalid JSON: Expecting property name"),
        (f"{TEXT}[]\n", ":4: expected a JSON object"),
        (f"{TEXT}{TEXT.splitlines()[1]}\n", ":4: the case 'evals/a.yaml::lamp' is there twice"),
        (TEXT.replace("[1, 1, 1, 1, 1]", "[]"), ":2: scores: expected a list of numbers from 0 to 1"),
        (TEXT.replace('"threshold": 1}', '"threshold": "x"}'), ":2: threshold: expected a number"),
        (TEXT.replace('"repeat": 5', '"repeat": 0'), ":1: repeat: expected a whole number from 1"),
        (TEXT.replace('"threshold": 1}', '"passes": 6, "threshold": 1}'), ":2: passes: expected a number from 0 to 5"),
        (TEXT.replace('"case": "evals/a.yaml::lamp"', '"case": 1'), ":2: case: expected a text"),
        (TEXT.replace("[1, 1, 1, 1, 1]", "[1.5]"), ":2: scores: expected a list of numbers from 0 to 1"),
        (TEXT.replace('"azure"', '["azure"]'), ":1: target: expected a text"),
        (TEXT.replace('"gpt@9f3c"', "5"), ":1: judge: expected a text"),
        (TEXT.replace('"catalogue"', "{}"), ":3: group: expected a text"),
        (TEXT.replace('"hash of lamp"', "5"), ":2: hash: expected a text"),
        (TEXT.replace(": 1, ", ": 2, ", 1), ":1: is a baseline of a later version of pytest-agentv: its format is 2"),
    ],
)
def test_a_broken_baseline_is_refused_at_its_line(write, text, fault):
    path = write(text)
    with pytest.raises(FileError, match=re.escape(f"{path}{fault}")):
        read_baseline(path)


def test_a_baseline_that_is_not_there_says_so(tmp_path):
    with pytest.raises(FileError, match="the baseline cannot be read: No such file"):
        read_baseline(tmp_path / "none.jsonl")
