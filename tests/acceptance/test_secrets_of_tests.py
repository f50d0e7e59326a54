"""Secrets in what pytest shows of tests that use the plugin's fixtures."""

import json

import pytest

from .conftest import WITH_WORKERS_ON_REQUEST, Project, Run

KEY = "sk-live-AbCd1234EfGh5678IjKl9012MnOp"
EVALUATORS = [{"contains": "hello"}]


@pytest.fixture
def everything(project_in_all_modes: Project):
    """Run pytest and return the run, with all that it showed and wrote."""

    def run(*args: str) -> tuple[Run, str]:
        path = project_in_all_modes.path
        done = project_in_all_modes.run("-rA", "-v", f"--junit-xml={path}/junit.xml", *args)
        return done, done.text + (path / "junit.xml").read_text("utf-8") + json.dumps(done.results)

    return run


def pieces(text: str) -> list[str]:
    """Return the pieces of the key that a text shows, behind the beginning that many keys share."""
    return [KEY[start : start + 5] for start in range(8, len(KEY) - 4) if KEY[start : start + 5] in text]


@WITH_WORKERS_ON_REQUEST
def test_an_assertion_that_pytest_shortens_shows_no_part(project_in_all_modes, monkeypatch, everything):
    monkeypatch.setenv("AGENTV_TEST_API_KEY", KEY)
    project_in_all_modes.write(
        "targets.yaml", "targets: [{name: default, provider: mock, response: '${{ AGENTV_TEST_API_KEY }}'}]\n"
    )
    project_in_all_modes.write(
        "test_a.py",
        """
        def test_a(agentv):
            assert agentv.run("q", evaluators=[{"python": "True"}]).candidate_answer == "x"
        """,
    )
    run, text = everything()
    assert run.outcomes == {"failed": 1}
    assert "AssertionError: assert '***' == 'x'" in text
    assert pieces(text) == []
