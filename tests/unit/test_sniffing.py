"""Which files look like eval files by what they hold; and no file, however odd, raises anything but our errors."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_agentv.cases.cases import load_case
from pytest_agentv.cases.discovery import case_list_line, is_eval_file, left_out, looks_like_suite, read_fault
from pytest_agentv.cases.entries import table_spec
from pytest_agentv.cases.references import LoadContext
from pytest_agentv.cases.suites import dataset_fault, read_suite
from pytest_agentv.errors import NO_REGULAR_FILE, AgentvError, CaseError, SourceError
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.files.places import Place
from pytest_agentv.files.source import read_yaml
from pytest_agentv.model.options import DEFAULT_EVAL_GLOBS
from pytest_agentv.providers.table import KINDS as PROVIDER_KINDS
from pytest_agentv.targets.definitions import load_targets_file


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.write_text(text, encoding="utf-8")
    return path


SUITES = [
    "evalcases:\n  - id: a\n",
    "# comment\nname: x\ntests:\n- input: hi\n",
    'cases: [{"id": "a"}]\n',
    '{"evalcases": [{"id": "a"}]}\n',
    "\ufeffeval_cases:\r\n  - expected_outcome: x\r\n",
    "evalcases:\n  - broken: [\n    id: x\n",
    '{\n  "description": "x",\n  "evalcases": [\n    {\n      "id": "a"\n    }\n  ]\n}\n',
    '{"description": "not {a: [list", "meta": {"x": [1]}, "evalcases": [{"id": "a"}]}',
    "# comment\n\n---\n{description: it's so, 'evalcases': [{id: a}]}\n",
    "%YAML 1.2\n--- {evalcases: [{id: a}]}\n",
    "{ # comment: {\n  tests: [{input: x}]}",
    "  description: x\n  evalcases:\n    - id: a\n",
    "---\r\nevalcases:\r\n  - id: a\r\n",
    "evalcases: {sample: 1, from: t.csv}\nassert: [contains: x]\n",
    "evalcases: &all\n  - {name: x}\n",
    "evalcases: !!seq [{name: x}]\n",
    "evalcases: &t {from: t.csv}\n",
    'evalcases: "rows#1.csv"\n',
    "evalcases: './a,b.csv'\n",
    "evalcases: ./rows#1.csv\n",
    'evalcases: "bob\'s.csv"\n',
    "case: {id: x}\nevalcases: rows.xlsx\n",
    "evalcases: rows\ncase:\n  id: x\n",
    "evalcases:\n  - {name: returns, inputs: How long?}\n",
    "tests: []\nevalcases: [{inputs: x}]\n",
]


def test_a_yaml_file_with_a_case_list_looks_like_a_suite() -> None:
    assert [text for text in SUITES if not looks_like_suite(write("qa.yaml", text))] == []


NO_SUITES = [
    "",
    "services:\n  web:\n    image: x\n",
    "cases: []\n",
    "evalcases: []\n",
    "evalcases: none\n",
    "evalcases:\n",
    "evalcases: # later\nname: x\n",
    '{"evalcases": []}',
    "nested:\n  evalcases:\n    - id: a\n",
    "id: a\ntests:\n  - name: x\n",
    "tests:\n  - identity: x\n",
    "x: " + "y" * 70_000 + "\nevalcases:\n  - id: a\n",
    '{"suite": {"evalcases": [{"id": "a"}]}}',
    '{"suite": "evalcases: [{id: a}]"}',
    '{"a": 1}\nevalcases:\n  - id: a\n',
    '["evalcases", {"id": "a"}]',
    '{"' + r"\"" * 30_000 + "evalcases",
    "suite: |\n  evalcases:\n    - id: a\n",
]


def test_other_yaml_files_do_not_look_like_suites() -> None:
    assert [text for text in NO_SUITES if looks_like_suite(write("qa.yaml", text))] == []


TABLES = [
    " t.csv",
    " my cases.csv  # ours",
    ' ["more/*.yaml"]',
    "\n- t.csv",
    "\n  # our questions\n\n  - 'a.csv'\n",
    " mypkg.cases:make",
    " cases.py:make",
    " file://t.csv",
    " {from: t.csv}",
    " {sample: 1, from: t.csv}",
    ' {"sample": {"from": 1},\n "from": [t.csv]}',
    "\n  {sample: 1, from: t.csv}",
    "\n  from: t.csv",
    "\r\n  from: t.csv\r\n",
    "\n  sample: 1\n  from: t.csv",
    "\n  from:\n    - t.csv",
    "  # ours\n\n  # our questions\n  sample: 1\n\n# here\n  seed: |\n    - a\n   \n  'from': t.csv",
    "\n  from: mypkg.cases:make",
    '\n  from: "my cases.csv"',
]


@pytest.mark.parametrize("key", ["cases", "tests", '"tests"'])
def test_a_common_key_with_a_table_looks_like_a_suite(key: str) -> None:
    for text in TABLES:
        path = write("qa.yaml", f"case: {{x: 1}}\n{key}:{text}")
        assert case_list_line(path) == 2, text
        source = read_yaml(path)
        assert table_spec(source.value[key.strip('"')], Place(source, (), [])) is not None


TESTS_OF_OTHERS = [
    "\n  vars: {from: Berlin, to: Paris}\n",
    "\n  - vars: {from: Berlin}\n    assert: [{type: contains, value: x}]\n",
    "\n  - vars:\n      from: Berlin\n  - from: x\n",
    " [{from: Berlin}]\n",
    " {route: {from: Berlin}}\n",
    "\n  route:\n    from: Berlin\nfrom: Berlin\n",
    "\n  route: |\n   x\nroute:\n  from: Berlin\n",
    " # from: t.csv\nfrom: t.csv\n",
    " {route: Berlin}\nother: {from: t.csv}\n",
    " file://rows.yaml.txt\n",
    " [smoke, npm:test]\n",
    "\n  - vars: rows.csv\n",
    "\n  file: rows.csv\n",
    " see http://example.com/a.csv for all\n",
    "\n" + "  \n" * 10_000 + "x",
    "\n  from: ubuntu\n  run: make\n",
    " {from: ubuntu}\n",
    " {\n" + "tests: {\n" * 7_000,
    "\n  a: 1\n" + "tests:\n  a: 1\n" * 4_600,
]


def test_a_deeper_from_is_that_of_another_tool() -> None:
    assert [text for text in TESTS_OF_OTHERS if looks_like_suite(write("qa.yaml", f"tests:{text}"))] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('\n{"id": "a", "input": "x"}\n', True),
        ('{"id": "a", "input_messages": []}', True),
        ('{"id": "a", "input": "' + "x" * 70_000 + '"}\n', True),
        ('{"id": "a", "text": "' + "x" * 70_000 + '"}\n', False),
        ('{"eval_id": "a", "input_messages": []}\n', False),
        ('{"id": "a"}\n{"id": "b", "input": 1}\n', False),
        ('{"eval_id": "a", "calls": [{"id": "b", "input": 1}]}\n{"id"', False),
        ('{"id": "a", "input": \n', False),
        ('["id", "input"]\n', False),
        ("", False),
        ("[" * 60_000, False),
        ('{"a":' * 12_000, False),
    ],
)
def test_a_jsonl_file_is_judged_by_its_first_line(text: str, expected: bool) -> None:
    assert looks_like_suite(write("qa.jsonl", text)) is expected


@pytest.mark.parametrize(
    ("sidecar", "expected"),
    [
        ("defaults: {input: 'Say {{ q }}'}\n", True),
        ("# checks\nevaluators: [{contains: x}]\n", False),
        ('{"include": "common.yaml"}', True),
        ("evalcases: {from: qa.jsonl}\ncase: {id: x}\nevaluators: []\n", False),
        ("cases: {sample: 1, from: qa.jsonl}\ncase: {id: x}\nevaluators: []\n", False),
        ("description: rows of a table\nlicense: MIT\n", False),
        ("", False),
    ],
)
def test_a_sidecar_may_have_the_inputs_of_a_jsonl_file(sidecar: str, expected: bool) -> None:
    path = write("qa.jsonl", '{"id": "1", "vars": {"q": "hello"}}\n')
    assert not looks_like_suite(path)
    write("qa.yaml", sidecar)
    assert looks_like_suite(path) is expected


CASES = "evalcases:\n  - {id: a, input: x}\n"
LINES = '{"id": "a", "input": "x"}\n'
UTF_16 = "expected UTF-8, got UTF-16", None


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("qa.yaml", CASES.encode("utf-16"), UTF_16),
        ("qa.jsonl", LINES.encode("utf-16"), UTF_16),
        ("qa.jsonl", f"\n// ours\n{LINES}".encode(), ("invalid JSON: Expecting value (column 1)", 2)),
        ("qa.jsonl", f"{LINES[:-2]}\n{LINES}".encode(), ("invalid JSON: Expecting ',' delimiter (column 25)", 1)),
        ("qa.jsonl", b'["id"]\n' + LINES.encode(), ('expected a JSON object, got ["id"]', 1)),
        ("qa.yaml", b"evalcases: [\n", ("invalid YAML", 2)),
        ("qa.yaml", b'name: x\n"eval_cases" : [\n', ("invalid YAML", 3)),
        ("qa.yaml", b'{"evalcases": [', ("invalid YAML", 2)),
        ("qa.yaml", b"{% if x %}\nevalcases:\n  - id: a\n{% endif %}\n", ("invalid YAML", 1)),
    ],
)
def test_a_file_that_hints_at_cases_says_why_it_cannot_be_read(
    name: str, data: bytes, expected: tuple[str, int | None], folder: Path
) -> None:
    (folder / name).write_bytes(data)
    assert not looks_like_suite(folder / name)
    reason, line = read_fault(folder / name) or ("", 0)
    assert (reason.partition(": while")[0].partition(": did")[0], line) == expected


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("qa.yaml", b""),
        ("qa.yaml", b"broken: [\n"),
        ("qa.yaml", b"evalcases: none\n"),
        ("qa.yaml", b"case: one\n---\ncase: two\n"),
        ("qa.yaml", b"case: {{ .name }}: [\n"),
        ("qa.yaml", "case: café\n".encode("latin-1")),
        ("qa.yaml", b"{{- if .Values.x }}\ntests:\n  - {{ x }}: [\n  evalcases: [\n"),
        ("qa.yaml", b"\0\1evalcases: [\n"),
        ("qa.jsonl", b""),
        ("qa.jsonl", b"no JSON {\n"),
        ("qa.jsonl", b'{"eval_id": "a"}\n{"id": "b", "input": 1\n'),
        ("qa.jsonl", b'{"id": 1, "x": "' + b"y" * 70_000),
    ],
)
def test_a_file_of_others_that_cannot_be_read_is_let_be(name: str, data: bytes, folder: Path) -> None:
    (folder / name).write_bytes(data)
    assert read_fault(folder / name) is None


def test_sniffing_never_raises(folder: Path) -> None:
    assert not looks_like_suite(folder)
    assert not looks_like_suite(folder / "no.yaml")
    assert not looks_like_suite(Path("a\0b.yaml"))
    os.mkfifo(folder / "qa.yaml")
    assert not looks_like_suite(folder / "qa.yaml")
    assert read_fault(folder / "qa.yaml") == (NO_REGULAR_FILE, None)


PIECES = st.sampled_from(
    (
        *(b"evalcases:", b"\n", b"  - ", b"id: a", b"input: x", b"{", b"}", b"[", b"]", b'"', b"'", b": ", b",", b"\t"),
        *(b"&a ", b"*a", b"<<: ", b"|\n", b"---\n", b"\xff", b"\xc3\xa9", b"!!int ", b"? ", b"\0", b"#"),
        b'{"id": "a", "input": "x"}',
    )
)
FILES = st.one_of(st.binary(), st.lists(PIECES).map(b"".join))


@given(FILES, st.sampled_from(["evals/qa.yaml", "evals/test_qa.yml", "qa.jsonl", "evals/qa.eval.jsonl"]))
def test_whatever_the_bytes_of_a_file_collecting_it_has_cases_or_one_error_with_its_path(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str
) -> None:
    root = tmp_path_factory.getbasetemp() / "any-bytes"
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    for is_named in (True, False):
        is_eval_file(path, root=root, is_named=is_named, globs=DEFAULT_EVAL_GLOBS)
    left_out(path, root=root, globs=DEFAULT_EVAL_GLOBS)
    if path.suffix == ".jsonl":
        assert str(dataset_fault(path)).startswith(str(path))
    with contextlib.suppress(SourceError, CaseError):
        suite = read_suite(path)
        for entry in suite.entries:
            load_case(suite, entry, LoadContext(root, root))


VALID = "target: t\nevalcases:\n  - id: a\n    outcome: ok\n    input: [{role: user, content: hi}]\n    rubrics: [x]\n"
KEYS = st.sampled_from(
    [
        *("id", "expected_outcome", "input", "input_messages", "expected_output", "execution", "evaluators", "rubrics"),
        *("threshold", "target", "role", "content", "type", "value", "name", "weight", "script", "cwd", "prompt"),
        *("aggregator", "weights", "fields", "minimums", "mode", "expected", "tool_calls", "tool", "args"),
    ]
) | st.text(max_size=3)
KINDS = st.sampled_from(
    [
        *("llm_judge", "rubric", "code", "code_judge", "composite", "tool_trajectory", "field_accuracy", "latency"),
        *("cost", "token_usage", "heuristic"),
    ]
)
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["user", "file", "text", "composite"]),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=15
)
CHECKS = st.builds(
    lambda kind, rest: {"name": "e", "type": kind, **rest}, KINDS, st.dictionaries(KEYS, VALUES, max_size=4)
)
CASES = st.builds(
    lambda rest, evaluators: {"id": "a", "outcome": "ok", "input": "hi", "evaluators": evaluators, **rest},
    st.dictionaries(KEYS, VALUES, max_size=4),
    st.lists(CHECKS, max_size=3),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.dictionaries(KEYS, VALUES, max_size=3), st.lists(CASES | VALUES, max_size=3))
def test_no_file_raises_anything_but_our_errors(header: dict[str, Any], cases: list[Any]) -> None:
    check_file(yaml.safe_dump({**header, "evalcases": cases}, allow_unicode=True))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_mutated_file_raises_anything_but_our_errors(data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(VALID)))
    length = data.draw(st.integers(0, 8))
    check_file(VALID[:position] + data.draw(st.text(max_size=4)) + VALID[position + length :])


def check_file(text: str) -> None:
    path = Path("random.yaml")
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        suite = read_suite(path)
    except SourceError:
        return
    for entry in suite.entries:
        try:
            load_case(suite, entry, LoadContext(Path.cwd(), Path.cwd(), evaluators=EVALUATORS))
        except CaseError:
            continue


TARGET_KEYS = st.sampled_from(
    (
        *("name", "judge_target", "workers", "settings", "env", "healthcheck", "args", "model", "api_key", "trace"),
        *("command_template", "callable", "arguments", "retry_status_codes", "timeout_seconds", "log_format", "wait"),
    )
)
PROVIDERS = st.sampled_from(("azure", "cli", "mock", "python", "codex", "pi", "vscode", "litellm", "other"))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(PROVIDERS, st.dictionaries(TARGET_KEYS, VALUES | st.just("${{ V }}"), max_size=5))
def test_no_shape_of_a_target_breaks_the_loader(provider: str, values: dict[str, Any]) -> None:
    path = write("targets.yaml", json.dumps({"targets": [{"name": "a", "provider": provider, **values}]}))
    with contextlib.suppress(AgentvError):
        assert load_targets_file(path.absolute(), PROVIDER_KINDS).definitions[0].kind
