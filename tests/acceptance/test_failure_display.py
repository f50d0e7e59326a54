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


def test_a_failure_answers_what_is_asked_next(project):
    run = project.run()
    text = run.text
    assert "  words: 0/1 expected keywords found; missing: nothing\n" in text
    assert "  other words: 0/1 expected keywords found; missing: nobody\n" in text
    assert f"Answer ({len(ANSWER):,} characters):\n  Grüße, 世界" in text
    assert "Reference answer (20 characters):\n  Grüße vom Referenten\n" in text
    assert "Target: default, 1 attempt, " in text
    assert "Tool calls:\n  search()\n  search()\n  read()\n" in text
    assert "Question:\n  Hi\n\nExpected outcome:\n  greets\n" in text
    assert ", $0.2500\nLog:    logs/agent.log\nCase:   qa.eval.yaml:2\n" in text
    assert "Rerun:  pytest qa.eval.yaml::greets" in text
    assert ANSWER.strip() not in text
    assert run.results[0]["log_file"] == "logs/agent.log"


def test_vv_shows_all_of_it(project):
    assert ANSWER.strip() in project.run("-vv").text


def test_a_log_is_named_for_a_target_that_gave_no_answer(project):
    project.write(
        "agent.py",
        """
        from pytest_agentv.errors import ProviderError

        def answer(prompt):
            raise ProviderError("it broke", "process", {"log_file": "logs/agent.log"})
        """,
    )
    run = project.run()
    assert run.outcomes == {"errors": 1}
    assert "Log:    logs/agent.log" in run.text
    assert run.results[0]["log_file"] == "logs/agent.log"


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["plain", "n2"])
def test_what_is_sent_to_ides_stays_small_without_vv(project, workers):
    project.write(
        "conftest.py",
        """
        import json

        def pytest_runtest_logreport(report):
            if report.failed:
                with open("size.txt", "a") as file:
                    print(len(json.dumps(report.longreprtext)), file=file)
        """,
    )
    project.run(*workers)
    sizes = {int(size) for size in (project.path / "size.txt").read_text().split()}
    assert max(sizes) <= 3_100, "xdist puts a line before it"


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
