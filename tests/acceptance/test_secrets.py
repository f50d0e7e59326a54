"""Secrets of a run appear nowhere: not in results, dumps, the terminal, reports or logs."""

import html
import json
import sys

import pytest

from .conftest import SLOW_WITH_WORKERS, WITH_WORKERS_ON_REQUEST

SHELL = "sk-shell-0123456789abcdef"
DOTENV = "sk-dotenv-fedcba9876543210"
PLAIN = "plain-name-but-secret-key-77"
QUOTED = "p\"ss 'w' \\ ü 日本 $x"
SECRETS = (SHELL, DOTENV, PLAIN, QUOTED)

LEAKY = """
import json, os, sys

names = ("AGENTV_TEST_TOKEN", "AGENTV_TEST_API_KEY", "API_KEY", "AGENTV_TEST_PASSWORD")
said = " ".join(os.environ[name] for name in names if name in os.environ) + " " + " ".join(sys.argv[2:])
call = {"tool": "login", "input": {"key": said, said: 1}, "output": said}
messages = [
    {"role": "assistant", "content": "", "tool_calls": [call]},
    {"role": "assistant", "content": "hello " + said, "metadata": {"key": said}},
]
match sys.argv[1]:
    case "answers":
        print(json.dumps({"output_messages": messages, "token_usage": {"input": -1, "output": 2}}))
        print(said, file=sys.stderr)
    case "json":
        print(json.dumps({"no answer": said}))
    case "traces":
        event = {"type": "tool_call", "name": said, "input": {said: said}, "text": said, "timestamp": "2026-01-01"}
        print(json.dumps({"text": said, "trace": [event]}))
    case "talks":
        print(said)
    case "fails":
        sys.exit(said)
    case "floods":
        # What is cut off must not leave the half of a secret behind: with any length of the rest, one line is cut.
        sys.exit("".join("x" * n + said for n in range(200)))
    case "judges":
        print(json.dumps({"score": 0, "misses": [said], "reasoning": said, "details": {said: said}}))
    case "judges-badly":
        print(said, "and no JSON", said * 100)
    case "crashes":
        print(said * 100)
        raise ValueError(said * 100)
    case "hangs":
        print(said, file=sys.stderr, flush=True)
        import time
        time.sleep(60)
"""

KINDS = ("answers", "json", "traces", "talks", "fails", "floods", "hangs")
JUDGES = ("judges", "judges-badly", "crashes", "hangs")


def leaks(text):
    """Return which secrets, or what parts of them, a text shows."""
    ways = {secret: {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1], html.escape(secret)} for secret in SECRETS}
    found = {secret for secret, forms in ways.items() if any(form in text for form in forms)}
    pieces = (secret[start : start + 8] for secret in (SHELL, DOTENV, PLAIN) for start in range(len(secret) - 7))
    return found | {piece for piece in pieces if piece in text}


@pytest.fixture
def leaky(project_in_all_modes, monkeypatch):
    project = project_in_all_modes
    monkeypatch.setenv("AGENTV_TEST_TOKEN", SHELL)
    monkeypatch.setenv("AGENTV_TEST_PLAIN", PLAIN)
    monkeypatch.setenv("AGENTV_TEST_PASSWORD", QUOTED)
    project.write(".env", f"AGENTV_TEST_API_KEY={DOTENV}\n")
    project.write("leaky.py", LEAKY)
    targets, cases = [], []
    for kind in KINDS:
        command = f"{sys.executable} leaky.py {kind} ${{{{ AGENTV_TEST_TOKEN }}}} {{PROMPT}}"
        target = {"name": kind, "provider": "cli", "command_template": command, "verbose": True}
        target["env"] = {"API_KEY": "${{ AGENTV_TEST_PLAIN }}"}
        targets.append(target | ({"timeout_seconds": 1} if kind == "hangs" else {}))
        words = [{"name": "words", "type": "heuristic", "hits": ["nowhere"]}]
        cases.append({"id": kind, "expected_outcome": "o", "input": "Hi", "target": kind, "evaluators": words})
    for kind in JUDGES:
        judge = [{"name": "judge", "type": "code_judge", "script": [sys.executable, "leaky.py", kind]}]
        cases.append(
            {"id": f"j-{kind}", "expected_outcome": "o", "input": "Hi", "target": "talks", "evaluators": judge}
        )
    project.write("targets.yaml", json.dumps({"targets": targets}))
    project.write("a.eval.yaml", "evalcases:\n" + "".join(f"  - {json.dumps(case)}\n" for case in cases))
    return project


@SLOW_WITH_WORKERS
def test_no_secret_is_written_anywhere(leaky):
    path = leaky.path
    run = leaky.run(
        *("-rA", "-vv", "--showlocals", "--agentv-verbose", "--agentv-include-trace", "--agentv-timeout=1"),
        *("--agentv-cache", "--agentv-workers=4"),
        *("--agentv-max-retries=0", f"--agentv-dump-prompts={path}/prompts", f"--agentv-dump-traces={path}/traces"),
        *(f"--junit-xml={path}/junit.xml", f"--log-file={path}/run.log", "--log-file-level=DEBUG", "--log-level=DEBUG"),
    )
    assert len(run.results) == len(KINDS) + len(JUDGES)
    assert {leak for line in run.lines for leak in leaks(line)} == set()
    files = [file for file in path.rglob("*") if file.is_file() and file.name not in {".env", "leaky.py"}]
    texts = {str(file.relative_to(path)): file.read_text("utf-8", "replace") for file in files}
    assert {name for name in texts if name.startswith("traces/")}
    assert {"junit.xml", "out-1.jsonl"} <= texts.keys()
    assert {name: found for name, text in texts.items() if (found := leaks(text))} == {}
    assert {leak for result in run.results for leak in leaks(json.dumps(result, ensure_ascii=False))} == set()
    assert "***" in run.text


WORDS = [{"name": "words", "type": "heuristic", "hits": ["hello"]}]


def write(project, target):
    project.write("targets.yaml", json.dumps({"targets": [{"name": "default", **target}]}))
    case = {"id": "a", "expected_outcome": "o", "input": "q", "evaluators": WORDS}
    project.write("a.eval.yaml", f"evalcases:\n  - {json.dumps(case)}\n")


def everything(project, run):
    files = list(project.path.glob("*.jsonl"))
    return run.text + "".join(file.read_text("utf-8") for file in files)


@WITH_WORKERS_ON_REQUEST
def test_the_reason_that_ends_a_run_holds_no_secret(project_in_all_modes, monkeypatch):
    monkeypatch.setenv("AGENTV_TEST_TOKEN", SHELL)
    check = {"type": "command", "command_template": "echo ${{ AGENTV_TEST_TOKEN }} >&2; exit 1"}
    write(project_in_all_modes, {"provider": "cli", "command_template": "touch ran", "healthcheck": check})
    run = project_in_all_modes.run("-v")
    assert (run.exit_code, run.statuses) == (2, {"a": "error"})
    assert any("Interrupted: agentv: CLI healthcheck failed" in line for line in run.lines)
    assert leaks(everything(project_in_all_modes, run)) == set()


@WITH_WORKERS_ON_REQUEST
def test_a_secret_in_the_wrong_place_of_a_target_is_not_quoted(project_in_all_modes, monkeypatch):
    project = project_in_all_modes
    targets = [{"name": "misspelt", "provider": "mock", "response": "hello", "api_keyy": DOTENV}]
    for length in (30, 70):
        monkeypatch.setenv(f"AGENTV_TEST_TOKEN_{length}", (SHELL * 4)[:length])
        wrong = {"timeout_seconds": f"${{{{ AGENTV_TEST_TOKEN_{length} }}}}"}
        targets.append({"name": str(length), "provider": "python", "callable": "x:y", **wrong})
    project.write("targets.yaml", "targets:\n" + "".join(f"  - {json.dumps(target)}\n" for target in targets))
    cases = [{"id": each["name"], "input": "q", "target": each["name"], "evaluators": WORDS} for each in targets]
    project.write("a.eval.yaml", json.dumps({"evalcases": cases}))
    run = project.run("--agentv-unknown-keys=warn")
    assert "targets.yaml:2: targets[0].api_keyy: unknown key" in run.text
    for line, length in ((3, 30), (4, 70)):
        assert run.by_id[str(length)]["error"] == (
            f"target '{length}' (targets.yaml:{line}): timeout_seconds: expected a number of seconds above 0, got the "
            f"text {'***' + '…' * (length > 40)!r} (from AGENTV_TEST_TOKEN_{length})"
        )
    assert leaks(everything(project, run)) == set()


def test_handlers_that_others_put_on_the_root_logger_get_no_secret(project, monkeypatch):
    monkeypatch.setenv("AGENTV_TEST_TOKEN", SHELL)
    project.write(
        "conftest.py",
        """
        import logging

        handler = logging.FileHandler("others.log")
        logging.getLogger().addHandler(handler)
        logging.getLogger("pytest_agentv").setLevel(logging.DEBUG)

        def pytest_unconfigure():
            logging.getLogger().removeHandler(handler)
            logging.getLogger("pytest_agentv").setLevel(logging.NOTSET)
            handler.close()
        """,
    )
    write(project, {"provider": "cli", "command_template": "echo hello ${{ AGENTV_TEST_TOKEN }} | tee /dev/stderr"})
    run = project.run()
    log = (project.path / "others.log").read_text()
    assert run.statuses == {"a": "pass"}
    assert "target default: running echo hello *** | tee /dev/stderr" in log
    assert leaks(log) == set()


LOUD_AGENT = """
import logging, os, sys, warnings

def answer(prompt):
    key = os.environ["AGENTV_TEST_TOKEN"]
    print("printed", key)
    print("::error::taken over", file=sys.stderr)
    logging.getLogger("agent").warning("logged %s", key)
    warnings.warn(f"warned {key}")
    return "hello"
"""


def test_what_a_python_target_prints_and_logs_is_masked_and_commands_nothing(project_in_all_modes, monkeypatch):
    project, streams = project_in_all_modes, (sys.stdout, sys.stderr)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("AGENTV_TEST_TOKEN", SHELL)
    project.write("agent.py", LOUD_AGENT)
    write(project, {"provider": "python", "callable": "agent.py:answer"})
    run = project.run("-rA", "-vv", "--agentv-verbose", "--log-cli-level=DEBUG")
    assert run.statuses == {"a": "pass"}
    for word in ("printed", "logged", "UserWarning: warned"):
        assert f"{word} ***" in run.text
    assert leaks(run.text) == set()
    assert [line for line in run.lines if line.strip().startswith("::error::")] == []
    if not project.mode:
        project.run("--capture=no")
        assert (sys.stdout, sys.stderr) == streams, "they are put back"


FAILING_FIXTURE = """
import logging, os, pytest, warnings

@pytest.fixture(scope="SCOPE")
def FIXTURE(PARENT):
    value = os.environ["AGENTV_TEST_TOKEN"]
    print("printed", value)
    logging.getLogger("own").error("logged %s", value)
    warnings.warn("warned " + value)
    raise ConnectionError(f"cannot connect with {value}")
"""
WRAPPED = """
@pytest.fixture
def agentv(mine, agentv):
    return agentv
"""


@WITH_WORKERS_ON_REQUEST
def test_fixtures_that_fail_before_agentv_is_made_show_no_secret(project, monkeypatch, mode):
    monkeypatch.setenv("AGENTV_TEST_TOKEN", SHELL)
    folders = [
        (name, scope) for name in ("agentv_provider", "agentv_judge", "mine") for scope in ("session", "function")
    ]
    for name, scope in folders:
        fixture = FAILING_FIXTURE.replace("SCOPE", scope).replace("FIXTURE", name).replace("PARENT", "")
        project.write(f"{name}_{scope}/conftest.py", fixture)
        test = f"def test_a(agentv, {name}):\n    assert agentv.run('q', evaluators={WORDS})\n"
        project.write(f"{name}_{scope}/test_{name}_{scope}.py", test)
    project.write(
        "wrapped/conftest.py",
        FAILING_FIXTURE.replace("SCOPE", "function").replace("FIXTURE(PARENT)", "mine()") + WRAPPED,
    )
    project.write("wrapped/test_wrapped.py", "def test_a(agentv): ...\n")
    run = project.run("--showlocals", "-vv", mode=mode)
    assert run.outcomes["errors"] == len(folders) + 1
    for word in ("printed", "logged", "cannot connect with"):
        assert run.text.count(f"{word} ***") >= len(folders) + 1
    assert "warned ***" in run.text
    assert leaks(run.text) == set()


def test_a_test_that_does_not_evaluate_takes_no_part(project):
    project.write("test_a.py", "import pytest\n\n@pytest.mark.skip\ndef test_a(agentv): ...\n")
    own = "import pytest\n\n@pytest.fixture\ndef agentv(): ...\n\ndef test_b(agentv): ...\n"
    project.write("test_b.py", own)
    project.write(
        "conftest.py",
        """
        def pytest_sessionfinish(session):
            print("takes part:", session.config.pluginmanager.has_plugin("agentv-session"))
        """,
    )
    run = project.run("-s")
    assert run.outcomes == {"skipped": 1, "passed": 1}
    assert "takes part: False" in run.text


@WITH_WORKERS_ON_REQUEST
def test_a_cached_run_judges_the_same_answers(project, monkeypatch, mode):
    monkeypatch.setenv("MAX_OUTPUT_TOKENS", "128000")
    monkeypatch.setenv("AGENTV_TEST_TOKEN", SHELL)
    project.write(
        "targets.yaml",
        f"""
        targets:
          - {{name: number, provider: cli, command_template: "echo x >> calls; echo limit 128000"}}
          - {{name: leak, provider: cli, command_template: "echo y >> calls; echo limit 128000 {SHELL}"}}
          - {{name: local, provider: openai, endpoint: http://127.0.0.1:9, api_key: ollama, model: m}}
        """,
    )
    words = json.dumps([{"name": "w", "type": "heuristic", "hits": ["128000"]}])
    cases = "".join(
        f"  - {{id: ollama-{target}, input: q, expected_outcome: o, target: {target}, evaluators: {words}}}\n"
        for target in ("number", "leak")
    )
    project.write("ollama.eval.yaml", f"evalcases:\n{cases}")
    first, second = project.run("--agentv-cache", mode=mode), project.run("--agentv-cache")
    assert first.statuses == second.statuses == {"ollama-number": "pass", "ollama-leak": "pass"}
    answers = [
        run.by_id[f"ollama-{target}"]["candidate_answer"] for run in (first, second) for target in ("number", "leak")
    ]
    assert answers == ["limit 128000", "limit 128000 ***"] * 2
    assert sorted((project.path / "calls").read_text().split()) == ["x", "y", "y"]  # what holds a secret is asked again


def test_resume_finds_cases_that_are_called_like_a_secret(project, monkeypatch):
    monkeypatch.setenv("AGENTV_TEST_TOKEN", SHELL)
    project.write(
        "targets.yaml",
        f"targets:\n  - {{name: {SHELL}, provider: cli, command_template: 'echo x >> calls; echo hello'}}\n",
    )
    case = {"id": SHELL, "input": "q", "expected_outcome": "o", "target": SHELL, "evaluators": WORDS}
    project.write(f"{SHELL}.eval.yaml", f"evalcases:\n  - {json.dumps(case)}\n")
    first = project.run()
    record = first.by_id[SHELL]
    assert (record["target"], record["eval_file"]) == (SHELL, f"{SHELL}.eval.yaml")
    project.run(f"--agentv-resume={project.path}/out-1.jsonl")
    assert (project.path / "calls").read_text() == "x\n"
