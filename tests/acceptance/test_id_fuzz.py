"""Hundreds of hostile case ids: every node id stays one that pytest can run again, alone or with what failed."""

import json
import random
import shlex
import sys
from itertools import pairwise

import pytest
import yaml
from thorough import tries, varied

pytestmark = pytest.mark.slow

COUNT = tries(45, 1000)
FRAGMENTS = [
    *("[", "]", "[]", "[a-b]", "::", ":", ":::", "()", "(", "@", "@group", "-", "--lf", "-n", "=", "$HOME", "`x`", "*"),
    *("/", "//", "../", "\\", ".", "..", "evals/", "qa.eval.yaml", "qa.eval.yaml::case", ".py::test_a"),
    *("#", "%s", "{}"),
    *(" ", "  ", "\t", "\n", "\r\n", "\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029", "\u00a0", "\u3000"),
    *("\x00", "\x07", "\x1b[31m", "\x7f", "\x9f", "\ufeff", "\u200b", "\u202e", "\ufffd", "\ud800"),
    *("é", "e\u0301", "ß", "日本語", "עברית", "🙂", "👩\u200d💻", "ﬁ", "İ", "Ω"),
    *("case", "case-1", "case-10", "1", "01", "true", "null", "and", "not", "or", "'", '"', "<b>&amp;", "a" * 500),
]


def hostile_ids(count=COUNT):
    """Return ids made of what has broken selection somewhere, some of them equal; always the same ones."""
    generator = random.Random(7)
    ids, fragments = [], []
    while len(ids) < count:
        if ids and generator.random() < 0.05:
            ids.append(generator.choice(ids))
            continue
        if len(fragments) < 5:
            fragments[:0] = generator.sample(FRAGMENTS, len(FRAGMENTS))
        ids.append("".join(fragments.pop() for _ in range(generator.randint(1, 5))))
    return ids


def yaml_file(ids, failing):
    """Return a file with a case on each line, so that the line tells cases of equal ids apart."""
    # YAML, unlike JSON, has no way to write half a surrogate pair.
    ids = [eval_id.replace("\ud800", "?") for eval_id in ids]
    written = yaml.dump(ids, default_style='"', width=sys.maxsize).splitlines()
    lines = (case(number, failing) for number in range(len(ids)))
    return "evalcases:\n" + "".join(
        f"{eval_id.replace('- ', '  - {id: ', 1)}, {line[1:]}\n" for eval_id, line in zip(written, lines, strict=True)
    )


def jsonl_file(ids, failing):
    values = (json.loads(case(number, failing)) | {"id": eval_id} for number, eval_id in enumerate(ids))
    return "\n" + "".join(f"{json.dumps(value)}\n" for value in values)


def case(number, failing):
    """Return a case without its id, which the answer of the mock target passes or not."""
    keyword = "nothing" if number in failing else "hello"
    words = {"name": "words", "type": "heuristic", "hits": [keyword]}
    return json.dumps({"expected_outcome": "says it", "input": "Say it", "evaluators": [words]})


@pytest.fixture
def failing():
    return set(random.Random(8).sample(range(COUNT), COUNT // 3))


@pytest.fixture
def name():
    return "qa.eval.yaml"


@pytest.fixture
def project(project, name, failing):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello world}]\n")
    write = yaml_file if name.endswith("yaml") else jsonl_file
    project.write(name, write(hostile_ids(), failing))
    project.write("two.eval.yaml", yaml_file(["good", "bad"], {1}))
    return project


def node_ids(project):
    lines = project.run("--collect-only", "-q", "qa.eval.yaml").lines
    return lines[: lines.index("")]


def statuses(run, name):
    """Return the status of each case that ran, by its line; none ran twice."""
    records = [record for record in run.results if record["eval_file"] == name]
    found = {record["line"]: record["status"] for record in records}
    assert len(found) == len(records), "a case ran twice"
    return found


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param("qa.eval.yaml", (), id="yaml"),
        varied("qa.eval.yaml", ("-n", "2"), id="yaml-n2"),
        pytest.param("qa.eval.jsonl", (), id="jsonl"),
    ],
)
def test_last_failed_failed_first_and_stepwise_run_exactly_what_failed(project, name, failing, mode):
    project.remembers = True
    first = statuses(project.run("-q", "--tb=no", mode=mode), name)
    failed = {line for line, status in first.items() if status != "pass"}
    start = min(first)
    assert set(first) == set(range(start, start + COUNT))
    assert failed >= {number + start for number in failing}
    assert len(failed) < COUNT / 2
    run = project.run("--lf", "-q", "--tb=no", mode=mode)
    assert statuses(run, name) == {line: first[line] for line in failed}
    assert statuses(run, "two.eval.yaml") == {3: "fail"}
    assert run.internals == []
    if not mode:
        in_turn = statuses(project.run("--ff", "-q", "--tb=no", name), name)
        assert list(in_turn) == [*sorted(failed), *sorted(set(first) - failed)]
    if not mode and name.endswith("yaml"):
        stepwise = sorted(failed)[:3]
        project.run("--sw", "-q", "--tb=no", name)
        for line, following in pairwise(stepwise):
            run = project.run("--sw", "--sw-skip", "-q", "--tb=no", name)
            assert list(statuses(run, name)) == list(range(line, following + 1))


def test_every_name_that_is_listed_can_be_selected(project):
    listed = node_ids(project)
    assert len(set(listed)) == len(listed) == COUNT
    sample = random.Random(9).sample(listed, tries(25, 50))
    run = project.run("-q", "--tb=no", *sample)
    assert [record["node_id"] for record in run.results] == sample
    for node_id in sample[: tries(2, 5)]:
        assert [record["node_id"] for record in project.run("-q", "--tb=no", node_id).results] == [node_id]


def test_a_case_inserted_above_leaves_all_names_as_they_are_and_deselected_cases_are_left_out(project, name, failing):
    listed = node_ids(project)
    unwanted = random.Random(10).sample(listed, 20)
    lines = project.run("--collect-only", "-q", name, *(f"--deselect={node_id}" for node_id in unwanted)).lines
    # What begins like a deselected id goes as well: so it is for all tests.
    assert lines[: lines.index("")] == [node_id for node_id in listed if not node_id.startswith(tuple(unwanted))]
    project.write(name, yaml_file(["new", "case[1]", "x\ny", *hostile_ids()], failing))
    assert node_ids(project)[3:] == listed


def test_the_command_of_a_failure_text_runs_just_that_case(project):
    project.write("sub dir/qa.eval.yaml", yaml_file(['it\'s "quoted" $(x)', "other"], {0}))
    failed = project.run("--agentv-threshold=0.5", "sub dir")
    (command,) = (line.removeprefix("Rerun:").strip() for line in failed.lines if line.startswith("Rerun:"))
    program, *arguments = shlex.split(command)
    assert program == "pytest"
    again = project.run(*arguments)
    assert again.statuses == {'it\'s "quoted" $(x)': "fail"}
    assert again.results[0]["threshold"] == 0.5
