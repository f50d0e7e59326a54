"""Secrets of a run appear nowhere: not in results, dumps, the terminal, reports or logs."""

import html
import json
import sys

import pytest

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


def test_the_reason_that_ends_a_run_holds_no_secret(project_in_all_modes, monkeypatch):
    monkeypatch.setenv("AGENTV_TEST_TOKEN", SHELL)
    check = {"type": "command", "command_template": "echo ${{ AGENTV_TEST_TOKEN }} >&2; exit 1"}
    write(project_in_all_modes, {"provider": "cli", "command_template": "touch ran", "healthcheck": check})
    run = project_in_all_modes.run("-v")
    assert (run.exit_code, run.statuses) == (2, {"a": "error"})
    assert any("Interrupted: agentv: CLI healthcheck failed" in line for line in run.lines)
    assert leaks(everything(project_in_all_modes, run)) == set()


@pytest.mark.parametrize("length", [30, 70])
def test_a_secret_in_the_wrong_place_of_a_target_is_not_quoted(project, monkeypatch, length):
    secret = (SHELL * 4)[:length]
    monkeypatch.setenv("AGENTV_TEST_TOKEN", secret)
    write(project, {"provider": "python", "callable": "x:y", "timeout_seconds": "${{ AGENTV_TEST_TOKEN }}"})
    run = project.run()
    assert run.by_id["a"]["error"] == (
        "target 'default' (targets.yaml:1): timeout_seconds: expected a number of seconds above 0, got the text "
        f"{'***' + '…' * (length > 40)!r} (from AGENTV_TEST_TOKEN)"
    )
    assert leaks(everything(project, run)) == set()


def test_a_function_that_raises_with_its_key_in_the_message_does_not_tell_it(project):
    project.write(".env", f"AGENTV_TEST_API_KEY={DOTENV}\n")
    project.write("agent.py", "def answer(prompt, key): raise ValueError('refused: ' + key)\n")
    arguments = {"key": "${{ AGENTV_TEST_API_KEY }}"}
    write(project, {"provider": "python", "callable": "agent.py:answer", "arguments": arguments})
    run = project.run("--showlocals", "-vv")
    assert run.by_id["a"]["error"].startswith("target 'default': agent.py:answer raised ValueError: refused: ***")
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


@pytest.mark.parametrize("value", ["test", "true", "1"])
def test_short_values_of_variables_with_secret_names_do_not_wreck_the_texts(project, monkeypatch, value):
    monkeypatch.setenv("AGENTV_TEST_TOKEN", value)
    write(project, {"provider": "mock", "response": "hello: this is true, test 1"})
    run = project.run()
    assert run.by_id["a"]["candidate_answer"] == "hello: this is true, test 1"


def test_judges_and_commands_are_given_the_real_values(project, monkeypatch):
    monkeypatch.setenv("AGENTV_TEST_TOKEN", SHELL)
    project.write(
        "judge.py",
        "import json, os, sys\nanswer = json.load(sys.stdin)['candidate_answer']\nprint(json.dumps({'score': "
        "int(answer == os.environ['AGENTV_TEST_TOKEN'])}))\n",
    )
    write(project, {"provider": "cli", "command_template": "echo ${{ AGENTV_TEST_TOKEN }}"})
    judge = {"name": "judge", "type": "code_judge", "script": [sys.executable, "judge.py"]}
    case = {"id": "a", "expected_outcome": "o", "input": "q", "evaluators": [judge]}
    project.write("a.eval.yaml", f"evalcases:\n  - {json.dumps(case)}\n")
    run = project.run()
    assert (run.statuses, run.by_id["a"]["candidate_answer"]) == ({"a": "pass"}, "***")
    assert leaks(everything(project, run)) == set()
