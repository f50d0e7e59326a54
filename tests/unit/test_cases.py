"""Loading one case: what it becomes, and what is said about a broken one."""

import inspect
import pickle
import re
import sys
import textwrap
from pathlib import Path

import pytest

from pytest_agentv.cases.cases import LoadedCase, load_case
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.cases.written import LoadContext
from pytest_agentv.errors import CaseError
from pytest_agentv.evaluators.table import EVALUATORS

PATTERNS = ("**/*.instructions.md",)
BASE = "id: a\nexpected_outcome: ok\ninput: hi\n"


@pytest.fixture(autouse=True)
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evals").mkdir()
    return tmp_path


def load_from(path: Path, index: int = 0, *, strict: bool = False) -> LoadedCase:
    suite = read_suite(path)
    context = LoadContext(Path.cwd(), Path.cwd(), PATTERNS, strict, EVALUATORS.with_own({"my_kind": print}))
    return load_case(suite, suite.entries[index], context)


def load(case: str, *, strict: bool = False) -> LoadedCase:
    """Load a case whose first key is on line 2."""
    path = Path("evals/qa.yaml")
    path.write_text(f"evalcases:\n  - {textwrap.indent(case, '    ').strip()}\n", encoding="utf-8")
    return load_from(path, strict=strict)


def error_of(case: str, *, strict: bool = False) -> str:
    with pytest.raises(CaseError) as caught:
        load(case, strict=strict)
    return str(caught.value)


def test_a_small_case_is_loaded_whole(repo: Path) -> None:
    case = load(BASE).case
    assert case.to_plain() == {
        "eval_id": "a",
        "dataset": "qa",
        "path": str(repo / "evals" / "qa.yaml"),
        "line": 2,
        "expected_outcome": "ok",
        "question": "hi",
        "messages": [{"role": "user", "parts": [{"value": "hi", "type": "text"}]}],
        "input_messages": [{"role": "user", "content": "hi"}],
        "expected_messages": [],
        "reference_answer": "",
        "guideline_paths": [],
        "file_paths": [],
        "guideline_patterns": list(PATTERNS),
        "required": False,
    }


@pytest.mark.parametrize("outcome", ["expected_outcome", "outcome", "criteria"])
@pytest.mark.parametrize("messages", ["input_messages: [{role: user, content: hi}]", "input: hi", "input_messages: hi"])
def test_the_keys_of_a_case_have_synonyms(outcome: str, messages: str) -> None:
    loaded = load(f"id: a\n{outcome}: ok\n{messages}\n")
    assert (loaded.case.expected_outcome, loaded.case.question, loaded.warnings) == ("ok", "hi", ())


def test_an_empty_list_of_messages_is_an_empty_question() -> None:
    case = load("id: a\noutcome: ok\ninput_messages: []\n").case
    assert (case.question, case.messages) == ("", ())


def test_every_known_key_of_a_case_is_silent() -> None:
    keys = "grader description note question reference_answer tags metadata marks skip xfail fixtures conversation_id"
    extra = "".join(f"{key}: llm_judge\n" for key in keys.split())
    loaded = load(f"{BASE}{extra}execution: {{target: t, threshold: 1, evaluators: []}}\nrubrics: []\n")
    assert (loaded.warnings, loaded.case.conversation_id) == ((), "llm_judge")


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            "no",
            "[0]: expected an eval case: a mapping with id, expected_outcome and input_messages, got the text 'no'",
        ),
        (
            "id: 5\noutcome: ok\ninput: hi",
            '[0].id: expected a non-empty text, got the number 5 (put it into quotes: "5")',
        ),
        (
            "id: 007\noutcome: ok\ninput: hi",
            "[0].id: expected a non-empty text, got the number 7 (put it into quotes as it is written)",
        ),
        (
            "input: 1.50\nid: a\noutcome: ok",
            "[0].input: expected a list of messages, got the number 1.5 (put it into quotes as it is written)",
        ),
        ("id: ' '\noutcome: ok\ninput: hi", "[0].id: expected a non-empty text, got the text ' '"),
        ("outcome: ok\ninput: hi", "[0].id: is missing: expected a non-empty text"),
        ("id: a\ninput: hi", "[0].expected_outcome: is missing: expected a non-empty text"),
        (
            "{id: a, input: hi, expected_outcom: ok}",
            "[0].expected_outcom: unknown key (did you mean 'expected_outcome'?)",
        ),
        (
            "{id: a, outcome: ok, note: x, inptu: hi}",
            "[0].inptu: unknown key (did you mean 'input'?)",
        ),
        (
            "{id: a, input: hi, asert: [contains: x]}",
            "[0].asert: unknown key (did you mean 'assert'?)",
        ),
        (
            "{id: a, input: hi, assert: [not-contians: x]}",
            "[0].assert[0].not-contians: is no kind of evaluator (did you mean 'not-contains'?)",
        ),
        (
            "{id: a, input: hi, assert: [{type: not-contians, value: x}]}",
            "[0].assert[0].type: expected a kind of evaluator, got the text 'not-contians' "
            "(did you mean 'not-contains'?)",
        ),
        (
            "{id: a, input: hi, assert: [equals: .inf, not-equals: {a: [.nan]}]}",
            "[0].assert[0].equals: JSON has neither infinity nor NaN, so no answer equals this\n"
            "evals/qa.yaml:2: evalcases[0].assert[1].not-equals: JSON has neither infinity nor NaN, so no answer "
            "equals this",
        ),
        (
            "{id: a, input: hi, metrics: [relevancy]}",
            "[0].metrics: unknown key (write the checks as a list under `assert`)",
        ),
        (
            "{id: a, outcome: ok, prompt: hi}",
            "[0].prompt: unknown key (write `input`)",
        ),
        (
            "{name: a, input: hi, outcome: ok}",
            "[0].id: is missing: expected a non-empty text (write `id` in place of `name`)",
        ),
        (
            "{id: a, input: hi, assert: [contians: x]}",
            "[0].assert[0].contians: is no kind of evaluator (did you mean 'contains'?)",
        ),
        (
            "{id: a, input: hi, evaluators: [contains: '']}",
            "[0].evaluators[0].contains: expected a non-empty text, got the text ''",
        ),
        ("{id: a, input: hi, rubrics: x}", "[0].rubrics: expected a list, got the text 'x'"),
        ("{id: a, input: hi, outcome: ''}", "[0].outcome: expected a non-empty text, got the text ''"),
        ("{id: a, outcome: ok}", "[0].input_messages: is missing: expected a list of messages"),
        (
            "{id: a, outcome: ok, input: 5}",
            '[0].input: expected a list of messages, got the number 5 (put it into quotes: "5")',
        ),
        ("{id: a, outcome: ok, input: {role: user}}", "[0].input: expected a list of messages, got a mapping"),
        (
            "{id: a, outcome: ok, input: hi, conversation_id: 5}",
            "[0].conversation_id: expected a text, got the number 5",
        ),
        ("{id: a, outcome: ok, input: hi, execution: x}", "[0].execution: expected a mapping, got the text 'x'"),
        ("{id: a, outcome: ok, input: hi, target: [x]}", "[0].target: expected a text, got a list"),
        (
            "{id: a, outcome: ok, input: hi, threshold: '1'}",
            "[0].threshold: expected a number from 0 to 1, got the text '1'",
        ),
        (
            "{id: a, outcome: ok, input: hi, execution: {threshold: 1.1}}",
            "[0].execution.threshold: expected a number from 0 to 1, got the number 1.1",
        ),
        (
            "{id: a, outcome: ok, input: hi, evaluators: {name: x}}",
            "[0].evaluators: expected a list of evaluators, got a mapping (put `- ` before its first key)",
        ),
        ("{id: a, outcome: ok, input: hi, rubrics: x}", "[0].rubrics: expected a list, got the text 'x'"),
        (
            "{id: a, outcome: ok, input: hi, rubrics: ['', {id: 1, description: x}]}",
            "[0].rubrics[0].description: expected a non-empty text, got the text ''\n"
            "evals/qa.yaml:2: evalcases[0].rubrics[1].id: expected a non-empty text, got the number 1 "
            '(put it into quotes: "1")',
        ),
    ],
)
def test_a_broken_case_says_what_is_wrong(case: str, message: str) -> None:
    assert error_of(case) in {f"evals/qa.yaml:{line}: evalcases{message}" for line in (2, 3)}


def test_all_faults_of_a_case_are_told_at_once_with_their_lines() -> None:
    case = """\
        id: 5
        expected_outcome: ok
        input_messages:
          - role: function
            content: x
          - role: user
            content:
              - {type: file, value: no.md}
        execution:
          evaluators:
            - {name: speed, type: latency, threshold: -1}
    """
    assert error_of(textwrap.dedent(case)) == (
        "evals/qa.yaml:5: evalcases[0].input_messages[0].role: "
        "expected one of system, user, assistant, tool, got the text 'function'\n"
        "evals/qa.yaml:9: evalcases[0].input_messages[1].content[0].value: "
        "file 'no.md' was not found; searched: evals/no.md, no.md\n"
        'evals/qa.yaml:2: evalcases[0].id: expected a non-empty text, got the number 5 (put it into quotes: "5")\n'
        "evals/qa.yaml:12: evalcases[0].execution.evaluators[0].threshold: "
        "expected a number of 0 or more, got the number -1"
    )


def test_a_case_in_a_jsonl_file_is_told_by_its_line() -> None:
    path = Path("evals/qa.jsonl")
    path.write_text('{"id": "a", "outcome": "ok", "input": "hi"}\n\n{"id": 5, "outcome": "ok", "input": "hi"}\n')
    assert load_from(path).case.line == 1
    with pytest.raises(CaseError) as caught:
        load_from(path, 1)
    assert str(caught.value) == (
        "evals/qa.jsonl:3: id: expected a non-empty text, got the number 5 (put it into quotes as it is written)"
    )


@pytest.mark.parametrize(
    ("extra", "warning"),
    [
        ("targt: x", "5: evalcases[0].targt: unknown key (did you mean 'target'?)"),
        ("zzz: x", "5: evalcases[0].zzz: unknown key"),
        (
            "execution: {evaluatr: x}",
            "5: evalcases[0].execution.evaluatr: unknown key (did you mean 'evaluators'?)",
        ),
        ("criteria: x", "5: evalcases[0].criteria: is not read, because 'expected_outcome' is there as well"),
        (
            "evaluators: [a]\nexecution: {assert: [b]}",
            "5: evalcases[0].evaluators: is not read, because 'execution.assert' is there as well",
        ),
        (
            "execution: {assert: [b], evaluators: [a]}",
            "5: evalcases[0].execution.assert: is not read, because 'execution.evaluators' is there as well",
        ),
        (
            "target: a\nexecution: {target: b}",
            "5: evalcases[0].target: is not read, because 'execution.target' is there as well",
        ),
        (
            "threshold: 0.1\nexecution: {threshold: 0.9}",
            "6: evalcases[0].execution.threshold: is not read, because 'threshold' is there as well",
        ),
        (
            "evaluator: heuristic",
            "5: evalcases[0].evaluator: expected 'llm_judge', got the text 'heuristic'; "
            "falling back to the default judge (other kinds go into a list under `evaluators:`)",
        ),
    ],
)
def test_what_is_odd_about_a_case_is_a_warning_and_an_error_when_strict(extra: str, warning: str) -> None:
    assert [str(problem) for problem in load(BASE + extra).warnings] == [f"evals/qa.yaml:{warning}"]
    assert error_of(BASE + extra, strict=True) == f"evals/qa.yaml:{warning}"


def test_a_loaded_case_is_plain_data() -> None:
    loaded = load(f"{BASE}rubrics: [one]\nexpected_output: {{a: [1, null]}}")
    assert pickle.loads(pickle.dumps(loaded)) == loaded


def test_values_nested_too_deeply_are_an_error() -> None:
    evaluator = "{name: h, type: heuristic, hits: [x]}"
    for _ in range(80):
        evaluator = f"{{name: c, type: composite, aggregator: {{type: weighted_average}}, evaluators: [{evaluator}]}}"
    limit = sys.getrecursionlimit()
    path = Path("evals/qa.yaml")
    path.write_text(f"evalcases: [{{id: a, outcome: ok, input: hi, evaluators: [{evaluator}]}}]")
    suite = read_suite(path)
    try:
        sys.setrecursionlimit(len(inspect.stack()) + 150)
        with pytest.raises(CaseError) as caught:
            load_case(suite, suite.entries[0], LoadContext(Path.cwd(), Path.cwd(), evaluators=EVALUATORS))
    finally:
        sys.setrecursionlimit(limit)
    assert str(caught.value) == "evals/qa.yaml:1: the values of the case are nested too deeply"


def test_cases_share_the_evaluators_of_their_file_which_are_hashed_once() -> None:
    path = Path("evals/qa.yaml")
    cases = "".join(f"  - {{id: {name}, expected_outcome: x, input: y}}\n" for name in "ab")
    path.write_text(f"evaluators: [{{name: h, type: heuristic, hits: [a]}}]\nevalcases:\n{cases}", encoding="utf-8")
    suite = read_suite(path)
    context = LoadContext(Path.cwd(), Path.cwd(), PATTERNS, False, EVALUATORS)
    first, second = (load_case(suite, entry, context).case for entry in suite.entries)
    assert first.evaluators is second.evaluators
    assert first.folder is second.folder


REFUSED_KEYS = (
    *("assert_scoring_function", "assertScoringFunction", "default_test", "defaultTest", "depends_on", "env"),
    *("derived_metrics", "derivedMetrics", "environment", "evaluate_options", "evaluateOptions", "extensions"),
    *("preprocessors", "targets", "timeout_seconds"),
)
NEWER_KEYS = [
    ("", "turns: [{input: hi, assert: [contains: x]}]", "evalcases[0].turns: unknown key (the target is asked once"),
    ("", "workspace: {template: ./shop}", "evalcases[0].workspace: unknown key (prepare the folder in a fixture"),
    ("workspace: {template: ./shop}\n", "note: x", "workspace: unknown key (prepare the folder in a fixture"),
    ("input: Answer in one word.\n", "note: x", "input: unknown key (write it in the cases, or under `defaults`)"),
    *((f"{key}: [x]\n", "note: x", f"1: {key}: unknown key (") for key in REFUSED_KEYS),
    *(("", f"{key}: [x]", f"evalcases[0].{key}: unknown key (") for key in REFUSED_KEYS),
    ("execution: {trials: {count: 3}}\n", "note: x", "execution.trials: unknown key (write `repeat`)"),
    ("", "execution: {trials: {count: 3}}", "evalcases[0].execution.trials: unknown key (write `repeat`)"),
    ("", "execution: {evaluator: [contains: x]}", "evalcases[0].execution.evaluator: unknown key (write `evaluators`"),
    ("", "options: {transform: output.x}", "evalcases[0].options: unknown key (`repeat` is a key of the case itself; "),
    ("defaults: {env: {A: b}}\n", "note: x", "evals/qa.yaml:1: defaults.env: unknown key (write ${{ NAME }} at "),
    ("evaluator: [contains: y]\n", "note: x", "1: evaluator: expected a word, got a list (write `evaluators`, with"),
    ("", "evaluator: {contains: y}", "evalcases[0].evaluator: expected a word, got a mapping (write `evaluators`, wi"),
]


@pytest.mark.parametrize(("header", "key", "told"), NEWER_KEYS)
def test_a_key_that_changes_what_is_asked_or_checked_is_an_error_of_the_case(header: str, key: str, told: str):
    path = Path("evals/qa.yaml")
    path.write_text(f"{header}evalcases:\n  - {{id: a, input: hi, assert: [contains: x], {key}}}\n")
    suite = read_suite(path)
    assert suite.problems == ()
    context = LoadContext(Path.cwd(), Path.cwd(), evaluators=EVALUATORS)
    with pytest.raises(CaseError, match=re.escape(told)):
        load_case(suite, suite.entries[0], context)
    softened = load_case(suite, suite.entries[0], context.replace(unknown_keys="warn"))
    assert [told in str(problem) for problem in softened.warnings] == [True]


@pytest.mark.parametrize(
    "keys",
    ["note: x", "metadata: {environment: prod, depends_on: x}", "options: {A: Yes, B: No}", "options: [Yes, No]"],
)
def test_such_keys_are_data_elsewhere(keys: str):
    path = Path("evals/qa.yaml")
    path.write_text(f"evalcases:\n  - {{id: a, input: hi, vars: {{env: x}}, assert: [contains: x], {keys}}}\n")
    assert [each.level for each in load_from(path).warnings] == ["warning"] * keys.startswith("options")


@pytest.mark.parametrize(
    ("header", "own", "is_told"),
    [
        ("assertions: [contains: x]", ", assert: [contains: y]", True),
        ("assertions: [contains: x]", ", execution: {evaluators: [contains: y]}", True),
        ("assertions: [contains: x]", "", False),
        ("assertions: []", ", assert: [contains: y]", False),
        ("assert: [contains: x]", ", assertions: [contains: y]", True),
        ("execution: {evaluators: [contains: x]}", ", evaluators: [contains: y]", True),
        ("assert: [contains: x]", ", rubrics: [Is polite]", False),
    ],
)
def test_checks_of_the_file_that_no_case_runs_give_a_warning(header: str, own: str, is_told: bool):
    path = Path("evals/qa.yaml")
    path.write_text(f"{header}\nevalcases:\n  - {{id: a, input: hi{own}}}\n")
    told = "is not run for 1 of 1 case: the list of evals/qa.yaml:3 replaces it (repeat the checks there, or leave "
    assert [told in str(each) for each in read_suite(path).problems] == [True] * is_told
    assert load_from(path).warnings == ()


@pytest.mark.parametrize(("key", "is_told"), [("assert", True), ("assertions", True), ("evaluators", False)])
def test_checks_of_the_file_that_some_cases_replace_give_a_warning_unless_they_mean_it(key: str, is_told: bool):
    path = Path("evals/qa.yaml")
    cases = f"  - {{id: a, input: hi}}\n  - {{id: b, input: hi, {key}: [contains: y]}}\n"
    path.write_text(f"assert: [contains: x]\nevalcases:\n{cases}")
    told = "is not run for 1 of 2 cases: the list of evals/qa.yaml:4 replaces it (repeat the checks there, or call that"
    assert [told in str(each) for each in read_suite(path).problems] == [True] * is_told


def test_a_case_that_skips_the_checks_of_its_file_in_newer_agentv_too_gives_no_warning_of_them() -> None:
    path = Path("evals/qa.yaml")
    own = "execution: {skip_defaults: true}, assert: [contains: y]"
    path.write_text(f"assertions: [contains: x]\nevalcases:\n  - {{id: a, input: hi, {own}}}\n")
    assert read_suite(path).problems == ()
    assert [each.key for each in load_from(path).warnings] == ["evalcases[0].execution.skip_defaults"]
