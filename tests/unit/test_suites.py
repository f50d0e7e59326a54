"""Eval files as they are collected."""

import json
from pathlib import Path

import pytest

from pytest_agentv.cases.discovery import find_sidecar
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.errors import SourceError

CASE = "{id: a, expected_outcome: ok, input: hi}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


def error_of(path: Path) -> str:
    with pytest.raises(SourceError) as caught:
        read_suite(path)
    return str(caught.value)


def warnings_of(path: Path) -> list[str]:
    problems = read_suite(path).problems
    assert {problem.level for problem in problems} <= {"warning"}
    return [str(problem) for problem in problems]


def test_the_cases_of_a_file_come_with_their_ids_and_lines(folder: Path) -> None:
    text = "dataset: ' shop '\nevalcases:\n  - id: a\n\n  - {id: 5}\n  - nonsense\n  - {id: ' '}\n"
    suite = read_suite(write("qa.eval.yaml", text))
    assert [(entry.index, entry.eval_id, entry.line) for entry in suite.entries] == [
        (0, "a", 3),
        (1, None, 5),
        (2, None, 6),
        (3, None, 7),
    ]
    assert suite.entries[1].value == {"id": 5}
    assert (suite.path, suite.dataset, suite.cases_key) == (folder / "qa.eval.yaml", "shop", "evalcases")
    assert suite.header == {"dataset": " shop "}


@pytest.mark.parametrize("key", ["evalcases", "eval_cases", "cases", "tests"])
def test_the_case_list_has_four_names(key: str) -> None:
    suite = read_suite(write("qa.yml", f"{key}: [{CASE}]\n"))
    assert (suite.cases_key, len(suite.entries), suite.problems) == (key, 1, ())


def test_the_dataset_is_named_after_the_file_when_nothing_else_is_said() -> None:
    assert read_suite(write("qa.eval.yaml", f"dataset: ' '\nevalcases: [{CASE}]\n")).dataset == "qa.eval"


@pytest.mark.scenario("Test file target")
@pytest.mark.parametrize(
    ("header", "target"),
    [
        ("execution: {target: ' a '}\ntarget: b", "a"),
        ("execution: {target: ' '}\ntarget: b", "b"),
        ("target: b", "b"),
        ("name: x", None),
    ],
)
def test_the_target_of_a_file_is_in_its_execution_map_or_at_top_level(header: str, target: str | None) -> None:
    assert read_suite(write("qa.yaml", f"{header}\nevalcases: [{CASE}]\n")).target == target


@pytest.mark.parametrize(
    ("case", "target"),
    [
        ("execution: {target: ' a '}, target: b", "a"),
        ("execution: [a], target: b", "b"),
        ("target: '{{ name }}'", "of-file"),
        ("target: [b]", "of-file"),
    ],
)
def test_the_target_of_a_case_is_known_before_it_is_loaded(case: str, target: str) -> None:
    suite = read_suite(write("qa.yaml", f"target: of-file\nevalcases: [{{id: a, {case}}}]\n"))
    assert suite.target_of(suite.entries[0]) == target


@pytest.mark.parametrize(
    ("header", "threshold"),
    [("threshold: 0", 0.0), ("execution: {threshold: 0.5}", 0.5), ("threshold: 1\nexecution: {threshold: 0}", 1.0)],
)
def test_the_threshold_of_a_file(header: str, threshold: float) -> None:
    assert read_suite(write("qa.yaml", f"{header}\nevalcases: [{CASE}]\n")).threshold == threshold


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "- a\n",
            "qa.yaml:1: has no list of cases: evalcases is missing: expected a mapping with this key, got a list "
            "(write `evalcases:` above the list)",
        ),
        (
            "",
            "qa.yaml:1: has no list of cases: evalcases is missing: expected a mapping with this key, got null "
            "(the file is empty)",
        ),
        ("name: x\n", "qa.yaml:1: has no list of cases: evalcases is missing"),
        (
            "name: x\nevalcase: []\n",
            "qa.yaml:1: has no list of cases: evalcases is missing (instead of 'evalcase', did you mean 'evalcases'?)",
        ),
        ("name: x\nevalcases: 5\n", "qa.yaml:2: evalcases: expected a list of eval cases, got the number 5"),
        (
            "evalcases: []\ntests: []\n",
            "qa.yaml:2: both 'evalcases' and 'tests' are there: put the eval cases into one list",
        ),
        (
            "evalcases: []\nthreshold: 1.5\nexecution: [a]\ntarget: 5\n",
            "qa.yaml:3: execution: expected a mapping, got a list\n"
            "qa.yaml:4: target: expected a text, got the number 5\n"
            "qa.yaml:2: threshold: expected a number from 0 to 1, got the number 1.5",
        ),
        ("evalcases: []\nthreshold: true\n", "qa.yaml:2: threshold: expected a number from 0 to 1, got true"),
        ("evalcases: []\nthreshold: .nan\n", "qa.yaml:2: threshold: expected a number from 0 to 1, got the number nan"),
    ],
)
def test_a_file_that_cannot_be_used_says_why_and_where(text: str, message: str) -> None:
    assert error_of(write("qa.yaml", text)) == message


def test_other_endings_are_refused() -> None:
    message = "qa.json: is not an eval file: expected a name that ends in .yaml, .yml or .jsonl"
    assert error_of(write("qa.json", "{}")) == message


def test_a_missing_file_is_a_source_error() -> None:
    assert error_of(Path("no.yaml")) == "no.yaml: cannot be read: No such file or directory"


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (f"desciption: x\nevalcases: [{CASE}]\n", "qa.yaml:1: desciption: unknown key (did you mean 'description'?)"),
        (f"evalcases: [{CASE}]\nzzz: x\n", "qa.yaml:2: zzz: unknown key"),
        (
            f"execution:\n  evaluatrs: []\nevalcases: [{CASE}]\n",
            "qa.yaml:2: execution.evaluatrs: unknown key (did you mean 'evaluators'?)",
        ),
        ("evalcases: []\n", "qa.yaml:1: evalcases: no eval cases in this file"),
        (
            "evalcases:\n  - {id: a}\n  - {id: b}\n  - {id: a}\n",
            "qa.yaml:4: evalcases[2]: the id 'a' is used twice, first in line 2",
        ),
        ("evalcases: [{id: a}, {id: a}]\n", "qa.yaml:1: evalcases[1]: the id 'a' is used twice, first in line 1"),
        (
            f"evaluator: heuristic\nevalcases: [{CASE}]\n",
            "qa.yaml:1: evaluator: expected 'llm_judge', got the text 'heuristic'; falling back to the default judge "
            "(other kinds go into a list under `evaluators:`)",
        ),
    ],
)
def test_what_is_odd_about_a_file_is_a_warning(text: str, warning: str) -> None:
    assert warnings_of(write("qa.yaml", text)) == [warning]


def test_every_known_key_of_a_file_is_silent() -> None:
    keys = "$schema name version author tags license description dataset grader metadata marks skip xfail fixtures"
    header = "".join(f"{key}: llm_judge\n" for key in keys.split())
    assert (
        warnings_of(write("qa.yaml", f"{header}evaluators: []\nassertions: []\nassert: []\nevalcases: [{CASE}]\n"))
        == []
    )


def test_a_list_of_evaluators_that_is_not_read_is_a_warning() -> None:
    text = f"execution: {{assert: [a]}}\nassertions: [b]\nassert: []\nevalcases: [{CASE}]\n"
    assert warnings_of(write("qa.yaml", text)) == [
        "qa.yaml:2: assertions: is not read, because 'execution.assert' is there as well"
    ]


def test_a_target_or_a_threshold_that_is_not_read_is_a_warning() -> None:
    text = f"target: a\nthreshold: 0.1\nexecution: {{target: b, threshold: 0.9}}\nevalcases: [{CASE}]\n"
    assert warnings_of(write("qa.yaml", text)) == [
        "qa.yaml:1: target: is not read, because 'execution.target' is there as well",
        "qa.yaml:3: execution.threshold: is not read, because 'threshold' is there as well",
    ]
    same = f"target: b\nthreshold: 1\nexecution: {{target: ' b ', threshold: 1.0}}\nevalcases: [{CASE}]\n"
    blank = f"target: b\nexecution: {{target: ' ', threshold: 1}}\nevalcases: [{CASE}]\n"
    assert warnings_of(write("same.yaml", same)) + warnings_of(write("blank.yaml", blank)) == []


def test_a_jsonl_file_has_a_case_per_line() -> None:
    path = write("qa.jsonl", '{"id": "a"}\n\n{"id": "b"}\r\n')
    suite = read_suite(path)
    assert [(entry.index, entry.eval_id, entry.line) for entry in suite.entries] == [(0, "a", 1), (1, "b", 3)]
    assert (suite.dataset, suite.header, suite.cases_key, suite.target) == ("qa", {}, None, None)
    assert find_sidecar(path) is None


def test_the_cases_of_a_jsonl_file_are_packed_until_they_are_looked_at() -> None:
    values = [{"id": "a", "input": "hé \ud800", "vars": {"n": [1, 2.5, None, True]}}, {"id": "b"}]
    suite = read_suite(write("qa.jsonl", "".join(json.dumps(value) + "\n" for value in values)))
    assert [type(entry.written) for entry in suite.entries] == [bytes, bytes]
    assert [entry.value for entry in suite.entries] == values
    assert (suite.source.value, suite.source.text) == (None, "")


def test_cases_that_share_parts_stay_as_they_are() -> None:
    sidecar = write("qa.eval.yaml", "defaults: {evaluators: [{name: l, type: latency, threshold: 9}]}\n")
    assert sidecar.is_file()
    first, second = read_suite(write("qa.eval.jsonl", '{"id": "a"}\n{"id": "b"}\n')).entries
    assert first.value["evaluators"] is second.value["evaluators"]


def test_a_bad_line_of_a_jsonl_file_is_told_by_its_physical_number() -> None:
    assert error_of(write("qa.jsonl", '{"id": "a"}\n\n[1]\n')) == "qa.jsonl:3: expected a JSON object, got [1]"


def test_a_key_that_is_twice_on_a_line_of_a_jsonl_file_is_an_error() -> None:
    path = write("qa.jsonl", '{"id": "a"}\n{"id": "b", "assert": ["x"], "assert": ["y"]}\n')
    assert error_of(path) == "qa.jsonl:2: invalid JSON: the key 'assert' is there twice"


def test_duplicate_ids_and_emptiness_of_a_jsonl_file_are_warnings() -> None:
    path = write("qa.jsonl", '{"id": "a"}\n\n{"id": "a"}\n')
    assert warnings_of(path) == ["qa.jsonl:3: the id 'a' is used twice, first in line 1"]
    assert warnings_of(write("no.jsonl", "\n")) == ["no.jsonl:1: no eval cases in this file"]


@pytest.mark.parametrize("suffix", [".yaml", ".yml"])
def test_the_sidecar_of_a_jsonl_file_holds_its_header(folder: Path, suffix: str) -> None:
    sidecar = write(f"qa.eval{suffix}", "dataset: shop\nexecution: {target: t, threshold: 0.5}\ndescripton: x\n")
    path = write("qa.eval.jsonl", '{"id": "a"}\n')
    suite = read_suite(path)
    assert (suite.dataset, suite.target, suite.threshold) == ("shop", "t", 0.5)
    assert (suite.header_source.path, find_sidecar(folder / path)) == (folder / sidecar, folder / sidecar)
    assert warnings_of(path) == [f"{sidecar}:3: descripton: unknown key (did you mean 'description'?)"]


def test_a_sidecar_by_itself_names_its_dataset(folder: Path) -> None:
    write("qa.eval.jsonl", '{"id": "a", "input": "hi"}\n')
    sidecar = write("qa.eval.yaml", "dataset: shop\n")
    with pytest.raises(SourceError) as error:
        read_suite(folder / sidecar)
    assert str(error.value).endswith("evalcases is missing (this is the sidecar of qa.eval.jsonl, which has the cases)")


@pytest.mark.parametrize(
    ("sidecar", "message"),
    [
        ("- a\n", "qa.yaml:1: expected a mapping of file-level keys for qa.jsonl, got a list"),
        ("x: y\nthreshold: 2\n", "qa.yaml:2: threshold: expected a number from 0 to 1, got the number 2"),
    ],
)
def test_an_invalid_sidecar_is_an_error(sidecar: str, message: str) -> None:
    write("qa.yaml", sidecar)
    assert error_of(write("qa.jsonl", '{"id": "a"}\n')) == message


def test_a_yaml_file_with_cases_of_its_own_is_no_sidecar() -> None:
    write("qa.yaml", f"target: t\nevalcases: [{CASE}]\n")
    assert read_suite(write("qa.jsonl", '{"id": "a"}\n')).target is None
