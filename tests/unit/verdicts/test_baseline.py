"""The baseline file."""

import re
from datetime import UTC, datetime

import pytest
from verdict_cases import case

from pytest_agentv.errors import FileError
from pytest_agentv.reports.baseline import baseline_of, baseline_text, pooled, read_baseline, updated
from pytest_agentv.session.gating.completeness import refusal_after, write_baseline

CASES = [
    case("tent", 4, group="catalogue", scores=(1.0, 1.0, 0.4, 1.0, 1.0), threshold=0.8, judge="gpt@9f3c"),
    case("lamp", 5, judge="gpt@9f3c"),
]
TEXT = """\
{"agentv_baseline": 1, "judge": "gpt@9f3c", "repeat": 5, "rolls": 1, "target": "azure", "target_hash": "51c0"}
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


def test_the_file_is_sorted_and_holds_neither_answers_nor_times():
    assert baseline_text(baseline_of(CASES)) == TEXT


def test_what_was_written_is_read(write):
    baseline = read_baseline(write(TEXT))
    assert baseline_text(baseline) == TEXT
    assert len(baseline.sha256) == 64
    assert [(each.name, each.passes, each.judged) for each in baseline.cases] == [
        ("evals/a.yaml::lamp", 5, 5),
        ("evals/a.yaml::tent", 4, 5),
    ]


def test_cases_that_could_not_be_judged_are_left_out():
    broken = case("broken", 0).replace(scores=(), is_error=True)
    assert baseline_text(baseline_of([*CASES, broken])) == TEXT


def test_what_the_scores_do_not_say_is_written(write):
    """A required rubric fails an answer whose score is high."""
    baseline = baseline_of([case("a", 5).replace(passes=2)])
    assert '"passes": 2' in baseline_text(baseline)
    assert read_baseline(write(baseline_text(baseline))).cases[0].passes == 2


def test_only_a_test_in_python_that_is_not_named_like_its_case_is_written():
    python = {"eval_file": "evals/test_a.py", "node_id": "evals/a.yaml::lamp"}
    for changes in ({"node_id": "evals/a.yaml::lamp@azure"}, python):
        assert '"test"' not in baseline_text(baseline_of([case("lamp", 5, **changes)]))
    text = baseline_text(baseline_of([case("lamp", 5, eval_file="evals/test_a.py", node_id="evals/test_a.py::test_b")]))
    assert '"test": "evals/test_a.py::test_b"' in text


def test_editors_may_add_a_mark_and_ids_may_hold_ends_of_lines(write):
    odd = baseline_of([case("a\u2028b\x85c", 5)])
    assert read_baseline(write("\ufeff" + baseline_text(odd))).cases[0].name == "evals/a.yaml::a\u2028b\x85c"


def test_cases_of_several_targets_name_them(write):
    two = baseline_of([case("a", 5), case("a", 4, target="claude", target_hash="77")])
    assert two.target is None
    again = read_baseline(write(baseline_text(two)))
    assert [(each.target, each.target_hash, each.passes) for each in again.cases] == [
        ("azure", "51c0", 5),
        ("claude", "77", 4),
    ]


def test_rolls_count_updates_that_only_luck_can_change():
    first = baseline_of(CASES)
    assert updated(first, baseline_of(CASES)).rolls == 2
    assert updated(updated(first, first), first).rolls == 3
    other_target = [each.replace(target_hash="new") for each in CASES]
    other_case = [CASES[0], CASES[1].replace(case_hash="new")]
    other_bar = [CASES[0], CASES[1].replace(threshold=0.5)]
    for changed in (other_target, other_case, other_bar):
        assert updated(updated(first, first), baseline_of(changed)).rolls == 1


def test_a_case_that_was_skipped_keeps_its_answers_and_its_judge():
    old = baseline_of([CASES[0], CASES[1].replace(judge="claude@1")])
    [skipped] = [each for each in old.cases if each.eval_id == "lamp"]
    new = pooled(old, baseline_of(CASES[:1]), [skipped.replace(judge=None)])
    assert [(each.eval_id, each.judged) for each in new.cases] == [("lamp", 5), ("tent", 10)]
    assert new.judge == "claude@1, gpt@9f3c"
    assert pooled(old, baseline_of(CASES[:1])).judge == "gpt@9f3c"


def test_answers_are_added_where_nothing_changed():
    old = baseline_of([case("a", 5), case("b", 5), case("gone", 1)])
    new = baseline_of([case("a", 3), case("b", 3, case_hash="new"), case("fresh", 2)])
    added = pooled(old, new)
    assert [(each.eval_id, each.passes, each.judged) for each in added.cases] == [
        ("a", 8, 10),
        ("b", 3, 5),
        ("fresh", 2, 5),
    ]
    assert pooled(updated(old, old), old).rolls == 2, "adding is no roll"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", ':1: is not a baseline: expected a first line {"agentv_baseline": 1, ...}'),
        ('{"eval_id": "a"}\n', ':1: is not a baseline: expected a first line {"agentv_baseline": 1, ...}'),
        (f"<<<<<<< HEAD\n{TEXT}", ":1: holds the marks of a merge conflict: resolve it"),
        (f"{TEXT}{{broken\n", ":4: invalid JSON: Expecting property name"),
        (f"{TEXT}[]\n", ":4: expected a JSON object"),
        (f"{TEXT}{TEXT.splitlines()[1]}\n", ":4: the case 'evals/a.yaml::lamp' is there twice"),
        (TEXT.replace("[1, 1, 1, 1, 1]", "[]"), ":2: scores: expected a list of numbers from 0 to 1"),
        (TEXT.replace("[1, 1, 1, 1, 1]", "[null]"), ":2: scores: expected a list of numbers"),
        (TEXT.replace('"threshold": 1}', '"threshold": "x"}'), ":2: threshold: expected a number"),
        (TEXT.replace('"rolls": 1', '"rolls": 0'), ":1: rolls: expected a whole number from 1"),
        (TEXT.replace('"rolls": 1', '"rolls": "x"'), ":1: rolls: expected a whole number from 1"),
        (TEXT.replace('"rolls": 1', '"runs": "x"'), ":1: runs: expected a list of texts"),
        (TEXT.replace('"threshold": 1}', '"passes": 6, "threshold": 1}'), ":2: passes: expected a number from 0 to 5"),
        (TEXT.replace('"case": "evals/a.yaml::lamp"', '"case": 1'), ":2: case: expected a text"),
        (TEXT.replace("[1, 1, 1, 1, 1]", "[5]"), ":2: scores: expected a list of numbers from 0 to 1"),
        (TEXT.replace('"threshold": 1}', '"threshold": 7}'), ":2: threshold: expected a number from 0 to 1"),
        (TEXT.replace("[1, 1, 1, 1, 1]", "[1.5]"), ":2: scores: expected a list of numbers from 0 to 1"),
        (TEXT.replace("[1, 1, 1, 1, 1]", "[-0.5]"), ":2: scores: expected a list of numbers from 0 to 1"),
        (TEXT.replace('"azure"', '["azure"]'), ":1: target: expected a text"),
        (TEXT.replace('"gpt@9f3c"', "5"), ":1: judge: expected a text"),
        (TEXT.replace('"catalogue"', "{}"), ":3: group: expected a text"),
        (TEXT.replace('"hash of lamp"', "5"), ":2: hash: expected a text"),
        (f"{TEXT}{'[' * 100_000}\n", ":4: invalid JSON: nested too deeply"),
        (TEXT.replace(": 1, ", ": true, ", 1), ":1: is not a baseline"),
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


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"flags": ("cached",)}, "1 of 2 cases came from the cache"),
        ({"flags": ("reruns",)}, "1 of 2 cases were asked again until they passed (--reruns)"),
        ({"is_error": True}, "1 of 2 cases could not be judged"),
        ({"stopped": "pass"}, "1 of 2 cases were asked only until the verdict was certain"),
        ({}, None),
    ],
)
def test_what_keeps_a_run_from_becoming_the_baseline(changes, reason):
    assert refusal_after([case("a", 5), case("b", 5, **changes)], None, None, "write", "b.jsonl") == reason


HELD = case("a", 5, in_baseline="b.jsonl")


@pytest.mark.parametrize(
    ("cases", "old", "how", "is_refused"),
    [
        ([HELD, case("new", 5)], [case("a", 5)], "add", True),
        ([HELD], [case("a", 5)], "write", False),
        ([HELD], None, "add", False),
        ([HELD], [case("b", 5)], "add", False),
        ([HELD], [case("a", 5, case_hash="another")], "add", False),
        ([HELD.replace(in_baseline="other.jsonl")], [case("a", 5)], "add", False),
    ],
    ids=["held", "anew", "no baseline", "not in it", "changed", "in another"],
)
def test_answers_that_a_baseline_holds_are_not_added_again(cases, old, how, is_refused):
    before = None if old is None else baseline_of(old)
    reason = (
        f"the answers of 1 of {len(cases)} cases are in b.jsonl already: run without --agentv-resume to add new ones"
    )
    assert refusal_after(cases, None, before, how, "b.jsonl") == (reason if is_refused else None)


def test_a_run_that_was_killed_before_it_marked_its_results_is_added_once(tmp_path):
    path, first = tmp_path / "b.jsonl", case("a", 5, ended=datetime(2026, 11, 24, tzinfo=UTC))
    again = [first.replace(ended=datetime(2026, 11, 25, tzinfo=UTC))]
    write_baseline(path, [first], None, "add")
    for cases in ([first], again, again, [first]):
        text = write_baseline(path, cases, read_baseline(path), "add")
    assert read_baseline(path).cases[0].judged == 10
    assert "holds the answers of this run already" in text


def test_writing_the_same_run_again_is_no_roll(tmp_path):
    path, cases = tmp_path / "b.jsonl", [case("a", 5, ended=datetime(2026, 11, 24, tzinfo=UTC))]
    write_baseline(path, cases, None, "write")
    write_baseline(path, cases, read_baseline(path), "write")
    assert read_baseline(path).rolls == 1
    write_baseline(path, [cases[0].replace(ended=None)], read_baseline(path), "write")
    assert read_baseline(path).rolls == 2
