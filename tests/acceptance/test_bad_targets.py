"""Targets that cannot be used: told before anything is invoked, and only to the cases that need them."""

import errno
import os
import sys

import pytest


def case(eval_id, target=None, evaluators="[{name: words, type: heuristic, hits: [hello]}]"):
    lines = [f"  - id: {eval_id}", "    expected_outcome: says hello", "    input: Say hello"]
    lines += [f"    target: {target}"] if target else []
    lines += [f"    evaluators: {evaluators}"] if evaluators else []
    return "\n".join(lines) + "\n"


def errors(run):
    """Return the errors of the results by id, each with its stage and kind."""
    return {
        result["eval_id"]: (result["error"], result["error_detail"]["stage"], result["error_detail"]["kind"])
        for result in run.results
        if result["status"] == "error"
    }


@pytest.fixture
def one_case(project):
    project.write("a.eval.yaml", "evalcases:\n" + case("one"))
    return project


def test_an_unknown_target_breaks_its_own_case_and_says_which_there_are(project):
    project.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello}]\n")
    project.write("a.eval.yaml", "evalcases:\n" + case("slip", "defualt") + case("good"))
    run = project.run()
    message = "targets.yaml: no target 'defualt'; did you mean 'default'? available: default"
    assert errors(run) == {"slip": (message, "setup", "config")}
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"passed": 1, "errors": 1}, [])
    assert run.lines.count(message) == 1


def test_an_unknown_target_on_the_command_line_breaks_each_case_in_the_same_way(project):
    project.write("targets.yaml", "targets: [{name: default, provider: mock}, {name: other, provider: mock}]\n")
    project.write("a.eval.yaml", "evalcases:\n" + case("one") + case("two"))
    run = project.run("--agentv-target=nobody")
    message = "targets.yaml: no target 'nobody'; available: default, other"
    assert errors(run) == dict.fromkeys(("one", "two"), (message, "setup", "config"))


@pytest.mark.scenario("Targets file loading")
def test_without_a_targets_file_the_error_says_where_one_was_looked_for(one_case):
    run = one_case.run()
    message = (
        "targets.yaml: no targets file found: tried targets.yaml, targets.yml, .agentv/targets.yaml, "
        ".agentv/targets.yml in .; name one with --agentv-targets"
    )
    assert errors(run) == {"one": (message, "setup", "config")}
    assert run.lines.count(message) == 1
    assert (run.exit_code, run.internals) == (1, [])


def test_a_targets_file_named_on_the_command_line_has_to_be_there(one_case):
    run = one_case.run("--agentv-targets=lost.yaml")
    assert errors(run) == {"one": ("lost.yaml: there is no such targets file or folder", "setup", "config")}


@pytest.mark.scenario("Schema validation for targets")
@pytest.mark.scenario("Targets validation with warnings")
@pytest.mark.scenario("Required template fields")
@pytest.mark.scenario("Health check schema")
def test_a_broken_targets_file_tells_all_its_faults_at_once_with_their_lines(one_case):
    one_case.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            comand_template: touch ran
            timeout_seconds: "5"
          - provider: mock
            delay_ms: fast
          - name: probed
            provider: cli
            command_template: echo {PROMT}
            healthcheck: {type: tcp, url: 7}
          - 7
        """,
    )
    run = one_case.run()
    lines = [
        "targets.yaml:2: targets[0].command_template: is missing (is 'comand_template' a misspelling of it?)",
        "targets.yaml:5: targets[0].timeout_seconds: expected a number of seconds above 0, without quotes, got the "
        "text '5'",
        "targets.yaml:6: targets[1].name: is missing (expected the name that runs and cases choose the target by)",
        "targets.yaml:7: targets[1].delay_ms: expected a number of milliseconds, 0 or more, got the text 'fast'",
        "targets.yaml:10: targets[2].command_template: unknown placeholder {PROMT}; did you mean '{PROMPT}'? valid are "
        "{PROMPT}, {PROMPT_FILE}, {PROMPT_JSON}, {GUIDELINES}, {EVAL_ID}, {ATTEMPT}, {FILES}, {ATTACHMENTS}, "
        "{OUTPUT_FILE}",
        "targets.yaml:11: targets[2].healthcheck: type must be 'http' or 'command', got the text 'tcp'",
        "targets.yaml:12: targets[3]: expected a mapping with name and provider, got the number 7",
    ]
    assert errors(run) == {"one": ("\n".join(lines), "setup", "config")}
    assert [line for line in run.lines if line in lines] == lines
    assert (run.exit_code, run.internals) == (1, [])
    assert not (one_case.path / "ran").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("targets: 5\n", "targets.yaml:1: targets: expected a list of targets, got the number 5"),
        ("target: []\n", "targets.yaml:1: the key targets is missing (is 'target' a misspelling of it?)"),
        ("- name: default\n", "targets.yaml:1: expected a mapping with the key targets, got a list"),
        ("targets:\n  - name: a\n    name: b\n", "targets.yaml:3: duplicate key 'name', first on line 2"),
        ("targets: [\n", "targets.yaml:2: invalid YAML: while parsing a flow node, did not find expected node content"),
    ],
)
def test_a_targets_file_of_the_wrong_shape_is_one_error_with_its_line(one_case, text, message):
    one_case.write("targets.yaml", text)
    run = one_case.run()
    assert errors(run) == {"one": (message, "setup", "config")}
    assert (run.exit_code, run.internals, run.lines.count(message)) == (1, [], 1)


def test_an_odd_targets_file_is_a_warning_and_an_error_when_the_project_is_strict(one_case):
    one_case.write("targets.yaml", "targets: [{name: default, provider: mock, response: hello, respons: x}]\n")
    message = "targets.yaml:1: targets[0].respons: unknown key (did you mean 'response'?)"
    run = one_case.run()
    assert sum(line.endswith(message) for line in run.lines) == 1
    assert (run.exit_code, run.outcomes) == (0, {"passed": 1, "warnings": 1})
    assert errors(one_case.run("--agentv-strict")) == {"one": (message, "setup", "config")}


@pytest.mark.scenario("Missing provider credentials")
@pytest.mark.scenario("Environment variable validation")
@pytest.mark.scenario("Missing .env file")
def test_unset_variables_are_all_named_to_each_case_of_the_target_and_nothing_of_it_is_invoked(project, monkeypatch):
    monkeypatch.setenv("AGENTV_TEST_BLANK", " ")
    for name in ("ONE", "TWO"):
        monkeypatch.delenv(f"AGENTV_TEST_{name}", raising=False)
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: mock
            response: hello
          - name: locked
            provider: cli
            command_template: touch ran; echo ${{ AGENTV_TEST_ONE }} ${{ AGENTV_TEST_BLANK }} ${{ AGENTV_TEST_ONE }}
            env: {KEY: "${{ AGENTV_TEST_TWO }}"}
            healthcheck: {type: command, command_template: touch ran}
        """,
    )
    project.write("a.eval.yaml", "evalcases:\n" + case("one", "locked") + case("good") + case("two", "locked"))
    run = project.run()
    message = (
        "target 'locked' (targets.yaml:5) needs environment variables that are not set: AGENTV_TEST_ONE "
        "(command_template), AGENTV_TEST_BLANK (command_template; set, but blank), AGENTV_TEST_TWO (env.KEY); "
        "set them or put them into a .env file"
    )
    assert errors(run) == dict.fromkeys(("one", "two"), (message, "setup", "config"))
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"passed": 1, "errors": 2}, [])
    assert not (project.path / "ran").exists()


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        (
            "clii",
            "target 'default' (targets.yaml:2): unknown provider 'clii'; did you mean 'cli'? known: azure, anthropic, "
            "gemini, openai, litellm, http, asgi, cli, mock, python, codex, claude-code, "
            "pi-coding-agent, vscode, vscode-insiders",
        ),
        (
            "pi-agent-sdk",
            "target 'default' (targets.yaml:2): provider 'pi-agent-sdk' is a JavaScript library, which cannot run "
            "here; use provider: pi-coding-agent",
        ),
    ],
)
def test_a_provider_that_is_not_there_breaks_its_own_cases_and_says_which_are(project, provider, message):
    project.write(
        "targets.yaml",
        f"targets:\n  - {{name: default, provider: {provider}}}\n  - {{name: fine, provider: mock, response: hello}}\n",
    )
    project.write("a.eval.yaml", "evalcases:\n" + case("one") + case("good", "fine"))
    run = project.run()
    assert errors(run) == {"one": (message, "setup", "config")}
    assert (run.exit_code, run.internals, run.lines.count(message)) == (1, [], 1)
    assert run.statuses["good"] == "pass"


def test_a_command_that_would_have_to_judge_its_own_answers_is_not_run(project):
    project.write(
        "targets.yaml", "targets: [{name: default, provider: cli, command_template: touch ran; echo hello}]\n"
    )
    project.write("a.eval.yaml", "evalcases:\n" + case("judged", evaluators=None) + case("good"))
    run = project.run("--agentv-eval-id=judged")
    message = (
        "target 'default' (targets.yaml:1) would have to judge its own answers: give it a model as judge, "
        "`judge_target: <name of a target>`, or give the case evaluators that need no model"
    )
    assert errors(run) == {"judged": (message, "setup", "config")}
    assert (run.exit_code, run.internals, run.lines.count(message)) == (1, [], 1)
    assert not (project.path / "ran").exists()


PROBED = """
targets:
  - name: default
    provider: cli
    command_template: touch ran; echo hello
    healthcheck: {type: command, command_template: "echo probed >> probes; echo no licence >&2; exit 3"}
"""


@pytest.mark.scenario("Optional health check")
def test_a_health_check_that_fails_ends_the_run_with_the_reason_before_anything_is_invoked(project):
    project.write("targets.yaml", PROBED)
    project.write("a.eval.yaml", "evalcases:\n" + case("one") + case("two"))
    project.write("b.eval.yaml", "evalcases:\n" + case("three"))
    run = project.run()
    message = (
        "CLI healthcheck failed for 'default': the command `echo probed >> probes; echo no licence >&2; exit 3` "
        "ended with exit code 3: no licence"
    )
    assert errors(run) == {"one": (message, "setup", "process")}
    assert (run.exit_code, run.outcomes, run.internals) == (2, {"errors": 1}, [])
    assert f"! Interrupted: agentv: {message} !" in run.lines
    assert (project.path / "probes").read_text() == "probed\n"
    assert not (project.path / "ran").exists()


@pytest.mark.scenario("Optional health check")
def test_a_health_check_that_succeeds_is_made_once(project):
    project.write("targets.yaml", PROBED.replace("exit 3", "exit 0"))
    project.write("a.eval.yaml", "evalcases:\n" + case("one") + case("two"))
    project.write("b.eval.yaml", "evalcases:\n" + case("three"))
    run = project.run()
    assert (run.exit_code, run.outcomes) == (0, {"passed": 3})
    assert (project.path / "probes").read_text() == "probed\n"


def test_a_health_check_of_a_server_that_is_not_there_ends_the_run(one_case):
    check = "{type: http, url: 'http://127.0.0.1:9/health', timeout_seconds: 2}"
    one_case.write(
        "targets.yaml",
        f"targets: [{{name: default, provider: cli, command_template: touch ran, healthcheck: {check}}}]\n",
    )
    run = one_case.run()
    refused = ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    message = f"CLI healthcheck failed for 'default': GET http://127.0.0.1:9/health failed: {refused}"
    assert errors(run) == {"one": (message, "setup", "network")}
    assert (run.exit_code, run.internals) == (2, [])
    assert not (one_case.path / "ran").exists()


FUNCTIONS = """
import asyncio, time

constant = 5
calls = []

def fine(prompt): return "hello"
def raises(prompt): raise ValueError("no key")
def leaves(prompt): raise SystemExit(3)
def nothing(prompt): return None
def nonsense(prompt): return {"answer": "hello"}
def wrong(prompt): return {"text": "hello", "output_messages": "many"}
def no_json(prompt): return {"text": {1, 2}}
def two(prompt, system): return "hello"
def hangs(prompt): time.sleep(1)
async def waits(prompt): await asyncio.sleep(60)
"""

PYTHON_FAULTS = {
    "rases": (
        "target 'rases' (targets.yaml:2): functions.py:rases: functions.py has no function 'rases' "
        "(did you mean 'raises'?)",
        "setup",
        "config",
    ),
    "constant": (
        "target 'constant' (targets.yaml:3): functions.py:constant: 'constant' of functions.py is a value of type int, "
        "expected a function, or an agent of a framework that is known",
        "setup",
        "config",
    ),
    "raises": (
        "target 'raises': functions.py:raises raised ValueError: no key\n  functions.py:7 in raises",
        "provider",
        "crash",
    ),
    "leaves": (
        "target 'leaves': functions.py:leaves raised SystemExit: 3\n  functions.py:8 in leaves",
        "provider",
        "crash",
    ),
    "nothing": (
        "target 'nothing': functions.py:nothing returned None: expected a str, a mapping with 'text' or "
        "'output_messages', a result of an agent framework, or a ProviderResponse",
        "provider",
        "crash",
    ),
    "nonsense": (
        "target 'nonsense': functions.py:nonsense returned a mapping with 'answer': expected 'text' or "
        "'output_messages'",
        "provider",
        "crash",
    ),
    "wrong": (
        "target 'wrong': functions.py:wrong returned a mapping that cannot be read: output_messages: Input should be a "
        "valid list",
        "provider",
        "crash",
    ),
    "no_json": (
        "target 'no_json': functions.py:no_json returned a mapping that is no JSON: Object of type set is not JSON "
        "serializable",
        "provider",
        "crash",
    ),
    "two": (
        "target 'two': functions.py:two cannot be called as function(prompt): missing a required argument: 'system'",
        "provider",
        "config",
    ),
    "hangs": (
        "target 'hangs': functions.py:hangs timed out after 0.2s; a sync function cannot be stopped: its thread runs "
        "on until it returns",
        "provider",
        "timeout",
    ),
    "waits": ("target 'waits': functions.py:waits timed out after 0.2s", "provider", "timeout"),
}
"""Functions of `functions.py`, and what comes of calling them."""


@pytest.mark.scenario("Maximum retries exceeded")
def test_each_fault_of_a_python_function_is_an_error_of_its_own_case(project):
    project.write("functions.py", FUNCTIONS)
    names = [*PYTHON_FAULTS, "fine"]
    targets = [f"  - {{name: {name}, provider: python, callable: 'functions.py:{name}'}}\n" for name in names]
    project.write("targets.yaml", "targets:\n" + "".join(targets))
    project.write("a.eval.yaml", "evalcases:\n" + "".join(case(name, name) for name in names))
    run = project.run("--agentv-timeout=0.2", "--agentv-max-retries=1")
    assert errors(run) == PYTHON_FAULTS
    assert run.statuses["fine"] == "pass"
    attempts = {name: result["attempts"] for name, result in run.by_id.items()}
    assert attempts == dict.fromkeys(names, 1) | {"rases": 0, "constant": 0, "hangs": 2, "waits": 2}
    assert (run.exit_code, run.outcomes, run.internals) == (1, {"passed": 1, "errors": len(PYTHON_FAULTS)}, [])


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lost.py:answer", "there is no file {path}/lost.py"),
        (
            "agentv_lost_module:answer",
            "cannot import agentv_lost_module: ModuleNotFoundError: No module named 'agentv_lost_module'",
        ),
        ("broken.py:answer", "cannot import broken.py: SyntaxError: '(' was never closed (broken.py, line 1)"),
        ("raising.py:answer", "cannot import raising.py: RuntimeError: no database\n  raising.py:1 in <module>"),
    ],
)
def test_a_python_module_that_cannot_be_imported_is_told_to_each_of_its_cases(project, name, message):
    project.write("broken.py", "answer = (\n")
    project.write("raising.py", "raise RuntimeError('no database')\n")
    project.write(
        "targets.yaml",
        f"targets:\n  - {{name: default, provider: python, callable: '{name}'}}\n"
        "  - {name: fine, provider: mock, response: hello}\n",
    )
    project.write("a.eval.yaml", "evalcases:\n" + case("one") + case("two") + case("good", "fine"))
    run = project.run()
    text = f"target 'default' (targets.yaml:2): {name}: {message.format(path=project.path)}"
    assert errors(run) == dict.fromkeys(("one", "two"), (text, "setup", "config"))
    assert run.statuses["good"] == "pass"
    assert (run.exit_code, run.internals) == (1, [])


def test_the_modules_of_python_targets_are_found_beside_the_targets_file_and_sys_path_stays(project):
    before = list(sys.path)
    project.write("targets.yaml", "targets: [{name: default, provider: python, callable: 'agentv_beside:answer'}]\n")
    project.write("agentv_beside.py", "def answer(prompt): return 'hello'\n")
    project.write("a.eval.yaml", "evalcases:\n" + case("one"))
    assert project.run().statuses == {"one": "pass"}
    assert sys.path == before


@pytest.mark.scenario("Lazy .env loading")
def test_the_nearest_env_file_counts_and_does_not_override_the_environment(project, monkeypatch):
    monkeypatch.setenv("AGENTV_TEST_SET", "from-the-shell")
    project.write(".env", "AGENTV_TEST_FAR=far\nAGENTV_TEST_SET=far\n")
    project.write("deep/evals/.env", "AGENTV_TEST_NEAR=near\nAGENTV_TEST_SET=near\n")
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            command_template: "echo hello $AGENTV_TEST_NEAR ${{ AGENTV_TEST_SET }} far=$AGENTV_TEST_FAR"
          - name: needy
            provider: cli
            command_template: "echo ${{ AGENTV_TEST_FAR }}"
        """,
    )
    (project.path / ".git").mkdir()
    project.write("deep/evals/a.eval.yaml", "evalcases:\n" + case("one") + case("two", "needy"))
    run = project.run()
    assert run.by_id["one"]["candidate_answer"] == "hello near from-the-shell far="
    assert run.by_id["two"]["error"] == (
        "target 'needy' (targets.yaml:5) needs an environment variable that is not set: AGENTV_TEST_FAR "
        "(command_template); set it or put it into a .env file"
    )


def test_the_environment_of_pytest_is_the_same_after_cli_targets_as_before(project):
    project.write(".env", "AGENTV_TEST_DOTENV=from-the-file\n")
    project.write(
        "targets.yaml",
        """
        targets:
          - name: default
            provider: cli
            command_template: "echo hello $AGENTV_TEST_DOTENV $AGENTV_TEST_MAP"
            env: {AGENTV_TEST_MAP: mapped}
        """,
    )
    project.write("a.eval.yaml", "evalcases:\n" + case("one"))
    project.write(
        "test_z.py",
        """
        import os

        def test_neighbour():
            assert not {"AGENTV_TEST_DOTENV", "AGENTV_TEST_MAP"} & set(os.environ)
        """,
    )
    before = {**os.environ, "PYTEST_CURRENT_TEST": ""}
    run = project.run("a.eval.yaml", "test_z.py")
    assert (run.exit_code, run.outcomes) == (0, {"passed": 2})
    assert run.by_id["one"]["candidate_answer"] == "hello from-the-file mapped"
    assert {**os.environ, "PYTEST_CURRENT_TEST": ""} == before


@pytest.mark.scenario("Lazy .env loading")
def test_collecting_reads_neither_env_files_nor_targets(project):
    (project.path / ".env").write_bytes(b"KEY=\xff\n")
    project.write("targets.yaml", "targets: 5\n")
    project.write("a.eval.yaml", "evalcases:\n" + case("one"))
    run = project.run("--collect-only", "-q")
    assert (run.exit_code, run.lines[0], run.internals) == (0, "a.eval.yaml::one", [])
    assert (
        project.run().by_id["one"]["error"] == "targets.yaml:1: targets: expected a list of targets, got the number 5"
    )
    project.write("targets.yaml", "targets: [{name: default, provider: mock}]\n")
    run = project.run()
    assert errors(run) == {"one": (".env: is not UTF-8: byte 0xff", "setup", "config")}
    assert (run.exit_code, run.internals) == (1, [])
