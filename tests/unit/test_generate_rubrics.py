"""`agentv generate rubrics`: asking, reading replies, and writing into a file of which everything else stays."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_agentv.cases.cases import load_case
from pytest_agentv.cases.suites import read_suite
from pytest_agentv.cases.variables import as_template, render
from pytest_agentv.cases.written import LoadContext
from pytest_agentv.cli.generate import run
from pytest_agentv.cli.rubrics import (
    LayoutError,
    RubricError,
    RubricRequest,
    build_user_prompt,
    insert_rubrics,
    read_rubrics,
    write_rubrics,
)
from pytest_agentv.cli.rubrics import WrittenRubric as Rubric
from pytest_agentv.errors import ProviderError
from pytest_agentv.evaluators.table import EVALUATORS
from pytest_agentv.files.source import build_yaml
from pytest_agentv.model.messages import Message
from pytest_agentv.providers.base import ProviderRequest, ProviderResponse

GREETS = Rubric("greets", "Greets: by name #1")
BLOCK = """\
    rubrics:
      - id: greets
        description: 'Greets: by name #1'
        weight: 1
        required: true
"""


def insert(text: str, index: int = 0, rubrics: tuple[Rubric, ...] = (GREETS,)) -> str:
    return insert_rubrics(text, "cases", index, rubrics)


def inserted(before: str, after: str) -> str:
    return f"{before}{BLOCK}{after}"


# --- writing into the file


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cases:\n  - id: a\n    expected_outcome: o\n", ""),
        ("cases:\n  - id: a\n    expected_outcome: o  # why\n", "\n    # about the input\n    input: q\n  - id: b\n"),
        ("cases:\n  - expected_outcome: o\n", "    id: a\n"),
        ("cases:\n  - id: a\n    outcome: 'two\n\n      lines'\n", "    input: q\n"),
        ("cases:\n  - id: a\n    outcome: two\n      lines\n", "\n\n    input: q\n"),
        ("cases:\n  - id: a\n    outcome: one\u2028line\n", "    input: q\n"),
        ("cases:\n  - id: a\n    criteria: |\n      two\n\n      lines\n", "\n  # b is next\n  - id: b\n"),
        ("cases:\n  - id: a\n    criteria: >-  # folded +\n      two\n      lines\n", "\n\n    input: q\n"),
        ("cases:\n  - id: a\n    criteria: |+\n      keeps\n\n\n", "    input: q\n"),
        ("cases:\n  - id: a\n    criteria: &x o\n", "  - id: b\n    criteria: *x\n"),
        ("# ü 😀\ncases:\n  - id: 😀\n    criteria: ü\n", "\n\n# the end"),
        ("cases:\n  - id: a\n    expected_outcome: *o\n    input: q\n", "other: 1\n"),
    ],
)
def test_rubrics_go_below_the_outcome_and_every_other_byte_stays(before, after):
    head = "x: &o shared\n" if "*o" in before else ""
    before = head + before
    expected = inserted(before, after)
    if "*o" in before:  # an alias has no text of its own: the first key that has one comes before it
        expected = before.replace("    expected_outcome", f"{BLOCK}    expected_outcome") + after
    assert insert(before + after) == expected


def test_the_rubrics_of_a_case_in_the_middle_leave_its_neighbours_alone():
    text = "cases:\n  - id: a\n    criteria: x\n  - id: b\n    criteria: x\n  - id: c\n    criteria: x\n"
    head, tail = text[: text.index("  - id: c")], text[text.index("  - id: c") :]
    assert insert(text, 1) == inserted(head, tail)


def test_a_list_that_is_not_indented_is_fine():
    assert (
        insert("cases:\n- id: a\n  criteria: x\n")
        == "cases:\n- id: a\n  criteria: x\n" + BLOCK.replace("\n  ", "\n")[2:]
    )


def test_a_file_without_a_newline_at_its_end_still_has_none():
    text = "cases:\n  - id: a\n    criteria: x"
    assert insert(text) == f"{text}\n{BLOCK}".removesuffix("\n")


def test_line_breaks_stay_those_of_windows():
    text = "cases:\r\n  - id: a\r\n    criteria: |\r\n      x\r\n\r\n    input: q\r\n"
    head, tail = text[: text.index("\r\n    input")], text[text.index("\r\n    input") :]
    assert insert(text) == head + BLOCK.replace("\n", "\r\n") + tail


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("cases: [{id: a, criteria: x", ", input: q}]\n"),
        ('{"cases": [\n  {"id": "a", "criteria": "x"', ',\n   "input": "q"}\n]}\n'),
        ("cases:\n  - {id: a, criteria: 'x'", "}  # note\n"),
    ],
)
def test_flow_style_stays_flow_style(before, after):
    rubrics = '[{"id": "greets", "description": "Greets: by name #1", "weight": 1, "required": true}]'
    assert insert(before + after) == f"{before}, rubrics: {rubrics}{after}"


@pytest.mark.parametrize(
    "text",
    [
        "x: &a {id: a, criteria: x}\ncases:\n  - *a\ny: *a\n",
        "x: &a {id: a, criteria: x}\ncases:\n  - <<: *a\n",
        "cases:\n  - &a\n    id: a\n    criteria: x\n  - <<: *a\n    id: b\n",
        "cases:\n  - id:\n      - a\n",
    ],
)
def test_a_layout_without_a_place_for_them_is_left_alone(text):
    with pytest.raises(LayoutError) as caught:
        insert(text)
    assert str(caught.value) == BLOCK.replace("\n    ", "\n")[4:]


SCALARS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
STYLES = {
    "plain": "cases:\n  - id: a\n    criteria: words of it\n    input: q\n",
    "literal": "cases:\n  - id: a\n    criteria: |\n      words\n\n    input: q\n",
    "flow": "cases: [{id: a, criteria: x}, {id: b}]\n",
}


@settings(deadline=None)
@given(st.sampled_from(sorted(STYLES)), st.lists(SCALARS, min_size=1), SCALARS)
def test_any_texts_are_written_as_they_are_or_not_at_all(style, descriptions, rubric_id):
    text = STYLES[style]
    rubrics = tuple(Rubric(rubric_id, description, 0.5, False) for description in descriptions)
    try:
        changed = insert(text, 0, rubrics)
    except LayoutError:
        assert style == "flow"
        return
    value = build_yaml(Path("x"), changed, 0)[0]
    assert value["cases"][0].pop("rubrics") == [rubric.to_plain() for rubric in rubrics]
    assert value == build_yaml(Path("x"), text, 0)[0]


# --- asking


@pytest.mark.parametrize(
    "reply",
    [
        '{"rubrics": [{"id": "a", "description": "A", "weight": 2, "required": false}, {"description": " B\\n b "}]}',
        'Here:\n```json\n{"rubrics": [{"id": "a", "description": "A", "weight": 2.0, "required": false}, '
        '{"id": " ", "description": "B b", "weight": "x", "required": "y"}]}\n```\nDone.',
        '{"rubrics": []} {"rubrics": [{"id": "a", "description": "A", "weight": 2, "required": false}, 5, {}, '
        '{"description": ""}, {"description": "B b", "weight": -1}]}',
    ],
)
def test_a_reply_is_read_and_what_is_left_out_gets_its_default(reply):
    assert read_rubrics(reply) == (Rubric("a", "A", 2.0, False), Rubric("rubric-2", "B b", 1.0, True))


@pytest.mark.parametrize(
    "reply", ["", "no", "[]", '{"rubrics": []}', '{"rubrics": "x"}', '{"rubrics": [{"id": "a"}]}', '{"rubrics": [']
)
def test_a_reply_without_rubrics_has_none(reply):
    assert read_rubrics(reply) == ()


def test_ids_that_occur_twice_are_told_apart():
    reply = json.dumps({"rubrics": [{"id": "a", "description": d} for d in ("A", "B", "C")]})
    assert [rubric.id for rubric in read_rubrics(reply)] == ["a", "a-2", "a-3"]


@pytest.mark.parametrize("weight", ["1e999", "1" * 400, "true", "-0.5", "null"])
def test_a_weight_that_is_none_is_1(weight):
    assert read_rubrics(f'{{"rubrics": [{{"description": "A", "weight": {weight}}}]}}')[0].weight == 1


@given(st.text())
def test_any_reply_can_be_read(reply):
    assert isinstance(read_rubrics(reply), tuple)


def test_the_prompt_holds_what_is_known_of_the_case():
    assert build_user_prompt(RubricRequest("a", "outcome", "question", "ideal")) == (
        "[[ ## question ## ]]\nquestion\n\n[[ ## expected_outcome ## ]]\noutcome\n\n[[ ## reference_answer ## ]]\nideal"
    )
    assert build_user_prompt(RubricRequest("a", "outcome")) == "[[ ## expected_outcome ## ]]\noutcome"


class ScriptedProvider:
    mode = "lm"

    def __init__(self, *replies: str | Exception) -> None:
        self.requests: list[ProviderRequest] = []
        self._replies = list(replies)

    async def check(self) -> None: ...

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        self.requests.append(request)
        reply = self._replies[min(len(self.requests), len(self._replies)) - 1]
        if isinstance(reply, Exception):
            raise reply
        return ProviderResponse((Message("assistant", reply),))

    async def close(self) -> None: ...


REPLY = '{"rubrics": [{"id": "greets", "description": "Greets: by name #1"}]}'


def test_a_model_whose_reply_is_of_no_use_is_asked_again():
    provider = ScriptedProvider("no", "no", REPLY)
    assert asyncio.run(write_rubrics(provider, RubricRequest("a", "o"))) == (GREETS,)
    assert len(provider.requests) == 3
    assert "three to seven" in provider.requests[0].system_prompt


@pytest.mark.parametrize(("reply", "shown"), [("no", "no"), ("x" * 300, "x" * 200 + "…")])
def test_after_three_replies_of_no_use_it_is_an_error(reply, shown):
    provider = ScriptedProvider(reply)
    with pytest.raises(RubricError) as caught:
        asyncio.run(write_rubrics(provider, RubricRequest("a", "o")))
    assert str(caught.value) == f"case 'a': no rubrics in 3 replies of the model; the last one: {shown}"
    assert len(provider.requests) == 3


def test_a_model_that_cannot_be_asked_is_an_error_at_once():
    provider = ScriptedProvider(ProviderError("HTTP 401", "auth"))
    with pytest.raises(RubricError) as caught:
        asyncio.run(write_rubrics(provider, RubricRequest("a", "o")))
    assert str(caught.value) == "case 'a': the model could not be asked: HTTP 401"
    assert len(provider.requests) == 1


# --- the command


SUITE = """\
# A comment at the top.
evalcases:
  - id: greets  # the first
    expected_outcome: Greets the user
    input_messages: [{role: user, content: Hello}]

  - id: has some
    expected_outcome: o
    rubrics: [Be nice]
    input_messages: [{role: user, content: Hello}]
  - id: has no outcome
    input_messages: [{role: user, content: Hello}]
  - {id: flow, criteria: o, input: Hello}
"""
TARGETS = f"""
targets:
  - {{name: default, provider: mock, response: '{REPLY}'}}
  - {{name: useless, provider: mock, response: nothing}}
  - {{name: agent, provider: cli, command_template: echo}}
  - {{name: judged, provider: cli, command_template: "echo ${{{{ NO_SUCH }}}}", judge_target: default}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "targets.yaml").write_text(TARGETS)
    (tmp_path / "a.eval.yaml").write_text(SUITE)
    return tmp_path


def generate(*arguments: str) -> int:
    return run(["rubrics", *arguments])


def test_the_cases_without_rubrics_get_some(folder, capsys):
    (folder / "a.eval.yaml").chmod(0o640)
    assert generate("a.eval.yaml") == 0
    outcome = "    expected_outcome: Greets the user\n"
    flow = '[{"id": "greets", "description": "Greets: by name #1", "weight": 1, "required": true}]'
    assert (folder / "a.eval.yaml").read_text() == SUITE.replace(outcome, outcome + BLOCK, 1).replace(
        "criteria: o,", f"criteria: o, rubrics: {flow},"
    )
    assert (folder / "a.eval.yaml").stat().st_mode & 0o777 == 0o640
    out, err = capsys.readouterr()
    assert (out, err) == ("greets: 1 rubric\nflow: 1 rubric\na.eval.yaml: wrote rubrics for 2 cases\n", "")
    assert generate("a.eval.yaml") == 0
    assert capsys.readouterr().out == "a.eval.yaml: no case without rubrics\n"


def test_the_verbose_flag_shows_what_is_written(folder, capsys):
    assert generate("a.eval.yaml", "-v", "-t", "judged") == 0
    assert capsys.readouterr().out == (
        "Asking target 'default' for the rubrics of 2 cases\n"
        "greets: 1 rubric\n  [greets] Greets: by name #1\nflow: 1 rubric\n  [greets] Greets: by name #1\n"
        "a.eval.yaml: wrote rubrics for 2 cases\n"
    )


def test_the_files_own_target_is_used(folder, capsys):
    (folder / "a.eval.yaml").write_text(f"target: useless\n{SUITE}")
    assert generate("a.eval.yaml") == 1
    message = "case 'greets': no rubrics in 3 replies of the model; the last one: nothing"
    assert capsys.readouterr().err == f"agentv generate: {message}\n"
    assert (folder / "a.eval.yaml").read_text() == f"target: useless\n{SUITE}"


def test_a_target_that_is_no_model_is_an_error(folder, capsys):
    assert generate("a.eval.yaml", "--target", "agent") == 1
    assert capsys.readouterr().err == (
        "agentv generate: targets.yaml:5: target 'agent' is no model that could write rubrics (provider: cli); "
        "name one with --target: its provider is one of anthropic, azure, gemini, litellm, mock, openai\n"
    )


def test_an_outcome_that_names_a_file_is_an_error_before_a_model_is_asked(folder, capsys):
    written = SUITE.replace("Greets the user", "file://greets.md")
    (folder / "a.eval.yaml").write_text(written)
    assert generate("a.eval.yaml") == 1
    out, err = capsys.readouterr()
    line = written.splitlines().index("    expected_outcome: file://greets.md") + 1
    where = f"a.eval.yaml:{line}: evalcases[0].expected_outcome"
    hint = "(write the text itself)"
    assert (out, err) == (
        "",
        f"agentv generate: {where}: 'file://greets.md' is a text here: no file is read for it {hint}\n",
    )
    assert (folder / "a.eval.yaml").read_text() == written


def test_an_outcome_that_is_an_absolute_address_gets_rubrics(folder):
    written = SUITE.replace("Greets the user", "file:///etc/hosts")
    (folder / "a.eval.yaml").write_text(written)
    assert generate("a.eval.yaml") == 0
    assert BLOCK in (folder / "a.eval.yaml").read_text()


def test_a_byte_order_mark_and_windows_line_breaks_stay(folder):
    written = b"\xef\xbb\xbf" + SUITE.replace("\n", "\r\n").encode()
    (folder / "a.eval.yaml").write_bytes(written)
    assert generate("a.eval.yaml") == 0
    found = (folder / "a.eval.yaml").read_bytes()
    assert found.startswith(b"\xef\xbb\xbf# A comment")
    assert found.count(b"\n") == found.count(b"\r\n") == written.count(b"\n") + BLOCK.count("\n")


def test_a_link_to_the_file_stays_a_link(folder):
    (folder / "link.eval.yaml").symlink_to(folder / "a.eval.yaml")
    assert generate("link.eval.yaml") == 0
    assert (folder / "link.eval.yaml").is_symlink()
    assert BLOCK in (folder / "a.eval.yaml").read_text()


def test_rubrics_that_find_no_place_are_printed(folder, capsys):
    text = "x: &a {id: a, criteria: o, input: q}\nevalcases:\n  - *a\n  - {id: b, criteria: o, input: q}\ny: *a\n"
    (folder / "a.eval.yaml").write_text(text)
    assert generate("a.eval.yaml") == 1
    out, err = capsys.readouterr()
    assert err == (
        "a.eval.yaml:3: the layout of this case has no place for rubrics; write them by hand:\n"
        + BLOCK.replace("\n    ", "\n")[4:]
        + "\n"
    )
    assert out.endswith("a.eval.yaml: wrote rubrics for 1 case\n")
    assert 'b, criteria: o, rubrics: [{"id"' in (folder / "a.eval.yaml").read_text()


TWO_CASES = """
evalcases:
  - id: a
    criteria: o
    input: "hi {{ tone }}"
  - id: "b@"
    criteria: o
    input: hi
"""
MATRICES = [
    "matrix: {tone: [a, b]}",
    "execution: {targets: [default, judged]}",
    "matrix: {target: [default, judged], tone: [a, b]}",
]


@pytest.mark.parametrize("matrix", MATRICES)
def test_a_model_is_asked_once_for_a_case_and_not_for_each_of_its_combinations(folder, capsys, monkeypatch, matrix):
    asked: list[str] = []

    async def ask(_provider: Any, request: RubricRequest) -> tuple[Rubric, ...]:
        asked.append(request.eval_id)
        return (GREETS,)

    monkeypatch.setattr("pytest_agentv.cli.generate.write_rubrics", ask)
    (folder / "a.eval.yaml").write_text(f"{matrix}{TWO_CASES}")
    assert generate("a.eval.yaml") == 0
    assert asked == ["a", "b@"]
    outcome = "    criteria: o\n"
    assert (folder / "a.eval.yaml").read_text() == f"{matrix}{TWO_CASES}".replace(outcome, outcome + BLOCK)
    out, err = capsys.readouterr()
    assert (out, err) == ("a: 1 rubric\nb@: 1 rubric\na.eval.yaml: wrote rubrics for 2 cases\n", "")
    assert generate("a.eval.yaml") == 0
    assert (len(asked), capsys.readouterr().out) == (2, "a.eval.yaml: no case without rubrics\n")


def test_a_case_of_a_matrix_is_shown_as_it_is_written_if_its_rubrics_cannot_be(folder, capsys, monkeypatch):
    async def edit(_provider: Any, _request: RubricRequest) -> tuple[Rubric, ...]:
        (folder / "a.eval.yaml").unlink()
        return (GREETS,)

    monkeypatch.setattr("pytest_agentv.cli.generate.write_rubrics", edit)
    (folder / "a.eval.yaml").write_text(f"{MATRICES[0]}{TWO_CASES}")
    assert generate("a.eval.yaml") == 1
    assert "The rubrics of case 'a', to write by hand:" in capsys.readouterr().err


def loaded_rubrics(path: Path) -> list[list[tuple[str | None, str]]]:
    """Return the rubrics of each combination of each case, as a run reads them."""
    suite = read_suite(path)
    context = LoadContext(Path.cwd(), Path.cwd(), evaluators=EVALUATORS)
    cases = [load_case(suite, entry, context).case for entry in suite.entries]
    return [[(rubric.id, rubric.description) for rubric in case.evaluators[0].rubrics] for case in cases]


BRACED = ("a", "{{ a }}", "{{a}}}", "{{{ z }}}", "{% endraw %}", "{# note", "{{ vars }} is {{- x -}}", "'{{' \"{%-\" {")


@pytest.mark.parametrize("case", ["id: a\n    criteria: o\n    input: q\n", "{id: a, criteria: o, input: q}\n"])
@pytest.mark.parametrize(
    ("head", "is_filled"),
    [
        ("", False),
        ("matrix: {target: [x, y]}", False),
        ("vars: {a: 1}", True),
        ("matrix: {a: [1, 2]}", True),
        ("defaults: {vars: {a: 1}}", True),
    ],
)
def test_a_run_reads_rubrics_with_braces_as_the_model_wrote_them(folder, head, is_filled, case):
    path = folder / "a.eval.yaml"
    path.write_text(f"{head}\nevalcases:\n  - {case}")
    reply = json.dumps({"rubrics": [{"id": text, "description": text} for text in BRACED]})
    (folder / "targets.yaml").write_text(
        json.dumps({"targets": [{"name": "default", "provider": "mock", "response": reply}]})
    )
    assert generate("a.eval.yaml", "-t", "default") == 0
    assert loaded_rubrics(path) == [[(text, text) for text in BRACED]] * (2 if "matrix" in head else 1)
    written = build_yaml(path, path.read_text(), 0)[0]["evalcases"][0]["rubrics"]
    assert (written[1]["description"] == '{{ "{{" }} a }}') == is_filled


def test_expressions_that_the_model_read_in_the_case_stay(folder):
    path = folder / "a.eval.yaml"
    path.write_text(
        "matrix: {tone: [kind, stern]}\nevalcases:\n  - {id: a, criteria: 'A {{ tone }} letter', input: q}\n"
    )
    reply = json.dumps({"rubrics": [{"id": "tone", "description": "The letter is {{ tone }}, without {{ braces }}"}]})
    (folder / "targets.yaml").write_text(
        json.dumps({"targets": [{"name": "default", "provider": "mock", "response": reply}]})
    )
    assert generate("a.eval.yaml", "-t", "default") == 0
    assert loaded_rubrics(path) == [
        [("tone", f"The letter is {tone}, without {{{{ braces }}}}")] for tone in ("kind", "stern")
    ]


@settings(deadline=None)
@given(st.text(st.sampled_from("{}%#-+\"'\\ \na"), max_size=12))
def test_any_text_can_be_written_as_a_template(text):
    assert render(as_template(text), {"a": 1}) == text


NEW_CASE = "  - {id: new, criteria: o, input: Hello}\n"


@pytest.mark.parametrize("call", [1, 2])
@pytest.mark.parametrize("edited", [SUITE.replace("evalcases:\n", f"evalcases:\n{NEW_CASE}"), None])
def test_a_file_that_is_changed_meanwhile_is_not_written_to_and_what_was_paid_for_is_printed(
    folder, capsys, monkeypatch, call, edited
):
    asked: list[str] = []
    path = folder / "a.eval.yaml"

    async def edit(_provider: Any, request: RubricRequest) -> tuple[Rubric, ...]:
        asked.append(request.eval_id)
        if len(asked) == call:
            path.write_text(edited) if edited else path.unlink()
        return (GREETS,)

    monkeypatch.setattr("pytest_agentv.cli.generate.write_rubrics", edit)
    assert generate("a.eval.yaml") == 1
    assert asked == ["greets", "flow"][:call]
    assert (path.read_text() if path.exists() else None) == edited
    out, err = capsys.readouterr()
    assert out == ("greets: 1 rubric\n" if call == 2 else "")
    assert err == (
        "agentv generate: a.eval.yaml was changed by somebody else meanwhile: nothing more is written into it. "
        f"The rubrics of case '{asked[-1]}', to write by hand:\n" + BLOCK.replace("\n    ", "\n")[4:] + "\n"
    )


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.jsonl",
            '{"id": "a", "criteria": "o", "input": "q"}\n',
            "rubrics are written into .yaml and .yml files only",
        ),
        ("b.yaml", "evalcases: {}\n", "evalcases: expected a list of eval cases, got an empty mapping"),
    ],
)
def test_a_file_that_is_of_no_use_is_an_error(folder, capsys, name, text, message):
    (folder / name).write_text(text)
    assert generate(name) == 1
    assert message in capsys.readouterr().err


def test_variables_come_from_the_env_file_and_their_values_are_not_shown(folder):
    (folder / ".env").write_text("MOCK_API_KEY=hunter2hunter2\n")
    (folder / "targets.yaml").write_text(
        'targets: [{name: default, provider: mock, response: "${{ MOCK_API_KEY }}"}]\n'
    )
    code = "import sys; from pytest_agentv.cli.generate import run; sys.exit(run(['rubrics', 'a.eval.yaml']))"
    environment = {"PATH": os.environ["PATH"]}
    finished = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 1
    message = "agentv generate: case 'greets': no rubrics in 3 replies of the model; the last one: ***\n"
    assert finished.stderr == message


def test_a_secret_that_a_model_repeats_comes_neither_into_the_file_nor_on_the_screen(folder, monkeypatch, capsys):
    monkeypatch.setenv("MOCK_API_KEY", "hunter2hunter2")
    named = [{"id": f"is-{secret}", "description": "d"} for secret in ("hunter2hunter2", "hunter2hunter2")]
    reply = json.dumps({"rubrics": [{"id": "r", "description": "names hunter2hunter2\x1b[2J"}, *named]})
    targets = {"targets": [{"name": "default", "provider": "mock", "response": reply}]}
    (folder / "targets.yaml").write_text(json.dumps(targets))
    assert generate("a.eval.yaml", "-v") == 0
    printed = capsys.readouterr().out
    assert "  [r] names ***\\x1b[2J\n" in printed
    assert "  [is-***] d\n  [is-***-3] d\n" in printed
    assert "hunter2" not in printed + (folder / "a.eval.yaml").read_text()


@pytest.mark.parametrize("length", range(186, 200))
def test_a_reply_is_cut_after_its_secrets_are_masked(folder, monkeypatch, capsys, length):
    monkeypatch.setenv("MOCK_API_KEY", "hunter2hunter2")
    targets = {"targets": [{"name": "default", "provider": "mock", "response": "x" * length + "hunter2hunter2" * 3}]}
    (folder / "targets.yaml").write_text(json.dumps(targets))
    assert generate("a.eval.yaml") == 1
    assert "hun" not in capsys.readouterr().err


def test_the_question_is_that_of_the_case_or_its_first_user_message(folder, monkeypatch):
    asked: list[Any] = []

    async def record(_provider: Any, request: RubricRequest) -> tuple[Rubric, ...]:
        asked.append((request.question, request.reference_answer, request.expected_outcome))
        return (GREETS,)

    monkeypatch.setattr("pytest_agentv.cli.generate.write_rubrics", record)
    (folder / "a.eval.yaml").write_text(
        """
evalcases:
  - {id: a, criteria: o, question: asked, reference_answer: ideal, input: other}
  - {id: b, expected_outcome: o, input: text}
  - id: c
    outcome: o
    input_messages: [{role: system, content: s}, {role: user, content: [x]}, {role: user, content: u}]
  - {id: d, outcome: o, input_messages: [{role: assistant, content: s}]}
"""
    )
    assert generate("a.eval.yaml") == 0
    assert asked == [("asked", "ideal", "o"), ("text", "", "o"), ("u", "", "o"), ("", "", "o")]
