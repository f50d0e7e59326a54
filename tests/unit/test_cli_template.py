import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.cli import (
    KNOWN_PLACEHOLDER,
    LONGEST_ARGUMENT,
    call_values,
    clean,
    find_unsafe,
    render_command,
    shell_argv,
    with_prompt,
)

OUTPUT = Path("/tmp/x/output.json")


def request(question: str = "q", **fields: object) -> ProviderRequest:
    return ProviderRequest(Prompt(question, "the rules"), "case 1").replace(**fields)


def values(case: ProviderRequest, files_format: str = "{path}") -> dict[str, str]:
    return call_values(case, files_format, OUTPUT)


def files(paths: Sequence[str], files_format: str = "{path}") -> str:
    return call_values(ProviderRequest(Prompt(""), "x", input_paths=tuple(paths)), files_format, OUTPUT)["FILES"]


def print_with_a_shell(command: str) -> str:
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True).stdout.decode()


def test_the_files_format_knows_path_and_basename_and_fills_them_once() -> None:
    assert files(["/d/{basename} $& x.md"], "{basename}={path} {other}") == (
        "'{basename} $& x.md'='/d/{basename} $& x.md' {other}"
    )


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
    variables = with_prompt({"A": "1", "AGENTV_PROMPT": "of a run around this one"}, clean(prompt))

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
