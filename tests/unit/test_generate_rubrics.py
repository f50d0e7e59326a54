"""`agentv generate rubrics`: asking, reading replies, and printing the rubrics."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pytest_agentv.cli.generate import run
from pytest_agentv.cli.rubrics import RubricError, RubricRequest, build_user_prompt, read_rubrics, write_rubrics
from pytest_agentv.cli.rubrics import WrittenRubric as Rubric
from pytest_agentv.errors import ProviderError
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


def printed(line: int, eval_id: str) -> str:
    return f"# a.eval.yaml:{line}: {eval_id}\n{BLOCK}\n"


@pytest.mark.parametrize("more", [(), ("-t", "judged")])
def test_the_rubrics_of_the_cases_without_any_are_printed(folder, capsys, more):
    assert generate("a.eval.yaml", *more) == 0
    out, err = capsys.readouterr()
    assert out == printed(3, "greets") + printed(13, "flow")
    assert err == "Asking target 'default' for the rubrics of 2 cases\n"
    assert (folder / "a.eval.yaml").read_text() == SUITE


def test_a_file_that_has_all_its_rubrics_is_done(folder, capsys):
    (folder / "a.eval.yaml").write_text("cases: [{id: a, criteria: o, rubrics: [Be nice], input: q}]")
    assert generate("a.eval.yaml") == 0
    assert capsys.readouterr() == ("", "a.eval.yaml: no case without rubrics\n")


def test_the_rubrics_before_a_failure_are_printed(folder, capsys, monkeypatch):
    async def ask(_provider: Any, request: RubricRequest) -> tuple[Rubric, ...]:
        if request.eval_id == "flow":
            raise RubricError("case 'flow': no rubrics")
        return (GREETS,)

    monkeypatch.setattr("pytest_agentv.cli.generate.write_rubrics", ask)
    assert generate("a.eval.yaml") == 1
    out, err = capsys.readouterr()
    assert out == printed(3, "greets")
    assert err.endswith("\nagentv generate: case 'flow': no rubrics\n")


def test_the_files_own_target_is_used(folder, capsys):
    (folder / "a.eval.yaml").write_text(f"target: useless\n{SUITE}")
    assert generate("a.eval.yaml") == 1
    message = "case 'greets': no rubrics in 3 replies of the model; the last one: nothing"
    asking = "Asking target 'useless' for the rubrics of 2 cases"
    assert capsys.readouterr() == ("", f"{asking}\nagentv generate: {message}\n")


def test_a_target_that_is_no_model_is_an_error(folder, capsys):
    assert generate("a.eval.yaml", "--target", "agent") == 1
    assert capsys.readouterr().err == (
        "agentv generate: targets.yaml:5: target 'agent' is no model that could write rubrics (provider: cli); "
        "name one with --target: its provider is one of anthropic, azure, gemini, litellm, mock, openai\n"
    )


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
    assert capsys.readouterr().out == printed(3, "a") + printed(6, "b@")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.jsonl",
            '{"id": "a", "criteria": "o", "input": "q"}\n',
            "rubrics are written for .yaml and .yml files only",
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
    assert finished.stderr.endswith(f"\n{message}")


def test_a_secret_that_a_model_repeats_is_not_printed(folder, monkeypatch, capsys):
    monkeypatch.setenv("MOCK_API_KEY", "hunter2hunter2")
    named = [{"id": f"is-{secret}", "description": "d"} for secret in ("hunter2hunter2", "hunter2hunter2")]
    reply = json.dumps({"rubrics": [{"id": "r", "description": "names hunter2hunter2\x1b[2J"}, *named]})
    targets = {"targets": [{"name": "default", "provider": "mock", "response": reply}]}
    (folder / "targets.yaml").write_text(json.dumps(targets))
    assert generate("a.eval.yaml") == 0
    out = capsys.readouterr().out
    rubrics = yaml.safe_load(out.partition("\n\n")[0])["rubrics"]
    assert [(rubric["id"], rubric["description"]) for rubric in rubrics] == [
        ("r", "names ***\x1b[2J"),
        ("is-***", "d"),
        ("is-***-3", "d"),
    ]
    assert "hunter2" not in out
    assert "\x1b" not in out


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
