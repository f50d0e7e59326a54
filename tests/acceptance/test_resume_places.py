"""Where a run is started, and where the values of fixtures come from: what that means for results of earlier runs."""

import pytest

from .conftest import WITH_WORKERS_ON_REQUEST

pytestmark = pytest.mark.slow

WORDS = '[{"contains": "good"}]'


@pytest.fixture
def project(project):
    project.write("pytest.ini", "[pytest]\n")
    project.write(
        "evals/targets.yaml",
        """
        targets:
          - {name: default, provider: python, callable: "agent.py:answer", judge_target: judge}
          - {name: judge, provider: python, callable: "agent.py:answer"}
        """,
    )
    project.write(
        "evals/agent.py",
        """
        from pathlib import Path

        def answer(prompt):
            with Path(__file__).with_name("calls.txt").open("a") as file:
                file.write("x")
            return '{"score": 1}' if "expected_outcome" in str(prompt) else "hi"
        """,
    )
    project.write("evals/a.eval.yaml", "evalcases: [{id: one, input: q, expected_outcome: o}]\n")
    return project


def calls(project):
    return len((project.path / "evals/calls.txt").read_text())


@pytest.mark.parametrize("has_repository", [True, False], ids=["repository", "ini-file"])
def test_the_folder_that_a_run_is_started_in_changes_no_target(project, monkeypatch, has_repository):
    if has_repository:
        (project.path / ".git").mkdir()
    (project.path / "other").mkdir()
    first = project.run("--agentv-update-baseline")
    assert first.statuses == {"one": "pass"}
    assert calls(project) == 2  # the answer and its judgement
    evals = str(project.path / "evals")
    baseline = next(project.path.rglob("*baseline*"))
    for asked, folder in enumerate(("evals", "other", ".."), start=1):
        monkeypatch.chdir(project.path / folder)
        resumed = project.run(f"--agentv-resume={project.path}/out-1.jsonl", evals)
        assert (resumed.exit_code, calls(project)) == (0, 2 * asked), folder
        compared = project.run(f"--agentv-baseline={baseline}", evals)
        assert compared.exit_code == 0, folder
        assert "not comparable" not in compared.text, folder


@WITH_WORKERS_ON_REQUEST
def test_the_file_of_a_fixture_is_part_of_the_agent_that_it_makes(project, mode):
    project.write(
        "evals/bot.py",
        """
        class Bot:
            def __init__(self, words):
                self.words = words

            def answer(self, prompt):
                return " ".join(self.words)
        """,
    )
    project.write("words.py", "LAST = 'good'\n")
    project.write("conftest.py", "import pytest\n\n@pytest.fixture(scope='session')\ndef first():\n    return 'good'\n")
    project.write(
        "evals/conftest.py",
        """
        import sys
        from pathlib import Path

        import pytest

        sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
        from bot import Bot
        from words import LAST

        @pytest.fixture(scope="session")
        def agentv_provider(first):
            return Bot([first, "good", LAST]).answer
        """,
    )
    project.write("evals/a.eval.yaml", f"evalcases: [{{id: one, input: q, evaluators: {WORDS}}}]\n")
    project.write("evals/test_b.py", f"def test_b(agentv):\n    assert agentv.run('q', evaluators={WORDS}).passed\n")
    first = project.run(mode=mode, subprocess=True)
    assert [result["candidate_answer"] for result in first.results] == ["good good good"] * 2
    resume = f"--agentv-resume={project.path}/out-1.jsonl"
    assert project.run(resume, mode=mode, subprocess=True).exit_code == 0

    for changed in ("conftest.py", "evals/conftest.py", "words.py"):
        path = project.path / changed
        text = path.read_text()
        path.write_text(text.replace("good", "BAD"))
        resumed = project.run(resume, mode=mode, subprocess=True)
        assert sorted(result["eval_id"] for result in resumed.results) == ["one", "test_b"], changed
        assert all("BAD" in result["candidate_answer"] for result in resumed.results), changed
        path.write_text(text)
