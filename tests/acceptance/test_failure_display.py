"""Failures as they are shown: on narrow terminals, on those that know ASCII only, and with `-vv`."""

import json
import os
import sys

import pytest
import warm
from thorough import varied

ANSWER = "Grüße, 世界 – " + "long " * 2_000


@pytest.fixture
def project(project):
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: agent.py:answer}]\n")
    project.write(
        "agent.py",
        f"""
        from pytest_agentv.model.messages import Message, ToolCall
        from pytest_agentv.providers.base import ProviderResponse

        def answer(prompt):
            message = Message("assistant", {ANSWER!r}, (ToolCall("search"), ToolCall("search"), ToolCall("read")))
            return ProviderResponse(output_messages=(message,), cost_usd=0.25, raw={{"log_file": "logs/agent.log"}})
        """,
    )
    project.write(
        "qa.eval.yaml",
        """
        evalcases:
          - id: greets
            expected_outcome: greets
            input: Hi
            expected_output: Grüße vom Referenten
            evaluators:
              - {name: words, type: heuristic, hits: [nothing]}
              - {name: other words, type: heuristic, hits: [nobody]}
        """,
    )
    return project


@pytest.mark.parametrize(("encoding", "is_utf8_mode"), [("ascii", None), varied("ascii", "0"), ("cp1252", None)])
def test_terminals_that_are_narrow_and_not_utf_8_show_it_all_the_same(project, encoding, is_utf8_mode):
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "20"}
    if is_utf8_mode is not None:
        environment["PYTHONUTF8"] = is_utf8_mode  # which only a fresh process can apply
    command = [sys.executable, "-m", "pytest", "-p", "no:hypothesispytest", "--agentv-out=out.jsonl", "-vv"]
    finished = warm.run(command, cwd=project.path, env=environment, capture_output=True, check=False)
    text = finished.stdout.decode(encoding)
    assert finished.returncode == pytest.ExitCode.TESTS_FAILED
    assert finished.stderr == b""
    assert "INTERNALERROR" not in text
    assert "Rerun:  pytest qa.eval.yaml::greets" in text
    assert "\x1b" not in text, "colours are for terminals"
    assert json.loads((project.path / "out.jsonl").read_text("utf-8"))["candidate_answer"] == ANSWER


WATCHED = """
import pytest
@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    config.pluginmanager.get_plugin("terminalreporter").isatty = lambda: True
"""
WORDY = """
evalcases:
  - id: wordy
    expected_outcome: Names the period of thirty days, says who pays for the postage, and offers a label to print
    input: Hi
    evaluators: [{name: words, type: heuristic, hits: [a period of thirty days that nobody names anywhere]}]
"""


def test_lines_break_between_words_where_somebody_watches(project, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    project.write("qa.eval.yaml", WORDY)
    flags = (f"--junitxml={project.path / 'junit.xml'}", "--agentv-target=default")
    unwatched = project.run(*flags).text
    whole = "  Names the period of thirty days, says who pays for the postage, and offers a label to print\n"
    assert whole in unwatched
    project.write("conftest.py", WATCHED)
    watched = project.run(*flags).lines
    at = watched.index("Expected outcome:")
    assert watched[at + 1 : at + 3] == [
        "  Names the period of thirty days, says who pays for the",
        "  postage, and offers a label to print",
    ]
    at = watched.index("Misses (1):")
    assert watched[at + 2].startswith("    ")
    assert "Rerun:  pytest qa.eval.yaml::wordy --agentv-target=default" in watched
    assert whole in (project.path / "junit.xml").read_text("utf-8")
