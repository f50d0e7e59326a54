"""The verdict of a run on the summary page of a GitHub step."""

import re
import sys

import pytest

from .conftest import IN_ONE_PROCESS, SLOW_WITH_WORKERS, WITH_WORKERS_ON_REQUEST

TARGETS = """
targets:
  - {name: default, provider: mock, response: hello world}
  - {name: exits, provider: cli, command_template: echo out of order >&2; exit 3}
"""


@pytest.fixture
def summary(project_in_all_modes, suite, monkeypatch):
    """A project with a good, a bad and a broken case, and the file that GitHub names."""
    project = project_in_all_modes
    project.write("targets.yaml", TARGETS)
    project.write("evals/qa.eval.yaml", suite(good="hello", bad="nothing"))
    project.write("evals/sick.eval.yaml", f"execution: {{target: exits}}\n{suite(broken='hello')}")
    path = project.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


@WITH_WORKERS_ON_REQUEST
def test_without_a_terminal_it_is_written_all_the_same(project_in_all_modes, summary):
    project_in_all_modes.run("-p", "no:terminal")
    written = summary.read_text("utf-8")
    assert written.startswith("## ❌ Evaluations: 1 passed, 1 failed, 1 error\n")
    assert "| `evals/qa.eval.yaml::bad` | 6 | 0.000 | 1.000 | `words` 0.000 |\n" in written
    assert written.endswith("Results: `out-1.jsonl`\n")


@WITH_WORKERS_ON_REQUEST
def test_a_file_that_could_not_be_collected_is_told_and_the_verdict_is_red(project_in_all_modes, suite, monkeypatch):
    """With workers the other files run by default: a page that says "1 passed" alone would be green on an error."""
    project = project_in_all_modes
    project.write("targets.yaml", TARGETS)
    project.write("evals/a_broken.eval.yaml", "evalcase: []\n")
    project.write("evals/good.eval.yaml", suite(good="hello"))
    path = project.path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    run = project.run("--continue-on-collection-errors", "--agentv-html=report.html")
    assert (run.exit_code, run.outcomes) == (1, {"passed": 1, "errors": 1})
    said = path.read_text("utf-8")
    assert said.startswith("## ❌ Evaluations: 1 passed")
    assert "1 file could not be collected" in said
    assert "evals/a_broken.eval.yaml" in said
    assert "1 file could not be collected" in (project.path / "report.html").read_text("utf-8")


@IN_ONE_PROCESS
def test_a_python_file_that_could_not_be_collected_before_the_evals_is_told_too(project_in_all_modes, summary):
    project_in_all_modes.write("a_first/test_broken.py", "import no_such_module\n")
    project_in_all_modes.run("--continue-on-collection-errors")
    assert "a_first/test_broken.py" in summary.read_text("utf-8")


@IN_ONE_PROCESS
def test_a_file_that_is_nearly_full_is_left_as_it_is(project_in_all_modes, summary):
    text = "x" * (1_048_576 - 100)
    summary.write_text(text)
    run = project_in_all_modes.run()
    assert summary.read_text("utf-8") == text
    assert f"GITHUB_STEP_SUMMARY: {summary} is full, so this run's verdict was not added to it" in run.lines


@IN_ONE_PROCESS
def test_hostile_ids_and_errors_stay_in_their_cells(project_in_all_modes, summary, suite):
    project = project_in_all_modes
    case_id = "|a|\\n## <img src=x onerror=alert(1)> @octocat `x` \\u202e\\u0007"
    project.write("evals/sick.eval.yaml", f"execution: {{target: exits}}\n{suite(broken='hello')}")
    text = (project.path / "evals/sick.eval.yaml").read_text().replace("id: broken", f'id: "{case_id}"')
    project.write("evals/sick.eval.yaml", text)
    project.write("targets.yaml", TARGETS.replace("echo out of order", "printf '|x|\\n\\n# top `y`\\033[31m'"))
    project.run("evals/sick.eval.yaml")
    written = summary.read_text("utf-8").splitlines()
    assert [line for line in written if line.startswith("#")] == ["## ❌ Evaluations: 1 error", "### Errors (1)"]
    (row,) = [line for line in written if line.startswith("| `") and "octocat" in line]
    assert row.startswith("| ``evals/sick.eval.yaml::\\|a\\| ## <img src=x onerror=alert(1)> @octocat `x`")
    assert "\x1b" not in row
    assert "\u202e" not in row


@WITH_WORKERS_ON_REQUEST
def test_secrets_are_masked(project_in_all_modes, summary, suite, monkeypatch):
    project = project_in_all_modes
    monkeypatch.setenv("AGENTV_TEST_TOKEN", "sk-0123456789abcdef")
    project.write(".env", "AGENTV_TEST_API_KEY=sk-fedcba9876543210\n")
    command = f"{sys.executable} -c 'import sys; sys.exit(sys.argv[1] * 50)' ${{{{ NAME }}}}"
    names = ("AGENTV_TEST_TOKEN", "AGENTV_TEST_API_KEY")
    targets = "".join(
        f"  - name: {name}\n    provider: cli\n    command_template: {command.replace('NAME', name)}\n"
        for name in names
    )
    project.write("targets.yaml", f"targets:\n{targets}")
    for name in names:
        project.write(f"evals/{name}.eval.yaml", f"execution: {{target: {name}}}\n{suite(**{name: 'x'})}")
    folder = project.path / "sk-0123456789abcdef"
    project.run("evals/AGENTV_TEST_TOKEN.eval.yaml", "evals/AGENTV_TEST_API_KEY.eval.yaml", f"--agentv-out={folder}/o")
    text = summary.read_text("utf-8")
    assert text.count("***") > 20
    assert "Results: `***/o`" in text
    assert "sk-" not in text


@SLOW_WITH_WORKERS
def test_a_run_that_breaks_off_says_so(project_in_all_modes, summary, suite):
    project = project_in_all_modes
    project.write("evals/qa.eval.yaml", suite(good="hello", other="hello"))
    project.write(
        "conftest.py",
        """
        def pytest_runtest_logreport(report):
            if report.when == "call":
                raise KeyboardInterrupt
        """,
    )
    run = project.run("evals/qa.eval.yaml", subprocess=True)
    assert run.exit_code == pytest.ExitCode.INTERRUPTED
    assert "\n- The run broke off before its end.\n" in summary.read_text("utf-8")


def test_results_that_were_lost_are_told(project_in_all_modes, summary):
    project = project_in_all_modes
    project.write(
        "conftest.py",
        """
        import pytest

        @pytest.hookimpl(tryfirst=True)
        def pytest_sessionfinish(session):
            if not hasattr(session.config, "workerinput"):
                (session.config.rootpath / "results.jsonl").unlink()
        """,
    )
    assert project.run(f"--agentv-out={project.path / 'results.jsonl'}").exit_code == 1
    text = summary.read_text("utf-8")
    assert text.startswith("## ❌ Evaluations: no results\n\n")
    assert re.search(r"- Results were lost: `\d cases ran, 0 lines in results.jsonl`", text)
    assert "outside" not in text


def test_workers_mark_a_failing_case_on_github_once_at_its_line(project, suite, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    project.write("targets.yaml", TARGETS)
    project.write("evals/qa.eval.yaml", suite(good="hello", bad="nothing"))
    run = project.run(mode=("-n", "2"))
    assert [line for line in run.lines if line.startswith("::")] == [
        "::error file=evals/qa.eval.yaml,line=6,title=evals/qa.eval.yaml%3A%3Abad::"
        'words: missing "nothing" (0.00 < 1.00)'
    ]
