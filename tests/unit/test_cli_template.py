import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.cli_template import (
    KNOWN_PLACEHOLDER,
    LONGEST_ARGUMENT,
    CallValues,
    clean,
    find_unsafe,
    render_command,
    request_values,
    shell_argv,
    with_prompt,
)

OUTPUT = Path("/tmp/x/output.json")


def request(question: str = "q", **fields: object) -> ProviderRequest:
    return ProviderRequest(Prompt(question, "the rules"), "case 1").replace(**fields)


def values(case: ProviderRequest, files_format: str = "{path}") -> dict[str, str]:
    return request_values(case, files_format, OUTPUT).for_shell()


def files(paths: Sequence[str], files_format: str = "{path}") -> str:
    return CallValues("x", OUTPUT, files=tuple(paths), files_format=files_format).for_shell()["FILES"]


def print_with_a_shell(command: str) -> str:
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True).stdout.decode()


@pytest.mark.scenario("Render and execute template")
def test_every_placeholder_is_filled() -> None:
    case = request("it's me", attempt=2, guideline_paths=("/g/a.md",), input_paths=("/i/b.txt",))
    template = "run {PROMPT} {GUIDELINES} {EVAL_ID} {ATTEMPT} {FILES} {ATTACHMENTS} > {OUTPUT_FILE}"

    assert render_command(template, values(case, "-f {path}")) == (
        "run 'it'\"'\"'s me' 'the rules' 'case 1' 2 -f /g/a.md -f /i/b.txt -f /g/a.md -f /i/b.txt > /tmp/x/output.json"
    )


@pytest.mark.scenario("Placeholder substitution rules")
def test_what_a_value_brings_in_is_not_filled_again() -> None:
    assert render_command("echo {PROMPT}", values(request("{EVAL_ID} {PROMPT}"))) == "echo '{EVAL_ID} {PROMPT}'"


def test_other_braces_stay_as_they_are() -> None:
    template = "awk '{print}' {UNKNOWN} {prompt} {A1} ${HOME} {}"

    assert render_command(template, values(request())) == template


def test_the_system_prompt_of_a_judge_comes_before_the_question() -> None:
    assert values(request("user", system_prompt="system"))["PROMPT"] == "'system\n\nuser'"


def test_files_are_listed_once_guidelines_first() -> None:
    case = request(guideline_paths=("/g",), input_paths=("/a", "/g", "/a"))

    assert values(case)["FILES"] == "/g /a"


def test_no_files_are_no_argument_at_all() -> None:
    assert files([], "--file {path}") == ""


def test_the_files_format_knows_path_and_basename_and_fills_them_once() -> None:
    assert files(["/d/{basename} $& x.md"], "{basename}={path} {other}") == (
        "'{basename} $& x.md'='/d/{basename} $& x.md' {other}"
    )


def test_a_call_without_a_request_has_no_prompt() -> None:
    assert CallValues("batch", OUTPUT, files=("/a", "/b", "/a")).for_shell() == {
        "PROMPT": "''",
        "PROMPT_FILE": "/tmp/x/prompt.txt",
        "PROMPT_JSON": "'\"\"'",
        "GUIDELINES": "''",
        "EVAL_ID": "batch",
        "ATTEMPT": "0",
        "FILES": "/a /b",
        "ATTACHMENTS": "/a /b",
        "OUTPUT_FILE": "/tmp/x/output.json",
    }


def test_values_for_standard_input_are_not_quoted() -> None:
    case = request('say "it\'s"\n', input_paths=("/i/a b.txt",))

    texts = request_values(case, "{path}", OUTPUT).as_texts()

    filled = render_command('{"q": {PROMPT_JSON}, "f": "{FILES}"} {PROMPT}{PROMPT_FILE}', texts)
    assert filled == '{"q": "say \\"it\'s\\"\\n", "f": "/i/a b.txt"} say "it\'s"\n/tmp/x/prompt.txt'


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("it's", "it's"),
        ("a\0b\ud800", "ab?"),
        ("", None),
        ("x" * (LONGEST_ARGUMENT - 14), "x" * (LONGEST_ARGUMENT - 14)),
    ],
)
def test_the_prompt_is_in_the_environment(prompt: str, expected: str | None) -> None:
    variables = with_prompt({"A": "1", "AGENTV_PROMPT": "of a run around this one"}, prompt)

    assert variables == ({"A": "1"} if expected is None else {"A": "1", "AGENTV_PROMPT": expected})
    subprocess.run(["/bin/true"], env=variables, check=True)


@pytest.mark.parametrize("prompt", ["x" * (LONGEST_ARGUMENT - 13), "ä" * 65_530])
def test_a_prompt_that_no_variable_can_hold_is_not_in_the_environment(prompt: str) -> None:
    assert with_prompt({"AGENTV_PROMPT": "old"}, prompt) == {}


@example("'\"$(rm -rf /)`id`\\ \n{PROMPT} $HOME !! * ~ # %s")
@example("ünï ✓ \u2028 \U0001f600")
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_survives_the_shell(text: str) -> None:
    command = render_command("printf %s {PROMPT}", values(request(text)))

    assert print_with_a_shell(command) == text


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1), unique=True))
def test_any_file_name_survives_the_shell(names: list[str]) -> None:
    paths = [f"/d/{name}" for name in names]
    command = f"for f in {files(paths)}; do printf '%s\\0' \"$f\"; done"

    assert print_with_a_shell(command) == "".join(f"{path}\0" for path in paths)


def test_a_file_name_that_is_no_utf8_survives_the_shell() -> None:
    path = os.fsdecode(b"/d/\xff\xfe")

    command = f"printf %s {files([path])}"

    assert subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True).stdout == b"/d/\xff\xfe"


def test_what_no_argument_can_hold_is_left_out() -> None:
    assert clean("a\0b\ud800c") == "ab?c"


def test_a_command_is_an_argument_of_the_shell(tmp_path: Path) -> None:
    assert shell_argv("echo x", tmp_path) == ["/bin/sh", "-c", "echo x"]


@pytest.mark.parametrize("size", [LONGEST_ARGUMENT - 1, LONGEST_ARGUMENT, LONGEST_ARGUMENT + 1, 3_000_000])
def test_a_command_of_any_length_can_be_run(tmp_path: Path, size: int) -> None:
    command = "printf %s ".ljust(size, "ä" if size > LONGEST_ARGUMENT else "x")

    result = subprocess.run(shell_argv(command, tmp_path), capture_output=True, check=True)

    assert result.stdout.decode() == command.removeprefix("printf %s ")


@pytest.mark.parametrize(
    "template",
    [
        "agent {PROMPT}",
        "a=$(agent {PROMPT})",
        'echo "$(agent $X {PROMPT})/x"',
        'agent "$(git rev-parse HEAD)" "${HOME:-x}" {PROMPT}',
        "# it's a comment\nagent 'a' \"b\" {PROMPT}",
        "n=$((1+1)); agent --prompt={PROMPT}",
        "agent <<< {PROMPT}",
        "printf '{\"q\": '{PROMPT}'}'",
        "agent \\'x a#{PROMPT}",
    ],
)
def test_a_word_of_its_own_is_safe(template: str) -> None:
    assert find_unsafe(template, KNOWN_PLACEHOLDER) is None


@pytest.mark.parametrize(
    "template",
    [
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
    ],
)
def test_what_is_within_quotes_or_the_like_is_not(template: str) -> None:
    assert find_unsafe("agent {EVAL_ID} " + template, KNOWN_PLACEHOLDER) == "{PROMPT}"
