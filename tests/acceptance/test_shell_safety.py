"""The text of a case never runs as a command, and there are safe ways to hand it over."""

import json

import pytest

ATTACK = "hi $(touch pwned) `touch pwned` '; touch pwned; ' \"; touch pwned; \""

EVAL = f"""
evalcases:
  - id: a
    expected_outcome: says hi
    input: {json.dumps(ATTACK)}
    evaluators: [{{name: words, type: heuristic, hits: [hi]}}]
"""

READ = """
import json, sys
value = json.load(sys.stdin)
print(value[sys.argv[1]] if sys.argv[1:] else value, end="")
"""


def write(project, *lines):
    project.write(
        "targets.yaml", "targets:\n  - name: default\n    provider: cli\n" + "".join(f"    {line}\n" for line in lines)
    )
    project.write("a.eval.yaml", EVAL)
    project.write("read.py", READ)


@pytest.mark.parametrize(
    "template",
    [
        "echo '{PROMPT}'",
        'echo "{PROMPT}"',
        "curl -d '{\"q\": {PROMPT}}' host",
        "sh -c 'agent {PROMPT}'",
        "echo `cat {PROMPT}`",
    ],
)
def test_a_placeholder_in_quotes_is_an_error_of_the_targets_file_with_the_remedy(project, template):
    write(project, f"command_template: {json.dumps(template)}")

    done = project.run()

    (result,) = done.results
    assert (result["status"], result["error_detail"]["stage"]) == ("error", "setup")
    assert result["error"] == (
        "targets.yaml:4: targets[0].command_template: {PROMPT} stands within quotes, backticks, a comment or a "
        "here-document, where its text could run as a command; write it as a word of its own, without quotes: it is "
        "quoted for the shell; or use {PROMPT_JSON}, "
        "{PROMPT_FILE}, the key stdin or $AGENTV_PROMPT"
    )
    assert not (project.path / "pwned").exists()


@pytest.mark.parametrize(
    ("lines", "key", "name"),
    [
        (("command_template: echo '{EVAL_ID}'",), "command_template", "{EVAL_ID}"),
        (
            ("command_template: echo x", "healthcheck: {type: command, command_template: \"echo '{EVAL_ID}'\"}"),
            "healthcheck.command_template",
            "{EVAL_ID}",
        ),
        (("command_template: echo {FILES}", "files_format: \"--file='{path}'\""), "files_format", "{path}"),
        (("command_template: echo {FILES}", 'files_format: "{path}\'"'), "files_format", "{path}"),
    ],
)
def test_every_placeholder_is_checked_wherever_the_shell_reads_it(project, lines, key, name):
    write(project, *lines)

    (result,) = project.run().results

    assert f"targets[0].{key}: {name} stands within quotes" in result["error"]


def test_a_quote_that_a_variable_brings_in_is_found_when_it_is_filled_in(project, monkeypatch):
    monkeypatch.setenv("OPTIONS", "--text '")
    write(project, "command_template: echo ${{ OPTIONS }}{PROMPT}")

    (result,) = project.run().results

    assert "command_template: {PROMPT} stands within quotes" in result["error"]


SAFE = {
    "word": ("command_template: printf %s {PROMPT}",),
    "stdin": ("command_template: cat", 'stdin: "{PROMPT}"'),
    "file": ("command_template: cat {PROMPT_FILE}",),
    "json": ("command_template: printf %s {PROMPT_JSON} | {python} read.py",),
    "json-in-quotes": (
        "command_template: >-",
        "  printf %s '{\"q\": '{PROMPT_JSON}'}' | {python} read.py q",
    ),
    "json-on-stdin": (
        'command_template: {python} -c \'import json, sys; print(json.load(sys.stdin)["q"], end="")\'',
        "stdin: '{\"q\": {PROMPT_JSON}}'",
    ),
    "variable": ('command_template: printf %s "$AGENTV_PROMPT"',),
    "variable-in-a-shell-of-its-own": ("command_template: sh -c 'printf %s \"$AGENTV_PROMPT\"'",),
}


@pytest.mark.parametrize("way", SAFE)
def test_a_safe_way_hands_over_the_text_as_it_is(project, python, way):
    write(project, *(line.replace("{python}", python) for line in SAFE[way]))

    (result,) = project.run().results

    assert result["candidate_answer"] == ATTACK
    assert not (project.path / "pwned").exists()


def test_the_prompt_file_is_removed_unless_it_is_to_be_kept(project, monkeypatch):
    folder = project.path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    write(project, "command_template: cat {PROMPT_FILE}")
    project.run()
    assert list(folder.rglob("prompt.txt")) == []

    write(project, "command_template: cat {PROMPT_FILE}", "keep_temp_files: true")
    project.run()
    (kept,) = folder.rglob("prompt.txt")
    assert kept.read_text() == ATTACK
