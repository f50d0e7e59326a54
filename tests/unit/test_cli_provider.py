"""The commands of `cli` targets. The folder `cli-answer-shapes` of the corpus shows what is read of their output."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_agentv.cases.prompts import Prompt
from pytest_agentv.model.messages import candidate_answer
from pytest_agentv.providers.base import ProviderRequest
from pytest_agentv.providers.cli import (
    LONGEST_ARGUMENT,
    call_values,
    clean,
    parse_one_of_batch,
    render_command,
    report_output,
    shell_argv,
    with_prompt,
)
from pytest_agentv.runtime.processes import ProcessResult

OUTPUT = Path("/tmp/x/output.json")


def files(paths: Sequence[str], files_format: str = "{path}") -> str:
    return call_values(ProviderRequest(Prompt(""), "x", input_paths=tuple(paths)), files_format, OUTPUT)["FILES"]


def print_with_a_shell(command: str) -> str:
    return subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True).stdout.decode()


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


@example("'\"$(rm -rf /)`id`\\ \n{PROMPT} $HOME !! * ~ # %s")
@example("ünï ✓ \u2028 \U0001f600")
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_survives_the_shell(text: str) -> None:
    command = render_command("printf %s {PROMPT}", call_values(ProviderRequest(Prompt(text), "x"), "{path}", OUTPUT))

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


def result(stdout: str, stderr: str) -> ProcessResult:
    return ProcessResult(1, stdout, stderr, timed_out=False, overflowed=False, duration_ms=1)


LONG = "x" * 500 + "y" * 2000


@pytest.mark.parametrize(
    ("out", "err", "told"),
    [
        *(("out\n", " err\n", "err"), ("out\n", " \n", "out"), ("", LONG, f"[… 500 characters left out] {LONG[500:]}")),
        *(
            ("", "a\nb", "b\na\nb"),
            ("", "a\n b \n  ^", "b\na\n b \n  ^"),
            ("", "\na\n", "a"),
            ("", "--\na\n==", "--\na\n=="),
        ),
        *(("", "--\n==", "--\n=="), ("", "", "")),
    ],
)
def test_a_report_prefers_standard_error_and_begins_with_its_last_line_where_several_have_words(
    out: str, err: str, told: str
) -> None:
    assert report_output(ProcessResult(1, out, err, timed_out=False, overflowed=False, duration_ms=1)) == told


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ('{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n', "one"),
        ('{"id": "a", "text": "one"}', "one"),
        ('{"id": "chat-1", "text": "hello"}', "hello"),
        ('{"text": "hello"}', "hello"),
        ("hello\nyou", "hello\nyou"),
        ('[{"id": "chat-1"}]', '[{"id": "chat-1"}]'),
        ('["a"]\n5', '["a"]\n5'),
        ('{"id": "b", "text": "two"}\n{"id": "c", "text": "three"}', "Error: Batch output missing id 'a'"),
        ('{"id": "b", "text": "two"}', "Error: Batch output missing id 'a'"),
    ],
)
def test_a_command_for_batches_that_is_run_for_one_case_may_answer_all(content: str, answer: str) -> None:
    assert candidate_answer(parse_one_of_batch(content, "a", {"a", "b", "c"}).output_messages) == answer


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('loading\n{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}', "line 1: not JSON: Expecting value"),
        ('{"id": "a", "text": "one"}\n{"id": "a", "text": "two"}', "line 2: the id 'a' was there before"),
        ('[{"id": "a", "text": "one"}, {"id": "b", "text": "two"}]', "line 1: expected a JSON object"),
        ('{"id": "b", "text": "two"}\n{"id": "a", "trace": "x"}', "line 2: trace"),
    ],
)
def test_answers_of_all_cases_that_cannot_be_read_are_not_the_answer_of_one(content: str, message: str) -> None:
    response = parse_one_of_batch(content, "a", {"b", "c"})

    assert (response.error or "").startswith(f"CLI batch output, {message}")
