"""`agentv validate`: what is wrong with files, all at once, without a run."""

import json
import os
from pathlib import Path

import pytest

GOOD = """\
evalcases:
  - id: a
    expected_outcome: o
    input_messages: [{role: user, content: q}]
    evaluators: [{name: fast, type: latency, threshold: 9}]
"""
TARGETS = "targets: [{name: default, provider: mock}]\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOT_SET", raising=False)
    (tmp_path / ".git").mkdir()
    return tmp_path


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_code_of_the_project_says_is_masked_and_does_not_mix_with_the_report(agentv, monkeypatch, form):
    monkeypatch.setenv("SHOP_API_KEY", "sk-very-secret-4711")
    write("targets.yaml", TARGETS)
    write("qa.eval.yaml", "evalcases: {from: 'cases.py:make'}\ncase: {id: '{{ id }}', input: q}\n")
    write("cases.py", "def make():\n    print('connecting')\n    raise ValueError('sk-very-secret-4711 expired')\n")
    write("conftest.py", "def pytest_agentv_providers():\n    raise ValueError('sk-very-secret-4711 refused')\n")

    run = agentv("validate", f"--format={form}", ".")

    assert run.exit_code == 1
    assert "connecting" not in run.out
    assert "cases.py:make raised ValueError: *** expired" in run.out
    assert "ValueError: *** refused" in run.out
    assert "very-secret" not in run.out + run.err
    if form == "json":
        assert json.loads(run.out)["errors"] == 1


def test_a_folder_that_links_to_itself_ends(agentv, folder):
    write("evals/qa.yaml", GOOD)
    write("targets.yaml", TARGETS)
    (folder / "evals" / "again").symlink_to(folder / "evals")
    assert agentv("validate", ".").out == "2 files checked: nothing wrong\n"


@pytest.mark.parametrize("name", ["evals/qa.yaml", "evals/qa.jsonl", "evals/targets.yaml"])
def test_a_pipe_is_not_waited_for(agentv, name):
    write("evals/other.yaml", GOOD)
    os.mkfifo(name)
    assert agentv("validate", name).out.startswith(
        f"{name}: error: cannot be read: expected a regular file, not a folder, a pipe or a device\n"
    )
    agentv("validate", "evals")


SAFE = [
    "agent {PROMPT}",
    "a=$(agent {PROMPT})",
    'echo "$(agent $X {PROMPT})/x"',
    'agent "$(git rev-parse HEAD)" "${HOME:-x}" {PROMPT}',
    "# it's a comment\nagent 'a' \"b\" {PROMPT}",
    "n=$((1+1)); agent --prompt={PROMPT}",
    "agent <<< {PROMPT}",
    "printf '{\"q\": '{PROMPT}'}'",
    "agent \\'x a#{PROMPT}",
]
UNSAFE = [
    "'{PROMPT}'",
    '"{PROMPT}"',
    "agent 'x {PROMPT}",
    '"$(agent "{PROMPT}")"',
    '"$(agent) {PROMPT}"',
    '"$(agent # x)" {PROMPT}',
    '"${X:-"{PROMPT}"}"',
    '"\\"{PROMPT}"',
    "`agent {PROMPT}`",
    "agent # {PROMPT}",
    "agent;#{PROMPT}",
    "cat <<E\n{PROMPT}\nE",
    "$(({PROMPT}))",
    "${X:-{PROMPT}}",
    "\\{PROMPT}",
    "$'{PROMPT}'",
]


def test_the_prompt_has_to_be_a_word_of_its_own_in_a_command(agentv):
    commands = SAFE + [f"agent {{EVAL_ID}} {each}" for each in UNSAFE]
    targets = [{"name": f"t{n}", "provider": "cli", "command_template": each} for n, each in enumerate(commands)]
    write("targets.yaml", json.dumps({"targets": targets}))
    problems = json.loads(agentv("validate", "--format=json", "targets.yaml").out)["problems"]
    assert [each["message"].partition(" within")[0] for each in problems] == ["{PROMPT} stands"] * len(UNSAFE)
    places = [f"targets[{n}].command_template" for n in range(len(SAFE), len(commands))]
    assert [each["key"] for each in problems] == places
