"""Which target a case runs on, where targets come from, and with which variables."""

import pytest

NAMES = ("default", "of_flag", "of_ini", "of_file", "of_case")

TARGETS = "targets:\n" + "".join(
    f"  - {{name: {name}, provider: mock, response: hello from {name}}}\n" for name in NAMES
)


def eval_file(*, file_target=None, case_target=None):
    execution = f"execution: {{target: {file_target}}}\n" if file_target else ""
    case_execution = f"    execution: {{target: {case_target}}}\n" if case_target else ""
    return (
        f"{execution}evalcases:\n  - id: a\n    expected_outcome: is polite\n{case_execution}"
        "    input_messages: [{role: user, content: hi}]\n"
        "    evaluators: [{name: polite, type: heuristic, hits: [hello]}]\n"
    )


def answered_by(project, *flags):
    """Run the one case; return which of the targets answered."""
    run = project.run(*flags)
    assert run.exit_code == 0, run.text
    (result,) = run.results
    assert result["candidate_answer"] == f"hello from {result['target']}"
    return result["target"]


@pytest.mark.scenario("CLI target override")
@pytest.mark.scenario("Target override flag")
def test_the_target_of_the_command_line_beats_all_others(project):
    project.write("targets.yaml", TARGETS)
    project.write("pytest.ini", "[pytest]\nagentv_target = of_ini\n")
    project.write("a.eval.yaml", eval_file(file_target="of_file", case_target="of_case"))
    assert answered_by(project, "--agentv-target=of_flag") == "of_flag"


@pytest.mark.scenario("Test file target")
@pytest.mark.parametrize("flags", [(), ("--agentv-target=default",), ("--agentv-target", " default ")])
def test_the_target_of_the_file_is_used_where_the_command_line_names_none_or_the_default(project, flags):
    project.write("targets.yaml", TARGETS)
    project.write("a.eval.yaml", eval_file(file_target="of_file"))
    assert answered_by(project, *flags) == "of_file"


@pytest.mark.parametrize("flags", [(), ("--agentv-target=default",)])
def test_the_target_of_a_case_beats_that_of_its_file(project, flags):
    project.write("targets.yaml", TARGETS)
    project.write("a.eval.yaml", eval_file(file_target="of_file", case_target="of_case"))
    assert answered_by(project, *flags) == "of_case"


@pytest.mark.scenario("Default target fallback")
@pytest.mark.parametrize("flags", [(), ("--agentv-target=default",)])
def test_the_target_named_default_is_used_where_nothing_names_one(project, flags):
    project.write("targets.yaml", TARGETS)
    project.write("a.eval.yaml", eval_file())
    assert answered_by(project, *flags) == "default"


def test_the_target_of_the_ini_file_beats_those_of_files_and_cases(project):
    project.write("targets.yaml", TARGETS)
    project.write("pytest.ini", "[pytest]\nagentv_target = of_ini\n")
    project.write("a.eval.yaml", eval_file(file_target="of_file", case_target="of_case"))
    assert answered_by(project) == "of_ini"
    assert answered_by(project, "--agentv-target=default") == "of_case"


def test_a_run_says_which_cases_the_target_default_did_not_override(project):
    project.write("targets.yaml", TARGETS)
    project.write("a.eval.yaml", eval_file(file_target="of_file"))
    project.write("b.eval.yaml", f"matrix: {{target: [default, of_case]}}\n{eval_file()}")
    project.write("c.eval.yaml", eval_file())
    text = "=default leaves the choice to cases and files: 2 cases ran with other targets (of_case, of_file)"
    run = project.run("--agentv-target=default")
    assert (run.exit_code, text in run.text) == (0, True)
    project.write("pytest.ini", "[pytest]\nagentv_target = default\n")
    assert text in project.run().text
    for rest in (
        ("--agentv-target=default", "c.eval.yaml"),
        ("--agentv-target=of_flag",),
        ("--agentv-target=default,of_flag",),
    ):
        assert "leaves the choice" not in project.run(*rest).text


def test_a_fixture_that_chooses_the_target_is_no_choice_of_a_file(project):
    project.write("targets.yaml", TARGETS)
    project.write(
        "test_a.py",
        "import pytest\n\n@pytest.fixture\ndef agentv_target(): return 'of_case'\n\n"
        "def test_a(agentv): assert agentv.run('hi', evaluators=[{'contains': 'of_case'}])\n",
    )
    run = project.run("--agentv-target=default")
    assert ([result["target"] for result in run.results], "leaves the choice" in run.text) == (["of_case"], False)


def test_the_older_key_target_names_the_target_of_a_file_too_but_execution_comes_first(project):
    project.write("targets.yaml", TARGETS)
    project.write("a.eval.yaml", f"target: of_file\n{eval_file()}")
    assert answered_by(project) == "of_file"
    project.write("a.eval.yaml", f"target: of_ini\n{eval_file(file_target='of_file')}")
    assert answered_by(project) == "of_file"


@pytest.mark.scenario("Targets file discovery and selection")
@pytest.mark.scenario("Targets file loading")
def test_the_nearest_targets_file_is_used_from_the_eval_file_up_to_the_root_and_then_the_working_directory(
    project, monkeypatch
):
    places = ("repo/team/evals", "repo/team", "repo", "elsewhere")
    names = ("targets.yaml", "targets.yml", ".agentv/targets.yaml", ".agentv/targets.yml")
    paths = [f"{place}/{name}" for place in places for name in names]
    for path in paths:
        project.write(path, f"targets: [{{name: default, provider: mock, response: hello from {path}}}]\n")
    (project.path / "repo/.git").mkdir()
    (project.path / "elsewhere/.git").mkdir()
    monkeypatch.chdir(project.path / "repo")
    evals = project.write("repo/team/evals/a.eval.yaml", eval_file())
    for path in paths[:-4]:
        (result,) = project.run(str(evals)).results
        assert result["candidate_answer"] == f"hello from {path}"
        (project.path / path).unlink()
    monkeypatch.chdir(project.path / "elsewhere")
    (result,) = project.run(str(evals)).results
    assert result["candidate_answer"] == f"hello from {paths[-4]}"


@pytest.mark.scenario("Targets file discovery and selection")
@pytest.mark.parametrize("given", ["config/targets.yaml", "config", "config/", "other", "other/.agentv/targets.yml"])
def test_a_targets_path_is_a_file_or_a_folder_that_holds_one(project, given):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: the wrong one}]\n")
    project.write("config/targets.yaml", TARGETS)
    project.write("other/.agentv/targets.yml", TARGETS)
    project.write("a.eval.yaml", eval_file())
    assert answered_by(project, f"--agentv-targets={given}") == "default"


def test_a_targets_path_in_the_ini_file_is_relative_to_the_ini_file_and_the_command_line_beats_it(project, monkeypatch):
    project.write("pytest.ini", "[pytest]\nagentv_targets = config\n")
    project.write("config/targets.yaml", TARGETS)
    project.write("sub/mine.yaml", "targets: [{name: default, provider: mock, response: hello from mine}]\n")
    project.write("sub/a.eval.yaml", eval_file())
    monkeypatch.chdir(project.path / "sub")
    assert answered_by(project) == "default"
    (result,) = project.run("--agentv-targets=mine.yaml").results
    assert result["candidate_answer"] == "hello from mine"


@pytest.mark.scenario("Targets validation with warnings")
def test_warnings_of_the_targets_file_are_shown_once_and_the_run_goes_on(project, suite):
    project.write("targets.yaml", "targets:\n  - name: default\n    provider: mock\n    respnse: hello\n")
    project.write("a.eval.yaml", suite(a="Mock", b="provider"))
    run = project.run()
    assert run.statuses == {"a": "pass", "b": "pass"}
    warning = "targets.yaml:4: targets[0].respnse: unknown key (did you mean 'response'?)"
    assert run.text.count(warning) == 1
    assert run.outcomes == {"passed": 2, "warnings": 1}


@pytest.mark.scenario("Targets validation with warnings")
@pytest.mark.scenario("Schema validation for targets")
def test_errors_of_the_targets_file_end_in_errors_of_the_cases_before_anything_is_called(project, suite):
    project.write("targets.yaml", "targets:\n  - name: default\n    provider: cli\n    command_template: 5\n")
    project.write("a.eval.yaml", suite(a="hello", b="hello"))
    run = project.run()
    assert run.outcomes == {"errors": 2}
    message = "targets.yaml:4: targets[0].command_template: expected a text, got the number 5; put it into quotes"
    assert [result["error"] for result in run.results] == [message, message]
    assert {result["attempts"] for result in run.results} == {0}


ECHO_SOUND = """
targets:
  - name: default
    provider: cli
    command_template: printf %s ${{ SOUND_OF_THE_DOG }}
"""


@pytest.mark.scenario("Lazy .env loading")
def test_the_nearest_env_file_fills_in_the_variables_of_targets(project, suite, monkeypatch):
    monkeypatch.delenv("SOUND_OF_THE_DOG", raising=False)
    project.write("targets.yaml", ECHO_SOUND)
    (project.path / ".git").mkdir()
    project.write("evals/zoo/a.eval.yaml", suite(a="f"))
    for folder in (".", "evals", "evals/zoo"):
        project.write(f"{folder}/.env", f"SOUND_OF_THE_DOG=woof-in-{folder}\n")
        (result,) = project.run().results
        assert result["candidate_answer"] == f"woof-in-{folder}"


@pytest.mark.scenario("Lazy .env loading")
def test_the_env_file_never_overrides_the_environment_of_the_process(project, suite, monkeypatch):
    monkeypatch.setenv("SOUND_OF_THE_DOG", "bark")
    project.write("targets.yaml", ECHO_SOUND)
    project.write(".env", "SOUND_OF_THE_DOG=woof\n")
    project.write("a.eval.yaml", suite(a="bark"))
    assert project.run().statuses == {"a": "pass"}


@pytest.mark.scenario("Missing .env file")
@pytest.mark.scenario("Environment variable validation")
@pytest.mark.scenario("Missing provider credentials")
def test_without_an_env_file_a_run_fails_only_where_a_variable_is_needed_and_the_message_names_all(
    project, suite, monkeypatch
):
    for name in ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "AZURE_DEPLOYMENT_NAME", "MY_KEY"):
        monkeypatch.delenv(name, raising=False)
    project.write(
        "targets.yaml",
        """
        targets:
          - {name: default, provider: mock, response: hello}
          - name: cloud
            provider: azure
            api_key: ${{ MY_KEY }}
            model: m
        """,
    )
    project.write("a.eval.yaml", suite(a="hello", b="hello"))
    assert project.run().statuses == {"a": "pass", "b": "pass"}
    run = project.run("--agentv-target=cloud")
    assert run.exit_code == 1
    assert run.statuses == {"a": "error", "b": "error"}
    message = (
        "target 'cloud' (targets.yaml:3) needs environment variables that are not set: "
        "MY_KEY (api_key), AZURE_OPENAI_ENDPOINT (endpoint); set them or put them into a .env file"
    )
    assert {result["error"] for result in run.results} == {message}
    assert {result["attempts"] for result in run.results} == {0}
