"""Foreign text cannot speak to the terminal, nor to the CI service that reads the log."""

from itertools import product

import pytest

from pytest_agentv.reports.figures import harmless_in_ci, visible, wrap

COMMANDS = ("::error::x", "::add-mask::x", "::stop-commands::x", "##[error]x", "##vso[task.setvariable]x")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b]8;;http://x\x1b\\b", "a\\x1b]8;;http://x\\x1b\\b"),
        ("good\rbad", "good\\rbad"),
        ("secret\b\b", "secret\\x08\\x08"),
        ("\u202eabc", "\\u202eabc"),
        ("\x1b[2J\x9b31m", "\\x1b[2J\\x9b31m"),
    ],
)
def test_nothing_moves_the_cursor_or_hides_text(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize("variable", ["GITHUB_ACTIONS", "TF_BUILD"])
def test_commands_are_disarmed_in_ci(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv(variable, "true")
    for command, before in product(COMMANDS, ("", "  ", "\n", "a\n \t", "\xa0", "\u3000", "word ", "a\r\n")):
        text = visible(f"{before}{command} after")
        for line in [*text.split("\n"), *wrap(text, 10)]:
            assert not line.strip().startswith("::")
            assert "##[" not in line
            assert "##vso[" not in line
        assert visible(text) == text


def test_colons_and_hashes_that_command_nothing_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    text = "tests/a.yaml::case, std::string, ## Heading, a : b, # [x]"
    assert harmless_in_ci(text) == text


def test_outside_of_ci_nothing_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"):
        monkeypatch.delenv(variable, raising=False)
    assert [visible(command) for command in COMMANDS] == list(COMMANDS)
