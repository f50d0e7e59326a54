"""The flags and ini keys of a run."""

import re
import sys

import pytest
import warm
from thorough import varied

from .conftest import WITH_WORKERS_ON_REQUEST

HELLO = "targets: [{name: default, provider: mock, response: hello}]\n"


@pytest.fixture
def hello(project, suite):
    project.write("targets.yaml", HELLO)
    project.write("a.eval.yaml", suite(a="hello", b="hello", c="hello"))
    return project


@pytest.mark.scenario("Workers flag help text")
def test_the_help_of_pytest_shows_what_people_need_with_a_sentence_each(tmp_path):
    printed = warm.run(
        [sys.executable, "-m", "pytest", "--help"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    text = " ".join(printed.stdout.split())  # as one line, whatever its width
    group = printed.stdout[printed.stdout.index("\nevaluations (pytest-agentv):") :].partition("\n\n")[0]
    options = [" ".join(option.split()) for option in re.split(r"^  (?=--agentv-)", group, flags=re.MULTILINE)[1:]]
    assert 15 < len(options) <= 27
    for option in options:
        assert len(option.partition(" ")[2].partition(". ")[0]) in range(5, 56), f"{option}: ends on a later line"
    keys = re.findall(r"^  agentv_(\w+) \(string\):", printed.stdout, re.MULTILINE)
    assert {"workers", "threshold", "timeout", "strict", "cache"} <= set(keys)
    assert "--agentv-workers=N" in text
    assert "else 1: one after another" in text


def ini(project, text):
    project.write("pytest.ini", f"[pytest]\n{text}\n")


def test_the_time_limit_and_the_retries_of_the_ini_file_hold_and_the_command_line_beats_them(project, suite):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello, delay_ms: 300}]\n")
    project.write("a.eval.yaml", suite(a="hello"))
    ini(project, "agentv_timeout = 0.05\nagentv_max_retries = 1")
    (result,) = project.run().results
    assert (result["error"], result["attempts"]) == ("target 'default' timed out after 0.05s", 2)
    (result,) = project.run("--agentv-max-retries=0").results
    assert result["attempts"] == 1
    for flag in ("--agentv-agent-timeout=5", "--agentv-timeout=0"):
        assert project.run(flag).statuses == {"a": "pass"}


EXPLORER = """
targets:
  - name: default
    provider: mock
    output_messages:
      - {role: assistant, content: hello, tool_calls: [{tool: peek}, {tool: read}, {tool: write}, {tool: write}]}
"""


@pytest.mark.scenario("Computed exploration ratio")
def test_the_tools_that_only_look_around_can_be_named_in_the_ini_file(project, suite):
    project.write("targets.yaml", EXPLORER)
    project.write("a.eval.yaml", suite(a="hello"))
    (by_default,) = project.run().results
    assert by_default["execution_metrics"]["exploration_ratio"] == 0.25
    ini(project, "agentv_exploration_tools = peek read look")
    (named,) = project.run().results
    assert named["execution_metrics"]["exploration_ratio"] == 0.5


def test_a_flag_without_its_optional_value_does_not_swallow_the_argument_that_follows(hello, suite):
    hello.write("other.eval.yaml", suite(d="hello"))
    run = hello.run("--agentv-dump-prompts", "--agentv-dump-traces", "a.eval.yaml")
    assert sorted(run.by_id) == ["a", "b", "c"]
    assert [len(list((hello.path / ".agentv" / name).iterdir())) for name in ("prompts", "traces")] == [3, 3]


needs_native_toml = pytest.mark.skipif(pytest.version_tuple < (9, 0), reason="native TOML came with pytest 9")
TOML_TABLES = ["tool.pytest.ini_options", pytest.param("tool.pytest", marks=needs_native_toml)]


def toml(project, table, text):
    project.write("pyproject.toml", f"[{table}]\n{text}\n")


@pytest.mark.parametrize(
    ("table", "mode"),
    [
        (TOML_TABLES[0], ()),
        varied(TOML_TABLES[0], ("-n", "2")),
        pytest.param("tool.pytest", (), marks=needs_native_toml),
    ],
    ids=["options", "options-n2", "native"],
)
def test_values_of_toml_have_the_types_they_are_written_with(hello, suite, table, mode):
    hello.write("b.cases.yaml", suite(d="hello") + "    notes: none\n")
    values = (
        "agentv_strict = true\nagentv_cache = false\nagentv_workers = 2\nagentv_threshold = 0.5\n"
        'agentv_timeout = 30\nagentv_max_retries = 0\nagentv_output_format = "jsonl"\nagentv_target = "default"\n'
        'agentv_files = ["*.cases.yaml"]\nagentv_exploration_tools = ["look"]'
    )
    toml(hello, table, values)
    run = hello.run(".", mode=mode)
    assert run.statuses == {"d": "error"}
    assert "unknown key" in run.text
    if not mode:
        assert hello.run(".", "-o", "agentv_strict=false").statuses == {"d": "pass"}


@needs_native_toml
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("agentv_threshold = 2", "agentv_threshold: threshold 2 is out of range: expected a number from 0 to 1"),
        ("agentv_workers = true", "agentv_workers: expected a text or a number, got true"),
        ("agentv_strict = {a = 1}", "agentv_strict: expected true or false, got {'a': 1}"),
        ("agentv_exploration_tools = [1]", "agentv_exploration_tools: expected a list of texts, got [1]"),
    ],
)
def test_a_value_of_toml_of_another_type_is_one_error_of_the_eval_files(hello, text, message):
    toml(hello, "tool.pytest", text)
    run = hello.run()
    assert f"pyproject.toml: {message}" in run.lines
    assert (run.outcomes, run.internals) == ({"errors": 1}, [])


@needs_native_toml
def test_globs_that_are_none_end_the_run_before_anything_happens(hello):
    toml(hello, "tool.pytest", "agentv_files = [1]")
    run = hello.run()
    assert run.exit_code == pytest.ExitCode.USAGE_ERROR
    assert "pyproject.toml: agentv_files: expected a list of texts, got " in run.text
    assert (run.results, run.internals) == ([], [])


@WITH_WORKERS_ON_REQUEST
def test_the_target_of_the_command_line_beats_that_of_the_options_in_the_ini_file(hello, mode):
    ini(hello, "addopts = --agentv-target=other")
    assert hello.run("--agentv-target=default", mode=mode).statuses == {"a": "pass", "b": "pass", "c": "pass"}
