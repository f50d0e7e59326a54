"""What the README shows is true: its table of options, its YAML, its two commands."""

import re
from pathlib import Path

import pytest

from pytest_agentv.loading.cases import LoadContext, load_case
from pytest_agentv.loading.suites import read_suite
from pytest_agentv.loading.targets import load_targets_file
from pytest_agentv.models.options import RUN_OPTIONS, RunOption

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
YAML_BLOCKS = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)


def row(option: RunOption) -> str:
    value = f"={option.metavar}" if option.metavar else ""
    flag = f"--agentv-{option.name}" + (f"[{value}]" if option.optional_value is not None else value)
    aliases = "".join(f" (also `--agentv-{alias}`)" for alias in option.aliases)
    ini = f"`agentv_{option.dest}`" if option.ini else ""
    return f"| `{flag}`{aliases} | {ini} | {option.help} |"


def test_the_table_of_options_is_that_of_the_code() -> None:
    rows = [line for line in README.splitlines() if line.startswith("| `--agentv-")]
    assert rows == [row(option) for option in RUN_OPTIONS]


@pytest.mark.parametrize("text", [text for text in YAML_BLOCKS if re.search("^targets:", text, re.MULTILINE)])
def test_its_targets_can_be_copied(tmp_path: Path, text: str) -> None:
    path = tmp_path / "targets.yaml"
    path.write_text(text, "utf-8")
    assert load_targets_file(path).warnings == ()


@pytest.mark.parametrize(
    "text", [text for text in YAML_BLOCKS if "evalcases:" in text or text.startswith("evaluators:")]
)
def test_its_cases_and_evaluators_can_be_copied(tmp_path: Path, text: str) -> None:
    if "evalcases:" not in text:
        text = f"execution:\n{_indent(text)}evalcases:\n  - {{id: a, expected_outcome: b, input_messages: []}}\n"
    path = tmp_path / "readme.eval.yaml"
    path.write_text(text, "utf-8")
    (tmp_path / "judges").mkdir()
    (tmp_path / "judges" / "quality.md").write_text("Is {{ candidate_answer }} good?")
    suite = read_suite(path)
    (entry,) = suite.entries
    assert load_case(suite, entry, LoadContext(tmp_path, tmp_path)).warnings == ()


def test_it_opens_with_two_commands() -> None:
    commands = [line for line in README.splitlines() if line.startswith("python3 -m venv ")]
    assert len(commands) == 2
    assert commands[0].endswith("/pytest examples")


def _indent(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())
