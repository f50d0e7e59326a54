import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentv.prompts.prompt import Prompt
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.cli_template import (
    LONGEST_ARGUMENT,
    batch_values,
    healthcheck_values,
    quote,
    render_command,
    render_files,
    request_values,
    shell_argv,
)

OUTPUT = Path("/tmp/x/output.json")


def request(question: str = "q", **fields: object) -> ProviderRequest:
    return ProviderRequest(Prompt(question, "the rules"), "case 1").replace(**fields)


def print_with_a_shell(command: str) -> str:
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True).stdout.decode()


@pytest.mark.scenario("Render and execute template")
def test_every_placeholder_is_filled() -> None:
    case = request("it's me", attempt=2, guideline_paths=("/g/a.md",), input_paths=("/i/b.txt",))
    template = "run {PROMPT} {GUIDELINES} {EVAL_ID} {ATTEMPT} {FILES} {ATTACHMENTS} > {OUTPUT_FILE}"

    assert render_command(template, request_values(case, "-f {path}", OUTPUT)) == (
        "run 'it'\"'\"'s me' 'the rules' 'case 1' '2' -f '/g/a.md' -f '/i/b.txt' -f '/g/a.md' -f '/i/b.txt' "
        "> '/tmp/x/output.json'"
    )


@pytest.mark.scenario("Placeholder substitution rules")
def test_what_a_value_brings_in_is_not_filled_again() -> None:
    values = request_values(request("{EVAL_ID} {PROMPT}"), "{path}", OUTPUT)

    assert render_command("echo {PROMPT}", values) == "echo '{EVAL_ID} {PROMPT}'"


def test_other_braces_stay_as_they_are() -> None:
    template = "awk '{print}' {UNKNOWN} {prompt} {A1} ${HOME} {}"

    assert render_command(template, request_values(request(), "{path}", OUTPUT)) == template


def test_the_system_prompt_of_a_judge_comes_before_the_question() -> None:
    values = request_values(request("user", system_prompt="system"), "{path}", OUTPUT)

    assert values["PROMPT"] == "'system\n\nuser'"


def test_an_empty_text_is_an_empty_argument() -> None:
    assert quote("") == "''"


def test_files_are_listed_once_guidelines_first() -> None:
    case = request(guideline_paths=("/g",), input_paths=("/a", "/g", "/a"))

    assert request_values(case, "{path}", OUTPUT)["FILES"] == "'/g' '/a'"


def test_no_files_are_no_argument_at_all() -> None:
    assert render_files([], "--file {path}") == ""


def test_the_files_format_knows_path_and_basename_and_fills_them_once() -> None:
    assert render_files(["/d/{basename} $& x.md"], "{basename}={path} {other}") == (
        "'{basename} $& x.md'='/d/{basename} $& x.md' {other}"
    )


def test_a_batch_has_no_prompt_and_all_files() -> None:
    assert batch_values(["/a", "/b", "/a"], "{path}", OUTPUT) == {
        "PROMPT": "''",
        "GUIDELINES": "''",
        "EVAL_ID": "'batch'",
        "ATTEMPT": "'0'",
        "FILES": "'/a' '/b'",
        "ATTACHMENTS": "'/a' '/b'",
        "OUTPUT_FILE": "'/tmp/x/output.json'",
    }


def test_a_health_check_has_an_id_of_its_own() -> None:
    values = healthcheck_values(OUTPUT)

    assert (values["EVAL_ID"], values["PROMPT"], values["FILES"]) == ("'healthcheck'", "''", "")


@example("'\"$(rm -rf /)`id`\\ \n{PROMPT} $HOME !! * ~ # %s")
@example("ünï ✓ \u2028 \U0001f600")
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_survives_the_shell(text: str) -> None:
    command = render_command("printf %s {PROMPT}", request_values(request(text), "{path}", OUTPUT))

    assert print_with_a_shell(command) == text


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1), unique=True))
def test_any_file_name_survives_the_shell(names: list[str]) -> None:
    paths = [f"/d/{name}" for name in names]
    command = f"for f in {render_files(paths, '{path}')}; do printf '%s\\0' \"$f\"; done"

    assert print_with_a_shell(command) == "".join(f"{path}\0" for path in paths)


def test_a_file_name_that_is_no_utf8_survives_the_shell() -> None:
    path = os.fsdecode(b"/d/\xff\xfe")

    command = f"printf %s {render_files([path], '{path}')}"

    assert subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True).stdout == b"/d/\xff\xfe"


def test_what_no_argument_can_hold_is_left_out() -> None:
    assert quote("a\0b\ud800c") == "'ab?c'"


def test_a_command_is_an_argument_of_the_shell(tmp_path: Path) -> None:
    assert shell_argv("echo x", tmp_path) == ["/bin/sh", "-c", "echo x"]


@pytest.mark.parametrize("size", [LONGEST_ARGUMENT - 1, LONGEST_ARGUMENT, LONGEST_ARGUMENT + 1, 3_000_000])
def test_a_command_of_any_length_can_be_run(tmp_path: Path, size: int) -> None:
    command = "printf %s ".ljust(size, "ä" if size > LONGEST_ARGUMENT else "x")

    result = subprocess.run(shell_argv(command, tmp_path), capture_output=True, check=True)

    assert result.stdout.decode() == command.removeprefix("printf %s ")
