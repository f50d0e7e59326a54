"""Cases whose files have variables, tables, defaults, includes and shared files: what they become, and their faults."""

from pathlib import Path

import pytest

from pytest_agentv.cases.cases import load_case
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.cases.written import LoadContext
from pytest_agentv.cli.validate import Checker, CheckSettings
from pytest_agentv.errors import CaseError, SourceError
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.files.places import MARK_KEYS
from pytest_agentv.providers.table import KINDS
from pytest_agentv.targets.files import load_targets_file

CASE = "expected_outcome: ok\n    input: hi\n"
WORDS = "evaluators: [{name: w, type: heuristic, hits: [ok]}]"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, text):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def suite_of(text, call=None):
    return read_suite(write("q.eval.yaml", text), *([] if call is None else [call]), kinds=EVALUATORS)


def cases_of(text):
    """Return each loaded case of a file, or the text of its error."""
    suite = suite_of(text)
    context = LoadContext(Path.cwd(), Path.cwd(), evaluators=EVALUATORS)
    loaded = []
    for entry in suite.entries:
        try:
            loaded.append(load_case(suite, entry, context).case)
        except CaseError as error:
            loaded.append(str(error))
    return loaded


def case_of(text):
    (case,) = cases_of(text)
    return case


def error_of(text):
    with pytest.raises(SourceError) as caught:
        suite_of(text)
    return str(caught.value)


def test_variables_of_file_and_case_fill_messages_outcome_answer_and_evaluators():
    write("notes/tent.md", "A tent.")
    case = case_of("""\
vars: {topic: tent, words: [warm, dry], least: 3, who: Ada}
evalcases:
  - id: a-{{ topic }}
    vars: {who: Bob}
    expected_outcome: Praises the {{ topic }}
    conversation_id: "{{ least }}"
    input_messages:
      - {role: system, content: "You are {{ who }}"}
      - role: user
        content:
          - "{{ least }}"
          - {type: text, value: "About {{ topic }}: {{ least }}"}
          - {type: file, value: "notes/{{ topic }}.md"}
    expected_messages:
      - {role: assistant, content: "{{ least }}", tool_calls: [{tool: find, input: {limit: "{{ least }}"}}]}
    threshold: "{{ least / 4 }}"
    evaluators:
      - {name: w, type: heuristic, hits: "{{ words }}"}
      - {name: "{{ topic }}", type: latency, threshold: "{{ least * 1000 }}"}
""")
    assert case.eval_id == "a-{{ topic }}"  # the id of a case in a list names its item, as it is written
    assert case.expected_outcome == "Praises the tent"
    assert (case.conversation_id, case.threshold) == ("3", 0.75)
    assert case.question == "You are Bob 3 About tent: 3"
    assert case.messages[1].parts[2].text == "A tent."
    assert case.expected_messages[0]["content"] == "3"
    assert case.expected_messages[0]["tool_calls"] == [{"tool": "find", "input": {"limit": 3}}]
    assert case.evaluators[0].hits == ("warm", "dry")
    assert (case.evaluators[1].label, case.evaluators[1].threshold) == ("tent", 3000)
    assert case.vars == {"topic": "tent", "words": ["warm", "dry"], "least": 3, "who": "Bob"}


@pytest.mark.parametrize("word", ["targets", "prompts"])
def test_a_variable_of_a_matrix_that_is_used_may_have_any_name(word):
    text = f"evalcases:\n  - id: a\n    {CASE}    input: 'Hit {{{{ {word} }}}}'\n".replace("    input: hi\n", "")
    assert [case.question for case in cases_of(f"matrix: {{{word}: [disk, lamp]}}\n{text}")] == ["Hit disk", "Hit lamp"]


def test_data_of_an_expected_answer_keeps_its_types():
    case = case_of(
        f"evalcases:\n  - id: a\n    vars: {{n: 5}}\n    {CASE}    expected_output: {{price: '{{{{ n }}}}'}}\n"
    )
    assert case.expected_messages[0]["content"] == {"price": 5}


def test_without_variables_braces_stay_and_one_hint_is_given():
    text = "evalcases:\n  - id: a\n    expected_outcome: ok\n    input: hi\n" + "".join(
        f"  - {{id: {name}, expected_outcome: '{{{{ x }}}}', input: 'Say {{{{ word }}}} {{{{}}}}'}}\n" for name in "bc"
    )
    suite = suite_of(text)
    assert [str(problem) for problem in suite.problems] == [
        "q.eval.yaml:5: evalcases[1].input: {{ word }} stays as it is, because the case has no variables "
        "(`vars:` of the case or its file fill it in)"
    ]
    cases = cases_of(text)
    assert (cases[1].question, cases[1].vars) == ("Say {{ word }} {{}}", None)
    assert suite_of(f"vars: {{word: x, x: 1}}\n{text}".replace("{{}}", "")).problems == ()
    assert suite_of("evalcases:\n  - {id: a, expected_outcome: o, input: '${{ github.sha }}'}\n").problems == ()


NO_VARIABLES = "stays as it is, because the case has no variables (`vars:` of the case or its file fill it in)"
ONE_CASE = "evalcases: [{id: a, input: hi}]\n"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("evalcases: [{id: a, input: hi, assert: [{not-contains: '{{ x }}'}]}]\n",
         "q.eval.yaml:1: evalcases[0].assert[0].not-contains"),
        ("evalcases:\n- id: a\n  input: hi\n  execution: {evaluators: [{type: heuristic, hits: [a, '{{ x }}']}]}\n",
         "q.eval.yaml:4: evalcases[0].execution.evaluators[0].hits[1]"),
        ("evalcases: [{id: a, input: hi, rubrics: ['{{ x }}']}]\n", "q.eval.yaml:1: evalcases[0].rubrics[0]"),
        ("evalcases: [{id: a, input: hi, assert: ['Names {{ x }}']}]\n", "q.eval.yaml:1: evalcases[0].assert[0]"),
        ("evalcases: [{id: a, input: hi, assert: [{llm_judge: {rubrics: ['{{ x }}']}}]}]\n",
         "q.eval.yaml:1: evalcases[0].assert[0].llm_judge.rubrics[0]"),
        (f"{ONE_CASE}assertions: [{{contains: '{{{{ x }}}}'}}]\n", "q.eval.yaml:2: assertions[0].contains"),
        (f"{ONE_CASE}execution:\n  assert:\n  - contains: '{{{{ x }}}}'\n",
         "q.eval.yaml:4: execution.assert[0].contains"),
        (f"{ONE_CASE}defaults: {{assert: [{{contains: '{{{{ x }}}}'}}]}}\n",
         "q.eval.yaml:2: defaults.assert[0].contains"),
        (f"{ONE_CASE}include: shared.yaml\n", "shared.yaml:2: assert[0].not-contains"),
    ],
)  # fmt: skip
def test_a_check_with_braces_gives_a_hint_where_its_case_has_no_variables(text, place):
    write("shared.yaml", "assert:\n  - not-contains: '{{ x }}'\n")
    assert [str(problem) for problem in suite_of(text).problems] == [f"{place}: {{{{ x }}}} {NO_VARIABLES}"]
    assert suite_of(f"vars: {{x: 1}}\n{text}").problems == ()


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("input: 'Never name ${{ NAME }}'", "evalcases[0].input"),
        ("assert: [{not-contains: '${{ NAME }}'}]", "evalcases[0].assert[0].not-contains"),
    ],
)
def test_a_variable_of_the_environment_gives_a_hint(key, place):
    (problem,) = suite_of(f"evalcases:\n- id: a\n  {key}\n").problems
    said = "${{ NAME }} stays as it is (only targets files read variables of the environment)"
    assert str(problem) == f"q.eval.yaml:3: {place}: {said}"


def test_a_sidecar_whose_checks_have_braces_gives_a_hint():
    path = write("q.eval.jsonl", '{"id": "v", "input": "hi", "vars": {"x": 1}}\n{"id": "a", "input": "hi"}\n')
    write("q.eval.yaml", "description: x\nassert: [{contains: '{{ x }}'}]\n")
    assert [str(each) for each in read_suite(path, kinds=EVALUATORS).problems] == [
        f"q.eval.yaml:2: assert[0].contains: {{{{ x }}}} {NO_VARIABLES}"
    ]
    write("q.eval.jsonl", '{"id": "v", "input": "hi", "vars": {"x": 1}}\n')
    assert read_suite(path, kinds=EVALUATORS).problems == ()


OWN_TEMPLATES = (
    "{name: s, type: code_judge, script: [python3, judge.py], pattern: 'Hello {{ x }}'}",
    "{code_judge: [python3, judge.py], options: {patterns: ['Hello {{ x }}']}}",
    "{not-code_judge: {script: judge.py, pattern: '{{ x }}'}}",
    "{type: code, script: judge.py, path: '{{ x }}'}",
    "{type: mine, name: '{{ x }}', template: '{{ x }}'}",
    "{mine: '{{ x }}'}",
    "{composite: {aggregator: {type: weighted_average}, assert: [{mine: '{{ x }}'}]}}",
)
"""Checks that fill braces themselves."""


@pytest.mark.parametrize(
    "check",
    [
        "{llm_judge: 'Judge {{ candidate_answer }}'}",
        "{llm_judge: {prompt: 'Judge {{ candidate_answer }}'}}",
        "{type: llm_judge, prompt_path: '{{ x }}.md'}",
        "{type: composite, evaluators: [], aggregator: {type: llm_judge, prompt: '{{ EVALUATOR_RESULTS_JSON }}'}}",
        "{code_judge: [echo, '{{ x }}']}",
        "{python: '\"{{ x }}\" in answer'}",
        "{type: python, value: '\"{{ x }}\" in answer'}",
        "{regex: '[{]{2} x'}",
        "{contains: '${{ x }}'}",
        "{contains: '{{}}'}",
        *OWN_TEMPLATES,
    ],
)
def test_prompts_of_judges_and_code_give_no_hint_for_their_braces(check):
    assert suite_of(f"assert: [{check}]\nevalcases: [{{id: a, input: hi}}]\n").problems == ()
    assert suite_of(f"evalcases: [{{id: a, input: hi, assert: [{check}]}}]\n").problems == ()


def test_checks_of_a_file_give_no_hint_if_each_case_has_a_list_of_its_own():
    of_file = "assert: [{contains: '{{ x }}'}]\n"
    (replaced,) = suite_of(f"{of_file}evalcases: [{{id: a, input: hi, evaluators: []}}]\n").problems
    assert replaced.message.startswith("is not run for 1 of 1 case")
    assert len(suite_of(f"{of_file}evalcases: [{{id: a, input: hi, rubrics: [x]}}]\n").problems) == 1


@pytest.mark.parametrize(("check", "count"), [("{contains: '{{ input }}'}", 1), (OWN_TEMPLATES[0], 0)])
def test_a_check_of_files_finds_the_same_faults_of_rows(check, count):
    write("judge.py", "")
    write("rows.jsonl", '{"id": "a", "input": "hi", "expected_outcome": "o"}\n')
    path = write("q.eval.yaml", f"evalcases: rows.jsonl\nevaluators:\n- {check.replace('x }}', 'input }}')}\n")
    write("targets.yaml", "targets: [{name: default, provider: mock, response: x}]\n")
    checker = Checker(CheckSettings(Path.cwd()))
    checker.check(path.absolute())
    assert [problem.level for problem in checker.problems] == ["error"] * count


def test_a_hint_is_no_fault_of_a_strict_check():
    write("targets.yaml", "targets: [{name: default, provider: mock, response: x, judge_target: default}]\n")
    path = write("q.eval.yaml", f"evalcases:\n  - {{id: a, expected_outcome: o, input: '{{{{ x }}}}', {WORDS}}}\n")
    checker = Checker(CheckSettings(Path.cwd()))
    checker.check(path.absolute())
    assert [type(problem).__name__ for problem in checker.problems] == ["Hint"]


def test_faults_of_templates_name_their_places_and_come_together():
    assert case_of("""\
vars: {topic: tent}
execution:
  evaluators:
    - {name: w, type: heuristic, hits: ["{{ tpic }}"]}
evalcases:
  - id: a
    expected_outcome: "{{ toppic }}"
    input:
      - role: user
        content: "{{ topic }} {{ zzz }}"
""") == (
        "q.eval.yaml:7: evalcases[0].expected_outcome: unknown variable 'toppic' (did you mean 'topic'?)\n"
        "q.eval.yaml:10: evalcases[0].input[0].content: unknown variable 'zzz' (known: topic)\n"
        "q.eval.yaml:4: execution.evaluators[0].hits[0]: unknown variable 'tpic' (did you mean 'topic'?)"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vars: 5\nevalcases: []\n", "q.eval.yaml:1: vars: expected a mapping, got the number 5"),
        ("defaults: [x]\nevalcases: []\n", "q.eval.yaml:1: defaults: expected a mapping, got a list"),
        ("defaults: {id: x}\nevalcases: []\n", "q.eval.yaml:1: defaults.id: each case needs an id of its own"),
        ("evalcases: {from: 5}\n", "q.eval.yaml:1: evalcases.from: expected the name of a file, a glob, or "
         "file.py:function, got the number 5"),
        ("evalcases: {from: q.csv, sample: -1}\n", "q.eval.yaml:1: evalcases.sample: expected a whole number, 0 or "
         "more, got the number -1"),
        ("evalcases: {from: q.csv, seed: 1.5}\n", "q.eval.yaml:1: evalcases.seed: expected a whole number, 0 or more, "
         "got the number 1.5"),
        ("evalcases:\n  from: no.csv\n", "q.eval.yaml:2: evalcases.from: there is no file no.csv"),
        ("evalcases: {form: q.csv}\n", "q.eval.yaml:1: evalcases: expected a list of eval cases, got a mapping (or "
         "`from:` with the file of a table)"),
        ("evalcases: {from: q.csv}\ncase: {input: x}\n", "q.eval.yaml:2: case.id: is missing: expected a text that "
         "names each row, such as q-{{ number }}"),
        ("evalcases: {from: q.csv}\ncase: x\n", "q.eval.yaml:2: case: expected a mapping, got the text 'x'"),
        ("evalcases: {from: cases.py:make}\ncase: {id: x}\n", "q.eval.yaml:1: evalcases.from: cases.py:make: functions "
         "are not called here"),
        ("matrix: {targets: [a, b]}\nevalcases: []\n", "q.eval.yaml:1: matrix.targets: would be a variable, and choose "
         "no target (did you mean 'target'?)"),
        ("matrix: {prompts: [a.md]}\nevalcases: []\n", "q.eval.yaml:1: matrix.prompts: would be a variable, and choose "
         "no prompt (did you mean 'prompt'?)"),
        ("include: no.yaml\nevalcases: []\n", "q.eval.yaml:1: include: there is no file no.yaml"),
        ("include: [5]\nevalcases: []\n", "q.eval.yaml:1: include: expected the path of a file, got the number 5"),
        ("include: q.eval.yaml\nevalcases: []\n", "q.eval.yaml:1: include: the files include each other: "
         "q.eval.yaml → q.eval.yaml"),
    ],
)  # fmt: skip
def test_a_file_whose_shared_keys_are_wrong_is_one_error(text, message):
    assert error_of(text) == message


def test_a_case_that_has_no_variables_says_that_vars_are_wrong():
    assert case_of(f"evalcases:\n  - id: a\n    vars: [x]\n    {CASE}") == (
        "q.eval.yaml:3: evalcases[0].vars: expected a mapping, got a list"
    )


def test_a_prompt_may_be_in_a_file_which_is_filled_where_there_are_variables():
    write("prompts/answer.md", "Answer {{ who }}.\n\n{{ missing }}\n")
    plain = f"evalcases:\n  - {{id: a, expected_outcome: o, input: {{file: prompts/answer.md}}, {WORDS}}}\n"
    assert case_of(plain).question == "Answer {{ who }}.\n\n{{ missing }}"
    assert case_of(f"vars: {{who: Ada, missing: x}}\n{plain}").question == "Answer Ada.\n\nx"
    assert case_of(f"vars: {{who: Ada}}\n{plain}") == (
        "q.eval.yaml:3: evalcases[0].input.file: prompts/answer.md:3: unknown variable 'missing' (known: who)"
    )
    by_name = plain.replace("answer.md", "'{{ who }}.md'").replace("prompts/'", "'prompts/")
    assert case_of(f"vars: {{who: answer, missing: x}}\n{by_name}").question.startswith("Answer answer.")
    assert "was not found" in case_of(plain.replace("answer", "no"))
    assert "expected a text, a list of messages, or {file: path of a prompt}" in case_of(
        plain.replace("prompts/answer.md", "prompts/answer.md, role: user")
    )


def test_code_and_prompts_of_judges_are_no_templates_but_see_the_variables():
    case = case_of(f"""\
vars: {{x: 1, question: mine}}
evalcases:
  - id: a
    {CASE}    evaluators:
      - {{name: code, type: code_judge, script: ["echo", "{{{{ y }}}}"], mine: "{{{{ x }}}}"}}
      - {{name: judge, type: llm_judge, prompt: "{{{{ candidate_answer }}}} {{{{ x }}}} {{{{ question }}}}"}}
""")
    code, judge = case.evaluators
    assert code.scripts[0][1] == ("echo", "{{ y }}")
    assert code.model_extra == {"mine": 1}
    assert judge.prompt == "{{ candidate_answer }} {{ x }} {{ question }}"


TABLE = """\
evalcases: {from: q.csv}
case:
  id: "q-{{ n }}"
  input: "Say: {{ question }}"
  expected_output: "{{ answer }}"
  evaluators:
    - {name: w, type: heuristic, hits: ["{{ answer }}"]}
"""


def test_the_prompt_of_a_judge_may_have_a_variable_of_the_case_that_newer_agentv_means_otherwise():
    prompt = "Does {{ candidate_answer }} fit {{ input }} and {{ answer }}?"
    judged = f"expected_outcome: o, input: q, evaluators: [{{name: j, type: llm_judge, prompt: '{prompt}'}}]"
    case = case_of(f"vars: {{answer: A}}\nevalcases:\n  - {{id: a, vars: {{input: I}}, {judged}}}\n")
    assert case.evaluators[0].prompt == prompt
    assert "{{ input }}, a variable of newer AgentV (write {{ question }})" in case_of(
        f"vars: {{answer: A}}\nevalcases:\n  - {{id: a, {judged}}}\n"
    )


@pytest.mark.parametrize("check", OWN_TEMPLATES)
@pytest.mark.parametrize("where", ["assert: [{}]", "execution: {{evaluators: [{}]}}", "defaults: {{assert: [{}]}}"])
def test_keys_that_a_script_or_a_kind_of_the_project_fills_are_no_fault_of_a_row(check, where):
    write("rows.jsonl", '{"id": "a", "input": "hi", "expected_outcome": "o"}\n')
    suite = suite_of(f"evalcases: rows.jsonl\n{where.format(check.replace('x }}', 'input }}'))}\n")
    assert (suite.problems, suite.entries[0].fault) == ((), None)


WHOLE = (
    "stays as it is, because the rows are whole cases (write `case:` with id and input: columns are variables there)"
)


@pytest.mark.parametrize(
    ("check", "place", "word"),
    [
        ("assert: [{not-contains: '{{ answer }}'}]", "assert[0].not-contains", "answer"),
        (
            "execution: {evaluators: [{type: heuristic, hits: ['{{answer}}']}]}",
            "execution.evaluators[0].hits[0]",
            "answer",
        ),
        ("assert: [{contains: '{{ other }}'}, {contains: '{{ input | lower }}'}]", "assert[1].contains", "input"),
        ("defaults: {assert: [{contains: 'x {{ id }}'}]}", "defaults.assert[0].contains", "id"),
        ("defaults: {rubrics: ['Names {{ answer }}']}", "defaults.rubrics[0]", "answer"),
    ],
)
def test_a_check_that_names_a_column_is_an_error_of_a_row_that_is_a_whole_case(check, place, word):
    write("q.csv", "id,input,answer\n1,one,eins\n2,two\n")
    one, two = cases_of(f"evalcases: {{from: q.csv}}\n{check}\n")
    row = "" if place.startswith("defaults") else " [q.csv:2]"
    assert one == f"q.eval.yaml:2: {place}: {{{{ {word} }}}} {WHOLE}{row}"
    assert two == "q.csv:3: has 2 cells: expected 3, as many as the header has"


@pytest.mark.parametrize(
    "own",
    [
        '"evaluators": [{"type": "not-contains", "value": "{{ id }}"}]',
        '"execution": {"evaluators": [{"contains": "{{ id }}"}]}',
        '"rubrics": ["Shows {{ id }}"]',
    ],
)
def test_checks_of_a_row_itself_are_data_and_give_a_hint(own):
    write("tasks.data.jsonl", f'{{"id": "t1", "input": "Write a heading in Jinja", {own}}}\n')
    for of_file in ("", "assert: [{contains: x}]\n", "defaults: {execution: {threshold: 0.5}}\n"):
        suite = suite_of(f"evalcases: tasks.data.jsonl\n{of_file}")
        assert [entry.fault for entry in suite.entries] == [None]
        *replaced, hint = suite.problems
        assert [each.key for each in replaced] == ["assert"] * ("rubrics" not in own and of_file.startswith("assert"))
        assert str(hint).startswith("tasks.data.jsonl:1: ")
        assert str(hint).endswith(f"{{{{ id }}}} {NO_VARIABLES}")


def test_rows_of_a_file_may_have_checks_of_their_own_that_name_a_column():
    write("rows.yaml", "- {id: a, input: hi, assert: [{contains: '{{ input }}'}]}\n"
          "- {id: b, input: hi, vars: {input: x}, assert: [{contains: '{{ input }}'}]}\n"
          "- {id: c, input: 'Explain {{ id }}', assert: [{contains: x}]}\n")  # fmt: skip
    text = "evalcases: rows.yaml\nassert: [{contains: '{{ id }}'}]\n"
    own, filled, data = cases_of(text)
    assert (own.evaluators[0].value, filled.evaluators[0].value) == ("{{ input }}", "x")
    assert data.question == "Explain {{ id }}"
    replaced, hint = suite_of(text).problems
    assert replaced.message == "is not run for 3 of 3 cases: the list of rows.yaml:1 replaces it"
    assert str(hint) == f"rows.yaml:1: [0].assert[0].contains: {{{{ input }}}} {NO_VARIABLES}"


def test_other_braces_of_whole_rows_give_a_hint():
    write("q.csv", "id,input,answer\n1,'{{ answer }}',{{ x }}\n")
    table = "evalcases: {from: q.csv}\n"
    assert suite_of(f"{table}assert: [{{contains: x}}]\n").problems == ()
    assert suite_of(f"{table}assert: [{{llm_judge: '{{{{ answer }}}} {{{{ candidate_answer }}}}'}}]\n").problems == ()
    word = suite_of(f"{table}assert: [{{contains: '{{{{ x }}}}'}}]\n")
    assert [str(each) for each in word.problems] == [f"q.eval.yaml:2: assert[0].contains: {{{{ x }}}} {NO_VARIABLES}"]
    assert [entry.fault for entry in word.entries] == [None]
    write("q.csv", "id,answer\n1,eins\n")
    asked = suite_of(f"{table}defaults: {{input: 'Say {{{{ answer }}}}'}}\n")
    assert [str(each).partition(" (")[2] for each in asked.problems] == [WHOLE.partition(" (")[2]]
    assert [entry.fault for entry in asked.entries] == [None]


def test_rows_become_cases_and_bad_rows_are_errors_of_their_own():
    write("q.csv", "n,question,answer\n1,one,eins\n2,two\n1,again,x\n3,three,drei\n,none,x\n")
    one, two, again, three, none = cases_of(TABLE)
    assert (one.eval_id, one.question, one.reference_answer) == ("q-1", "Say: one", "eins")
    assert (one.line, one.evaluators[0].hits) == (2, ("eins",))
    assert two == "q.csv:3: has 2 cells: expected 3, as many as the header has"
    assert again == "q.csv:4: id: the id 'q-1' is that of q.csv:2 already: expected one of its own"
    assert three.vars == {"n": "3", "question": "three", "answer": "drei"}
    assert none.eval_id == "q-"
    names = [entry.base_name for entry in suite_of(TABLE).entries]
    assert names == ["q-1", "row-3", "q-1", "q-3", "q-"]


def test_faults_of_a_row_name_the_template_and_the_row():
    write("q.csv", "n,question,answer\n,one,eins\n")
    text = TABLE.replace('"q-{{ n }}"', '"{{ n }}"').replace("{{ question }}", "{{ qestion }}")
    assert case_of(text) == (
        "q.eval.yaml:4: case.input: unknown variable 'qestion' (did you mean 'question'?) [q.csv:2]\n"
        "q.eval.yaml:3: case.id: expected a non-empty text, got the text '' [q.csv:2]"
    )


def test_rows_share_the_checks_that_have_no_variables_but_not_their_names():
    write("rows.csv", "id,word\na,tent\nb,stove\n")
    write("schema.json", '{"type": "object"}')
    table = """\
evalcases: {from: rows.csv}
case:
  id: "{{ id }}"
  input: hi
  assert:
    - {contains: "{{ word }}"}
    - {contains: tent}
    - {is-json: schema.json}
    - Is polite
"""
    first, second = cases_of(table)
    assert [each.label for each in first.evaluators] == [
        "contains: tent",
        "contains: tent (2)",
        "is-json",
        "statements: Is polite",
    ]
    assert [each.label for each in second.evaluators] == [
        "contains: stove",
        "contains: tent",
        "is-json",
        "statements: Is polite",
    ]
    assert first.evaluators[2] is second.evaluators[2]
    assert [each.value for each in second.evaluators[:2]] == ["stove", "tent"]


def test_cases_share_the_checks_of_defaults_and_keep_none_of_their_own():
    suite = suite_of("""\
defaults: {threshold: 0.5, execution: {assert: [contains: a]}}
evalcases:
  - {id: x, input: hi}
  - {id: y, input: hi, vars: {v: 1}}
  - {id: z, input: hi, assert: [contains: b]}
  - {id: w, input: hi}
""")
    context = LoadContext(Path.cwd(), Path.cwd(), evaluators=EVALUATORS)
    x, y, z, w = (load_case(suite, entry, context).case for entry in suite.entries)
    assert x.evaluators[0] is w.evaluators[0]
    assert y.evaluators[0] is not x.evaluators[0]  # a judge's prompt may use other variables there
    assert [each.label for each in z.evaluators] == ["contains: b"]
    assert len(context.shared["evaluators"]) == 2


def test_a_fault_of_a_check_without_variables_is_told_for_each_row():
    write("rows.csv", "id,word\na,tent\nb,stove\n")
    table = 'evalcases: {from: rows.csv}\ncase: {id: "{{ id }}", input: hi, assert: [{words: a}, {words: [a], x: 1}]}\n'
    assert [error.count("\n") + 1 for error in cases_of(table)] == [2, 2]
    assert all(f"[rows.csv:{line}]" in error for line, error in zip((2, 3), cases_of(table), strict=True))


def test_an_unknown_key_and_a_blank_question_are_told_with_their_row(agentv):
    write("rows.csv", "id,q\na,hi\nb,\n")
    write(
        "q.eval.yaml", 'evalcases: {from: rows.csv}\ncase: {id: "{{ id }}", input: "{{ q }}", assert: [{words: [a]}]}\n'
    )
    assert "q.eval.yaml:2: warning: case.input: is blank: the target is asked nothing [rows.csv:3]" in (
        agentv("validate", "q.eval.yaml").out
    )
    table = 'evalcases: {from: rows.csv}\ncase: {id: "{{ id }}", input: "{{ q }}", assert: [{words: [a], x: 1}]}\n'
    assert [
        error.endswith(f"unknown key [rows.csv:{line}]") for line, error in zip((2, 3), cases_of(table), strict=True)
    ] == [True, True]


def test_the_targets_of_a_matrix_have_the_same_case_and_other_variables_another_one():
    loaded = cases_of("""\
matrix: {target: [gpt, claude], tone: [a, b]}
evalcases:
  - {id: x, input: "{{ tone }}", assert: [{contains: "{{ tone }}"}]}
  - {id: y, input: "{{ tone }}", assert: [{contains: "{{ tone }}"}]}
""")
    assert [(case.eval_id, case.target, case.question) for case in loaded[:4]] == [
        ("x@a", "gpt", "a"),
        ("x@b", "gpt", "b"),
        ("x@a", "claude", "a"),
        ("x@b", "claude", "b"),
    ]
    assert loaded[0].evaluators is loaded[2].evaluators
    assert [case.evaluators[0].value for case in loaded] == ["a", "b"] * 4
    assert [case.eval_id for case in loaded[4:]] == ["y@a", "y@b"] * 2


@pytest.mark.parametrize("key", ["input", "input_messages"])
def test_one_message_is_the_input_of_each_combination(key):
    message = "{role: user, content: 'Is it {{ tone }}?'}"
    cases = cases_of(f"matrix: {{tone: [dry, warm]}}\nevalcases:\n  - {{id: a, {key}: {message}, outcome: o}}\n")
    assert [(case.question, *(each.role for each in case.messages)) for case in cases] == [
        ("Is it dry?", "user"),
        ("Is it warm?", "user"),
    ]


def test_the_id_of_a_row_uses_no_variable_of_a_matrix():
    write("rows.csv", "number\n1\n")
    header = "matrix: {tone: [a]}\nevalcases: {from: rows.csv}\n"
    table = header + 'case: {id: "%s", input: "{{ tone }}", assert: [contains: a]}\n'
    assert cases_of(table % "q-{{ tone }}") == [
        "q.eval.yaml:3: case.id: uses a variable of the matrix (the names of the matrix follow each id by themselves) "
        "[rows.csv:2]"
    ]
    assert [case.eval_id for case in cases_of(table % "q-{{ number }}")] == ["q-1@a"]
    assert "unknown variable 'nope'" in cases_of(table % "q-{{ nope }}")[0]


FACT = "vars: {fact: {value: 30 days, negate: true}, deep: {fact: {value: 30 days, negate: true}}}\n"


@pytest.mark.parametrize(
    ("check", "fault"),
    [
        ("contains: '{{ fact }}'", "contains: expected a non-empty text, got a mapping"),
        ("not-contains: '{{ vars.fact }}'", "not-contains: expected a non-empty text, got a mapping"),
        ("contains: '{{ deep.fact }}'", "contains: expected a non-empty text, got a mapping"),
        ("contains-any: '{{ fact }}'", "contains-any: expected a list, got a mapping"),
        ("type: contains, value: '{{ fact }}'", "value: expected a non-empty text, got a mapping"),
        ("contains: {value: '{{ fact }}'}", "contains.value: expected a non-empty text, got a mapping"),
        ("field: {path: a, check: {contains: '{{ fact }}'}}",
         "field.check.contains: expected a non-empty text, got a mapping"),
    ],
)  # fmt: skip
def test_a_mapping_in_a_variable_is_the_value_of_a_check_and_not_its_keys(check, fault):
    asked = f"evalcases: [{{id: a, input: hi, assert: [{{{check}}}]}}]\n"
    assert cases_of(FACT + asked) == [f"q.eval.yaml:2: evalcases[0].assert[0].{fault}"]
    of_file = f"assert: [{{{check}}}]\nevalcases: [{{id: a, input: hi}}]\n"
    assert cases_of(FACT + of_file) == [f"q.eval.yaml:2: assert[0].{fault}"]
    write("q.jsonl", '{"fact": {"value": "30 days", "negate": true}, "deep": {"fact": {"negate": true}}}\n')
    row = f"evalcases: {{from: q.jsonl}}\ncase: {{id: a, input: hi, assert: [{{{check}}}]}}\n"
    assert cases_of(row) == [f"q.eval.yaml:2: case.assert[0].{fault} [q.jsonl:1]"]


def test_a_mapping_in_a_variable_is_data_or_the_keys_of_a_check_that_has_nothing_else():
    case = case_of(
        "vars: {schema: {type: object}, limits: {max_words: 5}, whole: {contains: hi}}\nevalcases:\n"
        "  - {id: a, input: hi, assert: [is-json: '{{ schema }}', length: '{{ limits }}', '{{ whole }}']}\n"
    )
    assert [each.to_plain().get("value") for each in case.evaluators] == [{"type": "object"}, None, "hi"]
    assert case.evaluators[1].max_words == 5


def test_the_variables_of_a_case_are_not_those_of_another():
    cases = cases_of(f"vars: {{words: [a]}}\nevalcases:\n  - id: x\n    {CASE}  - id: y\n    {CASE}")
    cases[0].vars["words"].append("b")  # as code of the project may do
    assert cases[1].vars == {"words": ["a"]}


def test_the_columns_of_a_row_win_over_the_variables_of_its_case_and_file():
    write("q.jsonl", '{"n": 1, "tone": "row"}\n{"n": 2}\n')
    cases = cases_of(
        f"vars: {{tone: file, who: file}}\nevalcases: {{from: q.jsonl}}\n"
        f"case:\n  id: '{{{{ n }}}}'\n  vars: {{tone: case}}\n  input: '{{{{ tone }}}} {{{{ who }}}}'\n  {WORDS}\n"
    )
    assert [(case.eval_id, case.question) for case in cases] == [("1", "row file"), ("2", "case file")]


def test_tags_marks_and_skips_of_a_row_are_filled_when_it_is_collected():
    write("q.csv", "n,topic,why\n1,tents,\n2,stoves,broken\n")
    suite = suite_of(TABLE.replace("  input", "  tags: ['{{ topic }}', all]\n  skip: '{{ why }}'\n  input"))
    assert [(entry.value["tags"], entry.value["skip"]) for entry in suite.entries] == [
        (["tents", "all"], ""),
        (["stoves", "all"], "broken"),
    ]
    broken = suite_of(TABLE.replace("  input", "  tags: ['{{ topc }}']\n  input")).entries[0].fault
    assert str(broken) == "q.eval.yaml:4: case.tags[0]: unknown variable 'topc' (did you mean 'topic'?) [q.csv:2]"


def collected(suite):
    """Return the keys of the file for collection, for each case, and its tags."""
    return [
        ({key: item for key, item in suite.header_of(entry).items() if key in MARK_KEYS}, suite.tags(entry))
        for entry in suite.entries
    ]


def test_tags_marks_fixtures_and_skips_of_a_file_are_filled_for_each_case():
    write("q.csv", "n,question,answer,why\n1,one,eins,\n2,two,zwei,broken\n")
    keys = (
        "tags: ['t-{{ answer }}', all]\nmarks: '{{ answer }}'\nfixtures: ['{{ answer }}-db']\n"
        "skip: '{{ why }}'\nxfail: 'row {{ n }}'\n"
    )
    one, two = collected(suite_of(keys + TABLE.replace("  input", "  tags: mine\n  input")))
    assert one == (
        {"tags": ["t-eins", "all"], "marks": "eins", "fixtures": ["eins-db"], "skip": "", "xfail": "row 1"},
        ("t-eins", "all", "mine"),
    )
    assert (two[0]["skip"], two[1]) == ("broken", ("t-zwei", "all", "mine"))


def test_the_keys_of_a_file_stay_as_they_are_where_a_case_has_no_variables():
    suite = suite_of("tags: ['{{ x }}']\nevalcases:\n  - {id: a, input: hi}\n  - {id: b, vars: {x: y}, input: hi}\n")
    assert [tags for _, tags in collected(suite)] == [("{{ x }}",), ("y",)]


def test_the_file_keys_of_an_include_of_a_sidecar_and_of_a_matrix_are_filled():
    write("common.yaml", "tags: ['t-{{ x }}']\n")
    suite = suite_of("include: common.yaml\nvars: {x: 1}\nmatrix: {y: [2, 3]}\nxfail: '{{ y }}!'\n"
                     "evalcases: [{id: a, input: hi}]\n")  # fmt: skip
    assert collected(suite) == [({"tags": ["t-1"], "xfail": f"{y}!"}, ("t-1",)) for y in (2, 3)]
    write("d.yaml", "tags: '{{ x }}'\n")
    lines = write("d.jsonl", '{"id": "a", "input": "hi", "vars": {"x": "one"}}\n')
    assert read_suite(lines).tags(read_suite(lines).entries[0]) == ("one",)


def test_a_file_key_that_cannot_be_filled_is_an_error_of_the_case_and_skips_nothing():
    write("q.csv", "n,question,answer\n1,one,eins\n")
    suite = suite_of(f"skip: '{{{{ wyh }}}}'\n{TABLE}")
    assert collected(suite)[0][0] == {"skip": None}
    assert str(suite.entries[0].fault) == (
        "q.eval.yaml:1: skip: unknown variable 'wyh' (known: n, question, answer) [q.csv:2]"
    )
    assert suite_of(f"skip: '{{{{ wyh }}}}'\n{TABLE}  skip: false\n").entries[0].fault is None  # is not read
    assert cases_of(f"xfail: '{{{{ n }}}}'\nvars: {{n: 1}}\nevalcases: [{{id: a, input: x, {WORDS}}}]\n") == [
        "q.eval.yaml:1: xfail: expected a reason (a text), or true, got the number 1"
    ]


def test_templates_of_rows_that_are_cases_and_those_without_names_are_filled_at_collection():
    write("rows.jsonl", '{"id": "a", "vars": {"x": "one"}, "tags": "{{ x }}", "skip": "{% if y %}{% endif %}"}\n')
    (entry,) = suite_of("evalcases: {from: rows.jsonl}\n").entries
    assert (entry.value["tags"], entry.value["skip"]) == ("one", None)
    assert str(entry.fault) == "rows.jsonl:1: skip: unknown variable 'y' (known: x)"
    suite = suite_of("vars: {x: 0}\nskip: '{% if x %}closed{% endif %}'\nevalcases: [{id: a, input: hi}]\n")
    assert collected(suite) == [({"skip": ""}, ())]


def test_a_sample_of_a_table_is_in_the_order_of_the_rows():
    write("q.csv", "n,question,answer\n" + "".join(f"{n},x,y\n" for n in range(100)))
    text = TABLE.replace("{from: q.csv}", "{from: q.csv, sample: 5, seed: 3}")
    ids = [entry.eval_id for entry in suite_of(text).entries]
    assert len(ids) == 5
    assert ids == sorted(ids, key=lambda eval_id: int(eval_id[2:]))
    assert [entry.eval_id for entry in suite_of(text).entries] == ids
    assert [entry.eval_id for entry in suite_of(text.replace("seed: 3", "seed: 4")).entries] != ids


def test_files_may_hold_the_cases_themselves():
    write("cases/a.yaml", "- {id: one, expected_outcome: ok, input: hi}\n- id: two\n  input: hi\n")
    write("cases/b.jsonl", '{"id": "three", "expected_outcome": "ok", "input": "{{ x }}"}\nnonsense\n')
    write("cases/c.yaml", "evalcases:\n  - {id: four, expected_outcome: ok, input: {file: prompt.md}}\n")
    write("cases/prompt.md", "From the folder of the table")
    one, two, three, broken, four = cases_of("evalcases: [cases/a.yaml, cases/b.jsonl, 'cases/c*.yaml']\n")
    assert one.eval_id == "one"
    assert two == "cases/a.yaml:2: [1].expected_outcome: is missing: expected a non-empty text"
    assert three.question == "{{ x }}"
    assert broken == "cases/b.jsonl:2: invalid JSON: Expecting value (column 1)"
    assert four.question == "From the folder of the table"


def test_a_list_of_texts_that_name_no_table_stays_a_list_of_broken_cases():
    assert case_of("evalcases: [nonsense]\n").startswith("q.eval.yaml:1: evalcases[0]: expected an eval case")
    assert error_of("evalcases: nonsense\n").endswith("expected a list of eval cases, got the text 'nonsense'")


def test_defaults_are_keys_of_each_case_and_its_own_win():
    first, second = cases_of("""\
defaults:
  expected_outcome: From the defaults
  threshold: 0.5
  vars: {a: 1, b: 1}
  tags: [all]
  execution: {target: slow, evaluators: [{name: d, type: latency, threshold: 1}]}
evalcases:
  - {id: one, input: "{{ a }}{{ b }}"}
  - id: two
    outcome: Own
    vars: {b: 2}
    execution: {threshold: 1}
    assert: [{name: own, type: latency, threshold: 2}]
    input: "{{ a }}{{ b }}"
    target: quick
""")
    assert (first.expected_outcome, first.threshold, first.target, first.question) == (
        "From the defaults", 0.5, "slow", "11",
    )  # fmt: skip
    assert [each.label for each in first.evaluators] == ["d"]
    assert (second.expected_outcome, second.threshold, second.target, second.question) == ("Own", 1, "quick", "12")
    assert [each.label for each in second.evaluators] == ["own"]
    assert suite_of("defaults: {tags: [all]}\nevalcases: [{id: a}]\n").entries[0].value["tags"] == ["all"]


def test_faults_of_defaults_and_includes_are_told_where_they_are_written():
    write(
        "shared/common.yaml",
        """\
unknwon: 1
defaults:
  input: "{{ nope }}"
evaluators:
  - {name: w, type: heuristic, hits: 5}
""",
    )
    suite = suite_of("include: shared/common.yaml\ndefaults:\n  threshold: 7\nvars: {x: 1}\nevalcases: [{id: a}]\n")
    assert [str(problem) for problem in suite.problems] == ["shared/common.yaml:1: unknwon: unknown key"]
    context = LoadContext(Path.cwd(), Path.cwd(), evaluators=EVALUATORS)
    with pytest.raises(CaseError) as caught:
        load_case(suite, suite.entries[0], context)
    assert str(caught.value).splitlines() == [
        "shared/common.yaml:3: defaults.input: unknown variable 'nope' (known: x)",
        "q.eval.yaml:3: defaults.threshold: expected a number from 0 to 1, got the number 7",
        "shared/common.yaml:5: evaluators[0].hits: expected a list, got the number 5",
    ]


def test_included_files_share_evaluators_with_paths_of_their_own():
    write("shared/judges/rule.md", "{{ candidate_answer }} must be short")
    write("shared/common.yaml", "include: ../base.yaml\nvars: {a: common, b: common}\ntarget: common\nevaluators:\n"
          "  - {name: judge, type: llm_judge, prompt: judges/rule.md}\n")  # fmt: skip
    write("base.yaml", "vars: {a: base, c: base}\nthreshold: 0.5\n")
    write("other.yaml", "target: other\n")
    case = case_of(
        "include: [other.yaml, shared/common.yaml]\nvars: {a: own}\n"
        "evalcases: [{id: a, expected_outcome: o, input: '{{ a }} {{ b }} {{ c }}'}]\n"
    )
    assert (case.question, case.target, case.threshold) == ("own common base", "common", 0.5)
    assert case.evaluators[0].prompt == "{{ candidate_answer }} must be short"
    write("base.yaml", "include: shared/common.yaml\n")
    assert error_of("include: shared/common.yaml\nevalcases: []\n") == (
        "base.yaml:1: include: the files include each other: shared/common.yaml → base.yaml → shared/common.yaml"
    )
    write("base.yaml", "evalcases: []\n")
    assert error_of("include: base.yaml\nevalcases: []\n") == (
        "base.yaml:1: evalcases: an included file holds no cases; name it under evalcases instead"
    )


def test_files_for_all_cases_are_attached_to_the_first_message_of_the_user():
    for name in ("a", "b", "own"):
        write(f"{name}.md", f"Text of {name}.")
    first, second, third = cases_of(f"""\
input_files: [a.md, "{{{{ other }}}}.md"]
vars: {{other: b}}
evalcases:
  - {{id: one, expected_outcome: o, input: hi, {WORDS}}}
  - id: two
    expected_outcome: o
    input_files: own.md
    input: [{{role: system, content: s}}, {{role: user, content: hi}}, {{role: user, content: ho}}]
  - {{id: three, expected_outcome: o, input: [{{role: system, content: s}}]}}
""")
    assert [getattr(part, "text", None) or part.value for part in first.messages[0].parts] == [
        "hi", "Text of a.", "Text of b.",
    ]  # fmt: skip
    assert first.file_paths == (str(Path("a.md").absolute()), str(Path("b.md").absolute()))
    assert [len(message.parts) for message in second.messages] == [1, 2, 1]
    assert third == "q.eval.yaml:1: input_files: there is no message of the user to attach the files to"
    missing = f"input_files: [a.md,\n  no.md]\nevalcases: [{{id: one, expected_outcome: o, input: hi, {WORDS}}}]\n"
    assert case_of(missing).startswith("q.eval.yaml:2: input_files[1]: file 'no.md' was not found")


def test_the_prompts_of_a_matrix_are_relative_to_the_file_that_names_them():
    for name in ("p.md", "shared/p.md", "rows/p.md"):
        write(name, f"I am {name}")
    write("shared/inc.yaml", "matrix:\n  prompt: [p.md,\n    no.md]\n")
    write("rows/r.jsonl", '{"id": "r"}\n')
    first, missing = cases_of(f"include: shared/inc.yaml\nevalcases:\n- {{id: a, {WORDS}}}\n")
    assert first.question == "I am shared/p.md"
    assert missing.startswith("shared/inc.yaml:3: matrix.prompt[1]: file 'no.md' was not found; searched: shared/no.md")
    row = case_of(f"matrix: {{prompt: [p.md]}}\n{WORDS}\nevalcases: [rows/r.jsonl]\n")
    assert row.question == "I am p.md"


def test_files_are_attached_to_data_and_to_a_message_without_content() -> None:
    write("a.md", "RULES")
    asked = "[{role: user, content: {order: 5}}, {role: user, content: hi}]"
    first, _ = case_of(f"cases: [{{id: a, input: {asked}, input_files: a.md, {WORDS}}}]").messages
    part, file = first.parts
    assert (part.value, file.text) == ('{\n  "order": 5\n}', "RULES")
    called = "[{role: user, tool_calls: [{tool: t}]}]"
    (message,) = case_of(f"cases: [{{id: a, input: {called}, input_files: a.md, {WORDS}}}]").messages
    assert [each.text for each in message.parts] == ["RULES"]


def test_a_case_whose_evaluators_ask_for_no_outcome_need_not_say_it():
    text = f"evalcases:\n  - {{id: a, input: hi, {WORDS}}}\n"
    assert case_of(text).expected_outcome == ""
    rubrics = "evalcases:\n  - {id: a, input: hi, rubrics: [Says hello]}\n"
    assert case_of(rubrics).expected_outcome == ""
    judged = text.replace("type: heuristic, hits: [ok]", "type: llm_judge")
    assert case_of(judged).endswith("expected_outcome: is missing: expected a non-empty text")
    misspelt = case_of(text.replace("input", "expected_outcom: x, input"))
    assert misspelt.endswith("[0].expected_outcom: unknown key (did you mean 'expected_outcome'?)")


def test_targets_files_include_others():
    write("shared/targets.yaml", "evaluators: []\ntargets:\n  - {name: shared, provider: mock, response: s}\n"
          "  - {name: own, provider: mock, response: s}\n")  # fmt: skip
    path = write("targets.yaml", "include: shared/targets.yaml\ntargets:\n"
                 "  - {name: own, provider: mock, response: o, judge_target: shared}\n")  # fmt: skip
    file = load_targets_file(path.absolute(), KINDS)
    assert (file.names, file.warnings) == (("own", "shared"), ())
    shared = file.find("shared")
    assert (shared.path, shared.line, file.find("own").path) == (Path("shared/targets.yaml").absolute(), 3, None)
    write("targets.yaml", "include: [shared/targets.yaml]\n")
    assert load_targets_file(path.absolute(), KINDS).names == ("shared", "own")
    write("shared/targets.yaml", "include: ../targets.yaml\n")
    with pytest.raises(SourceError, match="the files include each other"):
        load_targets_file(path.absolute(), KINDS)
    write("shared/targets.yaml", "targets:\n  - {name: x}\n")
    with pytest.raises(Exception, match=r"shared/targets\.yaml:2: targets\[0\]\.provider"):
        load_targets_file(path.absolute(), KINDS)


def test_a_check_tells_a_fault_of_many_rows_once():
    write("targets.yaml", "targets: [{name: default, provider: mock, response: x}]\n")
    write("q.csv", "n,question,answer\n" + "".join(f"{n},x,y\n" for n in range(30)))
    path = write("q.eval.yaml", TABLE.replace("{{ question }}", "{{ qestion }}"))
    checker = Checker(CheckSettings(Path.cwd()))
    checker.check(path.absolute())
    assert list(map(str, checker.problems)) == [
        "q.eval.yaml:4: case.input: unknown variable 'qestion' (did you mean 'question'?) [q.csv:2 and 29 more]"
    ]


def test_the_environment_is_no_variable_and_the_error_says_so():
    error = cases_of(f"vars: {{a: 1}}\nevalcases:\n  - id: c\n    {WORDS}\n    input: '{{{{ env.HOME }}}}'\n")[0]
    assert "unknown variable 'env' (templates do not see the environment: write `vars`, or ${{ NAME }} in a" in error


def test_keys_of_promptfoo_are_answered_with_what_to_write():
    suite = suite_of(f"prompts: [a]\ndefaultTest: {{}}\nevalcases:\n  - id: c\n    {WORDS}\n    input: x\n")
    assert [str(problem).partition(" (")[2][:20] for problem in suite.refused] == [
        "write the prompt as ",
        "write `defaults` for",
    ]


@pytest.mark.parametrize(
    ("header", "key", "hint"),
    [
        ("", "options: {repeat: 3}", "(`repeat` is a key of the case itself; nothing turns the answer into another"),
        ("", "expectations: {expected_facts: [a]}", "(write the ideal answer as `expected_output`, facts and guide"),
        ("", "completion_time: 3", "(the answer is timed: write `latency` under `assert`)"),
        ("", "reference_contexts: [a]", "(no check reads the ideal context: as a variable under `vars`, prompts of"),
        ("", "testing_criteria: [a]", "(write the checks as a list under `assert`)"),
        ("report_evaluators: []", "note: x", "(no check judges a whole run: options such as --agentv-"),
        ("redteam: {}", "note: x", "(nothing makes up attacks: write them as cases)"),
    ],
)
def test_keys_of_other_tools_are_answered_with_what_to_write(header, key, hint):
    path = write("q.eval.yaml", f"{header}\nevalcases:\n  - {{id: a, input: hi, {WORDS}, {key}}}\n")
    checker = Checker(CheckSettings(Path.cwd()))
    checker.check(path.absolute())
    (fault,) = [str(problem) for problem in checker.problems if "unknown key" in str(problem)]
    assert hint in fault


PROMPTFOO = "q,__expected,__expected2,__description,__prefix\nhi,contains:hi,not-contains:a,d,\nho,,,d,\n"


def test_columns_of_promptfoo_that_hold_checks_are_told_where_the_template_does_not_use_them():
    write("t.csv", PROMPTFOO)
    suite = suite_of("evalcases: {from: t.csv}\ncase: {id: '{{ q }}', input: '{{ q }}', assert: [contains: h]}\n")
    assert [str(problem) for problem in suite.problems] == [
        "q.eval.yaml:1: evalcases: the column '__expected' of t.csv:2 is not read: no check is made of its cells "
        "(write the checks once for all rows, under `case`: assert: [contains: '{{ answer }}'])",
        "q.eval.yaml:1: evalcases: the column '__expected2' of t.csv:2 is not read: no check is made of its cells "
        "(write the checks once for all rows, under `case`: assert: [contains: '{{ answer }}'])",
    ]
    used = "[{contains: '{{ __expected }}'}, {contains: '{{ __expected2 }}'}]"
    suite = suite_of(f"evalcases: {{from: t.csv}}\ncase: {{id: '{{{{ q }}}}', input: hi, assert: {used}}}\n")
    assert suite.problems == ()


def test_columns_of_promptfoo_are_no_misspelt_keys_of_a_case():
    write("t.csv", PROMPTFOO)
    suite = suite_of("evalcases: {from: t.csv}\n")
    with pytest.raises(CaseError) as caught:
        load_case(suite, suite.entries[0], LoadContext(Path.cwd(), Path.cwd(), evaluators=EVALUATORS))
    told = [str(each) for each in caught.value.problems if "__expected" in str(each)]
    assert told[0].startswith("t.csv:2: __expected: unknown key (write the checks once for all rows, under `case`")
    assert len(told) == 2


def test_a_table_that_cannot_be_read_is_not_said_to_be_empty(agentv):
    write("q.eval.yaml", "evalcases: {from: nothing.csv}\n")
    assert "no rows" not in agentv("validate", "q.eval.yaml").out
    write("t.csv", "id\n")
    write("q.eval.yaml", "evalcases: {from: t.csv}\n")
    assert "evalcases: the table has no rows" in agentv("validate", "q.eval.yaml").out


@pytest.mark.parametrize("column", ["unit price", "q?", "5th"])
def test_a_column_that_is_no_name_is_told_with_how_to_write_it(column):
    write("t.csv", f"n,{column}\n1,2\n")
    case = f"case: {{id: '{{{{ n }}}}', input: 'Is it {{{{ {column} }}}}?', {WORDS}}}"
    assert f'(write {{{{ vars["{column}"] }}}})' in cases_of(f"evalcases: {{from: t.csv}}\n{case}\n")[0]
    case = f"case: {{id: '{{{{ n }}}}', input: 'Is it {{{{ n n }}}}?', {WORDS}}}"
    assert "(write" not in cases_of(f"evalcases: {{from: t.csv}}\n{case}\n")[0]


def test_a_file_that_is_like_the_missing_one_by_its_suffix_alone_is_not_suggested():
    for name in ("targets.yaml", "rows.py", "shares.yaml"):
        write(name, "vars: {}\n")
    with pytest.raises(SourceError, match=r"there is no file targeting/common\.yaml$"):
        suite_of("include: targeting/common.yaml\nevalcases: []\n")
    with pytest.raises(SourceError, match=r"there is no file common\.yaml$"):
        suite_of("include: common.yaml\nevalcases: []\n")
    with pytest.raises(SourceError, match=r"did you mean 'shares\.yaml'"):
        suite_of("include: shared.yaml\nevalcases: []\n")
    with pytest.raises(SourceError, match=r"there is no file rows\.csv$"):
        suite_of("evalcases: {from: rows.csv}\n")


def test_the_input_of_a_case_that_the_prompts_of_a_matrix_overrule_is_a_warning():
    suite = suite_of(
        "matrix: {prompt: [a.md]}\nevalcases:\n  - {id: a}\n  - {id: b, input: x}\n  - {id: c, input_messages: []}\n"
    )
    assert [str(problem) for problem in suite.problems] == [
        "q.eval.yaml:4: evalcases[1].input: is not read: the prompts of the file's matrix are sent",
        "q.eval.yaml:5: evalcases[2].input_messages: is not read: the prompts of the file's matrix are sent",
    ]
    shared = suite_of("matrix: {prompt: [a.md]}\ndefaults: {input: x}\nevalcases: [{id: a}]\n")
    assert shared.problems == ()
