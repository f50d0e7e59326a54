"""What a case becomes. `tests/corpus/mistakes-values-of-cases` and `mistakes-variables-and-tables` show broken ones."""

import inspect
import json
import sys
from pathlib import Path

import pytest

from pytest_agentv.cases.cases import load_case
from pytest_agentv.cases.entries import COLLECTED_KEYS
from pytest_agentv.cases.references import LoadContext, LoadedCase
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.errors import CaseError, SourceError
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.model.cases import EvalCase

PATTERNS = ("**/*.instructions.md",)


@pytest.fixture(autouse=True)
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("docs/spec.txt", "docs/py.instructions.md"):
        write(name, "DOC\n")
    return tmp_path


def write(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def load_all(path: Path) -> list[LoadedCase]:
    suite = read_suite(path)
    context = LoadContext(Path.cwd(), Path.cwd(), PATTERNS, evaluators=EVALUATORS)
    return [load_case(suite, entry, context) for entry in suite.entries]


def case_of(keys: str, header: str = "") -> EvalCase:
    path = write("evals/qa.yaml", f"{header}evalcases:\n- {{id: a, expected_outcome: ok, input: hi, {keys}}}\n")
    (loaded,) = load_all(path)
    return loaded.case


@pytest.mark.parametrize(
    ("expected", "reference"),
    [
        ("expected_messages: []", ""),
        ("expected_output: '  text '", "  text "),
        ("expected_output: {a: [1]}", '{\n  "a": [\n    1\n  ]\n}'),
        ("expected_output: {role: assistant, content: one}", "one"),
        ("expected_output: {role: assistant, tool_calls: [{tool: a}]}", '[\n  {\n    "tool": "a"\n  }\n]'),
        ("expected_output: {role: admin, name: Ada}", '{\n  "role": "admin",\n  "name": "Ada"\n}'),
        ("expected_messages: [{role: assistant, content: first}, {role: assistant, content: last}]", "last"),
        ("expected_messages: [{role: assistant, content: [y]}]", '[\n  "y"\n]'),
        ("expected_messages: [{role: assistant, tool_calls: [{tool: a}]}]", '[\n  {\n    "tool": "a"\n  }\n]'),
        ("expected_messages: [{role: assistant, content: '', tool_calls: [{tool: a}]}]", ""),
    ],
)
def test_the_reference_answer_is_the_last_expected_message(expected: str, reference: str) -> None:
    assert case_of(expected).reference_answer == reference


def test_expected_messages_have_the_texts_of_files_and_calls_of_any_shape(repo: Path) -> None:
    calls = [
        {"tool": "a", "input": {"Q": 1}, "note": "mine"},
        {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}},
    ]
    content = [{"type": "file", "value": f"/docs/{name}"} for name in ("spec.txt", "py.instructions.md")]
    message = {"role": "assistant", "name": "bot", "content": content, "tool_calls": calls}
    case = case_of(f"expected_messages: [{json.dumps(message)}]")
    items = [
        {"type": "file", "path": f"docs/{name}", "text": "DOC\n", "resolvedPath": str(repo / "docs" / name)}
        for name in ("spec.txt", "py.instructions.md")
    ]
    assert case.expected_messages == ({**message, "content": items},)
    assert (case.reference_answer, case.guideline_paths, case.file_paths) == (json.dumps(items, indent=2), (), ())


OF_FILE = "execution: {evaluators: [{name: f, type: heuristic, hits: [x]}]}\n"


@pytest.mark.parametrize(
    ("case", "header", "names"),
    [
        ("execution: {target: x}, evaluators: [{name: c, contains: x}]", OF_FILE, ["c"]),
        ("assertions: [{name: c, contains: x}]", OF_FILE, ["c", "f"]),
        ("execution: {assert: [{name: e, contains: x}]}", OF_FILE, ["e", "f"]),
        ("assert: [heuristic: x]", "assert: [heuristic: x]\n", ["heuristic (2)", "heuristic"]),
        ("execution: {skip_defaults: true, assert: [{name: e, contains: x}]}", OF_FILE, ["e"]),
        ("skip_defaults: true", OF_FILE, None),
        ("execution: {target: x}", OF_FILE, ["f"]),
        ("evaluators: null", OF_FILE, ["f"]),
        ("note: x", "evaluators: [{name: g, contains: x}]\n", ["g"]),
        ("evaluators: []", OF_FILE, None),
        ("note: x", "", None),
        ("rubrics: [one]", OF_FILE, ["rubric", "f"]),
        ("rubrics: []", "", None),
    ],
)
def test_the_evaluators_of_a_case_and_of_its_file(case: str, header: str, names: list[str] | None) -> None:
    evaluators = case_of(case, header).evaluators
    assert (evaluators and [spec.label for spec in evaluators]) == names


@pytest.mark.parametrize(
    ("case", "header", "threshold", "source"),
    [
        ("threshold: 0", "threshold: 0.5\n", 0.0, "case"),
        ("execution: {threshold: 0.2}", "threshold: 0.5\n", 0.2, "case"),
        ("execution: {target: x}", "threshold: 0\n", 0.0, "file"),
        ("note: x", "execution: {threshold: 0}\n", 0.0, "file"),
        ("note: x", "", None, None),
    ],
)
def test_the_nearest_threshold_applies(case: str, header: str, threshold: float | None, source: str | None) -> None:
    loaded = case_of(case, header)
    assert (loaded.threshold, loaded.threshold_source) == (threshold, source)


def test_variables_fill_texts_and_keep_types_but_no_code_or_prompts() -> None:
    case = case_of(
        "vars: {who: Bob, n: 5}, conversation_id: '{{ n }}', expected_output: {price: '{{ n }}'}, evaluators: ["
        "{name: code, type: code_judge, script: [echo, '{{ y }}'], mine: '{{ n }}'}, "
        "{name: judge, type: llm_judge, prompt: '{{ candidate_answer }} {{ input }} {{ who }}'}]",
        "vars: {input: I, words: [a]}\n",
    )
    code, judge = case.evaluators or ()
    asked = "input: [{role: user, content: ['{{ n }}', {type: text, value: 'at {{ n }}'}]}], vars: {n: 5}"
    (loaded,) = load_all(write("q.yaml", f"evalcases: [{{id: a, criteria: o, {asked}}}]\n"))
    assert loaded.case.question == "5 at 5"
    assert (case.conversation_id, case.expected_messages[0]["content"]) == ("5", {"price": 5})
    assert (code.to_plain()["script"], code.to_plain()["mine"]) == (("echo", "{{ y }}"), 5)
    assert judge.to_plain()["prompt"] == "{{ candidate_answer }} {{ input }} {{ who }}"
    first, second = load_all(
        write(
            "q.yaml",
            "vars: {words: [a]}\nevalcases: [{id: x, input: h, criteria: o}, {id: y, input: h, criteria: o}]\n",
        )
    )
    first.case.vars["words"].append("b")  # as code of the project may do
    assert second.case.vars == {"words": ["a"]}


def test_the_prompts_and_judges_of_included_files_are_relative_to_these() -> None:
    for name in ("p.md", "shared/p.md", "rows/p.md"):
        write(name, f"I am {name} {{{{ candidate_answer }}}}")
    judge = "evaluators: [{name: j, type: llm_judge, prompt: p.md}]\n"
    write("shared/inc.yaml", f"include: ../base.yaml\nmatrix: {{prompt: [p.md]}}\n{judge}")
    write("base.yaml", "threshold: 0.5\ntarget: base\n")
    write("other.yaml", "target: other\n")
    (loaded,) = load_all(write("q.yaml", "include: [other.yaml, shared/inc.yaml]\nevalcases: [{id: a, criteria: o}]\n"))
    assert loaded.case.question.startswith("I am shared/p.md")
    assert (loaded.case.evaluators or ())[0].to_plain()["prompt"].startswith("I am shared/p.md")
    assert (loaded.case.target, loaded.case.threshold) == ("base", 0.5)
    write("rows/r.jsonl", '{"id": "r", "criteria": "o"}\n')
    (row,) = load_all(write("q.yaml", "matrix: {prompt: [p.md]}\nevalcases: [rows/r.jsonl]\n"))
    assert row.case.question.startswith("I am p.md")


def test_the_keys_of_a_file_that_collection_reads_are_filled_for_each_case() -> None:
    write("q.csv", "n,why\n1,\n2,broken\n")
    write("common.yaml", "tags: ['t-{{ n }}', all]\nfixtures: ['{{ n }}-db']\n")
    keys = "include: common.yaml\nmatrix: {y: [3]}\nskip: '{{ why }}'\nxfail: '{{ y }}!'\nevalcases: {from: q.csv}\n"
    suite = read_suite(write("q.yaml", f"{keys}case: {{id: '{{{{ n }}}}', tags: mine, input: hi}}\n"))
    found = [
        ({key: suite.header_of(entry).get(key) for key in COLLECTED_KEYS}, suite.tags(entry)) for entry in suite.entries
    ]
    assert [keys["skip"] for keys, _ in found] == ["", "broken"]
    assert [(keys["xfail"], keys["fixtures"], tags) for keys, tags in found] == [
        ("3!", [f"{n}-db"], (f"t-{n}", "all", "mine")) for n in (1, 2)
    ]
    plain = read_suite(write("p.yaml", "tags: ['{{ x }}']\nevalcases: [{id: a}, {id: b, vars: {x: y}}]\n"))
    assert [plain.tags(entry) for entry in plain.entries] == [("{{ x }}",), ("y",)]


def test_files_are_attached_to_data_and_to_a_message_without_content() -> None:
    asked = "[{role: system, content: s}, {role: user, content: {order: 5}}, {role: user, tool_calls: [{tool: t}]}]"
    text = "input_files: [docs/spec.txt, '{{ other }}']\nvars: {other: docs/spec.txt}\n"
    (loaded,) = load_all(write("q.yaml", f"{text}evalcases: [{{id: a, criteria: o, input: {asked}}}]\n"))
    _, data, called = loaded.case.messages
    assert [getattr(part, "text", None) or part.to_plain()["value"] for part in data.parts] == [
        '{\n  "order": 5\n}', "DOC\n", "DOC\n",
    ]  # fmt: skip
    assert called.parts == ()


def test_a_sidecar_belongs_to_a_dataset_unless_it_has_cases_of_its_own() -> None:
    path = write("qa.jsonl", '{"id": "a"}\n\n{"id": "b"}\r\n')
    sidecar = write("qa.yml", "dataset: shop\nexecution: {target: t}\n")
    suite = read_suite(path)
    assert [(entry.index, entry.eval_id, entry.line) for entry in suite.entries] == [(0, "a", 1), (1, "b", 3)]
    assert (suite.dataset, suite.target) == ("shop", "t")
    with pytest.raises(SourceError, match=r"cases is missing \(this is the sidecar of qa.jsonl, which has the cas"):
        read_suite(Path.cwd() / sidecar)
    sidecar.write_text("target: t\nevalcases: [{id: c}]\n")
    assert (read_suite(path).dataset, read_suite(path).target) == ("qa", None)


def test_values_nested_too_deeply_are_an_error() -> None:
    evaluator = "{name: h, type: heuristic, hits: [x]}"
    for _ in range(80):
        evaluator = f"{{name: c, type: composite, aggregator: {{type: weighted_average}}, evaluators: [{evaluator}]}}"
    limit = sys.getrecursionlimit()
    path = write("evals/qa.yaml", f"evalcases: [{{id: a, outcome: ok, input: hi, evaluators: [{evaluator}]}}]")
    suite = read_suite(path)
    try:
        sys.setrecursionlimit(len(inspect.stack()) + 150)
        with pytest.raises(CaseError) as caught:
            load_case(suite, suite.entries[0], LoadContext(Path.cwd(), Path.cwd(), evaluators=EVALUATORS))
    finally:
        sys.setrecursionlimit(limit)
    assert str(caught.value) == "evals/qa.yaml:1: the values of the case are nested too deeply"
